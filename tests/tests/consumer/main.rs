//! Consumers against the embedded broker: real sockets, real time, everything but a real Kafka.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests panic as tests do"
)]

mod api;
mod commands;
mod incidents;
mod lag;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assignor_host::builtin::{RANGE, ROUNDROBIN};
use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, EmbeddedBroker};
use assignor_host::{Assignor, CallError, Context, Group, Plan, Protocol};

use support::{PATIENCE, TOPIC, Watched, broker, builtin, consumer, produce, take};

#[test]
fn what_was_committed_is_not_read_again_and_what_was_not_is() {
    let broker = broker(3);
    produce(&broker, 3, 0, 300);
    let manual = [("enable.auto.commit", "false")];

    let first = consumer(&broker, "resume", &manual);
    let taken = take(&first, 300);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 300);
    first.commit().unwrap();
    produce(&broker, 3, 300, 30);
    take(&first, 30);
    first.close().unwrap();
    assert_eq!(first.poll(Duration::ZERO), Err(ConsumerError::Closed));

    let second = consumer(&broker, "resume", &manual);
    let again = take(&second, 30);
    assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), (300..330).collect());
    let metadata = second.group_metadata();
    assert_eq!((metadata.group_id.as_str(), metadata.is_leader), ("resume", true));
    assert_eq!(metadata.strategy.as_deref(), Some(RANGE));
    assert!(metadata.generation > 0 && !metadata.member_id.is_empty());
    assert_eq!(second.assignment()[0].partitions, [0, 1, 2]);
}

#[test]
fn closing_commits_what_was_returned_and_polling_what_was_processed() {
    let broker = broker(1);
    produce(&broker, 1, 0, 10);
    let first = consumer(&broker, "auto", &[("max.poll.records", "4")]);
    assert_eq!(take(&first, 4), [0, 1, 2, 3]);
    first.close().unwrap();
    let second = consumer(&broker, "auto", &[("auto.commit.interval.ms", "50")]);
    assert_eq!(take(&second, 6), [4, 5, 6, 7, 8, 9]);
    drop(second);
    let third = consumer(&broker, "auto", &[]);
    produce(&broker, 1, 10, 1);
    assert_eq!(take(&third, 1), [10]);
}

#[test]
fn members_come_and_go_and_every_partition_has_one_owner() {
    const PARTITIONS: u32 = 12;
    let broker = broker(PARTITIONS);
    let mut group = Watched::new(&broker);
    let strategy = || vec![builtin(ROUNDROBIN)];
    let all = PARTITIONS as usize;

    let a = group.join("a", strategy(), &[]);
    let b = group.join("b", strategy(), &[]);
    group.settled(&["a", "b"], all);
    produce(&broker, PARTITIONS, 0, 600);
    let c = group.join("c", strategy(), &[]);
    let generation = group.settled(&["a", "b", "c"], all);
    assert!(group.assignments[&generation].values().all(|partitions| partitions.len() == 4));
    produce(&broker, PARTITIONS, 600, 600);

    // One leaves: the others take over at once, well before a session could have expired for it.
    assert_eq!(b.name, "b");
    b.leave();
    group.settled(&["a", "c"], all);
    produce(&broker, PARTITIONS, 1200, 600);
    group.consumed_all(1800);

    a.leave();
    c.leave();
    group.assert_single_owners();
}

#[test]
fn a_member_that_stops_polling_leaves_and_comes_back_when_it_polls() {
    let broker = broker(4);
    let mut group = Watched::new(&broker);
    let strategy = || vec![builtin(RANGE)];
    let a = group.join("a", strategy(), &[]);
    let b = group.join("b", strategy(), &[("max.poll.interval.ms", "3000")]);
    group.settled(&["a", "b"], 4);
    b.stop.store(true, Ordering::Relaxed);
    b.thread.join().unwrap();
    group.settled(&["a"], 4);
    let consumer = Arc::clone(&b.consumer);
    let back = std::thread::spawn(move || {
        let start = Instant::now();
        while consumer.assignment().is_empty() {
            assert!(start.elapsed() < PATIENCE);
            consumer.poll(Duration::from_millis(100)).unwrap();
        }
    });
    group.settled(&["a", "b"], 4);
    back.join().unwrap();
    b.consumer.close().unwrap();
    a.leave();
    group.assert_single_owners();
}

