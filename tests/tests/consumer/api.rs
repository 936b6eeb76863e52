//! What a consumer promises its application, besides records.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use assignor_host::TopicPartitions;
use assignor_host::builtin::RANGE;
use assignor_host::consumer::{
    Consumer, ConsumerError, EmbeddedBroker, FieldKind, Json, ListenerContext, OffsetAndMetadata,
    RebalanceListener, Record, Required, Text, TopicPartition, TypedConsumer,
};
use futures_core::Stream;

use crate::support::{PATIENCE, TOPIC, broker, builtin, config, consumer, number, produce, take};

const MANUAL: (&str, &str) = ("enable.auto.commit", "false");

fn partition(number: u32) -> TopicPartition {
    TopicPartition::new(TOPIC, number)
}

fn only(partition: &TopicPartition) -> &[TopicPartition] {
    std::slice::from_ref(partition)
}

/// Polls until `done`, and gives what came.
fn poll_until(consumer: &Consumer, mut done: impl FnMut(&[Record]) -> bool) -> Vec<Record> {
    let start = Instant::now();
    let mut records = Vec::new();
    while !done(&records) {
        assert!(start.elapsed() < PATIENCE, "{} records", records.len());
        records.extend(consumer.poll(Duration::from_millis(100)).unwrap());
    }
    records
}

fn poll_until_assigned(consumer: &Consumer, partitions: usize) {
    poll_until(consumer, |_| TopicPartition::each(&consumer.assignment()).len() == partitions);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The next item of a stream, without any runtime; `None` if there is none within the time.
fn next<S: Stream + Unpin>(stream: &mut S, limit: Duration) -> Option<S::Item> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let end = Instant::now() + limit;
    loop {
        match pin!(&mut *stream).poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(item) => return item,
            Poll::Pending => std::thread::park_timeout(end.saturating_duration_since(Instant::now())),
        }
        if Instant::now() >= end {
            return None;
        }
    }
}

#[test]
fn a_record_that_can_not_be_deserialized_is_named_and_skipping_it_is_the_applications_choice() {
    let broker = broker(1);
    for value in ["1", "2", "three", "4"] {
        broker.produce(TOPIC, 0, Some(b"k"), value.as_bytes()).unwrap();
    }
    broker.flush(PATIENCE).unwrap();
    let typed = TypedConsumer::new(consumer(&broker, "typed", &[]), Text, Required(Json::<u32>::new()));
    let start = Instant::now();
    let mut read = Vec::new();
    let error = loop {
        assert!(start.elapsed() < PATIENCE);
        match typed.poll(Duration::from_millis(100)) {
            Ok(records) => read.extend(records),
            Err(error) => break error,
        }
    };
    assert_eq!(read.iter().map(|r| r.value).collect::<Vec<u32>>(), [1, 2]);
    assert!(read.iter().all(|r| r.key.as_deref() == Some("k")));
    assert!(error.to_string().contains("the value of events-0 at offset 2"), "{error}");
    assert!(error.needs_seek() && !error.is_retriable());
    let ConsumerError::Deserialization(failed) = &error else { panic!("{error}") };
    assert_eq!((failed.field, failed.record.value.as_deref()), (FieldKind::Value, Some(&b"three"[..])));

    assert_eq!(typed.poll(Duration::ZERO).unwrap_err(), error, "every poll says so");
    let failed = failed.record.topic_partition();
    assert_eq!(typed.consumer().position(&failed).unwrap(), 2);
    typed.consumer().seek(&failed, 3).unwrap();
    let mut iter = typed.iter();
    assert_eq!(iter.next().unwrap().unwrap().value, 4);
}

