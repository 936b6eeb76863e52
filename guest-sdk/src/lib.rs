//! Write a Kafka partition assignment strategy in Rust, as a WebAssembly component that an
//! Assignor host runs inside a consumer.
//!
//! A strategy decides which member of a consumer group reads which partition. It implements [`Strategy`], Kafka's
//! `ConsumerPartitionAssignor`, or [`SimpleStrategy`], and is exported by [`export!`]. It has no files, no network, no clock and
//! no threads; what it may know of the world is in the modules [`context`], [`config`], [`cluster`], [`lag`] and [`built_in`].
//!
//! # A worked example
//!
//! Two members read the topics `clicks` (3 partitions) and `orders` (2 partitions). This strategy gives each partition to the
//! subscriber with the fewest so far:
//!
//! ```
//! use assignor_guest_sdk::{Error, Group, Plan, Strategy};
//!
//! #[derive(Default)]
//! struct LeastLoaded;
//!
//! impl Strategy for LeastLoaded {
//!     fn name(&self) -> &str {
//!         "least-loaded"
//!     }
//!
//!     fn assign(&self, group: &Group) -> Result<Plan, Error> {
//!         let mut plan = group.plan();
//!         for topic in group.topics() {
//!             for partition in topic.partitions() {
//!                 let subscribers = group.members().filter(|member| member.is_subscribed(topic));
//!                 if let Some(member) = subscribers.min_by_key(|&member| plan.load(member)) {
//!                     plan.give(member, partition);
//!                 }
//!             }
//!         }
//!         Ok(plan)
//!     }
//! }
//!
//! assignor_guest_sdk::export!(LeastLoaded);
//!
//! # fn main() -> Result<(), Error> {
//! use assignor_guest_sdk::testing::{self, GroupBuilder};
//!
//! let group = GroupBuilder::new()
//!     .topic("clicks", 3)
//!     .topic("orders", 2)
//!     .member("m1", ["clicks"])
//!     .member("m2", ["clicks", "orders"])
//!     .build();
//! let plan = LeastLoaded.assign(&group)?;
//!
//! testing::check(&group, &plan)?;
//! let clicks = |partitions: &[u32]| partitions.iter().map(|p| format!("clicks-{p}")).collect::<Vec<_>>();
//! assert_eq!(
//!     testing::names(&group, &plan),
//!     [
//!         ("m1", clicks(&[0, 2])),
//!         ("m2", vec!["clicks-1".into(), "orders-0".into(), "orders-1".into()]),
//!     ]
//! );
//! # Ok(())
//! # }
//! ```
//!
//! | | before | after |
//! | --- | --- | --- |
//! | `m1`, subscribed to `clicks` | – | `clicks-0`, `clicks-2` |
//! | `m2`, subscribed to both | – | `clicks-1`, `orders-0`, `orders-1` |
//!
//! # What members tell the leader
//!
//! [`Strategy::assign`] runs on one member, the leader. What the others know reaches it as user data: each member's
//! [`Strategy::subscription`] attaches a value, and the leader reads it from [`Member::user_data`]. Any serde type will do; see
//! [`user_data`].
//!
//! ```
//! use assignor_guest_sdk::{Error, Group, Interest, Plan, Strategy, config};
//!
//! #[derive(Default)]
//! struct MostCores;
//!
//! impl Strategy for MostCores {
//!     fn name(&self) -> &str {
//!         "most-cores"
//!     }
//!
//!     fn subscription(&mut self, topics: Vec<String>) -> Result<Interest, Error> {
//!         let cores: u32 = config::get_or("cores", 1)?;
//!         Ok(Interest::all(topics).with_user_data(&cores)?)
//!     }
//!
//!     fn assign(&self, group: &Group) -> Result<Plan, Error> {
//!         let mut plan = group.plan();
//!         for topic in group.topics() {
//!             // Who sent nothing, or something else, counts as one core.
//!             let cores = |member: &assignor_guest_sdk::Member<'_>| member.user_data().ok().flatten().unwrap_or(1u32);
//!             let subscribers = group.members().filter(|member| member.is_subscribed(topic));
//!             if let Some(member) = subscribers.max_by_key(cores) {
//!                 plan.give_numbers(member, topic.numbers());
//!             }
//!         }
//!         Ok(plan)
//!     }
//! }
//! ```
//!
//! # Tests
//!
//! A strategy is a plain Rust type: `cargo test` tests it without WebAssembly. [`testing`] has doubles for everything that
//! the host would answer.
#![deny(missing_docs)]

pub mod bindings;
pub mod built_in;
pub mod cluster;
pub mod config;
pub mod context;
pub mod control;
mod error;
mod export;
mod group;
mod imports;
pub mod lag;
pub mod log;
mod plan;
mod simple;
mod strategy;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod user_data;

pub use error::Error;
pub use group::{Group, Member, Partitions, Topic, TopicPartition};
pub use plan::Plan;
pub use simple::{Assignments, PartitionsPerTopic, SimpleStrategy, Subscriptions};
pub use strategy::{Assigned, Interest, Protocol, Strategy, TopicPartitions};

/// What the macro [`export!`] needs; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::export::Instance;
}

/// The README's example is tested as the documentation's are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
