//! Evens out a plan by moving single partitions (Java: `GeneralAssignmentBuilder.performReassignments`).
//!
//! A partition is moved if some other subscriber of its topic has at least two partitions less than its owner. All moves but a
//! bounded number make the sum of the squares of loads smaller, so there is an end. When no partition can be moved the plan counts
//! as balanced (Java's `isBalanced` asks for just that, so it needs no check of its own here). Racks play no part, as in Java, where
//! both branches of the loop lead to the same move.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::group::Member;

use super::Field;
use super::cohorts::Cohorts;
use super::draft::{Draft, NONE, Table};

/// For each partition that a member claims at a generation older than the newest: who that is (Java: `prevAssignment`). `None` if
/// there is no such claim. Of several the latest, of equal ones that of the first member.
pub(super) fn earlier_owners(field: &Field<'_>) -> Option<Table> {
    let generation = Member::claim_generation;
    let newest = field.members().map(|(_, m)| generation(m)).max()?.max(-1);
    let mut stale: Vec<(i32, u32, &[u32])> = field
        .members()
        .filter(|(_, m)| !m.claimed.is_empty() && generation(m) < newest)
        .map(|(rank, m)| (generation(m), rank, m.claimed.as_slice()))
        .collect();
    if stale.is_empty() {
        return None;
    }
    // The latest generation last, and of one generation the first member last: the last one to be written stays.
    stale.sort_by_key(|&(generation, rank, _)| (generation, Reverse(rank)));
    let mut owners = Table::new(field.group.partitions() as usize, NONE);
    for (_, rank, claimed) in stale {
        for &partition in claimed {
            owners.set(partition, rank);
        }
    }
    Some(owners)
}

/// How many moves may be made that don't even the plan out. Without a bound there are groups without end: Java has none for them.
const MOST_UNEVEN: u32 = 1_000;

/// Less than one cohort in so many asks for a topic.
const FEW_ASK: usize = 16;

/// Loads of members, and what has been moved.
pub(super) struct Balance<'a> {
    cohorts: &'a Cohorts<'a>,
    earlier: Option<Table>,
    /// The members of each cohort by load, then rank.
    by_load: Vec<BTreeSet<(u32, u32)>>,
    /// The least loaded member of each cohort: load, rank, cohort.
    heads: BTreeSet<(u32, u32, u32)>,
    /// For each topic its least loaded subscriber, with the count of moves at which that was looked up.
    least: Vec<(u64, Option<(u32, u32)>)>,
    moves: u64,
    moved: Moved,
    /// How many moves back didn't even the plan out.
    uneven: u32,
}

impl<'a> Balance<'a> {
    pub(super) fn new(cohorts: &'a Cohorts<'a>, earlier: Option<Table>, draft: &Draft) -> Self {
        let by_load: Vec<BTreeSet<(u32, u32)>> = cohorts
            .list
            .iter()
            .map(|cohort| cohort.members.iter().map(|&rank| (draft.size(rank), rank)).collect())
            .collect();
        let head = |(number, members): (u32, &BTreeSet<(u32, u32)>)| {
            members.first().map(|&(load, rank)| (load, rank, number))
        };
        let heads = (0..).zip(&by_load).filter_map(head).collect();
        let least = vec![(0, None); cohorts.of_topic.len()];
        Self { cohorts, earlier, by_load, heads, least, moves: 1, moved: Moved::default(), uneven: 0 }
    }

    /// Moves partitions, given with their topics' indexes, until no one of them can be moved to a better place.
    pub(super) fn even_out<I>(&mut self, draft: &mut Draft, partitions: impl Fn() -> I)
    where
        I: Iterator<Item = (u32, u32)>,
    {
        loop {
            let before = self.moves;
            for (partition, topic) in partitions() {
                self.consider(draft, partition, topic);
            }
            if self.moves == before {
                return;
            }
        }
    }

    fn consider(&mut self, draft: &mut Draft, partition: u32, topic: u32) {
        let load = draft.size(draft.owner(partition));
        let worth = |other: u32| load > other.saturating_add(1);
        if !self.heads.first().is_some_and(|&(least, _, _)| worth(least)) {
            return;
        }
        let earlier = self.earlier.as_ref().map_or(NONE, |owners| owners.get(partition));
        if earlier != NONE && worth(draft.size(earlier)) && self.cohorts.subscribed(earlier, topic) {
            self.relocate(draft, partition, topic, earlier);
            return;
        }
        if let Some((_, rank)) = self.least_loaded(topic).filter(|&(least, _)| worth(least)) {
            self.relocate(draft, partition, topic, rank);
        }
    }

