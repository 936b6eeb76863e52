//! A partition, and what is known of a place in it.

use std::collections::BTreeSet;
use std::fmt;

use super::shared::Key;
use crate::group::TopicPartitions;

/// A partition of a topic (Kafka: `TopicPartition`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: u32,
}

impl TopicPartition {
    /// This partition of that topic.
    pub fn new(topic: impl Into<String>, partition: u32) -> Self {
        Self { topic: topic.into(), partition }
    }

    pub(super) fn key(&self) -> Key {
        (self.topic.clone(), self.partition)
    }

    /// Each partition by itself, in order.
    pub fn each(assigned: &[TopicPartitions]) -> Vec<Self> {
        let each = |t: &TopicPartitions| {
            let topic = t.topic.clone();
            t.partitions.clone().into_iter().map(move |p| Self::new(topic.clone(), p))
        };
        assigned.iter().flat_map(each).collect()
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl<T: Into<String>> From<(T, u32)> for TopicPartition {
    fn from((topic, partition): (T, u32)) -> Self {
        Self::new(topic, partition)
    }
}

pub(super) fn keys(partitions: &[TopicPartition]) -> BTreeSet<Key> {
    partitions.iter().map(TopicPartition::key).collect()
}

/// A committed offset (Kafka: `OffsetAndMetadata`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader's epoch of the last record that was read, where whoever committed knew it. This consumer's own commits don't tell it,
    /// unless it is given here.
    pub leader_epoch: Option<i32>,
    /// Whatever the application has noted with it; a broker takes up to 4096 bytes (`offset.metadata.max.bytes`).
    pub metadata: String,
}

impl From<i64> for OffsetAndMetadata {
    fn from(offset: i64) -> Self {
        Self { offset, ..Self::default() }
    }
}

/// An offset and the time of its record (Kafka: `OffsetAndTimestamp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub timestamp_ms: i64,
    /// The epoch of the record's leader, where known.
    pub leader_epoch: Option<i32>,
}
