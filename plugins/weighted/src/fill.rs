//! Hands free partitions to members that still miss some.

use crate::level::Portion;

/// A member that takes part in the filling.
pub(crate) struct Taker {
    /// Its index in the group.
    pub(crate) member: usize,
    /// How many partitions it still misses, at least one.
    pub(crate) missing: u32,
    /// How many it shall have in the end.
    pub(crate) quota: u32,
}

/// The steps that the slower, more even way may take: some tenths of a millisecond.
const BUDGET: usize = 1 << 18;

/// One slot of time per partition is fine enough for many partitions; fewer get more, at most this many together.
const FINE_SLOTS: usize = 1 << 16;

/// Gives the partitions in `free`, ascending numbers, as many as the takers miss together, by appending to `plan`, where what
/// members keep is, ascending. `portions` are the topics that the takers' quotas are shares of.
pub(crate) fn fill(portions: &[Portion], free: &[u32], takers: &mut [Taker], plan: &mut [Vec<u32>]) {
    if takers.len().saturating_mul(free.len()) <= BUDGET {
        by_shortfall(portions, free, takers, plan);
    } else {
        by_time(free, takers, plan);
    }
}

/// Gives each partition to the taker that falls shortest of its share of the topics so far.
///
/// Of the topics so far, not of this topic alone: who was rounded down in one topic comes first in the next, so that nobody's
/// missing partitions pile up in the last ones.
fn by_shortfall(portions: &[Portion], free: &[u32], takers: &mut [Taker], plan: &mut [Vec<u32>]) {
    let among: u32 = portions.iter().map(|portion| portion.count).sum();
    // Where in what each keeps the next topic begins. What is given here stands behind it.
    let mut places = vec![0; takers.len()];
    let kept: Vec<usize> = takers.iter().map(|taker| (taker.quota - taker.missing) as usize).collect();
    let mut shortfalls = vec![0.0; takers.len()];
    let mut free = free.iter().copied().peekable();
    for Portion { numbers, count } in portions {
        let part = f64::from(*count) / f64::from(among);
        for (((shortfall, place), taker), &kept) in
            shortfalls.iter_mut().zip(&mut places).zip(takers.iter()).zip(&kept)
        {
            let kept =
                plan.get(taker.member).and_then(|partitions| partitions.get(*place..kept)).unwrap_or(&[]);
            let has = kept.iter().take_while(|&&number| number < numbers.end).count();
            *place += has;
            *shortfall += part * f64::from(taker.quota) - has as f64;
        }
        while let Some(number) = free.next_if(|number| numbers.contains(number)) {
            let missing_some =
                shortfalls.iter_mut().zip(takers.iter_mut()).filter(|(_, taker)| taker.missing > 0);
            let Some((shortfall, taker)) =
                missing_some.reduce(|best, next| if *next.0 > *best.0 { next } else { best })
            else {
                return;
            };
            *shortfall -= 1.0;
            taker.missing -= 1;
            if let Some(partitions) = plan.get_mut(taker.member) {
                partitions.push(number);
            }
        }
    }
}