    /// The topic's least loaded subscriber: its load and rank.
    fn least_loaded(&mut self, topic: u32) -> Option<(u32, u32)> {
        let (at, known) = *self.least.get(topic as usize)?;
        if at == self.moves {
            return known;
        }
        // Of many cohorts few may ask for the topic, and all others be less loaded: then those few are looked at, else all in order.
        let asking = self.cohorts.of_topic.get(topic as usize)?;
        let found = if asking.len() < self.heads.len() / FEW_ASK {
            let head = |&cohort: &u32| self.by_load.get(cohort as usize)?.first().copied();
            asking.iter().filter_map(head).min()
        } else {
            let asks = |cohort: u32| {
                let cohort = self.cohorts.list.get(cohort as usize);
                cohort.is_some_and(|c| c.topics.binary_search(&topic).is_ok())
            };
            let first = self.heads.iter().find(|&&(_, _, cohort)| asks(cohort));
            first.map(|&(load, rank, _)| (load, rank))
        };
        if let Some(slot) = self.least.get_mut(topic as usize) {
            *slot = (self.moves, found);
        }
        found
    }

    /// Moves the partition to the member; or, where that undoes an earlier move of the same topic between the same two members,
    /// the partition that was moved then, back to where it was. As in Java that one may by now be at a third member, and moving it
    /// from there need not even the plan out.
    fn relocate(&mut self, draft: &mut Draft, partition: u32, topic: u32, to: u32) {
        let partition = match self.moved.to_undo(partition, topic, draft.owner(partition), to) {
            Some(earlier) if draft.size(draft.owner(earlier)) > draft.size(to).saturating_add(1) => earlier,
            Some(earlier) if self.uneven < MOST_UNEVEN => {
                self.uneven += 1;
                earlier
            }
            _ => partition,
        };
        let from = draft.owner(partition);
        self.moved.record(partition, topic, from, to);
        let (from_load, to_load) = (draft.size(from), draft.size(to));
        draft.hand_over(partition, to);
        self.update(from, from_load, draft.size(from));
        self.update(to, to_load, draft.size(to));
        self.moves += 1;
    }

    fn update(&mut self, rank: u32, before: u32, now: u32) {
        let number = self.cohorts.of_member.get(rank);
        let Some(members) = self.by_load.get_mut(number as usize) else { return };
        let head_before = members.first().copied();
        members.remove(&(before, rank));
        members.insert((now, rank));
        let head_now = members.first().copied();
        if head_before != head_now {
            if let Some((load, rank)) = head_before {
                self.heads.remove(&(load, rank, number));
            }
            if let Some((load, rank)) = head_now {
                self.heads.insert((load, rank, number));
            }
        }
    }
}

/// Moves so far (Java: `PartitionMovements`): that no two partitions of a topic swap their owners.
#[derive(Debug, Default)]
struct Moved {
    /// From whom to whom each moved partition went in all.
    of_partition: HashMap<u32, (u32, u32)>,
    /// The partitions of a topic that went from one member to another.
    by_pair: HashMap<(u32, u32, u32), BTreeSet<u32>>,
}

impl Moved {
    /// A partition of the topic that went from `to` to `owner`, or to the one that had `partition` before.
    fn to_undo(&self, partition: u32, topic: u32, owner: u32, to: u32) -> Option<u32> {
        let owner = self.of_partition.get(&partition).map_or(owner, |&(from, _)| from);
        self.by_pair.get(&(topic, to, owner))?.first().copied()
    }

    fn record(&mut self, partition: u32, topic: u32, from: u32, to: u32) {
        let mut first = from;
        if let Some((src, dst)) = self.of_partition.remove(&partition) {
            if let Some(partitions) = self.by_pair.get_mut(&(topic, src, dst)) {
                partitions.remove(&partition);
            }
            first = src;
        }
        if first != to {
            self.of_partition.insert(partition, (first, to));
            self.by_pair.entry((topic, first, to)).or_default().insert(partition);
        }
    }
}
