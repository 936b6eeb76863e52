//! How good a draft is.

use super::Field;
use super::draft::Draft;

/// Less is better; of two drafts the first difference counts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quality {
    /// The sum, over all pairs of members, of how many partitions one has more than the other (Java: `getBalanceScore`).
    imbalance: i64,
    /// Partitions that are not in their members' racks.
    mismatches: usize,
    /// Partitions that their owners lose.
    moves: usize,
}

impl Quality {
    pub(super) fn of(field: &Field<'_>, draft: &Draft) -> Self {
        let mut sizes: Vec<i64> = field.members().map(|(rank, _)| i64::from(draft.size(rank))).collect();
        sizes.sort_unstable();
        // In ascending order each is the larger one in as many pairs as come before it, and the smaller one in the others.
        let most = i64::try_from(sizes.len()).unwrap_or(i64::MAX) - 1;
        let pairs = (0i64..).zip(&sizes).map(|(smaller, size)| size * (2 * smaller - most));
        let assigned = (0..field.group.partitions()).map(|partition| (draft.owner(partition), partition));
        Self {
            imbalance: pairs.sum(),
            mismatches: assigned.filter(|&(rank, partition)| !field.in_rack(rank, partition)).count(),
            moves: field.owned().filter(|&(rank, partition)| draft.owner(partition) != rank).count(),
        }
    }
}
