//! Runs Kafka partition assignors as sandboxed WebAssembly components, checks what they return, and falls back to native
//! ones when they fail.
#![deny(missing_docs)]

mod assignor;
mod cause;
#[cfg(feature = "consumer")]
pub mod consumer;
mod group;
mod plan;
pub mod wire;

pub use assignor::{
    Assignor, Cancellation, Context, Interest, NoServices, Node, Protocol, Services, Unavailable,
};
pub use cause::{CallError, Cause, LoadError};
pub use group::{
    Group, GroupError, MAX_PARTITIONS, Member, MemberSubscription, Subscription, Topic, TopicPartitions,
};
pub use plan::{Assignment, Completeness, Plan, Violation, assert_safe, check, withhold};