#[test]
fn topics_that_match_a_pattern_are_read_also_those_that_come_later() {
    let broker = broker(1);
    broker.create_topic("orders-eu", 1).unwrap();
    let config = config(&broker.consumer_properties(), "pattern", &[]);
    let consumer = Consumer::new(config, vec![builtin(RANGE)], |_| {}).unwrap();
    consumer.subscribe_pattern("orders-.*").unwrap();
    let owns = |topics: &[&str]| {
        let assignment = consumer.assignment();
        let owned: Vec<&str> = assignment.iter().map(|t| t.topic.as_str()).collect();
        owned == topics
    };
    poll_until(&consumer, |_| owns(&["orders-eu"]));
    assert_eq!(consumer.subscription(), ["orders-eu"]);
    broker.create_topic("orders-us", 1).unwrap();
    broker.create_topic("my-orders-us", 1).unwrap();
    poll_until(&consumer, |_| owns(&["orders-eu", "orders-us"]));
    // A list takes the pattern's place.
    consumer.subscribe(&[TOPIC]).unwrap();
    poll_until(&consumer, |_| owns(&[TOPIC]));
    assert_eq!(consumer.subscription(), [TOPIC]);
    assert_eq!(consumer.subscribe_pattern("(").unwrap_err().code(), "illegal-argument");
}

#[test]
fn positions_can_be_asked_for_and_moved_and_partitions_paused() {
    let broker = broker(2);
    produce(&broker, 2, 0, 200);
    let consumer = consumer(&broker, "moves", &[MANUAL, ("max.poll.records", "10")]);
    let (zero, one) = (partition(0), partition(1));
    let not_assigned = consumer.seek(&zero, 0).unwrap_err();
    assert_eq!(not_assigned.code(), "illegal-state");
    assert!(not_assigned.to_string().contains("events-0"), "{not_assigned}");
    poll_until(&consumer, |records| !records.is_empty());

    consumer.pause(only(&zero)).unwrap();
    assert_eq!(consumer.paused(), only(&zero));
    let held = consumer.position(&zero).unwrap();
    let read = poll_until(&consumer, |_| consumer.position(&one).unwrap() == 100);
    assert!(read.iter().all(|r| r.partition == 1), "nothing of a paused partition");
    assert_eq!(consumer.position(&zero).unwrap(), held);
    assert_eq!(consumer.current_lag(&zero).unwrap(), 100 - u64::try_from(held).unwrap());

    // Back and forth, while records flow: the next one is always the one that was sought.
    consumer.resume(only(&zero)).unwrap();
    for offset in [50, 0, 99, 1, 98, 2, 3] {
        consumer.seek(&zero, offset).unwrap();
        assert_eq!(consumer.position(&zero).unwrap(), offset);
        let read = poll_until(&consumer, |records| !records.is_empty());
        assert_eq!((read[0].partition, read[0].offset), (0, offset));
        assert_eq!(number(&read[0]), u32::try_from(offset).unwrap() * 2);
    }

    let both = [zero.clone(), one.clone()];
    assert_eq!(
        consumer.beginning_offsets(&both).unwrap(),
        BTreeMap::from([(zero.clone(), 0), (one.clone(), 0)])
    );
    assert_eq!(
        consumer.end_offsets(&both).unwrap(),
        BTreeMap::from([(zero.clone(), 100), (one.clone(), 100)])
    );
    consumer.seek_to_end(only(&zero)).unwrap();
    assert_eq!(consumer.position(&zero).unwrap(), 100);
    assert_eq!(consumer.current_lag(&zero).unwrap(), 0);
    consumer.seek_to_beginning(&[]).unwrap();
    assert_eq!((consumer.position(&zero).unwrap(), consumer.position(&one).unwrap()), (0, 0));
    assert_eq!(consumer.seek(&zero, -1).unwrap_err().code(), "illegal-argument");
    assert_eq!(consumer.pause(&[zero, partition(7)]).unwrap_err().code(), "illegal-state");
    assert_eq!(consumer.paused(), []);
}

