//! How good a plan is, measured alike for Kafka's and for ours.

use std::collections::BTreeSet;

use assignor_host::Group;
use assignor_host::described::DescribedGroup;

use super::claims::Ownership;

/// Partitions by member, both as numbers of a [`Group`], ascending.
pub(crate) type Parts = Vec<Vec<u32>>;

/// Less is better; of two plans the first difference counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quality {
    /// The sum, over all pairs of members, of how many partitions one has more than the other
    /// (`AbstractStickyAssignor.getBalanceScore`).
    pub(crate) imbalance: u64,
    /// Partitions at members that have a rack which none of the partition's replicas is in, where racks count at all.
    pub(crate) mismatches: u64,
    /// Partitions that one member alone claims, validly, and another gets.
    pub(crate) moves: u64,
}

impl Quality {
    pub(crate) fn of(group: &Group, racks: Option<&Racks>, ownership: &Ownership, parts: &Parts) -> Self {
        let sizes: Vec<u64> = parts.iter().map(|partitions| partitions.len() as u64).collect();
        let pairs =
            sizes.iter().enumerate().flat_map(|(i, a)| sizes[..i].iter().map(move |b| a.abs_diff(*b)));
        let mut quality = Self { imbalance: pairs.sum(), ..Self::default() };
        for (index, (member, partitions)) in (0u32..).zip(group.members().iter().zip(parts)) {
            for &partition in partitions {
                if racks.is_some_and(|racks| racks.mismatch(member.rack.as_deref(), partition)) {
                    quality.mismatches += 1;
                }
                let owner = ownership.owner[partition as usize];
                let single = !ownership.doubly_claimed[partition as usize];
                quality.moves += u64::from(single && owner.is_some_and(|owner| owner != index));
            }
        }
        quality
    }
}

/// The racks of each partition.
pub(crate) struct Racks(Vec<BTreeSet<String>>);

impl Racks {
    /// None where Kafka leaves racks out of account: no member has one, none of theirs is a partition's, or every partition is
    /// in all of them (`AbstractPartitionAssignor.useRackAwareAssignment`).
    pub(crate) fn that_count(described: &DescribedGroup, group: &Group) -> Option<Self> {
        let rack = |id: &i32| described.nodes.iter().find(|node| node.id == *id)?.rack.clone();
        let racks: Vec<BTreeSet<String>> = (0..group.partitions())
            .map(|partition| {
                let topic = &group.topics()[group.topic_of(partition).unwrap() as usize];
                let replicas = described.topics[&topic.name].replicas.as_ref();
                let replicas = replicas.map_or(&[][..], |r| &r[(partition - topic.first) as usize]);
                replicas.iter().filter_map(rack).collect()
            })
            .collect();
        let all: BTreeSet<&String> = racks.iter().flatten().collect();
        let of_members: BTreeSet<&String> = group.members().iter().filter_map(|m| m.rack.as_ref()).collect();
        let count = !all.is_disjoint(&of_members) && racks.iter().any(|racks| racks.len() < all.len());
        count.then_some(Self(racks))
    }

    /// Whether a member of this rack has no replica of the partition in it.
    pub(crate) fn mismatch(&self, rack: Option<&str>, partition: u32) -> bool {
        rack.is_some_and(|rack| !self.0[partition as usize].contains(rack))
    }
}

/// How many partitions stay where they are, at most, if all members subscribe alike and no racks count: each member keeps what
/// it owns up to the lower quota, and as many as may have the higher quota keep one more if they have it.
pub(crate) fn most_kept(group: &Group, ownership: &Ownership) -> usize {
    let members = group.members().len();
    let partitions = group.partitions() as usize;
    let (lower, more) = (partitions / members, partitions % members);
    let mut owned = vec![0; members];
    ownership.owner.iter().flatten().for_each(|&owner| owned[owner as usize] += 1);
    let able = owned.iter().filter(|&&owned| owned > lower).count();
    owned.iter().map(|&owned| owned.min(lower)).sum::<usize>() + able.min(more)
}

/// How many partitions are where they were.
pub(crate) fn kept(ownership: &Ownership, parts: &Parts) -> usize {
    let stays = |index: u32, partition: &&u32| ownership.owner[**partition as usize] == Some(index);
    let of = |(index, partitions): (u32, &Vec<u32>)| partitions.iter().filter(|p| stays(index, p)).count();
    (0..).zip(parts).map(of).sum()
}
