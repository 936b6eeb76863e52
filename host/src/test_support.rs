//! Groups for unit tests.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::group::{Group, MemberSubscription, Subscription, TopicPartitions};

/// A member that subscribes to `topics` and claims `owned` of topic `t` at `generation`.
pub(crate) fn member(
    id: &str,
    topics: &[&str],
    generation: Option<i32>,
    owned: &[u32],
) -> MemberSubscription {
    let owned = vec![TopicPartitions { topic: "t".into(), partitions: owned.to_vec() }];
    let topics = topics.iter().map(|t| (*t).to_owned()).collect();
    let subscription = Subscription { topics, owned, generation, ..Subscription::default() };
    MemberSubscription { member_id: id.into(), instance_id: None, subscription }
}

/// A group of these topics and members.
pub(crate) fn group(topics: &[(&str, u32)], members: Vec<MemberSubscription>) -> Group {
    let counts: BTreeMap<String, u32> = topics.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    Group::new(&counts, members).unwrap()
}

/// Any small group: unequal subscriptions, static and dynamic members, stale and double claims, topics that don't exist.
pub(crate) fn any_group() -> impl Strategy<Value = Group> {
    let topic = prop::sample::select(vec!["a", "b", "c", "t"]);
    let topics = prop::collection::btree_map(topic.clone().prop_map(str::to_owned), 0u32..9, 0..4);
    let owned = prop::collection::vec((topic.clone(), prop::collection::vec(0u32..10, 0..6)), 0..3);
    let member = (
        prop::option::of("[a-c]"),
        prop::collection::vec(topic.prop_map(str::to_owned), 0..4),
        owned,
        prop::option::of(0i32..4),
    )
        .prop_map(|(instance_id, topics, owned, generation)| {
            let owned = owned
                .into_iter()
                .map(|(topic, partitions)| TopicPartitions { topic: topic.into(), partitions })
                .collect();
            let topics = topics.into();
            let subscription = Subscription { topics, owned, generation, ..Subscription::default() };
            MemberSubscription { member_id: String::new(), instance_id, subscription }
        });
    (topics, prop::collection::vec(member, 0..8)).prop_map(|(topics, mut members)| {
        for (index, member) in members.iter_mut().enumerate() {
            member.member_id = format!("m{index}");
        }
        Group::new(&topics, members).unwrap()
    })
}

/// Any small group whose members and partitions are in racks, or not: few racks, so that they match; brokers without one, a rack
/// without brokers, partitions whose replicas aren't known.
pub(crate) fn any_racked_group() -> impl Strategy<Value = Group> {
    let topic = prop::sample::select(vec!["a", "b", "c", "t"]);
    // Few sizes, so that topics are co-partitioned.
    let topics = prop::collection::btree_map(topic.clone().prop_map(str::to_owned), 0u32..7, 0..4);
    let rack = prop::sample::select(vec![None, Some("1"), Some("2"), Some("3"), Some("nowhere")]);
    let subscription = prop_oneof![Just(vec!["a", "b", "c", "t"]), prop::collection::vec(topic, 0..4)];
    let joined = (prop::option::of("[a-c]"), subscription, rack.clone());
    let members = prop::collection::vec(joined, 0..8);
    let brokers = prop::collection::vec(rack.clone(), 4);
    let replicas = prop::collection::vec(prop::collection::vec(1i32..=5, 0..4), 28);
    (topics, members, brokers, replicas).prop_map(|(topics, members, brokers, replicas)| {
        let named = |(index, (instance_id, topics, rack)): (usize, (_, Vec<&str>, Option<&str>))| {
            let mut member = member(&format!("m{index}"), &topics, None, &[]);
            member.instance_id = instance_id;
            member.subscription.rack = rack.map(str::to_owned);
            member
        };
        let members = members.into_iter().enumerate().map(named).collect();
        let brokers = (1..).zip(brokers).filter_map(|(id, rack)| Some((id, rack?.to_owned()))).collect();
        let replicas: BTreeMap<&str, &[Vec<i32>]> =
            ["a", "b", "c", "t"].into_iter().zip(replicas.chunks(7)).collect();
        Group::new(&topics, members).unwrap().with_racks(&brokers, |topic| replicas.get(topic).copied())
    })
}
