//! The order of members that range and roundrobin share, and who is subscribed to what.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::distinct::Distinct;
use crate::group::{Group, Member};

/// Indexes of the members in Kafka's order (`AbstractPartitionAssignor.MemberInfo.compareTo`): static members before
/// dynamic ones, static ones by instance id, dynamic ones by member id.
pub(super) fn members(group: &Group) -> Vec<u32> {
    ordered(group).into_iter().map(|(index, _)| index).collect()
}

fn ordered(group: &Group) -> Vec<(u32, &Member)> {
    let mut order: Vec<(u32, &Member)> = (0..).zip(group.members()).collect();
    order.sort_by(|(_, a), (_, b)| match (&a.instance_id, &b.instance_id) {
        (Some(a_instance), Some(b_instance)) => {
            java_cmp(a_instance, b_instance).then_with(|| java_cmp(&a.id, &b.id))
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => java_cmp(&a.id, &b.id),
    });
    order
}

/// For each topic the members that are subscribed to it, in that order.
///
/// Topics with the same subscribers share one list. A group has few distinct ones, mostly one: with 10,000 members and 1,000 topics a
/// list for each topic would be most of the work.
pub(super) struct Subscribers {
    /// Indexes of members.
    lists: Vec<Vec<u32>>,
    /// For each topic the index of its list.
    list_of: Vec<u32>,
}

impl Subscribers {
    pub(super) fn of(group: &Group) -> Self {
        // Members with the same topics are of one class: its topics, and the places of its members in the order.
        let order = ordered(group);
        let mut classes: Vec<(&[u32], Vec<u32>)> = Vec::new();
        let mut subscriptions = Distinct::new();
        for (place, (_, member)) in (0u32..).zip(&order) {
            let topics = member.topics.as_slice();
            match classes.get_mut(subscriptions.number(topics)) {
                Some((_, places)) => places.push(place),
                None => classes.push((topics, vec![place])),
            }
        }

        let mut classes_of = vec![Vec::new(); group.topics().len()];
        for (class, (topics, _)) in (0u32..).zip(&classes) {
            for &topic in *topics {
                if let Some(classes) = classes_of.get_mut(topic as usize) {
                    classes.push(class);
                }
            }
        }
        // Topics that the same classes want have the same subscribers.
        let mut lists = Vec::new();
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut list_of = Vec::with_capacity(classes_of.len());
        for wanted_by in classes_of {
            if let Some(&list) = known.get(&wanted_by) {
                list_of.push(list);
                continue;
            }
            let in_classes = wanted_by.iter().filter_map(|&class| classes.get(class as usize));
            let mut places: Vec<u32> = in_classes.flat_map(|(_, places)| places).copied().collect();
            if wanted_by.len() > 1 {
                places.sort_unstable();
            }
            let list = u32::try_from(lists.len()).unwrap_or(u32::MAX);
            let members = places.into_iter().filter_map(|place| Some(order.get(place as usize)?.0));
            lists.push(members.collect());
            known.insert(wanted_by, list);
            list_of.push(list);
        }
        Self { lists, list_of }
    }

    /// The members that are subscribed to a topic.
    pub(super) fn of_topic(&self, topic: usize) -> &[u32] {
        self.list_of.get(topic).map_or(&[], |&list| self.list(list))
    }

    /// The distinct lists.
    pub(super) fn lists(&self) -> &[Vec<u32>] {
        &self.lists
    }

    /// The list of that index.
    pub(super) fn list(&self, list: u32) -> &[u32] {
        self.lists.get(list as usize).map_or(&[], Vec::as_slice)
    }

    /// For each topic the index of its list.
    pub(super) fn list_of(&self) -> &[u32] {
        &self.list_of
    }
}

/// Java compares strings by UTF-16 units: characters beyond the basic plane come before U+E000..U+FFFF, unlike in UTF-8.
pub(super) fn java_cmp(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    a.encode_utf16().cmp(b.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{any_group, group, member};
    use proptest::prelude::*;

    #[test]
    fn strings_compare_as_in_java() {
        assert_eq!(java_cmp("\u{10000}", "\u{ffff}"), Ordering::Less);
        assert_eq!("\u{10000}".cmp("\u{ffff}"), Ordering::Greater);
        assert_eq!(java_cmp("a", "ab"), Ordering::Less);
        assert_eq!(java_cmp("a", "é"), Ordering::Less);
    }

    #[test]
    fn topics_with_the_same_subscribers_share_a_list_however_many_subscriptions_differ() {
        let ids: Vec<String> = (10..60).map(|n| format!("m{n}")).collect();
        let own: Vec<String> = ids.iter().map(|id| format!("own-{id}")).collect();
        let members = ids.iter().zip(&own).map(|(id, own)| member(id, &["s", "t", own], None, &[]));
        let mut topics: Vec<(&str, u32)> = own.iter().map(|topic| (topic.as_str(), 1)).collect();
        topics.extend([("s", 1), ("t", 1)]);
        let subscribers = Subscribers::of(&group(&topics, members.collect()));
        assert_eq!(subscribers.lists().len(), 51);
        assert_eq!(subscribers.of_topic(50), (0..50).collect::<Vec<u32>>());
        assert_eq!(subscribers.of_topic(50), subscribers.of_topic(51));
        assert_eq!(subscribers.of_topic(49), [49]);
    }

    proptest! {
        #[test]
        fn each_topic_has_its_subscribers_in_order(group in any_group()) {
            let subscribers = Subscribers::of(&group);
            for topic in 0..group.topics().len() {
                let wants = |&member: &u32| {
                    group.members()[member as usize].topics.contains(&u32::try_from(topic).unwrap())
                };
                let expected: Vec<u32> = members(&group).into_iter().filter(wants).collect();
                prop_assert_eq!(subscribers.of_topic(topic), expected);
            }
        }
    }
}
