//! The partitions of a generation, and how far each has been read.

use std::collections::BTreeMap;

use crate::consumer::machine::Identity;
use crate::consumer::offsets::Offsets;
use crate::group::TopicPartitions;

/// How far a partition has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    returned: i64,
    processed: i64,
    committed: Option<i64>,
}

/// The partitions of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Assignment {
    pub(in crate::consumer) identity: Identity,
    pub(in crate::consumer) leader: bool,
    pub(in crate::consumer) strategy: String,
    /// All of them, also those without a position yet.
    pub(in crate::consumer) partitions: Vec<TopicPartitions>,
    positions: BTreeMap<(String, u32), Position>,
}

impl Assignment {
    /// Of these partitions, none of which has a position yet.
    pub(in crate::consumer) fn new(
        identity: Identity,
        leader: bool,
        strategy: String,
        partitions: Vec<TopicPartitions>,
    ) -> Self {
        Self { identity, leader, strategy, partitions, positions: BTreeMap::new() }
    }

    /// Partitions start at these offsets, which are the group's committed ones or not.
    pub(in crate::consumer) fn start(&mut self, offsets: Offsets, committed: bool) {
        self.positions.extend(offsets.into_iter().map(|(key, offset)| {
            let committed = committed.then_some(offset);
            (key, Position { returned: offset, processed: offset, committed })
        }));
    }

    /// What has been processed and not committed yet.
    pub(in crate::consumer) fn processed(&self) -> Offsets {
        self.uncommitted(|p| p.processed)
    }

    /// What has been returned and not committed yet.
    pub(in crate::consumer) fn returned(&self) -> Offsets {
        self.uncommitted(|p| p.returned)
    }

    fn uncommitted(&self, offset: impl Fn(&Position) -> i64) -> Offsets {
        let due = self.positions.iter().filter(|(_, p)| p.committed != Some(offset(p)));
        due.map(|(key, p)| (key.clone(), offset(p))).collect()
    }

    /// Where each partition that has a position goes on.
    pub(super) fn next_offsets(&self) -> Offsets {
        self.positions.iter().map(|(key, p)| (key.clone(), p.returned)).collect()
    }

    /// Everything that was returned is processed.
    pub(super) fn process_returned(&mut self) {
        for position in self.positions.values_mut() {
            position.processed = position.returned;
        }
    }

    /// Records up to these offsets are returned.
    pub(super) fn returned_to(&mut self, offsets: &Offsets) {
        self.each(offsets, |position, offset| position.returned = offset);
    }

    /// Partitions go on from other offsets.
    pub(super) fn correct(&mut self, offsets: &Offsets) {
        self.each(offsets, |position, offset| {
            position.returned = offset;
            position.processed = offset;
        });
    }

    /// These offsets are the group's committed ones now.
    pub(super) fn committed(&mut self, offsets: &Offsets) {
        self.each(offsets, |position, offset| position.committed = Some(offset));
    }

    fn each(&mut self, offsets: &Offsets, change: impl Fn(&mut Position, i64)) {
        for (key, offset) in offsets {
            if let Some(position) = self.positions.get_mut(key) {
                change(position, *offset);
            }
        }
    }
}
