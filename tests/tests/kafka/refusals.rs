//! What a real broker refuses is told in words, and healed by the next poll where it can be.

use assignor_host::consumer::{ConsumerError, GroupEvent};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::admin::Resource;
use crate::broker::{Cluster, Options};
use crate::watched::{PATIENCE, SHARED, Watched, properties, share};

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

/// KIP-848: a member of the new protocol makes the broker take the group over, unless it is told not to.
#[test]
fn a_group_that_the_broker_assigns_from_now_on_is_noticed() {
    const TOPIC: &str = "upgraded";
    SHARED.admin().create_topic(TOPIC, 4);
    let ours = Watched::new(properties(&SHARED.bootstrap(), "upgraded", &[]), &[TOPIC]);
    share(&[&ours], 4);
    let new: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", SHARED.bootstrap())
        .set("group.id", "upgraded")
        .set("group.protocol", "consumer")
        .create()
        .unwrap();
    new.subscribe(&[TOPIC]).unwrap();
    let start = std::time::Instant::now();
    let theirs = || new.assignment().unwrap().count();
    while theirs() != 2 || ours.owned().len() != 2 {
        assert!(start.elapsed() < PATIENCE, "{} and {} partitions", theirs(), ours.owned().len());
        // Records and errors are its own affair.
        let _ = new.poll(std::time::Duration::from_millis(50));
    }
    ours.wait("it says so", |seen| {
        let told = |event: &GroupEvent| matches!(event, GroupEvent::Trouble { message } if message.contains("KIP-848"));
        seen.group.iter().any(told).then_some(())
    });
    drop(new);
    ours.close();
}
