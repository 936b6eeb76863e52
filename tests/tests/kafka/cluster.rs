//! The tests' own cluster does what other tests rely on.

use std::time::{Duration, Instant};

use kafka_protocol::messages::{DescribeUserScramCredentialsRequest, MetadataRequest};

use crate::broker::{Cluster, Options};
use crate::wire::Wire;

#[test]
fn nodes_with_racks_are_frozen_killed_stopped_and_come_back_with_what_they_held() {
    let options = Options::nodes(3)
        .racks(&["a", "b", "c"])
        .listener("EXTRA", "SASL_PLAINTEXT")
        .set("sasl.enabled.mechanisms", "SCRAM-SHA-256");
    let options = options
        .set(
            "listener.name.extra.scram-sha-256.sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        )
        .credential("SCRAM-SHA-256=[name=alice,password=secret]");
    let mut cluster = Cluster::start(&options);
    let admin = cluster.admin();
    admin.create_placed("placed", &[&[1, 2], &[2, 3], &[3, 1]]);
    admin.create_topic("plain", 5);
    admin.grow("plain", 7);
    admin.delete_topic("plain");
    let response = admin.call(&MetadataRequest::default().with_topics(None));
    let mut racks: Vec<_> = response.brokers.iter().map(|b| (*b.node_id, b.rack.clone())).collect();
    racks.sort();
    assert_eq!(racks.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(racks.iter().zip(["a", "b", "c"]).all(|((_, rack), wanted)| rack.as_deref() == Some(wanted)));
    let replicas = |topic: &str| {
        let topic =
            response.topics.iter().find(|t| t.name.as_deref().is_some_and(|n| &**n == topic)).unwrap();
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|p| p.partition_index);
        partitions.iter().map(|p| p.replica_nodes.iter().map(|id| **id).collect()).collect::<Vec<Vec<i32>>>()
    };
    assert_eq!(replicas("placed"), [[1, 2], [2, 3], [3, 1]]);

    let users = admin.call(&DescribeUserScramCredentialsRequest::default().with_users(None));
    assert_eq!(users.results.iter().map(|u| &*u.user).collect::<Vec<_>>(), ["alice"]);

    // Frozen, a node answers nothing; thawed, it does.
    let port = cluster.node(2).port("PLAINTEXT");
    let frozen = cluster.node(2).freeze();
    let asked = std::thread::spawn(move || {
        let mut wire = Wire::connect(port).unwrap();
        wire.call(&MetadataRequest::default().with_topics(Some(vec![]))).unwrap();
        Instant::now()
    });
    std::thread::sleep(Duration::from_millis(300));
    let thawed = Instant::now();
    drop(frozen);
    assert!(asked.join().unwrap() >= thawed);

    // What was written stays, and so do the ports.
    cluster.node(1).kill();
    cluster.node(1).start();
    cluster.node(3).stop();
    cluster.node(3).start();
    let response = admin.call(&MetadataRequest::default().with_topics(None));
    assert!(response.topics.iter().any(|t| t.name.as_deref().is_some_and(|n| &**n == "placed")));
    assert!(cluster.servers("EXTRA").split(',').count() == 3 && !cluster.logs().is_empty());
}
