//! Runs Kafka partition assignors as sandboxed WebAssembly components, checks what they return, and falls back to native
//! ones when they fail.
//!
//! In Kafka's classic group protocol one member, the leader, splits the group's partitions. Here the code that splits them
//! is an [`Assignor`]: a [`Builtin`], a [`Plugin`] that somebody wrote in any language, or a [`Strategy`], which wraps
//! either one so that it never fails.
//!
//! ```text
//!  a group's members and topics ──► Assignor ──► plan ──► check ──► assignments
//!                                      │           ▲        │ broken
//!   Builtin: range, sticky, … ─────────┤           └────────┴──► native fallback, and an Event saying why
//!   Plugin ◄── Component ◄── bytes ────┘
//! ```
//!
//! # Deciding a group
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use assignor_host::{Catalog, Context, Group, MemberSubscription, Observer, Subscription};
//!
//! // As a consumer's configuration has it; a plugin is named by the path of its file, "plugins/weighted.wasm".
//! let properties = BTreeMap::from([("partition.assignment.strategy".to_owned(), "range".to_owned())]);
//! let observer: Observer = Arc::new(|event| eprintln!("{event:?}"));
//! let catalog = Catalog::from_properties(&properties, &observer)?;
//!
//! let member = |id: &str| MemberSubscription {
//!     member_id: id.to_owned(),
//!     subscription: Subscription { topics: ["orders".to_owned()].into(), ..Subscription::default() },
//!     ..MemberSubscription::default()
//! };
//! let partition_counts = BTreeMap::from([("orders".to_owned(), 3)]);
//! let group = Group::new(&partition_counts, vec![member("m1"), member("m2")])?;
//!
//! let strategy = catalog.get("range").ok_or("no such strategy")?;
//! let decision = strategy.decide(&Context::default(), &group);
//! assert_eq!(decision.plan.assignments[0].partitions, [0, 1]);
//! assert_eq!(decision.plan.assignments[1].partitions, [2]);
//! assert_eq!(decision.cause, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `consumer`: a Kafka consumer whose group is split by these strategies. Brings Kafka clients.
//! - `cli`: the command `assignor`, and what it is made of.
//!
//! Without features only plugins are run: neither Kafka nor a command line is compiled.
#![deny(missing_docs)]

mod assignor;
pub mod builtin;
mod catalog;
mod cause;
#[cfg(feature = "cli")]
pub mod component;
#[cfg(feature = "consumer")]
pub mod consumer;
#[cfg(feature = "cli")]
pub mod described;
mod fallback;
mod group;
mod names;
mod plan;
mod plugin;
#[cfg(test)]
mod test_support;
pub mod wire;

pub use assignor::{
    Assignor, Cancellation, Context, Engagement, Health, Interest, NoServices, Node, Protocol, Services,
    Unavailable,
};
pub use builtin::Builtin;
pub use catalog::{Catalog, CatalogError, STRATEGY_LIST};
pub use cause::{CallError, Cause, LoadError};
pub use fallback::{Decision, Event, Fallback, FallbackPolicy, Observer, Outcome, Strategy};
pub use group::{
    Group, GroupError, MAX_PARTITIONS, Member, MemberSubscription, Racks, Subscription, Topic,
    TopicPartitions,
};
pub use names::check as check_name;
pub use plan::{Assignment, Completeness, Plan, Violation, assert_safe, check, withhold};
#[doc(hidden)]
pub use plugin::noun_conversion;
pub use plugin::{Component, Limits, Plugin, Runtime, RuntimeOptions, digest, read_component};
