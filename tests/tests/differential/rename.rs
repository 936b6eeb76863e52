//! Groups under other names: what hangs on the order of Java's hash maps comes out differently, everything else the same.

use std::collections::{BTreeMap, BTreeSet};

use assignor_host::described::DescribedGroup;
use fastrand::Rng;

use super::claims::StickyData;
use super::oracle::Named;

/// The same group with other ids of members and other names of topics, in the same order as the old ones to Java's eye.
pub(crate) struct Renamed {
    pub(crate) group: DescribedGroup,
    members: BTreeMap<String, String>,
    topics: BTreeMap<String, String>,
}

impl Renamed {
    /// Under names that hash anew, its members in another order.
    pub(crate) fn at_random(group: &DescribedGroup, rng: &mut Rng) -> Self {
        let mut renamed = Self::of(group, |prefix, index| format!("{prefix}{index:04}-{:08x}", rng.u32(..)));
        rng.shuffle(&mut renamed.group.members);
        renamed
    }

    /// Under names made of "m" or "t" and where the old one stands in the order.
    pub(crate) fn of(group: &DescribedGroup, mut name: impl FnMut(&str, usize) -> String) -> Self {
        let members = group.members.iter().map(|member| member.id.clone());
        let members = new_names(members, |index| name("m", index));
        let subscribed = group.members.iter().flat_map(|member| member.topics.iter().cloned());
        let owned = group.members.iter().flat_map(|member| member.owned.keys().cloned());
        let topics =
            new_names(group.topics.keys().cloned().chain(subscribed).chain(owned), |index| name("t", index));

        let mut renamed = group.clone();
        renamed.topics =
            renamed.topics.into_iter().map(|(name, topic)| (topics[&name].clone(), topic)).collect();
        for member in &mut renamed.members {
            member.id = members[&member.id].clone();
            member.topics.iter_mut().for_each(|name| *name = topics[name].clone());
            member.owned = std::mem::take(&mut member.owned)
                .into_iter()
                .map(|(name, partitions)| (topics[&name].clone(), partitions))
                .collect();
            // Where it is what sticky writes. What follows it is nothing to anybody.
            if let Some(mut data) = member.user_data.as_deref().and_then(StickyData::decode) {
                for (topic, _) in &mut data.owned {
                    if let Some(new) = topics.get(topic) {
                        topic.clone_from(new);
                    }
                }
                member.user_data = Some(data.encode());
            }
        }
        let back = |names: BTreeMap<String, String>| names.into_iter().map(|(old, new)| (new, old)).collect();
        Self { group: renamed, members: back(members), topics: back(topics) }
    }

    /// A plan for the renamed group, in the old names.
    pub(crate) fn back(&self, plan: Named) -> Named {
        let mut plan = plan;
        for (member, topics) in &mut plan {
            member.clone_from(&self.members[member]);
            for (topic, _) in topics {
                if let Some(old) = self.topics.get(topic) {
                    topic.clone_from(old);
                }
            }
        }
        plan
    }
}

fn new_names(
    old: impl Iterator<Item = String>,
    new: impl FnMut(usize) -> String,
) -> BTreeMap<String, String> {
    let mut old: Vec<String> = old.collect::<BTreeSet<_>>().into_iter().collect();
    old.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    let new: Vec<String> = (0..old.len()).map(new).collect();
    old.into_iter().zip(new).collect()
}
