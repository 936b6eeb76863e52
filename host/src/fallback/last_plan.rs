//! The last plan that this member made or saw: under the eager protocol nobody reports what they owned, and a fallback that
//! keeps partitions in place must know it all the same.

use std::collections::{BTreeMap, HashMap};

use crate::group::{Group, TopicPartitions};
use crate::plan::Plan;

/// Owners by topic name, partition index and member id: numbers hold for one rebalance only.
///
/// What is kept is as large as what was told, however high the partitions' indexes are: a follower's part comes from another
/// member.
#[derive(Debug, Default)]
pub(super) struct LastPlan {
    members: Vec<String>,
    /// For each topic its partitions, ascending, each with its owner as an index into `members`.
    owners: BTreeMap<String, Vec<(u32, u32)>>,
}

impl LastPlan {
    /// Keeps the plan that this leader made.
    pub(super) fn remember(&mut self, group: &Group, plan: &Plan) {
        let owners = plan.owners(group);
        self.members = group.members().iter().map(|m| m.id.clone()).collect();
        self.owners = group
            .topics()
            .iter()
            .map(|topic| {
                let numbers = topic.first as usize..topic.numbers().end as usize;
                let owners = (0..).zip(owners.get(numbers).unwrap_or_default());
                (topic.name.clone(), owners.filter_map(|(index, owner)| Some((index, (*owner)?))).collect())
            })
            .collect();
    }

    /// Keeps what a follower saw, its own part, unless it belongs to the plan that this member made itself.
    pub(super) fn see(&mut self, member: &str, partitions: &[TopicPartitions]) {
        if self.gives(member, partitions) {
            return;
        }
        self.members = vec![member.to_owned()];
        self.owners.clear();
        for told in partitions {
            let owners = self.owners.entry(told.topic.clone()).or_default();
            owners.extend(told.partitions.iter().map(|&index| (index, 0)));
        }
        for owners in self.owners.values_mut() {
            owners.sort_unstable();
            owners.dedup();
        }
    }

    fn gives(&self, member: &str, partitions: &[TopicPartitions]) -> bool {
        let Some(index) = self.members.iter().position(|m| m == member).and_then(|i| u32::try_from(i).ok())
        else {
            return false;
        };
        let theirs = self.owners.values().flatten().filter(|(_, owner)| *owner == index).count();
        let told: usize = partitions.iter().map(|p| p.partitions.len()).sum();
        theirs == told
            && partitions.iter().all(|told| {
                let owners = self.owners.get(&told.topic).map(Vec::as_slice).unwrap_or_default();
                told.partitions.iter().all(|&partition| owner(owners, partition) == Some(index))
            })
    }

    /// The group with this plan's owners, where no member says itself what it owns; otherwise none.
    pub(super) fn as_owned(&self, group: &Group) -> Option<Group> {
        if self.owners.is_empty() || group.members().iter().any(|m| !m.claimed.is_empty()) {
            return None;
        }
        let now: HashMap<&str, u32> = (0..).zip(group.members()).map(|(i, m)| (m.id.as_str(), i)).collect();
        let member_now: Vec<Option<u32>> =
            self.members.iter().map(|id| now.get(id.as_str()).copied()).collect();
        let mut owners = Vec::with_capacity(group.partitions() as usize);
        for topic in group.topics() {
            let before = self.owners.get(&topic.name).map(Vec::as_slice).unwrap_or_default();
            owners.extend((0..topic.partitions).map(|index| {
                owner(before, index).and_then(|o| member_now.get(o as usize).copied().flatten())
            }));
        }
        Some(group.with_owned(&owners))
    }
}

/// Who owns a partition, given its topic's.
fn owner(owners: &[(u32, u32)], partition: u32) -> Option<u32> {
    let place = owners.binary_search_by_key(&partition, |(index, _)| *index).ok()?;
    owners.get(place).map(|(_, owner)| *owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{group, member};

    fn told(partitions: &[u32]) -> [TopicPartitions; 1] {
        [TopicPartitions { topic: "t".into(), partitions: partitions.to_vec() }]
    }

    #[test]
    fn a_hostile_leaders_assignment_costs_no_more_than_its_own_length() {
        let mut last = LastPlan::default();
        let topics: Vec<TopicPartitions> = (0..10_000)
            .map(|n| TopicPartitions { topic: n.to_string(), partitions: vec![u32::MAX, 0, u32::MAX] })
            .collect();
        last.see("a", &topics);
        assert!(
            last.owners.values().all(|owners| owners == &[(0, 0), (u32::MAX, 0)] && owners.capacity() < 10)
        );
    }

    #[test]
    fn what_a_leader_hears_of_its_own_part_does_not_make_it_forget_the_others() {
        let two = || group(&[("t", 3)], vec![member("a", &["t"], None, &[]), member("b", &["t"], None, &[])]);
        let mut last = LastPlan::default();
        last.remember(&two(), &Plan::of(vec![vec![0, 2], vec![1]]));
        last.see("a", &told(&[2, 0]));
        let owned = |last: &LastPlan| -> Vec<Vec<u32>> {
            last.as_owned(&two()).unwrap().members().iter().map(|m| m.owned.clone()).collect()
        };
        assert_eq!(owned(&last), [vec![0, 2], vec![1]]);
        // Another leader's plan takes its place.
        last.see("a", &told(&[1]));
        assert_eq!(owned(&last), [vec![1], vec![]]);
    }
}
