//! Which partitions are somebody's already.

use std::ops::Range;

use crate::blocks;

/// A set of partition numbers. One bit each: few enough to stay near the processor, and free ones are found 64 at a time.
pub(crate) struct Taken {
    words: Vec<u64>,
}

const BITS: u32 = u64::BITS;

impl Taken {
    /// Of `count` partitions none.
    pub(crate) fn none(count: u32) -> Self {
        Self { words: vec![0; count.div_ceil(BITS) as usize] }
    }

    /// Takes partitions of these numbers. Numbers that are no partition's count for nothing.
    pub(crate) fn mark(&mut self, numbers: &[u32]) {
        let words = self.words.as_mut_slice();
        blocks::for_each(numbers, |number| {
            if let Some(word) = words.get_mut((number / BITS) as usize) {
                *word |= 1 << (number % BITS);
            }
        });
    }

    /// Takes the first `most` of these partitions that are free, and appends their numbers to `free`.
    pub(crate) fn take(&mut self, numbers: Range<u32>, most: u32, free: &mut Vec<u32>) {
        let mut left = most;
        let words = (numbers.start / BITS) as usize..numbers.end.div_ceil(BITS) as usize;
        let first = numbers.start - numbers.start % BITS;
        for (word, first) in
            self.words.get_mut(words).into_iter().flatten().zip((first..).step_by(BITS as usize))
        {
            // Of the first and the last word other topics have some bits, too.
            let before = numbers.start.saturating_sub(first);
            let behind = (first + (BITS - 1)).saturating_sub(numbers.end - 1);
            let mut untaken = !*word & (u64::MAX << before) & (u64::MAX >> behind);
            while untaken != 0 && left > 0 {
                let bit = untaken.trailing_zeros();
                untaken &= untaken - 1;
                *word |= 1 << bit;
                free.push(first + bit);
                left -= 1;
            }
            if left == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_free_is_taken_once_in_order(
            taken in prop::collection::vec(0u32..300, 0..300),
            count in 1u32..300,
            range in (0u32..300, 1u32..300),
            most in 0u32..300,
        ) {
            let numbers = range.0.min(count - 1)..(range.0 + range.1).min(count);
            let mut set = Taken::none(count);
            set.mark(&taken);
            let free: Vec<u32> =
                numbers.clone().filter(|number| !taken.contains(number)).take(most as usize).collect();
            let (mut found, mut again) = (Vec::new(), Vec::new());
            set.take(numbers.clone(), most, &mut found);
            prop_assert_eq!(&found, &free);
            set.take(numbers, u32::MAX, &mut again);
            prop_assert!(again.iter().all(|number| !taken.contains(number) && !free.contains(number)));
        }
    }
}
