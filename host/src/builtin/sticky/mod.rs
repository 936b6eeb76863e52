//! Kafka's `StickyAssignor` and `CooperativeStickyAssignor` (`AbstractStickyAssignor`): as even as can be, and of all even
//! plans one that moves few partitions.
//!
//! Both share this core. They differ in where members tell what they own, which is settled before (`Member::owned`), and in
//! what is held back for a round under the cooperative protocol, which is done after ([`withhold`](crate::plan::withhold)).
//!
//! - All members ask for the same topics: [`uniform`]. Everyone keeps what they own up to their share, the rest is dealt out.
//! - Else: [`general`]. Everyone keeps all that they own, the rest goes to the least loaded, then [`balance`] moves single
//!   partitions as long as that evens out the plan.
//!
//! With racks (KIP-881) an owned partition is kept only if a replica of it is in the owner's rack, and what is dealt out goes
//! first to members in one of its racks. Kafka does so in each rebalance, and where some partition can't be in its owner's rack the
//! group may never come to rest. So a second plan is made in which owners keep such partitions as well, and it is the one if it
//! is better: first in balance, then in racks, then in partitions that move. It is the plan in force if that can't be bettered.
//!
//! Where Java's plan depends on the order of a hash map, ours takes members and partitions in an order of their own, so that a
//! group has one plan. Where it doesn't, ours is the same.
//!
//! Members `a` owning `t0 t1 t2 t3` and `b`, new; topic `t` of 4 partitions: `a` keeps `t0 t1`, `b` gets `t2 t3`.

mod balance;
mod cohorts;
mod draft;
mod general;
mod quality;
mod racks;
#[cfg(test)]
mod tests;
mod uniform;

use super::order::java_cmp;
use crate::group::{Group, Member};
use crate::plan::Plan;
use draft::Draft;
use quality::Quality;
use racks::RackMatch;

/// Which of Kafka's two algorithms made a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StickyPath {
    /// For members that all ask for the same topics (`ConstrainedAssignmentBuilder`).
    Uniform,
    /// For all others (`GeneralAssignmentBuilder`).
    General,
}

/// The plan, by which algorithm, and whether racks were minded; `prefer_racks` as in
/// [`Builtin::explain`](super::Builtin::explain).
pub(super) fn assign(group: &Group, prefer_racks: bool) -> (Plan, StickyPath, bool) {
    let order = order(group);
    let racks = RackMatch::of(group, &order, prefer_racks);
    let mut field = Field { group, order, racks, clinging: false };
    let path = if group.same_subscription() { StickyPath::Uniform } else { StickyPath::General };
    let mut draft = field.draft(path);
    let elsewhere = |(rank, partition)| !field.in_rack(rank, partition);
    if field.racks.is_some() && field.owned().any(elsewhere) {
        field.clinging = true;
        let clinging = field.draft(path);
        if Quality::of(&field, &clinging) < Quality::of(&field, &draft) {
            draft = clinging;
        }
    }
    let plan = Plan::of(draft.into_assignments(&field.order));
    (plan, path, field.racks.is_some())
}

/// What is dealt with: a group, its members by rank.
///
/// A member's rank is its place in Kafka's order of ids. Everything in this module speaks of members by rank, so that a tie by
/// rank is a tie by id.
struct Field<'a> {
    group: &'a Group,
    /// The index within the group of the member of each rank.
    order: Vec<u32>,
    /// If racks are minded.
    racks: Option<RackMatch<'a>>,
    /// Owners keep partitions that are not in their racks as well.
    clinging: bool,
}

impl<'a> Field<'a> {
    /// The members by rank.
    fn members(&self) -> impl Iterator<Item = (u32, &'a Member)> + '_ {
        let member = |&index: &u32| self.group.members().get(index as usize);
        (0..).zip(self.order.iter().filter_map(member))
    }

    /// What members own, each with its owner's rank.
    fn owned(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.members().flat_map(|(rank, member)| member.owned.iter().map(move |&partition| (rank, partition)))
    }

    /// Who gets what.
    fn draft(&self, path: StickyPath) -> Draft {
        let mut draft = Draft::new(self.group.partitions(), self.order.len());
        match path {
            StickyPath::Uniform => uniform::assign(self, &mut draft),
            StickyPath::General => general::assign(self, &mut draft),
        }
        draft
    }

    /// Whether the owner may keep the partition.
    fn may_keep(&self, rank: u32, partition: u32) -> bool {
        self.clinging || self.in_rack(rank, partition)
    }

    /// Whether racks don't speak against giving the partition to the member.
    fn in_rack(&self, rank: u32, partition: u32) -> bool {
        self.racks.as_ref().is_none_or(|racks| racks.fits(rank, partition))
    }
}

/// Indexes of the members in the order of their ids, as Java compares strings.
fn order(group: &Group) -> Vec<u32> {
    let members = group.members();
    let mut order: Vec<u32> = (0..).take(members.len()).collect();
    // The group's order is that of bytes. The two differ only beyond the basic plane, whose characters take four bytes.
    if members.iter().any(|m| m.id.bytes().any(|b| b >= 0xf0)) {
        let id = |index: u32| members.get(index as usize).map_or("", |m| m.id.as_str());
        order.sort_by(|&a, &b| java_cmp(id(a), id(b)));
    }
    order
}
