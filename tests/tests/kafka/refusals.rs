//! What a real broker refuses is told in words, and healed by the next poll where it can be.

use std::time::{Duration, Instant};

use assignor_host::consumer::{ConsumerError, GroupEvent};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::admin::Resource;
use crate::broker::{Cluster, Options};
use crate::watched::{PATIENCE, SHARED, Seen, Watched, properties, share};

#[test]
fn a_group_that_is_full_is_entered_when_somebody_leaves() {
    let cluster = Cluster::start(&Options::nodes(1).set("group.max.size", "1"));
    cluster.admin().create_topic("full", 2);
    let properties = || properties(&cluster.bootstrap(), "full", &[]);
    let first = Watched::new(properties(), &["full"]);
    share(&[&first], 2);
    let second = Watched::new(properties(), &["full"]);
    let error = second.wait("it is refused", |seen| seen.errors.first().cloned());
    assert_eq!(error, ConsumerError::GroupFull { group: "full".into() });
    assert!(error.to_string().contains("group.max.size"), "{error}");
    first.close();
    share(&[&second], 2);
    second.close();
}

#[test]
fn a_group_or_topic_that_is_forbidden_is_named_and_tried_again() {
    let admin = SHARED.admin();
    admin.create_topic("allowed", 2);
    admin.create_topic("forbidden", 2);

    let group = admin.forbid(Resource::Group, "forbidden");
    let refused = Watched::new(properties(&SHARED.bootstrap(), "forbidden", &[]), &["allowed"]);
    let error = refused.wait("it is refused", |seen| seen.errors.first().cloned());
    assert_eq!(error, ConsumerError::GroupAuthorization { group: "forbidden".into() });
    assert!(error.to_string().contains("grant READ on the group"), "{error}");
    admin.permit(&group);
    share(&[&refused], 2);
    refused.close();

    let topic = admin.forbid(Resource::Topic, "forbidden");
    let refused = Watched::new(properties(&SHARED.bootstrap(), "allowed", &[]), &["allowed", "forbidden"]);
    let error = refused.wait("it is refused", |seen| seen.errors.first().cloned());
    assert_eq!(error, ConsumerError::TopicAuthorization { topic: "forbidden".into() });
    // What is allowed goes on meanwhile.
    share(&[&refused], 2);
    admin.permit(&topic);
    share(&[&refused], 4);
    refused.close();
}

/// A member of the new protocol, KIP-848's.
fn new_member(group: &str, topic: &str) -> BaseConsumer {
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", SHARED.bootstrap())
        .set("group.id", group)
        .set("group.protocol", "consumer")
        .create()
        .unwrap();
    member.subscribe(&[topic]).unwrap();
    member
}

/// Polls it until that is so. Records and errors are its own affair.
fn poll_until(member: &BaseConsumer, what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}", member.assignment());
        let _ = member.poll(Duration::from_millis(50));
    }
}

fn broker_assigns(seen: &Seen) -> bool {
    seen.group.iter().any(|event| matches!(event, GroupEvent::BrokerAssigns { .. }))
}

/// A member of the new protocol makes the broker take the group over.
#[test]
fn a_group_that_the_broker_assigns_from_now_on_is_noticed() {
    const TOPIC: &str = "upgraded";
    SHARED.admin().create_topic(TOPIC, 4);
    let ours = Watched::new(properties(&SHARED.bootstrap(), TOPIC, &[]), &[TOPIC]);
    share(&[&ours], 4);
    let new = new_member(TOPIC, TOPIC);
    let each_has_two = || new.assignment().unwrap().count() == 2 && ours.owned().len() == 2;
    poll_until(&new, "two partitions each", each_has_two);
    ours.wait("it says so", |seen| broker_assigns(seen).then_some(()));
    drop(new);
    ours.close();
}

/// Unless the group keeps it from that: the new member is refused then, and the group goes on.
#[test]
fn a_group_can_keep_the_broker_from_assigning_it() {
    const TOPIC: &str = "kept";
    SHARED.admin().create_topic(TOPIC, 4);
    let more = [("assignor.block-upgrade", "true")];
    let ours = Watched::new(properties(&SHARED.bootstrap(), TOPIC, &more), &[TOPIC]);
    share(&[&ours], 4);
    let new = new_member(TOPIC, TOPIC);
    // librdkafka says nothing, and tries again and again.
    let refused = format!("Cannot upgrade classic group {TOPIC} to consumer group");
    poll_until(&new, "the broker refuses it", || SHARED.logs().contains(&refused));
    assert_eq!(new.assignment().unwrap().count(), 0);
    assert_eq!((ours.owned().len(), ours.look(broker_assigns)), (4, false));
    drop(new);
    ours.close();
}
