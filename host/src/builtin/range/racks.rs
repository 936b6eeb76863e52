//! Range with racks (KIP-881).
//!
//! Topics that have the same subscribers and as many partitions are **co-partitioned**: who gets partition 3 of one gets partition 3 of
//! all. So each such group of topics is decided once, however many topics it has:
//! - several topics: each partition, in order, goes to the first subscriber in order that has room and is in a rack of that
//!   partition's replicas in *all* topics;
//! - one topic by itself, and only where racks matter to it: each subscriber, in order, takes the first partitions with a replica in its
//!   rack, up to its share;
//! - what is left is dealt out as if there were no racks.
//!
//! A member without a rack is at home everywhere, one in a rack without brokers nowhere. Racks matter to a topic if some subscriber is in
//! a rack of its replicas, and not all its partitions are in the same racks. If they matter to no topic, they don't matter at all.

use std::collections::HashMap;

use super::super::order::Subscribers;
use super::NOBODY;
use crate::group::{Group, Racks, Topic};

/// Where a member is at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Anywhere,
    Rack(u32),
    Nowhere,
}

/// Topics by subscribers and number of partitions, and who gets what of them.
pub(super) struct RackAware {
    /// For each topic the index of its split; `None` where no subscriber has a rack.
    split_of: Vec<Option<u32>>,
    /// For each co-partitioned group of topics: the place of each partition's owner among the subscribers. Racks don't matter where
    /// there is none.
    splits: Vec<Option<Vec<u32>>>,
}

impl RackAware {
    /// `None` if racks don't matter to any topic. With `prefer`, partitions need not be in different racks for that.
    pub(super) fn of(group: &Group, subscribers: &Subscribers, prefer: bool) -> Option<Self> {
        let racks = group.racks()?;
        let homes: Vec<Home> = homes(group, racks);
        let homes_of: Vec<Vec<Home>> = (subscribers.lists().iter())
            .map(|list| list.iter().filter_map(|&member| homes.get(member as usize).copied()).collect())
            .collect();
        // For each list of subscribers the racks that they are in, or none if no one is in any.
        let inhabited: Vec<Option<Vec<bool>>> =
            homes_of.iter().map(|homes| inhabited(homes, racks.names().len())).collect();

        let mut matter = Matter { racks, seen: vec![0; racks.sets().len()], round: 0, prefer };
        let mut of_topics = vec![false; group.topics().len()];
        for ((matters, topic), &list) in of_topics.iter_mut().zip(group.topics()).zip(subscribers.list_of()) {
            let inhabited = inhabited.get(list as usize).and_then(Option::as_ref);
            *matters = inhabited.is_some_and(|inhabited| matter.to(topic, inhabited));
        }
        if !of_topics.contains(&true) {
            return None;
        }

        let mut co_partitioned: Vec<(u32, Vec<usize>)> = Vec::new();
        let mut known: HashMap<(u32, u32), usize> = HashMap::new();
        let mut split_of = vec![None; group.topics().len()];
        for (index, (topic, &list)) in group.topics().iter().zip(subscribers.list_of()).enumerate() {
            if inhabited.get(list as usize).is_none_or(Option::is_none) {
                continue;
            }
            let split = *known.entry((list, topic.partitions)).or_insert(co_partitioned.len());
            match co_partitioned.get_mut(split) {
                Some((_, topics)) => topics.push(index),
                None => co_partitioned.push((list, vec![index])),
            }
            if let Some(slot) = split_of.get_mut(index) {
                *slot = u32::try_from(split).ok();
            }
        }
        let splits = co_partitioned.into_iter().map(|(list, topics)| {
            let homes = homes_of.get(list as usize)?;
            let matters = |topic: &usize| of_topics.get(*topic) == Some(&true);
            let topics_of = || topics.iter().filter_map(|&topic| group.topics().get(topic));
            let partitions = topics_of().next()?.partitions;
            let mut deal = Deal::new(homes.len(), partitions);
            match topics.as_slice() {
                [one] if !matters(one) => return None,
                [_] => deal.by_subscriber(homes, racks, topics_of().next()?),
                _ => deal.by_partition(homes, racks, &topics_of().collect::<Vec<_>>()),
            }
            deal.rest();
            Some(deal.owners)
        });
        let splits = splits.collect();
        Some(Self { split_of, splits })
    }

    /// For each partition of a topic the place of its owner among the topic's subscribers; `None` where racks don't matter.
    pub(super) fn places(&self, topic: usize) -> Option<&[u32]> {
        let split = (*self.split_of.get(topic)?)?;
        self.splits.get(split as usize)?.as_deref()
    }
}

/// Where each member is at home: racks' names are looked up once.
fn homes(group: &Group, racks: &Racks) -> Vec<Home> {
    let home = |rack: &Option<String>| match rack {
        None => Home::Anywhere,
        Some(name) => racks.number(name).map_or(Home::Nowhere, Home::Rack),
    };
    group.members().iter().map(|member| home(&member.rack)).collect()
}

/// Which racks are somebody's home; none if nobody has one.
fn inhabited(homes: &[Home], racks: usize) -> Option<Vec<bool>> {
    if homes.iter().all(|home| *home == Home::Anywhere) {
        return None;
    }
    let mut inhabited = vec![false; racks];
    for home in homes {
        if let Home::Rack(rack) = home
            && let Some(rack) = inhabited.get_mut(*rack as usize)
        {
            *rack = true;
        }
    }
    Some(inhabited)
}

/// Finds out whether racks matter to topics.
struct Matter<'a> {
    racks: &'a Racks,
    /// For each set of racks the last topic, counted from 1, that has a partition in it.
    seen: Vec<u32>,
    round: u32,
    /// One set is enough.
    prefer: bool,
}

