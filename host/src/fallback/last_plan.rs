//! The last plan that this member made or saw: under the eager protocol nobody reports what they owned, and a fallback that
//! keeps partitions in place must know it all the same.

use std::collections::{BTreeMap, HashMap};

use crate::group::{Group, TopicPartitions};
use crate::plan::Plan;

/// Owners by topic name, partition index and member id: numbers hold for one rebalance only.
#[derive(Debug, Default)]
pub(super) struct LastPlan {
    members: Vec<String>,
    /// For each topic the owner of each partition, as an index into `members`.
    owners: BTreeMap<String, Vec<Option<u32>>>,
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
                (topic.name.clone(), owners.get(numbers).unwrap_or_default().to_vec())
            })
            .collect();
    }

    /// Keeps what a follower saw, its own part, unless it belongs to the plan that this member made itself.
    pub(super) fn see(&mut self, member: &str, partitions: &[TopicPartitions]) {
        if self.gives(member, partitions) {
            return;
        }
        self.members = vec![member.to_owned()];
        self.owners = partitions
            .iter()
            .map(|p| {
                let length = p.partitions.iter().max().map_or(0, |&max| max as usize + 1);
                let mut owners = vec![None; length.min(crate::group::MAX_PARTITIONS as usize)];
                for &partition in &p.partitions {
                    if let Some(owner) = owners.get_mut(partition as usize) {
                        *owner = Some(0);
                    }
                }
                (p.topic.clone(), owners)
            })
            .collect();
    }

    fn gives(&self, member: &str, partitions: &[TopicPartitions]) -> bool {
        let Some(index) = self.members.iter().position(|m| m == member).and_then(|i| u32::try_from(i).ok())
        else {
            return false;
        };
        let theirs: usize = self.owners.values().flatten().filter(|&&owner| owner == Some(index)).count();
        let told: usize = partitions.iter().map(|p| p.partitions.len()).sum();
        theirs == told
            && partitions.iter().all(|p| {
                let owners = self.owners.get(&p.topic);
                p.partitions.iter().all(|&i| owners.and_then(|o| o.get(i as usize)) == Some(&Some(index)))
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
            for index in 0..topic.partitions {
                let owner = before.get(index as usize).copied().flatten();
                owners.push(owner.and_then(|o| member_now.get(o as usize).copied().flatten()));
            }
        }
        Some(group.with_owned(&owners))
    }
}
