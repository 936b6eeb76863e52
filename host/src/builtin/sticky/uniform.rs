//! All members ask for the same topics (Java: `ConstrainedAssignmentBuilder`).
//!
//! With P partitions and M members everyone gets `min = P / M`, and `P % M` members one more.

use std::collections::VecDeque;

use crate::group::Member;

use super::Field;
use super::draft::Draft;
use super::racks::RackMatch;

pub(super) fn assign(field: &Field<'_>, draft: &mut Draft) {
    let Ok(members) = u32::try_from(field.order.len()) else { return };
    let partitions = field.group.partitions();
    let (Some(min), Some(larger)) = (partitions.checked_div(members), partitions.checked_rem(members)) else {
        return;
    };
    let mut quotas = Quotas { min, larger, below: Vec::new(), at_min: VecDeque::new() };
    quotas.keep_owned(field, draft);

    let mut unassigned: Vec<u32> = draft.unassigned().collect();
    if let Some(racks) = &field.racks {
        racks.fewest_members_first(&mut unassigned);
        quotas.deal_within_racks(racks, draft, &mut unassigned);
    }
    quotas.deal(draft, unassigned);
}

/// Shares, and the members that haven't got theirs.
struct Quotas {
    /// What everyone gets at least.
    min: u32,
    /// How many members may still get one more than that.
    larger: u32,
    /// Members with fewer, by rank.
    below: Vec<u32>,
    /// Members with just that many that may get one more, the next one first.
    at_min: VecDeque<u32>,
}

impl Quotas {
    /// Everyone keeps what they own up to their share; of what is more, see [`worth`].
    fn keep_owned(&mut self, field: &Field<'_>, draft: &mut Draft) {
        let favoured = self.favoured(field);
        let mut owned: Vec<u32> = Vec::new();
        for (rank, member) in field.members() {
            owned.clear();
            owned.extend(member.owned.iter().filter(|&&p| field.may_keep(rank, p)));
            let count = u32::try_from(owned.len()).unwrap_or(u32::MAX);
            let may = favoured.as_ref().is_none_or(|ranks| ranks.binary_search(&rank).is_ok());
            let keep = if count < self.min {
                self.below.push(rank);
                count
            } else if count > self.min && self.larger > 0 && may {
                self.larger -= 1;
                self.min + 1
            } else {
                self.at_min.push_back(rank);
                self.min
            };
            if keep < count {
                first_to_keep(field, rank, &mut owned, keep as usize);
            }
            for &partition in owned.iter().take(keep as usize) {
                draft.give(partition, rank);
            }
        }
        if self.larger == 0 {
            self.at_min.clear();
        }
    }

    /// Who keeps a larger share, by rank, if more members than may own one: where racks matter, those first whose last partition
    /// would have the hardest time to find another member in its racks; else in the order in which Java's hash map has them.
    fn favoured(&self, field: &Field<'_>) -> Option<Vec<u32>> {
        let min = self.min as usize;
        let mut below = vec![0u32; field.racks.as_ref().map_or(0, RackMatch::len)];
        let mut able: Vec<(u32, &Member)> = Vec::new();
        let mut last: Vec<u32> = Vec::new();
        let mut owned: Vec<u32> = Vec::new();
        for (rank, member) in field.members() {
            let Some(racks) = &field.racks else {
                if member.owned.len() > min {
                    able.push((rank, member));
                }
                continue;
            };
            owned.clear();
            owned.extend(member.owned.iter().filter(|&&p| field.may_keep(rank, p)));
            if owned.len() > min {
                last.push(*owned.select_nth_unstable_by_key(min, |&p| worth(field, rank, p)).1);
                able.push((rank, member));
            } else if let Some(count) = below.get_mut(racks.rack_of(rank) as usize) {
                *count += u32::from(owned.len() < min);
            }
        }
        let larger = self.larger as usize;
        if able.len() <= larger {
            return None;
        }
        let takers = |last: &u32| {
            let racks = field.racks.as_ref().map_or(&[][..], |racks| racks.of_partition(*last));
            racks.iter().filter_map(|&r| below.get(r as usize)).sum::<u32>()
        };
        let takers = last.iter().map(takers).chain(std::iter::repeat(0));
        let buckets = JavaHashMap::of(field.order.len());
        let mut order: Vec<(u32, u32, u32)> = able
            .into_iter()
            .zip(takers)
            .map(|((rank, m), takers)| (takers, buckets.bucket(&m.id), rank))
            .collect();
        order.sort_unstable();
        let mut favoured: Vec<u32> = order.into_iter().take(larger).map(|(_, _, rank)| rank).collect();
        favoured.sort_unstable();
        Some(favoured)
    }

