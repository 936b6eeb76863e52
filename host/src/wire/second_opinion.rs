//! The same blobs by the kafka-protocol crate, whose code is generated from Kafka's schemas: what one writes, the other must
//! read.

use bytes::Bytes;
use kafka_protocol::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition as Assigned,
};
use kafka_protocol::messages::consumer_protocol_subscription::{
    ConsumerProtocolSubscription, TopicPartition as Owned,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;

use super::tests_support::{any_topic_partitions, canonical};
use super::{assignment, subscription};
use crate::group::{Subscription, TopicPartitions};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn indexes(partitions: &[u32]) -> Vec<i32> {
    partitions.iter().map(|&p| i32::try_from(p).unwrap()).collect()
}

fn theirs(ours: &Subscription) -> ConsumerProtocolSubscription {
    let owned = |o: &TopicPartitions| {
        Owned::default().with_topic(text(&o.topic).into()).with_partitions(indexes(&o.partitions))
    };
    ConsumerProtocolSubscription::default()
        .with_topics(ours.topics.iter().map(|t| text(t)).collect())
        .with_user_data(ours.user_data.clone().map(Bytes::from))
        .with_owned_partitions(ours.owned.iter().map(owned).collect())
        .with_generation_id(ours.generation.unwrap_or(-1))
        .with_rack_id(ours.rack.as_deref().map(text))
}

/// As the given version carries it: without the fields that came later.
fn lowered(mut subscription: Subscription, version: i16) -> Subscription {
    if version < 3 {
        subscription.rack = None;
    }
    if version < 2 {
        subscription.generation = None;
    }
    if version < 1 {
        subscription.owned.clear();
    }
    subscription
}

fn framed(version: i16, message: &impl Encodable) -> Vec<u8> {
    let mut blob = version.to_be_bytes().to_vec();
    message.encode(&mut blob, version).unwrap();
    blob
}

/// In canonical form already, so that both write the same bytes.
fn any_subscription() -> impl Strategy<Value = Subscription> {
    (
        prop::collection::btree_set("[a-c]{0,3}|\\PC{0,8}", 0..6),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        any_topic_partitions(),
        prop::option::of(0..=i32::MAX),
        prop::option::of("\\PC{1,4}"),
    )
        .prop_map(|(topics, user_data, owned, generation, rack)| Subscription {
            topics: topics.into_iter().collect(),
            user_data,
            owned: canonical(&owned),
            generation,
            rack,
        })
}

proptest! {
    #[test]
    fn subscriptions_are_the_same_bytes_and_read_the_same(ours in any_subscription(), version in 0..=3i16) {
        let ours = lowered(ours, version);
        let blob = framed(version, &theirs(&ours));
        prop_assert_eq!(&subscription::encode(&ours, version).unwrap(), &blob);
        prop_assert_eq!(&subscription::decode(&blob).unwrap(), &ours);
        let mut body = Bytes::from(subscription::encode(&ours, version).unwrap().split_off(2));
        prop_assert_eq!(ConsumerProtocolSubscription::decode(&mut body, version).unwrap(), theirs(&ours));
    }

    #[test]
    fn assignments_are_the_same_bytes_and_read_the_same(
        partitions in any_topic_partitions(),
        user_data in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
    ) {
        let partitions = canonical(&partitions);
        let assigned = |a: &TopicPartitions| {
            Assigned::default().with_topic(text(&a.topic).into()).with_partitions(indexes(&a.partitions))
        };
        let theirs = ConsumerProtocolAssignment::default()
            .with_assigned_partitions(partitions.iter().map(assigned).collect())
            .with_user_data(user_data.clone().map(Bytes::from));
        let blob = framed(3, &theirs);
        prop_assert_eq!(&assignment::encode(&partitions, user_data.as_deref()).unwrap(), &blob);
        prop_assert_eq!(assignment::decode(&blob).unwrap(), (partitions, user_data));
        let mut body = Bytes::from(blob).slice(2..);
        prop_assert_eq!(ConsumerProtocolAssignment::decode(&mut body, 3).unwrap(), theirs);
    }
}
