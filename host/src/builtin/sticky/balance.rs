//! Evens out a plan by moving single partitions (Java: `GeneralAssignmentBuilder.performReassignments`).
//!
//! A partition is moved if some other subscriber of its topic has at least two partitions less than its owner. All moves but a
//! bounded number make the sum of the squares of loads smaller, so there is an end. When no partition can be moved the plan counts
//! as balanced (Java's `isBalanced` asks for just that, so it needs no check of its own here). Racks play no part, as in Java, where
//! both branches of the loop lead to the same move.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use crate::group::{Member, Topic};

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

/// So many of the least loaded cohorts are looked at before all those that ask for a topic are. Mostly one of them asks for it.
const FEW: usize = 16;

/// The topic whose partitions are being considered.
#[derive(Default)]
struct InHand {
    index: u32,
    /// Its least loaded subscriber, load and rank, and the count of moves when that was looked up.
    least: Option<(u32, u32)>,
    looked_up: u64,
    /// Load, rank and cohort of the least loaded member of each cohort that asks for it, and outdated ones, if it was looked up
    /// there once. Not to be searched anew after each move is what keeps the time for thousands of distinct subscriptions in bounds.
    heads: Option<BinaryHeap<Reverse<(u32, u32, u32)>>>,
}

impl InHand {
    fn of(index: u32) -> Self {
        Self { index, ..Self::default() }
    }
}

/// Loads of members, and what has been moved.
pub(super) struct Balance<'a> {
    cohorts: &'a Cohorts<'a>,
    earlier: Option<Table>,
    /// The members of each cohort by load, then rank.
    by_load: Vec<BTreeSet<(u32, u32)>>,
    /// The least loaded member of each cohort: load, rank, cohort.
    heads: BTreeSet<(u32, u32, u32)>,
    /// The topic in hand.
    topic: InHand,
    moves: u64,
    /// For each cohort the count of moves when the load of one of its members last changed.
    changed: Vec<u64>,
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
        Self {
            cohorts,
            earlier,
            by_load,
            heads,
            topic: InHand::default(),
            moves: 1,
            changed: vec![0; cohorts.list.len()],
            moved: Moved::default(),
            uneven: 0,
        }
    }

    /// Moves partitions of the topics, given with their indexes, until no one of them can be moved to a better place; of each topic
    /// only such partitions as `may_move`.
    pub(super) fn even_out(
        &mut self,
        draft: &mut Draft,
        topics: &[(u32, &Topic)],
        may_move: impl Fn(u32) -> bool,
    ) {
        // For each topic the count of moves at which none of its partitions could be moved.
        let mut settled = vec![None; topics.len()];
        loop {
            let before = self.moves;
            for (&(index, topic), settled) in topics.iter().zip(&mut settled) {
                // Loads of a topic's subscribers are all that decides about its partitions. Where load seeps through a long row of
                // members there are thousands of rounds, and next to nothing changes in each.
                if settled.is_some_and(|at| self.unchanged_since(at, index, topic)) {
                    continue;
                }
                self.topic = InHand::of(index);
                let at = self.moves;
                for partition in topic.numbers().filter(|&p| may_move(p)) {
                    self.consider(draft, partition, index);
                }
                *settled = (self.moves == at).then_some(at);
            }
            if self.moves == before {
                return;
            }
        }
    }

    /// Whether no load of the topic's subscribers has changed since then; `false` if to find that out would take longer than to go
    /// over its partitions.
    fn unchanged_since(&self, at: u64, index: u32, topic: &Topic) -> bool {
        if at == self.moves {
            return true;
        }
        let Some(cohorts) = self.cohorts.of_topic.get(index as usize) else { return false };
        cohorts.len() <= topic.partitions as usize
            && cohorts.iter().all(|&c| self.changed.get(c as usize).is_some_and(|&changed| changed <= at))
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

    /// The least loaded subscriber of the topic in hand: its load and rank.
    fn least_loaded(&mut self, topic: u32) -> Option<(u32, u32)> {
        if self.topic.looked_up == self.moves {
            return self.topic.least;
        }
        let found = self.least_of_few(topic).unwrap_or_else(|| self.least_of_many(topic));
        self.topic.looked_up = self.moves;
        self.topic.least = found;
        found
    }

    /// Looks at the least loaded cohorts alone; `None` if none of them asks for the topic.
    fn least_of_few(&self, topic: u32) -> Option<Option<(u32, u32)>> {
        if self.topic.heads.is_some() {
            return None;
        }
        let found = self.heads.iter().take(FEW).find(|&&(_, _, cohort)| self.cohorts.asks(cohort, topic));
        found.map(|&(load, rank, _)| Some((load, rank)))
    }

    /// Puts the cohorts that ask for the topic into a heap, which serves for as long as the topic is in hand.
    fn least_of_many(&mut self, topic: u32) -> Option<(u32, u32)> {
        let by_load = &self.by_load;
        let head = |cohort: u32| {
            let &(load, rank) = by_load.get(cohort as usize)?.first()?;
            Some(Reverse((load, rank, cohort)))
        };
        let cohorts = self.cohorts.of_topic.get(topic as usize);
        let heads = self.topic.heads.get_or_insert_with(|| {
            cohorts.into_iter().flatten().filter_map(|&cohort| head(cohort)).collect()
        });
        while let Some(&first) = heads.peek() {
            let Reverse((load, rank, cohort)) = first;
            if head(cohort) == Some(first) {
                return Some((load, rank));
            }
            // The cohort has another head by now, which came in when it changed.
            heads.pop();
        }
        None
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
        self.moves += 1;
        self.update(from, from_load, draft.size(from));
        self.update(to, to_load, draft.size(to));
    }

    fn update(&mut self, rank: u32, before: u32, now: u32) {
        let number = self.cohorts.of_member.get(rank);
        let Some(members) = self.by_load.get_mut(number as usize) else { return };
        let head_before = members.first().copied();
        members.remove(&(before, rank));
        members.insert((now, rank));
        let head_now = members.first().copied();
        if let Some(changed) = self.changed.get_mut(number as usize) {
            *changed = self.moves;
        }
        if head_before != head_now {
            if let Some((load, rank)) = head_before {
                self.heads.remove(&(load, rank, number));
            }
            if let Some((load, rank)) = head_now {
                self.heads.insert((load, rank, number));
                if let Some(heads) = &mut self.topic.heads
                    && self.cohorts.asks(number, self.topic.index)
                {
                    heads.push(Reverse((load, rank, number)));
                }
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