    /// Deals partitions out in turn to members in their racks, first to those below their share. What finds none is left in
    /// `unassigned`.
    fn deal_within_racks(&mut self, racks: &RackMatch<'_>, draft: &mut Draft, unassigned: &mut Vec<u32>) {
        let mut ring = RackRing::of(racks, &self.below);
        let mut at_min = RackQueues::of(racks, &self.at_min);
        let mut cursor = 0;
        unassigned.retain(|&partition| {
            let of_partition = racks.of_partition(partition);
            if let Some(position) = ring.next(of_partition, cursor) {
                let Some(&rank) = self.below.get(position) else { return true };
                cursor = position + 1;
                if draft.give(partition, rank) >= self.min {
                    ring.remove(racks.rack_of(rank), position);
                    if self.larger > 0 {
                        at_min.push(racks.rack_of(rank), rank);
                    }
                }
                return false;
            }
            if self.larger == 0 {
                return true;
            }
            let Some(rank) = at_min.pop_first(of_partition) else { return true };
            draft.give(partition, rank);
            self.larger -= 1;
            false
        });
        self.below.retain(|&rank| draft.size(rank) < self.min);
        self.at_min = if self.larger == 0 { VecDeque::new() } else { at_min.into_queue(draft, self.min) };
    }

    /// Deals partitions out in turn, first to members below their share.
    fn deal(&mut self, draft: &mut Draft, unassigned: Vec<u32>) {
        let mut unassigned = unassigned.into_iter().peekable();
        while !self.below.is_empty() && unassigned.peek().is_some() {
            self.below.retain(|&rank| {
                let Some(partition) = unassigned.next() else { return true };
                let full = draft.give(partition, rank) >= self.min;
                if full {
                    self.at_min.push_back(rank);
                }
                !full
            });
        }
        for (partition, rank) in unassigned.zip(self.at_min.drain(..)) {
            draft.give(partition, rank);
        }
    }
}

/// Moves the `keep` partitions to the front that their owner keeps of what it owns.
fn first_to_keep(field: &Field<'_>, rank: u32, owned: &mut [u32], keep: usize) {
    if keep == 0 || keep >= owned.len() {
        return;
    }
    owned.select_nth_unstable_by_key(keep - 1, |&partition| worth(field, rank, partition));
}

/// Where a Java `HashMap` of so many strings has each of them. Within a bucket its order is that of insertion, which only Java
/// knows.
struct JavaHashMap {
    buckets: u32,
}

impl JavaHashMap {
    /// It starts with 16 buckets and doubles them when more than three quarters are used.
    fn of(entries: usize) -> Self {
        let buckets = (entries.saturating_mul(4).div_ceil(3)).next_power_of_two().max(16);
        Self { buckets: u32::try_from(buckets).unwrap_or(1 << 31) }
    }

    fn bucket(&self, key: &str) -> u32 {
        let hash =
            key.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        (hash ^ (hash >> 16)) & (self.buckets - 1)
    }
}

/// Orders partitions by what their owner keeps first: those in its rack, then by the index within the topic, then by topic.
fn worth(field: &Field<'_>, rank: u32, partition: u32) -> (bool, u32, u32) {
    let topic = field.group.topic_of(partition).and_then(|t| field.group.topics().get(t as usize));
    let elsewhere = field.clinging && !field.in_rack(rank, partition);
    (elsewhere, topic.map_or(0, |t| partition - t.first), partition)
}

