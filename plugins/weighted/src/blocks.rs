//! Loops over many numbers, a block of them in each turn.
//!
//! Each turn of a loop costs extra in WebAssembly, for there the host may interrupt it: what is done for each owned partition is
//! done in few turns, each over several of them, without loops inside.

/// Numbers in one turn.
const BLOCK: usize = 8;

/// Does something with each number.
pub(crate) fn for_each(numbers: &[u32], mut f: impl FnMut(u32)) {
    let (blocks, rest) = numbers.as_chunks::<BLOCK>();
    for block in blocks {
        block.iter().for_each(|&number| f(number));
    }
    rest.iter().for_each(|&number| f(number));
}

/// Does something with each pair, as far as both lists reach.
pub(crate) fn for_each_pair<T>(numbers: &[u32], others: &mut [T], mut f: impl FnMut(u32, &mut T)) {
    let ((blocks, rest), (others, rest_of_others)) =
        (numbers.as_chunks::<BLOCK>(), others.as_chunks_mut::<BLOCK>());
    for (block, others) in blocks.iter().zip(others) {
        block.iter().zip(others).for_each(|(&number, other)| f(number, other));
    }
    rest.iter().zip(rest_of_others).for_each(|(&number, other)| f(number, other));
}

/// Whether two lists are equal.
pub(crate) fn equal(a: &[u32], b: &[u32]) -> bool {
    let ((blocks_a, rest_a), (blocks_b, rest_b)) = (a.as_chunks::<BLOCK>(), b.as_chunks::<BLOCK>());
    let differ =
        |a: &[u32; BLOCK], b: &[u32; BLOCK]| a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len()
        && blocks_a.iter().zip(blocks_b).all(|(a, b)| differ(a, b) == 0)
        && rest_a.iter().eq(rest_b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_left_out(numbers in prop::collection::vec(any::<u32>(), 0..40), other in any::<prop::sample::Index>()) {
            let mut seen = Vec::new();
            for_each(&numbers, |number| seen.push(number));
            prop_assert_eq!(&seen, &numbers);
            let mut copy = vec![0; numbers.len()];
            for_each_pair(&numbers, &mut copy, |number, copy| *copy = number);
            prop_assert_eq!(&copy, &numbers);
            prop_assert!(equal(&numbers, &copy));
            prop_assert!(!equal(&numbers, &[numbers.as_slice(), &[1]].concat()));
            if !copy.is_empty() {
                let place = other.index(copy.len());
                copy[place] ^= 1;
                prop_assert!(!equal(&numbers, &copy));
            }
        }
    }
}
