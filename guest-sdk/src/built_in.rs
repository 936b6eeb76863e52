//! The host's own strategies, for a strategy that refines one of them. Only while [`assign`](crate::Strategy::assign) runs.

use crate::bindings::assignor::strategy::types::Member as RawMember;
use crate::group::Group;
use crate::imports::{Host, Imports};
use crate::plan::Plan;

/// A native strategy did not answer: it does not exist, or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the native strategy {strategy:?} failed: {reason}")]
pub struct BuiltInError {
    /// Its name.
    pub strategy: String,
    /// The host's words.
    pub reason: String,
}

/// The plan of a native strategy (`range`, `roundrobin`, `sticky`, `cooperative-sticky`, `keep`) for the group. It is the full
/// target.
///
/// # Errors
/// If the host has no such strategy, or it failed.
pub fn assign(strategy: &str, group: &Group) -> Result<Plan, BuiltInError> {
    assign_members(strategy, group.raw_members(), &[]).map(Plan::from)
}

/// As [`assign`], for some of the group's members, or changed copies of them ([`Group::raw_members`]), leaving out the
/// partitions whose numbers are in `without`. Gives the numbers of each member's partitions, in the order of `members`.
///
/// # Errors
/// If the host has no such strategy, or it failed.
pub fn assign_members(
    strategy: &str,
    members: &[RawMember],
    without: &[u32],
) -> Result<Vec<Vec<u32>>, BuiltInError> {
    Host::built_in(strategy, members, without)
        .map_err(|reason| BuiltInError { strategy: strategy.into(), reason })
}
