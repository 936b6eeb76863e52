//! What the tests of both blobs share.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::group::TopicPartitions;

pub(super) fn owned(topic: &str, partitions: &[u32]) -> TopicPartitions {
    TopicPartitions { topic: topic.into(), partitions: partitions.to_vec() }
}

/// Few topics and partitions, so that duplicates are met.
pub(super) fn any_topic_partitions() -> impl Strategy<Value = Vec<TopicPartitions>> {
    let partitions = prop::collection::vec(prop_oneof![0..6u32, 0..=i32::MAX as u32], 0..6);
    let entry = ("[ab]{0,2}|\\PC{0,8}", partitions)
        .prop_map(|(topic, partitions)| TopicPartitions { topic, partitions });
    prop::collection::vec(entry, 0..6)
}

/// Topics and partitions ascending, each once.
pub(super) fn canonical(list: &[TopicPartitions]) -> Vec<TopicPartitions> {
    let mut merged: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for entry in list {
        merged.entry(entry.topic.clone()).or_default().extend(&entry.partitions);
    }
    let entries = merged.into_iter().filter(|(_, partitions)| !partitions.is_empty());
    entries
        .map(|(topic, partitions)| TopicPartitions { topic, partitions: partitions.into_iter().collect() })
        .collect()
}