/// Runs in two roles: as the test, and as the member in a process of its own that the test kills.
#[test]
fn a_member_that_is_killed_is_replaced_and_nothing_is_lost() {
    const SERVERS: &str = "ASSIGNOR_TEST_SERVERS";
    const NAME: &str = "a_member_that_is_killed_is_replaced_and_nothing_is_lost";
    if let Ok(servers) = std::env::var(SERVERS) {
        // Should the test fail before it kills us.
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(1);
        });
        let mut properties: BTreeMap<String, String> = serde_json::from_str(&servers).unwrap();
        properties.insert("group.id".into(), "watched".into());
        let config = ConsumerConfig::from_properties(properties).unwrap();
        let consumer = Consumer::new(config, vec![builtin(RANGE)], |_| {}).unwrap();
        consumer.subscribe(&[TOPIC]).unwrap();
        loop {
            consumer.poll(Duration::from_millis(100)).unwrap();
        }
    }

    let broker = broker(6);
    let mut group = Watched::new(&broker);
    let a = group.join("a", vec![builtin(RANGE)], &[]);
    group.settled(&["a"], 6);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(SERVERS, serde_json::to_string(&group.properties).unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The victim tells us nothing: its part is what `a` has lost.
    group.settled(&["a"], 3);
    victim.kill().unwrap();
    victim.wait().unwrap();
    produce(&broker, 6, 0, 120);
    group.settled(&["a"], 6);
    group.consumed_all(120);
    a.leave();
}

#[test]
fn more_partitions_are_noticed_by_the_leader() {
    let broker = EmbeddedBroker::start().unwrap();
    let mut group = Watched::new(&broker);
    // A topic that isn't there is looked for again and again, not after metadata.max.age.ms.
    let more = [("allow.auto.create.topics", "false"), ("metadata.max.age.ms", "300000")];
    let a = group.join("a", vec![builtin(RANGE)], &more);
    group.settled(&["a"], 0);
    broker.create_topic(TOPIC, 5).unwrap();
    group.settled(&["a"], 5);
    a.leave();
}

/// Fails in every way that the trait allows.
struct Hopeless;

impl Assignor for Hopeless {
    fn name(&self) -> &str {
        "hopeless"
    }
    fn protocols(&self) -> &[Protocol] {
        &[Protocol::Eager]
    }
    fn subscription(&mut self, _: &Context, _: &[String]) -> Result<assignor_host::Interest, CallError> {
        panic!("on purpose")
    }
    fn assign(&mut self, _: &Context, _: &Group) -> Result<Plan, CallError> {
        Err(CallError::Declined("on purpose".into()))
    }
    fn on_assignment(
        &mut self,
        _: &Context,
        _: &[assignor_host::TopicPartitions],
        _: Option<&[u8]>,
        _: i32,
    ) -> Result<(), CallError> {
        panic!("on purpose")
    }
}

#[test]
fn a_strategy_that_fails_stops_nothing_even_without_a_fallback_of_its_own() {
    let broker = broker(4);
    let mut group = Watched::new(&broker);
    let a = group.join("a", vec![Box::new(Hopeless)], &[]);
    let b = group.join("b", vec![Box::new(Hopeless)], &[]);
    let generation = group.settled(&["a", "b"], 4);
    assert!(group.assignments[&generation].values().all(|partitions| partitions.len() == 2));
    produce(&broker, 4, 0, 40);
    group.consumed_all(40);
    a.leave();
    b.leave();
}

#[test]
fn the_leader_can_ask_for_a_rebalance() {
    let broker = broker(2);
    let mut group = Watched::new(&broker);
    let a = group.join("a", vec![builtin(RANGE)], &[]);
    let before = group.settled(&["a"], 2);
    a.consumer.request_rebalance("the plugin was replaced");
    let after = group.settled(&["a"], 2);
    assert!(after > before);
    a.leave();
}

#[test]
fn a_position_outside_its_partition_is_reset() {
    let broker = broker(1);
    produce(&broker, 1, 0, 5);
    // Another group member's mistake: an offset far behind the end is committed.
    let client: rdkafka::consumer::BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("group.id", "outside")
        .create()
        .unwrap();
    let mut far = rdkafka::TopicPartitionList::new();
    far.add_partition_offset(TOPIC, 0, rdkafka::Offset::Offset(1_000)).unwrap();
    rdkafka::consumer::Consumer::commit(&client, &far, rdkafka::consumer::CommitMode::Sync).unwrap();

    let consumer = consumer(&broker, "outside", &[]);
    assert_eq!(take(&consumer, 5), [0, 1, 2, 3, 4]);
}

#[test]
fn without_a_committed_offset_none_is_an_error() {
    let broker = broker(1);
    let consumer = consumer(&broker, "none", &[("auto.offset.reset", "none")]);
    let start = Instant::now();
    let error = loop {
        match consumer.poll(Duration::from_millis(100)) {
            Ok(records) => assert!(records.is_empty() && start.elapsed() < PATIENCE),
            Err(error) => break error,
        }
    };
    assert_eq!(error, ConsumerError::NoOffset { topic: TOPIC.into(), partition: 0 });
}