impl Matter<'_> {
    fn to(&mut self, topic: &Topic, inhabited: &[bool]) -> bool {
        self.round += 1;
        let (mut sets, mut met) = (0, false);
        for partition in topic.numbers() {
            let set = self.racks.set_of(partition) as usize;
            let Some(seen) = self.seen.get_mut(set).filter(|seen| **seen != self.round) else { continue };
            *seen = self.round;
            sets += 1;
            let racks = self.racks.sets().get(set).map_or(&[][..], Vec::as_slice);
            met |= racks.iter().any(|&rack| inhabited.get(rack as usize) == Some(&true));
            // Two sets that differ can't both be all racks.
            if (sets > 1 || self.prefer) && met {
                return true;
            }
        }
        false
    }
}

/// Partitions being dealt out among subscribers, both by their place.
struct Deal {
    /// What everyone gets.
    quota: u32,
    /// How many more may get one more.
    extra: u32,
    /// What each subscriber has got.
    dealt: Vec<u32>,
    /// Of each partition.
    owners: Vec<u32>,
}

impl Deal {
    fn new(subscribers: usize, partitions: u32) -> Self {
        let members = u32::try_from(subscribers).unwrap_or(u32::MAX);
        Self {
            quota: partitions.checked_div(members).unwrap_or(0),
            extra: partitions.checked_rem(members).unwrap_or(0),
            dealt: vec![0; subscribers],
            owners: vec![NOBODY; partitions as usize],
        }
    }

    /// Whether a subscriber may get one more. Once it may not, it never may again.
    fn has_room(&self, place: u32) -> bool {
        let most = self.quota + u32::from(self.extra > 0);
        self.dealt.get(place as usize).is_some_and(|&dealt| dealt < most)
    }

    fn is_free(&self, partition: u32) -> bool {
        self.owners.get(partition as usize) == Some(&NOBODY)
    }

    fn give(&mut self, partition: u32, place: u32) {
        if let (Some(owner), Some(dealt)) =
            (self.owners.get_mut(partition as usize), self.dealt.get_mut(place as usize))
        {
            *owner = place;
            *dealt += 1;
            if *dealt > self.quota {
                self.extra -= 1;
            }
        }
    }

    /// One topic: each subscriber takes the first partitions that are in its rack.
    fn by_subscriber(&mut self, homes: &[Home], racks: &Racks, topic: &Topic) {
        let mut in_rack: Vec<Vec<u32>> = vec![Vec::new(); racks.names().len()];
        for (index, partition) in (0u32..).zip(topic.numbers()) {
            for &rack in racks.of(partition) {
                if let Some(list) = in_rack.get_mut(rack as usize) {
                    list.push(index);
                }
            }
        }
        let mut in_rack: Vec<_> = in_rack.into_iter().map(Vec::into_iter).collect();
        let mut anywhere = 0..topic.partitions;
        for (place, home) in (0u32..).zip(homes) {
            while self.has_room(place) {
                // What is taken is passed over for good: each list is gone through once.
                let next = match home {
                    Home::Anywhere => anywhere.find(|&partition| self.is_free(partition)),
                    Home::Rack(rack) => in_rack
                        .get_mut(*rack as usize)
                        .and_then(|list| list.find(|&partition| self.is_free(partition))),
                    Home::Nowhere => None,
                };
                let Some(partition) = next else { break };
                self.give(partition, place);
            }
        }
    }

    /// Several topics: each partition goes to the first subscriber that is in one of its racks in all of them.
    fn by_partition(&mut self, homes: &[Home], racks: &Racks, topics: &[&Topic]) {
        let Some((first, others)) = topics.split_first() else { return };
        // Subscribers by home, those at home anywhere last. Who has no room any more is passed over for good.
        let anywhere = racks.names().len();
        let mut queues: Vec<Vec<u32>> = vec![Vec::new(); anywhere + 1];
        for (place, home) in (0u32..).zip(homes) {
            let queue = match home {
                Home::Anywhere => queues.get_mut(anywhere),
                Home::Rack(rack) => queues.get_mut(*rack as usize),
                Home::Nowhere => None,
            };
            if let Some(queue) = queue {
                queue.push(place);
            }
        }
        let mut heads = vec![0usize; queues.len()];
        let mut common: Vec<u32> = Vec::new();
        for partition in 0..first.partitions {
            let set = racks.set_of(first.first + partition);
            common.clear();
            common.extend_from_slice(racks.of(first.first + partition));
            for topic in others {
                if common.is_empty() {
                    break;
                }
                // Mostly the topics are laid out alike.
                let number = topic.first + partition;
                if racks.set_of(number) != set {
                    let racks = racks.of(number);
                    common.retain(|rack| racks.binary_search(rack).is_ok());
                }
            }
            let mut found = NOBODY;
            for queue in common.iter().map(|&rack| rack as usize).chain([anywhere]) {
                let (Some(places), Some(head)) = (queues.get(queue), heads.get_mut(queue)) else { continue };
                while let Some(&place) = places.get(*head) {
                    if self.has_room(place) {
                        found = found.min(place);
                        break;
                    }
                    *head += 1;
                }
            }
            if found != NOBODY {
                self.give(partition, found);
            }
        }
    }

    /// Deals out what is left as if there were no racks.
    fn rest(&mut self) {
        let mut free = 0;
        for place in 0..u32::try_from(self.dealt.len()).unwrap_or(u32::MAX) {
            while self.has_room(place) {
                while free < self.owners.len() && !self.is_free(u32::try_from(free).unwrap_or(u32::MAX)) {
                    free += 1;
                }
                let Some(partition) = u32::try_from(free).ok().filter(|_| free < self.owners.len()) else {
                    return;
                };
                self.give(partition, place);
            }
        }
    }
}
