//! What a member owns, and since which generation.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::TopicPartitions;

/// Partitions by topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partitions(BTreeMap<String, BTreeSet<u32>>);

impl Partitions {
    pub(super) fn of(list: Vec<TopicPartitions>) -> Self {
        let mut partitions = BTreeMap::<String, BTreeSet<u32>>::new();
        for TopicPartitions { topic, partitions: some } in list {
            partitions.entry(topic).or_default().extend(some);
        }
        partitions.retain(|_, some| !some.is_empty());
        Self(partitions)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are not among `others`.
    pub(super) fn without(&self, others: &Self) -> Self {
        let rest = self.0.iter().filter_map(|(topic, some)| {
            let rest: BTreeSet<u32> = match others.0.get(topic) {
                Some(others) => some.difference(others).copied().collect(),
                None => some.clone(),
            };
            (!rest.is_empty()).then(|| (topic.clone(), rest))
        });
        Self(rest.collect())
    }

    /// Those of topics that are not among these.
    pub(super) fn outside(&self, topics: &[String]) -> Self {
        let outside = self.0.iter().filter(|(topic, _)| !topics.contains(topic));
        Self(outside.map(|(topic, some)| (topic.clone(), some.clone())).collect())
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Topics and partitions ascending.
    pub(super) fn listed(&self) -> Vec<TopicPartitions> {
        let list = self.0.iter().map(|(topic, some)| TopicPartitions {
            topic: topic.clone(),
            partitions: some.iter().copied().collect(),
        });
        list.collect()
    }
}

/// What a member owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) partitions: Partitions,
    /// The generation in which this was installed; `None` if nothing was, or all of it has been given up or lost. Not the newest
    /// generation that the member knows: a rebalance that ends in another one before its SyncGroup is answered leaves claims
    /// as old as they were (Java's client mixes the two).
    pub(super) generation: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(list: &[(&str, &[u32])]) -> Partitions {
        let list = list.iter().map(|(topic, partitions)| TopicPartitions {
            topic: (*topic).into(),
            partitions: partitions.to_vec(),
        });
        Partitions::of(list.collect())
    }

    #[test]
    fn what_is_told_twice_or_of_no_partition_counts_once_or_not() {
        let told = partitions(&[("u", &[2]), ("t", &[1, 0, 1]), ("none", &[]), ("u", &[2, 1])]);
        assert_eq!(told, partitions(&[("t", &[0, 1]), ("u", &[1, 2])]));
        let listed = told.listed();
        assert_eq!(listed[0], TopicPartitions { topic: "t".into(), partitions: vec![0, 1] });
        assert_eq!(listed.len(), 2);
        assert!(partitions(&[("none", &[])]).is_empty());
    }

    #[test]
    fn differences_leave_no_empty_topics() {
        let before = partitions(&[("t", &[0, 1]), ("u", &[0])]);
        let after = partitions(&[("t", &[1, 2]), ("u", &[0]), ("v", &[5])]);
        assert_eq!(before.without(&after), partitions(&[("t", &[0])]));
        assert_eq!(after.without(&before), partitions(&[("t", &[2]), ("v", &[5])]));
        assert_eq!(before.outside(&["t".into()]), partitions(&[("u", &[0])]));
        assert!(before.outside(&["t".into(), "u".into()]).is_empty());
    }
}
