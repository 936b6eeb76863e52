//! The partitions that a member owns, and how far each has been read.

use std::collections::{BTreeMap, BTreeSet};

use crate::consumer::machine::Identity;
use crate::consumer::offsets::Offsets;
use crate::group::TopicPartitions;

/// A partition, by topic and index.
pub(in crate::consumer) type Key = (String, u32);

/// How far a partition has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    returned: i64,
    processed: i64,
    committed: Option<i64>,
    /// Differs from that of any earlier position of the partition from which it was not read on.
    stamp: u64,
}

/// From where the data path fetches a partition. With the stamp unchanged it goes on as it is, whatever else changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) struct Start {
    pub(in crate::consumer) offset: i64,
    pub(in crate::consumer) stamp: u64,
}

/// What a member owns. Under the cooperative protocol it lives on from generation to generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Assignment {
    pub(in crate::consumer) identity: Identity,
    /// As whom commits went before the last rebalance: answers to some may still come.
    before: Option<Identity>,
    pub(in crate::consumer) leader: bool,
    pub(in crate::consumer) strategy: String,
    /// All of them, also those without a position yet.
    pub(in crate::consumer) partitions: Vec<TopicPartitions>,
    positions: BTreeMap<Key, Position>,
    /// About to be given up: not handed out any more, but still to be committed.
    suspended: BTreeSet<Key>,
    /// Paused by the application: neither fetched nor handed out.
    paused: BTreeSet<Key>,
    /// Waiting, under a stamp, for where they begin or end. Until then they have no position.
    ends: BTreeMap<Key, u64>,
    /// Waiting for the application to seek: they have no valid offset, and `auto.offset.reset` is `none`.
    stuck: BTreeSet<Key>,
}

impl Assignment {
    /// Of these partitions, none of which has a position yet.
    pub(in crate::consumer) fn new(
        identity: Identity,
        leader: bool,
        strategy: String,
        partitions: Vec<TopicPartitions>,
    ) -> Self {
        Self {
            identity,
            before: None,
            leader,
            strategy,
            partitions,
            positions: BTreeMap::new(),
            suspended: BTreeSet::new(),
            paused: BTreeSet::new(),
            ends: BTreeMap::new(),
            stuck: BTreeSet::new(),
        }
    }

    /// After a rebalance: these partitions instead. Those that stay keep their positions.
    pub(super) fn replace(
        &mut self,
        identity: Identity,
        leader: bool,
        strategy: String,
        partitions: Vec<TopicPartitions>,
    ) {
        self.renew(identity);
        (self.leader, self.strategy, self.partitions) = (leader, strategy, partitions);
        self.suspended.clear();
        self.forget_others();
    }

    /// Only what is assigned has a state.
    fn forget_others(&mut self) {
        let all: BTreeSet<Key> = keys(&self.partitions).collect();
        self.positions.retain(|key, _| all.contains(key));
        self.ends.retain(|key, _| all.contains(key));
        self.paused.retain(|key| all.contains(key));
        self.stuck.retain(|key| all.contains(key));
    }

    /// Commits go as this identity from now on.
    pub(super) fn renew(&mut self, identity: Identity) {
        if identity != self.identity {
            self.before = Some(std::mem::replace(&mut self.identity, identity));
        }
    }

    /// Whether an answer to that identity's request is about what is owned now.
    pub(super) fn is_of(&self, identity: &Identity) -> bool {
        self.identity == *identity || self.before.as_ref() == Some(identity)
    }

    /// Partitions that have no position yet start at these offsets, which are the group's committed ones or not.
    pub(super) fn start(&mut self, offsets: Offsets, committed: bool, stamp: u64) {
        let unplaced = self.unplaced();
        for (key, offset) in offsets {
            if unplaced.contains(&key) {
                let committed = committed.then_some(offset);
                self.stuck.remove(&key);
                self.positions
                    .insert(key, Position { returned: offset, processed: offset, committed, stamp });
            }
        }
    }

    /// Partitions without a position that nobody has asked to go on from an end.
    pub(super) fn unplaced(&self) -> BTreeSet<Key> {
        let placed = |key: &Key| self.positions.contains_key(key) || self.ends.contains_key(key);
        keys(&self.partitions).filter(|key| !placed(key)).collect()
    }

    /// These are about to be given up.
    pub(super) fn suspend(&mut self, partitions: &[TopicPartitions]) {
        self.suspended.extend(keys(partitions));
    }

