//! A Kafka consumer whose group is split by any [`Assignor`](crate::Assignor): classic group membership of our own, records
//! through librdkafka.
//!
//! Classic membership is the only protocol with client-side assignors: a group of the new one (KIP-848) is assigned by its
//! broker. Brokers go on serving the classic one.
//!
//! ```text
//!   application's thread          driver's thread                    strategies' thread
//!   api ── fetcher ── data        driver ── machine                  strategist ── Assignor
//!              │   (librdkafka)     │  ├── connection, coordinator,      ▲
//!              └──── shared ────────┘  │   metadata, offsets             │
//!                                      └─────────────────────────────────┘
//! ```
//!
//! - `machine`: membership, without I/O: what follows from what.
//! - `driver`: sockets, clock, positions; does what the machine says.
//! - `shared`: the rules by which records are handed out.
//! - [`RebalanceListener`]: the application's own work when partitions come and go.
//! - `rebalance`, `metrics`: what is told of it. [`describe`] looks at groups from outside.
//! - `services`, `lag`: what strategies may ask.
//! - [`EmbeddedBroker`]: a broker within the process, for demonstrations and tests.

mod api;
mod clock;
mod config;
mod connection;
mod coordinator;
mod data;
pub mod describe;
mod deserialize;
mod driver;
mod embedded;
mod error;
mod fetcher;
mod lag;
mod listener;
mod machine;
mod metadata;
mod metrics;
mod offsets;
mod partition;
mod rebalance;
mod reset;
#[cfg(test)]
mod scripted;
mod services;
mod shared;
mod strategist;
#[cfg(test)]
mod test_certificates;

pub use api::{CloseOptions, Consumer, PendingCommit, RecordIter, RecordStream, TypedConsumer};
pub use config::{Address, ConsumerConfig, Security};
pub use data::{Header, Record};
pub use deserialize::{Bytes, DeserializeError, Deserializer, Json, Required, Text};
pub use embedded::{EmbeddedBroker, EmbeddedError};
pub use error::{ConsumerError, FieldKind, GroupEvent, RecordDeserializationError};
pub use listener::{ListenerContext, RebalanceListener};
pub use machine::Membership;
pub use partition::{OffsetAndMetadata, OffsetAndTimestamp, TopicPartition};
pub use rebalance::{Phases, Rebalance, RebalanceOutcome, cause_code};
pub use reset::OffsetReset;
pub use shared::GroupMetadata;
