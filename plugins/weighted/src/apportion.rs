//! Whole numbers in proportion to weights.

/// Splits `total` in proportion to `weights` by the method of largest remainders: each share is its ideal rounded down or up.
///
/// Among those that could be rounded up, the ones for which `prefers_up(index, rounded_down)` holds come first, then the larger
/// remainders, then the earlier ones. Weights that sum to nothing count as equal.
pub(crate) fn apportion(
    total: u32,
    weights: &[f64],
    mut prefers_up: impl FnMut(usize, u32) -> bool,
) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let equal = (f64::from(total) / weights.len().max(1) as f64, sum.is_nan() || sum <= 0.0);
    let mut given = 0;
    let mut shares = Vec::with_capacity(weights.len());
    let mut rests = Vec::with_capacity(weights.len());
    for (index, weight) in weights.iter().enumerate() {
        let ideal = if equal.1 { equal.0 } else { whole(f64::from(total) * weight / sum) };
        // Rounding errors may not add up to more than there is.
        let down = (ideal as u32).min(total - given);
        given += down;
        shares.push(down);
        rests.push((index, ideal.fract() > 0.0, prefers_up(index, down), ideal.fract()));
    }
    let rest = (total - given) as usize;
    if rest > 0 && rest < rests.len() {
        rests.select_nth_unstable_by(rest, |a, b| {
            (b.1, b.2).cmp(&(a.1, a.2)).then(b.3.total_cmp(&a.3)).then(a.0.cmp(&b.0))
        });
    }
    for (index, ..) in rests.iter().take(rest) {
        if let Some(share) = shares.get_mut(*index) {
            *share += 1;
        }
    }
    shares
}

/// A number that misses a whole one by no more than a rounding error is that whole one.
fn whole(ideal: f64) -> f64 {
    let nearest = ideal.round();
    if (ideal - nearest).abs() <= 1e-9 * nearest.max(1.0) { nearest } else { ideal }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_shares_are_exact() {
        assert_eq!(apportion(6, &[1.0, 2.0, 3.0], |_, _| true), [1, 2, 3]);
        assert_eq!(apportion(60, &[0.1, 0.2, 0.3], |_, _| true), [10, 20, 30]);
        assert_eq!(apportion(4, &[1.0], |_, _| false), [4]);
        assert!(apportion(0, &[], |_, _| false).is_empty());
    }

    #[test]
    fn who_prefers_it_is_rounded_up_first_then_the_larger_remainder_then_the_earlier() {
        assert_eq!(apportion(4, &[1.0; 3], |_, _| false), [2, 1, 1]);
        assert_eq!(apportion(4, &[1.0; 3], |index, down| index == 2 && down == 1), [1, 1, 2]);
        assert_eq!(apportion(5, &[1.0, 1.2, 0.9], |_, _| false), [2, 2, 1]);
    }

    #[test]
    fn weights_that_sum_to_nothing_count_as_equal() {
        assert_eq!(apportion(3, &[0.0, 0.0], |_, _| false), [2, 1]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_within_one_of_ideal(
            total in 0u32..200_000,
            weights in prop::collection::vec(1e-3..1e6f64, 1..50),
            bits in any::<u64>(),
        ) {
            let shares = apportion(total, &weights, |index, _| bits >> (index % 64) & 1 == 1);
            prop_assert_eq!(shares.iter().sum::<u32>(), total);
            let sum: f64 = weights.iter().sum();
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!((f64::from(*share) - f64::from(total) * weight / sum).abs() < 1.0 + 1e-6);
            }
        }
    }
}