    /// What is about to be given up is gone.
    pub(super) fn drop_suspended(&mut self) {
        let gone = std::mem::take(&mut self.suspended);
        for TopicPartitions { topic, partitions } in &mut self.partitions {
            partitions.retain(|p| !gone.contains(&(topic.clone(), *p)));
        }
        self.partitions.retain(|t| !t.partitions.is_empty());
        self.forget_others();
    }

    /// The partitions, but for those that are about to be given up, if `told` says that somebody knows of that.
    pub(super) fn listed(&self, told: bool) -> Vec<TopicPartitions> {
        let mut list = self.partitions.clone();
        if told {
            for TopicPartitions { topic, partitions } in &mut list {
                partitions.retain(|p| !self.suspended.contains(&(topic.clone(), *p)));
            }
            list.retain(|t| !t.partitions.is_empty());
        }
        list
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

    /// What is to be fetched.
    pub(super) fn starts(&self) -> BTreeMap<Key, Start> {
        let rests =
            |key: &Key| self.suspended.contains(key) || self.paused.contains(key) || self.stuck.contains(key);
        let fetched = self.positions.iter().filter(|(key, _)| !rests(key));
        fetched.map(|(key, p)| (key.clone(), Start { offset: p.returned, stamp: p.stamp })).collect()
    }

    /// Whether this partition is assigned, and not about to be given up.
    pub(super) fn holds(&self, (topic, partition): &Key) -> bool {
        let mut lists = self.partitions.iter().filter(|t| t.topic == *topic);
        lists.any(|t| t.partitions.contains(partition))
    }

    /// The offset of the next record of a partition that has a position.
    pub(super) fn position(&self, key: &Key) -> Option<i64> {
        self.positions.get(key).map(|p| p.returned)
    }

    /// Goes on from these offsets.
    pub(super) fn seek(&mut self, offsets: &Offsets, stamp: u64) {
        for (key, &offset) in offsets {
            let committed = self.positions.get(key).and_then(|p| p.committed);
            let position = Position { returned: offset, processed: offset, committed, stamp };
            self.positions.insert(key.clone(), position);
            self.ends.remove(key);
            self.stuck.remove(key);
        }
    }

    /// Goes on from where these begin or end, which is to be found out.
    pub(super) fn seek_to_end(&mut self, partitions: &BTreeSet<Key>, stamp: u64) {
        for key in partitions {
            self.positions.remove(key);
            self.stuck.remove(key);
            self.ends.insert(key.clone(), stamp);
        }
    }

    /// Which of these still wait, under this stamp, for where they begin or end.
    pub(super) fn awaiting_end(&self, partitions: &BTreeSet<Key>, stamp: u64) -> BTreeSet<Key> {
        partitions.iter().filter(|key| self.ends.get(*key) == Some(&stamp)).cloned().collect()
    }

    /// No record of these is fetched until somebody seeks.
    pub(super) fn stick(&mut self, partitions: &BTreeSet<Key>) {
        let all: BTreeSet<Key> = keys(&self.partitions).collect();
        let stuck = partitions.iter().filter(|key| all.contains(*key) && !self.ends.contains_key(*key));
        self.stuck.extend(stuck.cloned());
    }

    /// A partition that waits for somebody to seek.
    pub(super) fn stuck(&self) -> Option<Key> {
        self.stuck.first().cloned()
    }

    pub(super) fn pause(&mut self, partitions: &BTreeSet<Key>, paused: bool) {
        if paused {
            self.paused.extend(partitions.iter().cloned());
        } else {
            self.paused.retain(|key| !partitions.contains(key));
        }
    }

    pub(super) fn paused(&self) -> BTreeSet<Key> {
        self.paused.clone()
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

    /// Of these positions, which have been looked at, some turned out to be wrong and go on from other offsets. All of them are fetched
    /// anew, unless they have been read on meanwhile.
    pub(super) fn correct(&mut self, examined: &Offsets, corrected: &Offsets, stamp: u64) {
        for (key, before) in examined {
            if let Some(position) = self.positions.get_mut(key).filter(|p| p.returned == *before) {
                position.stamp = stamp;
                if let Some(&offset) = corrected.get(key) {
                    (position.returned, position.processed) = (offset, offset);
                }
            }
        }
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

pub(super) fn keys(partitions: &[TopicPartitions]) -> impl Iterator<Item = Key> {
    partitions.iter().flat_map(|t| t.partitions.iter().map(|p| (t.topic.clone(), *p)))
}
