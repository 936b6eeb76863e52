//! Kafka's `RangeAssignor`.
//!
//! Each topic by itself: its partitions in order, its subscribers in order, everyone a contiguous range, the first ones
//! one partition more where it doesn't divide.
//!
//! Members `a`, `b`; topics `t` (3 partitions), `u` (3 partitions): `a` gets `t0 t1 u0 u1`, `b` gets `t2 u2`.
//!
//! Where racks matter, members first get partitions that have a replica in their rack, as far as everybody's share allows
//! ([`racks`]): with one replica for each partition, `t0` and `u0` in the rack of `b`, the others in that of `a`, `a` gets
//! `t1 t2 u1 u2`, `b` gets `t0 u0`.

mod racks;
#[cfg(test)]
mod tests;

use self::racks::RackAware;
use super::order::Subscribers;
use crate::group::Group;
use crate::plan::Plan;

/// No member's index, no subscriber's place.
const NOBODY: u32 = u32::MAX;

/// The plan, and whether racks were minded; `prefer_racks` as in [`Builtin::explain`](super::Builtin::explain).
pub(super) fn assign(group: &Group, prefer_racks: bool) -> (Plan, bool) {
    let subscribers = Subscribers::of(group);
    let mut owners = vec![NOBODY; group.partitions() as usize];
    let racked = RackAware::of(group, &subscribers, prefer_racks);
    for (index, topic) in group.topics().iter().enumerate() {
        let members = subscribers.of_topic(index);
        let numbers = topic.first as usize..topic.numbers().end as usize;
        let Some(owners) = owners.get_mut(numbers) else { continue };
        match racked.as_ref().and_then(|racked| racked.places(index)) {
            Some(places) => {
                for (owner, &place) in owners.iter_mut().zip(places) {
                    *owner = members.get(place as usize).copied().unwrap_or(NOBODY);
                }
            }
            None => contiguous(members, owners),
        }
    }
    (to_plan(group.members().len(), &owners), racked.is_some())
}

/// Gives each member a contiguous range.
fn contiguous(members: &[u32], owners: &mut [u32]) {
    let (Some(quota), Some(extra)) =
        (owners.len().checked_div(members.len()), owners.len().checked_rem(members.len()))
    else {
        return;
    };
    let mut rest = owners;
    for (place, &member) in members.iter().enumerate() {
        let share = quota + usize::from(place < extra);
        // Where there are more members than partitions, most get nothing.
        if share == 0 {
            return;
        }
        let Some((range, after)) = rest.split_at_mut_checked(share) else { return };
        range.fill(member);
        rest = after;
    }
}

/// The plan in which each partition has its owner, ascending.
fn to_plan(members: usize, owners: &[u32]) -> Plan {
    let mut counts = vec![0usize; members];
    for &owner in owners {
        if let Some(count) = counts.get_mut(owner as usize) {
            *count += 1;
        }
    }
    let mut plan: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (partition, &owner) in (0u32..).zip(owners) {
        if let Some(partitions) = plan.get_mut(owner as usize) {
            partitions.push(partition);
        }
    }
    Plan::of(plan)
}
