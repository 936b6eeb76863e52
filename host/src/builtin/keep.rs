//! Our own native fallback: everyone keeps what they validly own, what is left goes to the least loaded eligible member,
//! ties by member id.
//!
//! It exists so that a hiccup of a plugin moves nothing: range or cooperative-sticky would reshuffle a weighted group, and
//! then a second time when the plugin works again. It does not balance what is owned.
//!
//! Members `a` owning `t0 t1 t2` and `b`; topic `t` of 4 partitions: `a` keeps three, `b` gets `t3`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::group::Group;
use crate::plan::Plan;

pub(super) fn assign(group: &Group) -> Plan {
    let mut plan: Vec<Vec<u32>> = group.members().iter().map(|m| m.owned.clone()).collect();
    let mut taken = vec![false; group.partitions() as usize];
    for &partition in plan.iter().flatten() {
        if let Some(taken) = taken.get_mut(partition as usize) {
            *taken = true;
        }
    }
    let mut subscribers = vec![Vec::new(); group.topics().len()];
    for (index, member) in (0u32..).zip(group.members()) {
        for &topic in &member.topics {
            if let Some(list) = subscribers.get_mut(topic as usize) {
                list.push(index);
            }
        }
    }
    for (topic, subscribers) in group.topics().iter().zip(subscribers) {
        let mut free = topic.numbers().filter(|&p| taken.get(p as usize) == Some(&false)).peekable();
        if free.peek().is_none() {
            continue;
        }
        let load = |member: u32| plan.get(member as usize).map_or(0, Vec::len);
        // Members are in the order of their ids, so a tie by index is a tie by id.
        let mut by_load: BinaryHeap<_> =
            subscribers.into_iter().map(|member| Reverse((load(member), member))).collect();
        for partition in free {
            let Some(mut least) = by_load.peek_mut() else { break };
            let Reverse((load, member)) = &mut *least;
            *load += 1;
            if let Some(partitions) = plan.get_mut(*member as usize) {
                partitions.push(partition);
            }
        }
    }
    Plan::of(plan)
}