#[test]
fn offsets_are_committed_as_the_application_says_with_what_it_notes() {
    let broker = broker(2);
    produce(&broker, 2, 0, 20);
    let first = consumer(&broker, "commits", &[MANUAL]);
    let (zero, one) = (partition(0), partition(1));
    // Before it joins, and of what it does not own.
    assert_eq!(first.committed(&[zero.clone(), one.clone()]).unwrap(), BTreeMap::new());
    let noted = OffsetAndMetadata { offset: 3, leader_epoch: None, metadata: "three, said the clerk".into() };
    let explicit = BTreeMap::from([(zero.clone(), noted.clone())]);
    assert_eq!(first.commit_offsets(&explicit).unwrap_err().code(), "commit-failed");
    take(&first, 20);
    first.commit_offsets(&explicit).unwrap();
    // The embedded broker makes up an epoch.
    let told = first.committed(only(&zero)).unwrap().remove(&zero).unwrap();
    assert_eq!((told.offset, told.metadata), (noted.offset, noted.metadata));
    assert_eq!(first.position(&zero).unwrap(), 10, "a commit moves nothing");
    // The last one begun is the one that stays.
    let pending: Vec<_> = (4..8)
        .map(|offset| first.commit_offsets_async(&BTreeMap::from([(zero.clone(), offset.into())])).unwrap())
        .collect();
    pending.into_iter().for_each(|commit| commit.wait().unwrap());
    assert_eq!(first.committed(only(&zero)).unwrap()[&zero].offset, 7);
    // And without offsets it is everything.
    let both = [zero.clone(), one.clone()];
    first.commit_async().unwrap().wait().unwrap();
    let all = first.committed(&both).unwrap();
    assert!(both.iter().all(|p| (all[p].offset, all[p].metadata.as_str()) == (10, "")), "{all:?}");
    let negative = BTreeMap::from([(zero, (-1).into())]);
    assert_eq!(first.commit_offsets(&negative).unwrap_err().code(), "illegal-argument");
}

