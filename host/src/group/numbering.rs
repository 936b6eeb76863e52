//! From names, as members send them, to numbers.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Member, MemberSubscription, Topic, TopicPartitions};

/// The lists of topics that members ask for, each once: most members of a group ask for the same topics, and share the list or
/// follow each other.
pub(super) struct Lists {
    pub(super) distinct: Vec<Arc<[String]>>,
    /// For each member the index of its list.
    pub(super) of_member: Vec<usize>,
}

impl Lists {
    pub(super) fn of(members: &[MemberSubscription]) -> Self {
        let mut distinct: Vec<Arc<[String]>> = Vec::new();
        let mut known: HashMap<*const [String], usize> = HashMap::new();
        let mut last = 0;
        let of_member = members.iter().map(|member| {
            let list = &member.subscription.topics;
            // Comparing shared lists that are long would take longer than all the rest.
            if !distinct.get(last).is_some_and(|last| Arc::ptr_eq(last, list) || last == list) {
                last = *known.entry(Arc::as_ptr(list)).or_insert_with(|| {
                    distinct.push(Arc::clone(list));
                    distinct.len() - 1
                });
            }
            last
        });
        let of_member = of_member.collect();
        Self { distinct, of_member }
    }
}

/// From names to numbers.
pub(super) struct Numbering<'a> {
    topics: &'a [Topic],
    index: HashMap<&'a str, usize>,
}

impl<'a> Numbering<'a> {
    pub(super) fn of(topics: &'a [Topic]) -> Self {
        Self { topics, index: (0..).zip(topics).map(|(i, t)| (t.name.as_str(), i)).collect() }
    }

    /// The indexes of the topics that exist, ascending.
    pub(super) fn topics(&self, names: &[String]) -> Vec<u32> {
        let index = |name: &String| u32::try_from(*self.index.get(name.as_str())?).ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(index).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The numbers of the partitions that exist, ascending.
    pub(super) fn partitions(&self, named: &[TopicPartitions]) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::with_capacity(named.iter().map(|t| t.partitions.len()).sum());
        // Clients write topics in order, so the next one is mostly the next one.
        let mut next = 0;
        for owned in named {
            let expected = self.topics.get(next).filter(|topic| topic.name == owned.topic);
            let Some(index) =
                expected.map(|_| next).or_else(|| self.index.get(owned.topic.as_str()).copied())
            else {
                continue;
            };
            next = index + 1;
            let Some(topic) = self.topics.get(index) else { continue };
            numbers
                .extend(owned.partitions.iter().filter(|&&p| p < topic.partitions).map(|p| topic.first + p));
        }
        if !numbers.is_sorted_by(|a, b| a < b) {
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers
    }

    /// A member whose claims are not resolved yet.
    pub(super) fn member(&self, member: MemberSubscription, topics: Vec<u32>) -> Member {
        let MemberSubscription { member_id, instance_id, subscription } = member;
        Member {
            id: member_id,
            instance_id,
            claimed: self.partitions(&subscription.owned),
            topics,
            owned: Vec::new(),
            generation: subscription.generation,
            rack: subscription.rack.filter(|rack| !rack.is_empty()),
            user_data: subscription.user_data,
        }
    }
}
