//! A plan in the making.

/// No member's rank, no partition's number.
pub(super) const NONE: u32 = u32::MAX;

/// Numbers by number: those of partitions or ranks of members as indexes.
#[derive(Debug, Clone)]
pub(super) struct Table(Vec<u32>);

impl Table {
    pub(super) fn new(len: usize, value: u32) -> Self {
        Self(vec![value; len])
    }

    /// The number at `index`; [`NONE`] beyond the end.
    pub(super) fn get(&self, index: u32) -> u32 {
        self.0.get(index as usize).copied().unwrap_or(NONE)
    }

    pub(super) fn set(&mut self, index: u32, value: u32) {
        if let Some(slot) = self.0.get_mut(index as usize) {
            *slot = value;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

/// Who gets each partition, as far as it is decided.
#[derive(Debug)]
pub(super) struct Draft {
    owner: Table,
    size: Table,
}

impl Draft {
    /// Nothing decided.
    pub(super) fn new(partitions: u32, members: usize) -> Self {
        Self { owner: Table::new(partitions as usize, NONE), size: Table::new(members, 0) }
    }

    /// The rank of the member that gets the partition, or [`NONE`].
    pub(super) fn owner(&self, partition: u32) -> u32 {
        self.owner.get(partition)
    }

    /// How many partitions the member gets.
    pub(super) fn size(&self, rank: u32) -> u32 {
        self.size.get(rank)
    }

    /// Gives a partition that is nobody's to a member, and tells how many that one has now.
    pub(super) fn give(&mut self, partition: u32, rank: u32) -> u32 {
        self.owner.set(partition, rank);
        let size = self.size.get(rank).saturating_add(1);
        self.size.set(rank, size);
        size
    }

    /// Takes a partition from its owner and gives it to another member.
    pub(super) fn hand_over(&mut self, partition: u32, rank: u32) {
        let from = self.owner.get(partition);
        self.size.set(from, self.size.get(from).saturating_sub(1));
        self.give(partition, rank);
    }

    /// The partitions that are nobody's, ascending.
    pub(super) fn unassigned(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(self.owner.iter()).filter(|&(_, owner)| owner == NONE).map(|(partition, _)| partition)
    }

    /// The partitions of each member, ascending; members by their index in the group, which `order` has for each rank.
    pub(super) fn into_assignments(self, order: &[u32]) -> Vec<Vec<u32>> {
        let mut by_rank: Vec<Vec<u32>> = self.size.iter().map(|n| Vec::with_capacity(n as usize)).collect();
        for (partition, owner) in (0..).zip(self.owner.iter()) {
            if let Some(partitions) = by_rank.get_mut(owner as usize) {
                partitions.push(partition);
            }
        }
        let mut by_index = vec![Vec::new(); by_rank.len()];
        for (&index, partitions) in order.iter().zip(by_rank) {
            if let Some(slot) = by_index.get_mut(index as usize) {
                *slot = partitions;
            }
        }
        by_index
    }
}