#[test]
fn a_record_of_a_stream_is_committable_when_the_next_one_is_asked_for() {
    let broker = broker(1);
    produce(&broker, 1, 0, 3);
    let consumer = consumer(&broker, "stream", &[("auto.commit.interval.ms", "20")]);
    let zero = partition(0);
    let mut stream = consumer.stream();
    let committed = || consumer.committed(only(&zero)).unwrap().get(&zero).map_or(0, |c| c.offset);
    for n in 0..3 {
        let record = next(&mut stream, PATIENCE).unwrap().unwrap();
        assert_eq!(record.offset, n);
        assert_eq!(consumer.position(&zero).unwrap(), n + 1);
        // All before it are committed by and by, this one is not.
        let start = Instant::now();
        while committed() < n {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(committed(), n);
    }
    assert!(next(&mut stream, Duration::from_millis(300)).is_none(), "there are no more");
    let start = Instant::now();
    while committed() < 3 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Closed, it ends.
    consumer.close().unwrap();
    assert!(next(&mut stream, PATIENCE).is_none());
}

#[test]
fn a_stream_that_waits_stays_in_the_group_and_one_that_nobody_asks_leaves_it() {
    let broker = broker(1);
    let consumer = consumer(&broker, "patient", &[("max.poll.interval.ms", "3000")]);
    let mut stream = consumer.stream();
    let start = Instant::now();
    while consumer.assignment().is_empty() {
        assert!(start.elapsed() < PATIENCE);
        assert!(next(&mut stream, Duration::from_millis(50)).is_none());
    }
    let generation = consumer.group_metadata().generation;
    assert!(next(&mut stream, Duration::from_millis(4500)).is_none(), "there is nothing to read");
    assert_eq!(consumer.group_metadata().generation, generation, "it was a member all the time");
    let start = Instant::now();
    while !consumer.assignment().is_empty() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
    produce(&broker, 1, 0, 1);
    assert_eq!(next(&mut stream, PATIENCE).unwrap().unwrap().offset, 0, "it is back when it asks");
}

#[test]
fn polls_without_time_are_enough_to_join_and_to_rebalance() {
    let broker = broker(2);
    let first = consumer(&broker, "hasty", &[]);
    let spin = |consumer: &Consumer, partitions: usize| {
        let start = Instant::now();
        while TopicPartition::each(&consumer.assignment()).len() != partitions {
            assert!(start.elapsed() < PATIENCE);
            let poll = Instant::now();
            consumer.poll(Duration::ZERO).unwrap();
            assert!(poll.elapsed() < Duration::from_millis(500), "{:?}", poll.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    spin(&first, 2);
    // Records flow all the time.
    produce(&broker, 2, 0, 20_000);
    let second = consumer(&broker, "hasty", &[("max.poll.records", "1")]);
    std::thread::scope(|scope| {
        scope.spawn(|| spin(&second, 1));
        spin(&first, 1);
    });
}

#[derive(Default)]
struct Count {
    assigned: AtomicU32,
    revoked: AtomicU32,
}

struct Counter(Arc<Count>);

impl RebalanceListener for Counter {
    fn assigned(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        self.0.assigned.fetch_add(1, Ordering::Relaxed);
        // Offsets that the application keeps elsewhere.
        for partition in TopicPartition::each(partitions) {
            consumer.seek(&partition, 5).unwrap();
        }
        assert_eq!(consumer.unsubscribe().unwrap_err(), ConsumerError::InListener);
    }
    fn revoked(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        self.0.revoked.fetch_add(1, Ordering::Relaxed);
        assert!(!partitions.is_empty());
        consumer.commit().unwrap();
    }
}

#[test]
fn unsubscribing_gives_everything_up_at_once_and_a_later_subscription_joins_again() {
    let broker = broker(1);
    produce(&broker, 1, 0, 10);
    let config = config(&broker.consumer_properties(), "comes-and-goes", &[MANUAL]);
    let consumer = Consumer::new(config, vec![builtin(RANGE)], |_| {}).unwrap();
    let count = Arc::new(Count::default());
    let told = || (count.assigned.load(Ordering::Relaxed), count.revoked.load(Ordering::Relaxed));
    consumer.subscribe_with(&[TOPIC], Counter(Arc::clone(&count))).unwrap();
    assert_eq!(take(&consumer, 5), [5, 6, 7, 8, 9], "from where the listener has sought");
    assert_eq!(told(), (1, 0));
    let start = Instant::now();
    consumer.unsubscribe().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!((told(), consumer.assignment().len()), ((1, 1), 0));
    assert_eq!(
        consumer.committed(&[partition(0)]).unwrap()[&partition(0)].offset,
        10,
        "the listener committed"
    );
    assert_eq!(consumer.poll(Duration::ZERO).unwrap_err(), ConsumerError::NotSubscribed);
    assert_eq!(consumer.subscription(), [""; 0]);
    consumer.unsubscribe().unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    produce(&broker, 1, 10, 1);
    assert_eq!(take(&consumer, 1), [10]);
    assert_eq!(told(), (1, 1), "the listener went with its subscription");
}

#[test]
fn without_a_valid_offset_and_a_reset_polls_fail_until_the_application_seeks() {
    let broker = broker(1);
    produce(&broker, 1, 0, 3);
    let consumer = consumer(&broker, "none", &[("auto.offset.reset", "none")]);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < PATIENCE);
        match consumer.poll(Duration::from_millis(100)) {
            Ok(records) => assert_eq!(records, []),
            Err(error) => break error,
        }
    };
    assert_eq!(error, ConsumerError::NoOffset { topic: TOPIC.into(), partition: 0 });
    assert_eq!(consumer.poll(Duration::ZERO).unwrap_err(), error);
    assert_eq!(consumer.position(&partition(0)).unwrap_err(), error);
    consumer.seek(&partition(0), 1).unwrap();
    assert_eq!(take(&consumer, 2), [1, 2]);
    // And where a position turns out to be wrong.
    consumer.seek(&partition(0), 1_000).unwrap();
    let start = Instant::now();
    while consumer.poll(Duration::from_millis(100)).is_ok() {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(consumer.poll(Duration::ZERO).unwrap_err(), error);
    consumer.seek_to_beginning(&[]).unwrap();
    assert_eq!(take(&consumer, 3), [0, 1, 2]);
}

#[test]
fn questions_are_bounded_in_time_and_end_with_the_consumer() {
    let broker = broker(1);
    let short = [("default.api.timeout.ms", "300"), ("allow.auto.create.topics", "false")];
    let consumer = consumer(&broker, "asks", &short);
    let nowhere = TopicPartition::new("nowhere", 0);
    let start = Instant::now();
    let late = consumer.end_offsets(&[nowhere]).unwrap_err();
    assert_eq!(late.code(), "timeout");
    assert!(late.to_string().contains("nowhere-0"), "{late}");
    assert!(start.elapsed() < Duration::from_secs(2));
    poll_until_assigned(&consumer, 1);
    consumer.close().unwrap();
    for code in [
        consumer.end_offsets(&[partition(0)]).unwrap_err().code(),
        consumer.committed(&[partition(0)]).unwrap_err().code(),
        consumer.seek(&partition(0), 0).unwrap_err().code(),
        consumer.position(&partition(0)).unwrap_err().code(),
        consumer.pause(&[partition(0)]).unwrap_err().code(),
        consumer.commit().unwrap_err().code(),
        consumer.unsubscribe().unwrap_err().code(),
        consumer.subscribe_pattern(".*").unwrap_err().code(),
    ] {
        assert_eq!(code, "closed");
    }
    assert!(consumer.iter().next().is_none());
}

#[test]
fn close_is_quick_in_every_state() {
    let broker: EmbeddedBroker = broker(1);
    let fresh = |group: &str| {
        let config = config(&broker.consumer_properties(), group, &[]);
        Consumer::new(config, vec![builtin(RANGE)], |_| {}).unwrap()
    };
    let close = |consumer: &Consumer, state: &str| {
        let start = Instant::now();
        consumer.close().unwrap();
        assert!(start.elapsed() < Duration::from_secs(2), "{state}: {:?}", start.elapsed());
        consumer.close().unwrap();
    };
    close(&fresh("fresh"), "never subscribed");
    let subscribed = fresh("subscribed");
    subscribed.subscribe(&[TOPIC]).unwrap();
    close(&subscribed, "subscribed, never polled");
    let pattern = fresh("pattern-none");
    pattern.subscribe_pattern("nothing-.*").unwrap();
    pattern.poll(Duration::from_millis(50)).unwrap();
    close(&pattern, "a pattern that nothing matches");
    let joining = fresh("joining");
    joining.subscribe(&[TOPIC]).unwrap();
    joining.poll(Duration::from_millis(300)).unwrap();
    close(&joining, "joining");
    let stable = fresh("stable");
    stable.subscribe(&[TOPIC]).unwrap();
    poll_until_assigned(&stable, 1);
    stable.pause(&[partition(0)]).unwrap();
    close(&stable, "stable, paused");
    let left = fresh("left");
    left.subscribe(&[TOPIC]).unwrap();
    poll_until_assigned(&left, 1);
    left.unsubscribe().unwrap();
    close(&left, "unsubscribed");
    let polled = Arc::new(fresh("polled"));
    polled.subscribe(&[TOPIC]).unwrap();
    let inside = Arc::clone(&polled);
    let polls = std::thread::spawn(move || while inside.poll(Duration::from_secs(30)).is_ok() {});
    poll_for(|| !polled.assignment().is_empty());
    close(&polled, "inside a poll");
    polls.join().unwrap();
}

fn poll_for(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}
