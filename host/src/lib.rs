//! Runs Kafka partition assignors as sandboxed WebAssembly components, checks what they return, and falls back to native
//! ones when they fail.
#![deny(missing_docs)]

mod assignor;
mod breaker;
pub mod builtin;
mod cause;
#[cfg(feature = "cli")]
pub mod component;
#[cfg(feature = "cli")]
pub mod described;
mod fallback;
mod group;
mod last_plan;
mod names;
mod plan;
mod plugin;
pub mod wire;

pub use assignor::{
    Assignor, Cancellation, Context, Interest, NoServices, Node, Protocol, Services, Unavailable,
};
pub use builtin::Builtin;
pub use cause::{CallError, Cause, LoadError};
pub use fallback::{Decision, Event, Fallback, FallbackPolicy, Observer, Outcome, Strategy};
pub use group::{
    Group, GroupError, MAX_PARTITIONS, Member, MemberSubscription, Subscription, Topic, TopicPartitions,
};
pub use names::check as check_name;
pub use plan::{Assignment, Completeness, Plan, Violation, assert_safe, check, withhold};
pub use plugin::{Component, Limits, Plugin, Runtime, RuntimeOptions};
