//! The order of members that range and roundrobin share.

use std::cmp::Ordering;

use crate::group::{Group, Member};

/// Indexes of the members in Kafka's order (`AbstractPartitionAssignor.MemberInfo.compareTo`): static members before
/// dynamic ones, static ones by instance id, dynamic ones by member id.
pub(super) fn members(group: &Group) -> Vec<u32> {
    let mut order: Vec<(u32, &Member)> = (0..).zip(group.members()).collect();
    order.sort_by(|(_, a), (_, b)| match (&a.instance_id, &b.instance_id) {
        (Some(a_instance), Some(b_instance)) => {
            java_cmp(a_instance, b_instance).then_with(|| java_cmp(&a.id, &b.id))
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => java_cmp(&a.id, &b.id),
    });
    order.into_iter().map(|(index, _)| index).collect()
}

/// For each topic the members that are subscribed to it, in that order.
pub(super) fn subscribers(group: &Group) -> Vec<Vec<u32>> {
    let mut subscribers = vec![Vec::new(); group.topics().len()];
    for index in members(group) {
        let Some(member) = group.members().get(index as usize) else { continue };
        for &topic in &member.topics {
            if let Some(list) = subscribers.get_mut(topic as usize) {
                list.push(index);
            }
        }
    }
    subscribers
}

/// Java compares strings by UTF-16 units: characters beyond the basic plane come before U+E000..U+FFFF, unlike in UTF-8.
pub(super) fn java_cmp(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_compare_as_in_java() {
        assert_eq!(java_cmp("\u{10000}", "\u{ffff}"), Ordering::Less);
        assert_eq!("\u{10000}".cmp("\u{ffff}"), Ordering::Greater);
        assert_eq!(java_cmp("a", "ab"), Ordering::Less);
    }
}
