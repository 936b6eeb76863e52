//! Members that no partition tells apart.

use super::super::distinct::Distinct;
use super::Field;
use super::draft::{NONE, Table};
use super::racks::ANYWHERE;

/// Members that ask for the same topics and, where racks are minded, are in the same rack.
pub(super) struct Cohort<'a> {
    /// Indexes of the topics they ask for, ascending.
    pub(super) topics: &'a [u32],
    /// Their rack; `ANYWHERE` where they have none or racks are not minded.
    pub(super) rack: u32,
    /// Their ranks, ascending.
    pub(super) members: Vec<u32>,
}

/// All members, by cohort.
pub(super) struct Cohorts<'a> {
    pub(super) list: Vec<Cohort<'a>>,
    /// The cohort of each member, by rank.
    pub(super) of_member: Table,
    /// For each topic the cohorts that ask for it.
    pub(super) of_topic: Vec<Vec<u32>>,
    /// For each topic how many members ask for it.
    pub(super) subscribers: Vec<u32>,
}

impl<'a> Cohorts<'a> {
    /// Members that ask for nothing are in no cohort.
    pub(super) fn of(field: &Field<'a>) -> Self {
        let mut list: Vec<Cohort<'a>> = Vec::new();
        let mut of_member = Table::new(field.order.len(), NONE);
        let mut distinct = Distinct::new();
        for (rank, member) in field.members() {
            let topics = member.topics.as_slice();
            if topics.is_empty() {
                continue;
            }
            let rack = field.racks.as_ref().map_or(ANYWHERE, |racks| racks.rack_of(rank));
            let number = distinct.number((rack, topics));
            of_member.set(rank, u32::try_from(number).unwrap_or(NONE));
            match list.get_mut(number) {
                Some(cohort) => cohort.members.push(rank),
                None => list.push(Cohort { topics, rack, members: vec![rank] }),
            }
        }

        let topics = field.group.topics().len();
        let mut of_topic = vec![Vec::new(); topics];
        let mut subscribers = vec![0; topics];
        for (number, cohort) in (0u32..).zip(&list) {
            let members = u32::try_from(cohort.members.len()).unwrap_or(u32::MAX);
            for &topic in cohort.topics {
                if let Some(cohorts) = of_topic.get_mut(topic as usize) {
                    cohorts.push(number);
                }
                if let Some(count) = subscribers.get_mut(topic as usize) {
                    *count += members;
                }
            }
        }
        Self { list, of_member, of_topic, subscribers }
    }

    /// The topics' indexes, those with the fewest subscribers first, then by name.
    pub(super) fn topics_in_order(&self) -> Vec<u32> {
        let mut topics: Vec<u32> = (0..).take(self.subscribers.len()).collect();
        topics.sort_by_key(|&t| self.subscribers.get(t as usize).copied().unwrap_or(0));
        topics
    }

    /// Whether the member may have partitions of the topic.
    pub(super) fn subscribed(&self, rank: u32, topic: u32) -> bool {
        self.asks(self.of_member.get(rank), topic)
    }

    /// Whether the members of the cohort may have partitions of the topic.
    pub(super) fn asks(&self, cohort: u32, topic: u32) -> bool {
        self.list.get(cohort as usize).is_some_and(|c| c.topics.binary_search(&topic).is_ok())
    }
}
