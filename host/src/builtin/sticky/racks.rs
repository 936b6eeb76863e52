//! Which members are in a partition's racks (KIP-881; Java: `AbstractStickyAssignor.RackInfo`).

use crate::group::{Group, Racks};

use super::draft::Table;

/// The rack of a member that has none: every partition fits.
pub(super) const ANYWHERE: u32 = u32::MAX;
/// A rack that no partition is in: no partition fits.
const ELSEWHERE: u32 = u32::MAX - 1;

/// Racks of members and partitions, where they matter.
pub(super) struct RackMatch<'a> {
    racks: &'a Racks,
    /// The rack of each member, by rank.
    rack_of: Table,
    /// How many members are in each rack.
    members_in: Vec<u32>,
}

impl<'a> RackMatch<'a> {
    /// `None` where racks make no difference (Java: `AbstractPartitionAssignor.useRackAwareAssignment`): no member has a rack, or
    /// none that a partition is in, or every partition is in all racks; the last only unless `prefer_racks`.
    pub(super) fn of(group: &'a Group, order: &[u32], prefer_racks: bool) -> Option<Self> {
        let racks = group.racks()?;
        let mut rack_of = Table::new(order.len(), ANYWHERE);
        let mut members_in = vec![0; racks.names().len()];
        for (rank, &index) in (0..).zip(order) {
            let Some(name) = group.members().get(index as usize).and_then(|m| m.rack.as_deref()) else {
                continue;
            };
            let rack = racks.number(name);
            rack_of.set(rank, rack.unwrap_or(ELSEWHERE));
            if let Some(count) = rack.and_then(|r| members_in.get_mut(r as usize)) {
                *count += 1;
            }
        }

        let mut used = vec![false; racks.sets().len()];
        for partition in 0..group.partitions() {
            if let Some(used) = used.get_mut(racks.set_of(partition) as usize) {
                *used = true;
            }
        }
        let used = || racks.sets().iter().zip(&used).filter(|(_, used)| **used).map(|(set, _)| set);
        let mut all: Vec<u32> = used().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let shared = all.iter().any(|&rack| members_in.get(rack as usize).is_some_and(|&n| n > 0));
        let matters = shared && (prefer_racks || used().any(|set| *set != all));
        matters.then_some(Self { racks, rack_of, members_in })
    }

    /// Whether the member is in a rack of the partition, or in none at all.
    pub(super) fn fits(&self, rank: u32, partition: u32) -> bool {
        let rack = self.rack_of.get(rank);
        rack == ANYWHERE || self.racks.of(partition).contains(&rack)
    }

    /// The member's rack; [`ANYWHERE`] if it has none.
    pub(super) fn rack_of(&self, rank: u32) -> u32 {
        self.rack_of.get(rank)
    }

    /// The partition's racks.
    pub(super) fn of_partition(&self, partition: u32) -> &'a [u32] {
        self.racks.of(partition)
    }

    /// How many racks there are.
    pub(super) fn len(&self) -> usize {
        self.members_in.len()
    }

    /// Sorts partitions by how few members are in their racks; equal ones stay in their order.
    pub(super) fn fewest_members_first(&self, partitions: &mut [u32]) {
        let members_in = |rack: &u32| self.members_in.get(*rack as usize).copied().unwrap_or(0);
        let per_set: Vec<u32> =
            self.racks.sets().iter().map(|set| set.iter().map(members_in).sum()).collect();
        partitions.sort_by_key(|&p| per_set.get(self.racks.set_of(p) as usize).copied().unwrap_or(0));
    }
}
