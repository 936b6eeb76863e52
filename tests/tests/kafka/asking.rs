//! What an application asks of a consumer, where only a real broker has the answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use assignor_host::Catalog;
use assignor_host::consumer::{
    Consumer, ConsumerConfig, OffsetAndMetadata, Record, Text, TopicPartition, TypedConsumer,
};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::watched::{PATIENCE, SHARED, properties};

fn consumer(group: &str, more: &[(&str, &str)]) -> Consumer {
    let properties = properties(&SHARED.bootstrap(), group, more);
    let catalog = Catalog::from_properties(&properties, &(std::sync::Arc::new(|_: &_| {}) as _)).unwrap();
    let config = ConsumerConfig::from_properties(properties).unwrap();
    Consumer::new(config, catalog.assignors(), |_| {}).unwrap()
}

fn producer(more: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", SHARED.bootstrap());
    for (key, value) in more {
        config.set(*key, *value);
    }
    config.create().unwrap()
}

/// Produces a record of this time, in milliseconds since 1970.
fn produce(producer: &BaseProducer, topic: &str, value: &str, time: i64) {
    let record = BaseRecord::<(), str>::to(topic).partition(0).payload(value).timestamp(time);
    producer.send(record).map_err(|(e, _)| e).unwrap();
    producer.flush(PATIENCE).unwrap();
}

fn poll_until(consumer: &Consumer, mut done: impl FnMut(&[Record]) -> bool) -> Vec<Record> {
    let start = Instant::now();
    let mut records = Vec::new();
    while !done(&records) {
        assert!(start.elapsed() < PATIENCE, "{} records", records.len());
        records.extend(consumer.poll(Duration::from_millis(100)).unwrap());
    }
    records
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_pattern_that_matches_all_leaves_kafkas_own_topics_out_unless_told_otherwise() {
    let admin = SHARED.admin();
    admin.create_topic("matched-1", 1);
    // The broker has its own topic of offsets once a group has committed.
    let first = consumer("matches", &[]);
    first.subscribe(&["matched-1"]).unwrap();
    poll_until(&first, |_| !first.assignment().is_empty());
    let one = TopicPartition::new("matched-1", 0);
    first.commit_offsets(&BTreeMap::from([(one, 0.into())])).unwrap();

    first.subscribe_pattern(".*").unwrap();
    let knows = |consumer: &Consumer, topic: &str| consumer.subscription().iter().any(|t| t == topic);
    poll_until(&first, |_| knows(&first, "matched-1"));
    assert!(!knows(&first, "__consumer_offsets"));
    let internal = consumer("matches-all", &[("exclude.internal.topics", "false")]);
    internal.subscribe_pattern("__.*|matched-.*").unwrap();
    poll_until(&internal, |_| knows(&internal, "__consumer_offsets"));

    admin.create_topic("matched-2", 1);
    let owns = |topic: &str| internal.assignment().iter().any(|t| t.topic == topic);
    poll_until(&internal, |_| owns("matched-2"));
    admin.delete_topic("matched-2");
    poll_until(&internal, |_| !owns("matched-2") && owns("matched-1"));
}

#[test]
fn offsets_are_found_by_time_and_a_reset_by_duration_begins_at_records_that_are_no_older() {
    const TOPIC: &str = "timed";
    const HOUR: i64 = 3_600_000;
    SHARED.admin().create_topic(TOPIC, 1);
    let (zero, now) = (TopicPartition::new(TOPIC, 0), now_ms());
    let producer = producer(&[]);
    for (value, hours) in [("old", 50), ("yesterday", 20), ("today", 2)] {
        produce(&producer, TOPIC, value, now - hours * HOUR);
    }
    let reader = consumer("timed", &[("auto.offset.reset", "by_duration:P1D")]);
    let at = |hours: i64| {
        let found = reader.offsets_for_times(&BTreeMap::from([(zero.clone(), now - hours * HOUR)])).unwrap();
        found.get(&zero).map(|place| (place.offset, place.timestamp_ms))
    };
    assert_eq!(at(60), Some((0, now - 50 * HOUR)));
    assert_eq!(at(20), Some((1, now - 20 * HOUR)));
    assert_eq!(at(10), Some((2, now - 2 * HOUR)));
    assert_eq!(at(1), None, "there is none so young");

    reader.subscribe(&[TOPIC]).unwrap();
    let typed = TypedConsumer::new(&reader, Text, Text);
    let mut values = typed.iter().map(|record| record.unwrap().value.unwrap());
    assert_eq!(values.next().as_deref(), Some("yesterday"));
    assert_eq!(values.next().as_deref(), Some("today"));
    drop(values);
    let young = consumer("timed-young", &[("auto.offset.reset", "by_duration:PT1H")]);
    young.subscribe(&[TOPIC]).unwrap();
    poll_until(&young, |_| !young.assignment().is_empty());
    assert_eq!(young.position(&zero).unwrap(), 3, "none is so young: the end");
}

#[test]
fn a_commit_keeps_what_the_application_notes_and_an_open_transaction_holds_back_end_and_lag() {
    const TOPIC: &str = "noted";
    SHARED.admin().create_topic(TOPIC, 1);
    let zero = TopicPartition::new(TOPIC, 0);
    produce(&producer(&[]), TOPIC, "plain", now_ms());
    let transactional = producer(&[("transactional.id", "noted")]);
    transactional.init_transactions(PATIENCE).unwrap();
    transactional.begin_transaction().unwrap();
    produce(&transactional, TOPIC, "open", now_ms());

    let committed =
        consumer("noted", &[("isolation.level", "read_committed"), ("enable.auto.commit", "false")]);
    committed.subscribe(&[TOPIC]).unwrap();
    let read = poll_until(&committed, |records| !records.is_empty());
    assert_eq!(read.len(), 1);
    assert_eq!(committed.end_offsets(std::slice::from_ref(&zero)).unwrap()[&zero], 1);
    assert_eq!(committed.current_lag(&zero).unwrap(), 0);
    let uncommitted = consumer("noted-all", &[]);
    assert_eq!(uncommitted.end_offsets(std::slice::from_ref(&zero)).unwrap()[&zero], 2);
    transactional.abort_transaction(PATIENCE).unwrap();
    poll_until(&committed, |_| committed.position(&zero).is_ok_and(|position| position >= 1));

    let noted = OffsetAndMetadata { offset: 1, leader_epoch: Some(0), metadata: "ä note".into() };
    let explicit = BTreeMap::from([(zero.clone(), noted)]);
    committed.commit_offsets(&explicit).unwrap();
    assert_eq!(committed.committed(std::slice::from_ref(&zero)).unwrap(), explicit);
    let too_much = OffsetAndMetadata { metadata: "x".repeat(5_000), ..1.into() };
    let refused = committed.commit_offsets(&BTreeMap::from([(zero, too_much)])).unwrap_err();
    assert!(refused.to_string().contains("OffsetMetadataTooLarge"), "{refused}");
}
