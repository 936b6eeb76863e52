//! Members ask for different topics (Java: `GeneralAssignmentBuilder`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::group::{Member, Topic};

use super::Field;
use super::balance::{self, Balance};
use super::cohorts::Cohorts;
use super::draft::{Draft, NONE};
use super::racks::{ANYWHERE, RackMatch};

pub(super) fn assign(field: &Field<'_>, draft: &mut Draft) {
    let cohorts = Cohorts::of(field);
    let topics = cohorts.topics_in_order();
    let revoked = keep_owned(field, draft);

    let mut free = vec![false; field.group.partitions() as usize];
    for partition in draft.unassigned() {
        if let Some(free) = free.get_mut(partition as usize) {
            *free = true;
        }
    }
    let mut heaps = Heaps::of(&cohorts, draft);
    if let Some(racks) = &field.racks {
        let mut by_rack = vec![BinaryHeap::new(); racks.len() + 1];
        for (index, topic) in named(field, &topics) {
            heaps.deal_within_racks(&cohorts, index, topic, racks, &mut by_rack, draft);
        }
    }
    for (index, topic) in named(field, &topics) {
        heaps.deal(&cohorts, index, topic, draft);
    }

    // A topic of one subscriber is fixed.
    let movable: Vec<(u32, &Topic)> = named(field, &topics)
        .filter(|&(t, _)| cohorts.subscribers.get(t as usize).is_some_and(|&n| n >= 2))
        .collect();
    let before = balance::earlier_owners(field);
    let mut balance = Balance::new(&cohorts, before, draft);
    if !revoked {
        // Where nobody must give up anything anyway, first try it with the newly dealt partitions alone.
        balance.even_out(draft, &movable, |p| free.get(p as usize) == Some(&true));
    }
    balance.even_out(draft, &movable, |_| true);
}

/// Indexes of topics, with the topics.
fn named<'a>(field: &Field<'a>, topics: &'a [u32]) -> impl Iterator<Item = (u32, &'a Topic)> {
    let all = field.group.topics();
    topics.iter().filter_map(|&index| Some((index, all.get(index as usize)?)))
}

/// Everyone keeps all that they own, save what isn't in their rack. Tells whether anyone must give something up: that, or
/// partitions of a topic they don't ask for any more.
fn keep_owned(field: &Field<'_>, draft: &mut Draft) -> bool {
    let mut revoked = false;
    for (rank, member) in field.members() {
        for &partition in &member.owned {
            if field.may_keep(rank, partition) {
                draft.give(partition, rank);
            } else {
                revoked = true;
            }
        }
    }
    revoked || gave_up_a_topic(field)
}

/// Whether some member rightly claims a partition of a topic that it doesn't ask for any more.
fn gave_up_a_topic(field: &Field<'_>) -> bool {
    let members = field.group.members();
    let stray = |m: &Member| m.claimed.len() > m.owned.len();
    if !members.iter().any(stray) {
        return false;
    }
    (0..).zip(field.group.claims()).any(|(partition, claim)| {
        let Some(claim) = claim.filter(|claim| !claim.tied) else { return false };
        let topics = members.get(claim.member as usize).map_or(&[][..], |m| &m.topics);
        field.group.topic_of(partition).is_some_and(|topic| topics.binary_search(&topic).is_err())
    })
}

/// Members of each cohort by load, while loads only grow.
struct Heaps(Vec<BinaryHeap<Reverse<(u32, u32)>>>);

/// The head of a cohort's heap: load, rank, cohort.
type Head = Reverse<(u32, u32, u32)>;

impl Heaps {
    fn of(cohorts: &Cohorts<'_>, draft: &Draft) -> Self {
        let heap = |members: &[u32]| members.iter().map(|&rank| Reverse((draft.size(rank), rank))).collect();
        Self(cohorts.list.iter().map(|cohort| heap(&cohort.members)).collect())
    }

    fn head(&self, cohort: u32) -> Option<Head> {
        let Reverse((load, rank)) = *self.0.get(cohort as usize)?.peek()?;
        Some(Reverse((load, rank, cohort)))
    }

    /// Gives the partition to the head of the least loaded of these cohorts.
    fn give(&mut self, partition: u32, mut least: PeekMut<'_, Head>, draft: &mut Draft) {
        let Reverse((_, rank, cohort)) = *least;
        let load = draft.give(partition, rank);
        if let Some(mut head) = self.0.get_mut(cohort as usize).and_then(BinaryHeap::peek_mut) {
            *head = Reverse((load, rank));
        }
        if let Some(head) = self.head(cohort) {
            *least = head;
        }
    }

    /// Gives each partition of the topic that is nobody's to the least loaded subscriber, ties by rank.
    fn deal(&mut self, cohorts: &Cohorts<'_>, index: u32, topic: &Topic, draft: &mut Draft) {
        let mut heads: BinaryHeap<Head> = cohorts
            .of_topic
            .get(index as usize)
            .into_iter()
            .flatten()
            .filter_map(|&c| self.head(c))
            .collect();
        for partition in topic.numbers().filter(|&p| draft.owner(p) == NONE).collect::<Vec<_>>() {
            let Some(least) = heads.peek_mut() else { return };
            self.give(partition, least, draft);
        }
    }

    /// The same, but only to subscribers in a rack of the partition, or in none. What finds nobody stays nobody's. `by_rack` has an
    /// empty heap for each rack and one more, before and after: there may be far more racks than a topic's subscribers are in.
    fn deal_within_racks(
        &mut self,
        cohorts: &Cohorts<'_>,
        index: u32,
        topic: &Topic,
        racks: &RackMatch<'_>,
        by_rack: &mut [BinaryHeap<Head>],
        draft: &mut Draft,
    ) {
        // The heads by rack; the last heap is of those that have none.
        let anywhere = u32::try_from(racks.len()).unwrap_or(NONE);
        let asking = cohorts.of_topic.get(index as usize).map_or(&[][..], Vec::as_slice);
        let slot_of = |number: u32| match cohorts.list.get(number as usize).map_or(NONE, |c| c.rack) {
            ANYWHERE => anywhere,
            rack => rack,
        };
        for &number in asking {
            if let (Some(heads), Some(head)) = (by_rack.get_mut(slot_of(number) as usize), self.head(number))
            {
                heads.push(head);
            }
        }
        for partition in topic.numbers() {
            if draft.owner(partition) != NONE {
                continue;
            }
            let candidates = racks.of_partition(partition).iter().copied().chain([anywhere]);
            let head = |rack: u32| Some((*by_rack.get(rack as usize)?.peek()?, rack));
            // The heap's order is reversed: its greatest head is the least loaded.
            let Some((_, rack)) = candidates.filter_map(head).max_by_key(|(head, _)| *head) else { continue };
            if let Some(least) = by_rack.get_mut(rack as usize).and_then(BinaryHeap::peek_mut) {
                self.give(partition, least, draft);
            }
        }
        for &number in asking {
            if let Some(heads) = by_rack.get_mut(slot_of(number) as usize) {
                heads.clear();
            }
        }
    }
}