/// Members in a ring, of which the next one in some rack is asked for; those of one rack by themselves.
struct RackRing {
    /// For each rack the positions of its members in the ring, ascending.
    positions: Vec<Vec<usize>>,
    /// For each of these the next one, itself included, that has not been removed; its length if there is none. Paths are
    /// shortened as they are walked.
    next: Vec<Vec<usize>>,
}

impl RackRing {
    fn of(racks: &RackMatch<'_>, members: &[u32]) -> Self {
        let mut positions = vec![Vec::new(); racks.len()];
        for (position, &rank) in members.iter().enumerate() {
            if let Some(list) = positions.get_mut(racks.rack_of(rank) as usize) {
                list.push(position);
            }
        }
        let next = positions.iter().map(|list| (0..=list.len()).collect()).collect();
        Self { positions, next }
    }

    /// The position of the first member in one of the racks from `cursor` on, around the ring.
    fn next(&mut self, racks: &[u32], cursor: usize) -> Option<usize> {
        let mut nearest = None;
        for &rack in racks {
            let Some(positions) = self.positions.get(rack as usize) else { continue };
            let from = positions.partition_point(|&p| p < cursor);
            let Some(found) = self.alive(rack, from).or_else(|| self.alive(rack, 0)) else { continue };
            let distance = (found < cursor, found);
            nearest = Some(nearest.map_or(distance, |other: (bool, usize)| other.min(distance)));
        }
        nearest.map(|(_, position)| position)
    }

    /// The first position in the rack's list from `from` on that has not been removed.
    fn alive(&mut self, rack: u32, from: usize) -> Option<usize> {
        let next = self.next.get_mut(rack as usize)?;
        let mut found = from;
        while let Some(&after) = next.get(found).filter(|&&after| after != found) {
            found = after;
        }
        let mut at = from;
        while let Some(slot) = next.get_mut(at).filter(|slot| **slot != found) {
            at = std::mem::replace(slot, found);
        }
        self.positions.get(rack as usize)?.get(found).copied()
    }

    /// Takes a member out.
    fn remove(&mut self, rack: u32, position: usize) {
        let Some(positions) = self.positions.get(rack as usize) else { return };
        let Ok(index) = positions.binary_search(&position) else { return };
        if let Some(slot) = self.next.get_mut(rack as usize).and_then(|next| next.get_mut(index)) {
            *slot = index + 1;
        }
    }
}

/// Members in a queue, of which the first one in some rack is asked for.
struct RackQueues {
    /// All that ever were in it, in order.
    all: Vec<u32>,
    /// For each rack its members' positions in that list.
    waiting: Vec<VecDeque<usize>>,
}

impl RackQueues {
    fn of(racks: &RackMatch<'_>, members: &VecDeque<u32>) -> Self {
        let mut queues = Self { all: Vec::new(), waiting: vec![VecDeque::new(); racks.len()] };
        for &rank in members {
            queues.push(racks.rack_of(rank), rank);
        }
        queues
    }

    fn push(&mut self, rack: u32, rank: u32) {
        if let Some(waiting) = self.waiting.get_mut(rack as usize) {
            waiting.push_back(self.all.len());
        }
        self.all.push(rank);
    }

    /// Takes out the first member in one of the racks.
    fn pop_first(&mut self, racks: &[u32]) -> Option<u32> {
        let front = |&rack: &u32| Some((*self.waiting.get(rack as usize)?.front()?, rack));
        let (position, rack) = racks.iter().filter_map(front).min()?;
        self.waiting.get_mut(rack as usize)?.pop_front();
        self.all.get(position).copied()
    }

    /// Those that still have no more than `min`, in order.
    fn into_queue(self, draft: &Draft, min: u32) -> VecDeque<u32> {
        self.all.into_iter().filter(|&rank| draft.size(rank) <= min).collect()
    }
}