/// Gives each taker partitions at even distances, so that every run of neighbours, and so every topic, is shared in
/// proportion: exactly where the shares are whole numbers, mostly within one otherwise.
///
/// Taker `i` of `n` wants its `j`-th partition at the time `(j + (i + ½) / n) / missing`. All those times are sorted, by
/// counting slots of time since they are evenly spread, and the partitions are handed out in that order. Starting the takers at
/// different times keeps equal ones from all taking at once, which would leave long runs to a heavy one.
fn by_time(free: &[u32], takers: &[Taker], plan: &mut [Vec<u32>]) {
    let count = takers.len() as u64;
    let fine = (FINE_SLOTS / free.len().max(1)).clamp(1, 64);
    // In 2^-32 of a slot: adding is faster than multiplying, and as exact.
    let slots = |index: usize, taker: &Taker| {
        let distance = ((fine * free.len()) as u64) << 32;
        let distance = distance / u64::from(taker.missing);
        let mut time = distance / (2 * count) * (2 * index as u64 + 1);
        (0..taker.missing).map(move |_| {
            let slot = (time >> 32) as usize;
            time += distance;
            slot
        })
    };
    // First how many want each slot, then the place of the first of them.
    let mut places = vec![0u32; fine * free.len()];
    for (index, taker) in takers.iter().enumerate() {
        for slot in slots(index, taker) {
            if let Some(place) = places.get_mut(slot) {
                *place += 1;
            }
        }
    }
    let mut before = 0;
    let mut sum_up = |place: &mut u32| before += std::mem::replace(place, before);
    // In blocks, for in WebAssembly each turn of a loop costs extra.
    let (blocks, rest) = places.as_chunks_mut::<8>();
    for block in blocks {
        block.iter_mut().for_each(&mut sum_up);
    }
    rest.iter_mut().for_each(sum_up);
    for (index, taker) in takers.iter().enumerate() {
        let Some(partitions) = plan.get_mut(taker.member) else { continue };
        partitions.extend(slots(index, taker).filter_map(|slot| {
            let place = places.get_mut(slot)?;
            let number = free.get(*place as usize);
            *place += 1;
            number.copied()
        }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fills topics of these sizes with takers that miss everything; returns the largest distance of a taker's part of a topic
    /// from its proportion.
    fn unevenness(topics: &[u32], missing: &[u32], shortfall: bool) -> f64 {
        let all: u32 = missing.iter().sum();
        let mut first = 0;
        let mut portions = Vec::new();
        for &count in topics {
            portions.push(Portion { numbers: first..first + count, count });
            first += count;
        }
        assert_eq!(first, all);
        let free: Vec<u32> = (0..all).collect();
        let taker = |(member, &missing)| Taker { member, missing, quota: missing };
        let mut takers: Vec<Taker> = missing.iter().enumerate().map(taker).collect();
        let mut plan = vec![Vec::new(); takers.len()];
        if shortfall {
            by_shortfall(&portions, &free, &mut takers, &mut plan);
        } else {
            by_time(&free, &takers, &mut plan);
        }
        let mut given = plan.concat();
        given.sort_unstable();
        assert_eq!(given, free);
        assert!(plan.iter().zip(missing).all(|(partitions, &missing)| partitions.len() == missing as usize));
        let mut worst = 0.0f64;
        for (partitions, &missing) in plan.iter().zip(missing) {
            for Portion { numbers, count } in &portions {
                let has = partitions.iter().filter(|number| numbers.contains(number)).count();
                worst =
                    worst.max((has as f64 - f64::from(*count) * f64::from(missing) / f64::from(all)).abs());
            }
        }
        worst
    }

    proptest! {
        #[test]
        fn both_ways_give_everyone_what_it_misses_spread_over_the_topics(
            mut topics in prop::collection::vec(1u32..60, 1..20),
            missing in prop::collection::vec(1u32..80, 1..20),
        ) {
            // Make the last topic fit, or add one that does.
            let all: u32 = missing.iter().sum();
            while topics.iter().sum::<u32>() > all {
                topics.pop();
            }
            let rest = all - topics.iter().sum::<u32>();
            topics.extend(Some(rest).filter(|&rest| rest > 0));
            let uneven = (unevenness(&topics, &missing, true), unevenness(&topics, &missing, false));
            prop_assert!(uneven.0 < 2.0, "{:?}", uneven);
            prop_assert!(uneven.1 < 3.0, "{:?}", uneven);
        }

        #[test]
        fn whole_shares_are_exact_both_ways(
            sizes in prop::collection::vec(1u32..6, 1..10),
            parts in prop::collection::vec(1u32..9, 1..9),
        ) {
            let unit: u32 = parts.iter().sum();
            let topics: Vec<u32> = sizes.iter().map(|size| size * unit).collect();
            let missing: Vec<u32> = parts.iter().map(|part| part * sizes.iter().sum::<u32>()).collect();
            prop_assert!(unevenness(&topics, &missing, true) < 1e-6);
            prop_assert!(unevenness(&topics, &missing, false) < 1e-6);
        }
    }
}
