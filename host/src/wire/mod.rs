//! The blobs that members exchange inside JoinGroup and SyncGroup: what a member subscribes to, and what it is assigned
//! (Kafka: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`, versions 0 to 3).
//!
//! The broker passes these bytes through unread, so whatever another member wrote arrives here as it is. They are decoded
//! by hand because a decoder that reserves room for as many elements as an array claims can be made to reserve gigabytes
//! by six bytes. Here **memory is bounded by the length of the blob**: a claimed count is refused, before anything is
//! reserved, if the rest of the blob could not hold that many of even the smallest elements. The worst that
//! a blob can do is to be all empty topic names: two bytes each become a `String` of twenty-four.
//!
//! Rules shared by both blobs, as Kafka's `ConsumerProtocol` has them:
//! - all integers are big-endian; the first two bytes are the version;
//! - a version above [`HIGHEST_VERSION`] is read as [`HIGHEST_VERSION`]: newer versions only append fields;
//! - hence bytes after the last known field are ignored, in every version;
//! - a version below 0, a blob that ends too early, an absent (negative) length where the field may not be null, a negative
//!   partition and a string that is no UTF-8 are errors;
//! - what is encoded is canonical: topics and partitions ascending, each once, no topic without partitions. Brokers compare
//!   a member's bytes with its earlier ones, and a mere change of order would start a rebalance (KAFKA-12898).

pub mod assignment;
mod error;
mod read;
#[cfg(test)]
#[cfg(feature = "consumer")]
mod second_opinion;
pub mod sticky_user_data;
pub mod subscription;
#[cfg(test)]
mod tests_support;
mod write;

pub use error::WireError;

/// The highest version of both blobs that this module knows, the one that a consumer writes (KIP-881).
pub const HIGHEST_VERSION: i16 = 3;
