//! Takes from members what they own beyond their quotas.

use crate::blocks;
use crate::level::Portion;

/// How a class's members are thinned out, and room to work in that is used again for each of them.
pub(crate) struct Thinning {
    /// The class's part of each topic.
    counts: Vec<u32>,
    /// The sum of those.
    all: u32,
    ends: Vec<Ends>,
    /// For each partition of a member in which round it would be given up.
    rounds: Vec<u8>,
}

/// Where portions end among 64 numbers.
#[derive(Clone, Copy, Default)]
struct Ends {
    /// A bit for each number that is the first one behind a portion.
    here: u64,
    /// How many portions end before these numbers.
    before: u32,
}

/// Numbers in one of [`Ends`].
const BITS: u32 = u64::BITS;

/// One half in 32.32 fixed point.
const HALF: u64 = 1 << 31;

/// Partitions of this round go: it is before the first one.
const GOES: u8 = 0;

impl Thinning {
    /// For members whose quotas are shares of these topics.
    pub(crate) fn new(portions: &[Portion]) -> Self {
        let behind = portions.last().map_or(0, |portion| portion.numbers.end);
        let mut ends = vec![Ends::default(); behind.div_ceil(BITS) as usize];
        for end in portions.iter().map(|portion| portion.numbers.end) {
            if let Some(ends) = ends.get_mut((end / BITS) as usize) {
                ends.here |= 1 << (end % BITS);
            }
        }
        let mut before = 0;
        for ends in &mut ends {
            ends.before = before;
            before += ends.here.count_ones();
        }
        let counts: Vec<u32> = portions.iter().map(|portion| portion.count).collect();
        Self { all: counts.iter().sum(), counts, ends, rounds: Vec::new() }
    }

    /// What a member keeps of the partitions that it owns, ascending numbers, if it may keep `quota` of them. The others are of the
    /// topics of which it has most beyond its share: at first down to the share rounded, then down to one less, then anything.
    pub(crate) fn thin_out(&mut self, owned: &[u32], quota: u32, member: usize) -> Vec<u32> {
        let above = owned.len().saturating_sub(quota as usize);
        if above == 0 {
            return owned.to_vec();
        }
        let of_round = self.find_rounds(owned, quota);
        // All that is found in rounds before the last one goes, and the rest is taken from those of the last one.
        let (mut last, mut left) = (GOES + 1, above);
        for count in of_round {
            if left <= count {
                break;
            }
            left -= count;
            last += 1;
        }
        // Members start at different places, so that they don't all give up the same topics. Multiples of the golden ratio's
        // fraction are spread evenly, however many there are.
        let turn = u64::from((member as u32).wrapping_mul(0x9E37_79B9));
        let start = ((turn * owned.len() as u64) >> 32) as usize;
        let (before, behind) = self.rounds.split_at_mut(start);
        for round in behind.iter_mut().chain(before).filter(|round| **round == last).take(left) {
            *round = GOES;
        }
        self.kept(owned, last)
    }

    /// Notes for each partition in which round it would be given up, from 1 on; returns how many are of the first two rounds.
    fn find_rounds(&mut self, owned: &[u32], quota: u32) -> [usize; 2] {
        // Rounded up, so that one half is not missed.
        let part = (u64::from(quota) << 32).div_ceil(u64::from(self.all.max(1)));
        let (counts, ends) = (self.counts.as_slice(), self.ends.as_slice());
        let (mut topic, mut rank, mut of_round) = (u32::MAX, 0, [0, 0]);
        self.rounds.resize(owned.len(), GOES);
        blocks::for_each_pair(owned, &mut self.rounds, |number, round| {
            let before = topic;
            topic = ends.get((number / BITS) as usize).map_or(0, |ends| {
                ends.before + (ends.here & (u64::MAX >> (BITS - 1 - number % BITS))).count_ones()
            });
            rank = if topic == before { rank + 1 } else { 0 };
            let count = counts.get(topic as usize).copied().unwrap_or(0);
            let share = ((u64::from(count) * part + HALF) >> 32) as u32;
            // Of a topic's partitions those behind the share go first, then the last one within it.
            let within = share.saturating_sub(rank).min(2);
            of_round[0] += usize::from(within == 0);
            of_round[1] += usize::from(within == 1);
            *round = within as u8 + GOES + 1;
        });
        of_round
    }

    /// Those that would be given up in the last round or later, if at all.
    fn kept(&mut self, owned: &[u32], last: u8) -> Vec<u32> {
        let mut kept = vec![0; owned.len()];
        let mut end = 0;
        blocks::for_each_pair(owned, &mut self.rounds, |number, round| {
            if let Some(slot) = kept.get_mut(end) {
                *slot = number;
            }
            end += usize::from(*round >= last);
        });
        kept.truncate(end);
        kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn portions(sizes: &[u32]) -> Vec<Portion> {
        let mut end = 0;
        let portion = |&count: &u32| {
            end += count;
            Portion { numbers: end - count..end, count }
        };
        sizes.iter().map(portion).collect()
    }

    #[test]
    fn topics_are_thinned_out_to_the_share_rounded_then_to_one_less_then_to_nothing() {
        let mut thinning = Thinning::new(&portions(&[10, 10]));
        let owned = [0, 1, 2, 3, 4, 5, 10, 11];
        assert_eq!(thinning.thin_out(&owned, 8, 0), owned);
        assert_eq!(thinning.thin_out(&owned, 4, 0), [0, 1, 10, 11]);
        assert_eq!(thinning.thin_out(&owned[..4], 1, 0), [0]);
        assert_eq!(thinning.thin_out(&owned, 0, 0), []);
    }

    proptest! {
        #[test]
        fn what_goes_is_of_no_later_round_than_what_stays(
            sizes in prop::collection::vec(1u32..90, 1..30),
            owned in prop::collection::btree_set(0u32..1000, 0..60),
            quota in 0u32..60,
            member: usize,
        ) {
            let portions = portions(&sizes);
            let all: u32 = sizes.iter().sum();
            let owned: Vec<u32> = owned.into_iter().filter(|&number| number < all).collect();
            let kept = Thinning::new(&portions).thin_out(&owned, quota, member);
            prop_assert_eq!(kept.len(), owned.len().min(quota as usize));
            let (mut last, mut first_kept) = (0, u32::MAX);
            for portion in &portions {
                let share = (2 * portion.count * quota + all) / (2 * all);
                let of_topic = owned.iter().filter(|number| portion.numbers.contains(number));
                for (number, rank) in of_topic.zip(0..) {
                    let round = share.saturating_sub(rank).min(2);
                    if kept.contains(number) {
                        first_kept = first_kept.min(round);
                    } else {
                        last = last.max(round);
                    }
                }
            }
            prop_assert!(last <= first_kept, "{} > {}", last, first_kept);
        }
    }
}
