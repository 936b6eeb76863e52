//! Kafka's `RoundRobinAssignor`.
//!
//! All partitions in order of topic and index, all members in a circle; one cursor goes on across topics and skips members
//! that aren't subscribed.
//!
//! Members `a`, `b`; topics `t` (3 partitions), `u` (3 partitions): `a` gets `t0 t2 u1`, `b` gets `t1 u0 u2`.

use super::order::{self, Subscribers};
use crate::group::Group;
use crate::plan::Plan;

pub(super) fn assign(group: &Group) -> Plan {
    let order = order::members(group);
    // The place of each member in the circle.
    let mut place = vec![0u32; order.len()];
    for (position, &member) in (0..).zip(&order) {
        if let Some(slot) = place.get_mut(member as usize) {
            *slot = position;
        }
    }
    let mut plan = vec![Vec::new(); group.members().len()];
    // The place where the search for the next subscriber starts.
    let mut cursor = 0u32;
    let subscribers = Subscribers::of(group);
    for (index, topic) in group.topics().iter().enumerate() {
        let subscribers = subscribers.of_topic(index);
        let place_of = |member: u32| place.get(member as usize).copied().unwrap_or_default();
        // Subscribers are in the circle's order: the first at or after the cursor, or the first of all.
        let start = subscribers.partition_point(|&member| place_of(member) < cursor);
        let mut turn = subscribers.iter().cycle().skip(start);
        for partition in topic.numbers() {
            let Some(&member) = turn.next() else { break };
            if let Some(partitions) = plan.get_mut(member as usize) {
                partitions.push(partition);
            }
            cursor = place_of(member) + 1;
        }
    }
    Plan::of(plan)
}
