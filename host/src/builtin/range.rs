//! Kafka's `RangeAssignor`, without racks.
//!
//! Each topic by itself: its partitions in order, its subscribers in order, everyone a contiguous range, the first ones
//! one partition more where it doesn't divide.
//!
//! Members `a`, `b`; topics `t` (3 partitions), `u` (3 partitions): `a` gets `t0 t1 u0 u1`, `b` gets `t2 u2`.

use super::order;
use crate::group::Group;
use crate::plan::Plan;

pub(super) fn assign(group: &Group) -> Plan {
    let mut plan = vec![Vec::new(); group.members().len()];
    for (topic, subscribers) in group.topics().iter().zip(order::subscribers(group)) {
        let Ok(members) = u32::try_from(subscribers.len()) else { continue };
        let (Some(quota), Some(extra)) =
            (topic.partitions.checked_div(members), topic.partitions.checked_rem(members))
        else {
            continue;
        };
        let mut next = topic.first;
        for (position, member) in (0..).zip(subscribers) {
            let end = next + quota + u32::from(position < extra);
            if let Some(partitions) = plan.get_mut(member as usize) {
                partitions.extend(next..end);
            }
            next = end;
        }
    }
    Plan::of(plan)
}
