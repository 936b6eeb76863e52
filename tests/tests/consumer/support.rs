//! Brokers, members and what is watched of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use assignor_host::Assignor;
use assignor_host::builtin::{Builtin, RANGE};
use assignor_host::consumer::{Consumer, ConsumerConfig, EmbeddedBroker, GroupEvent, Record};

pub(crate) const TOPIC: &str = "events";

/// The longest that a test waits for anything: rebalances of the embedded broker take seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn broker(partitions: u32) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start().unwrap();
    broker.create_topic(TOPIC, partitions).unwrap();
    broker
}

/// Produces `count` records, numbered from `first` on, round all partitions.
pub(crate) fn produce(broker: &EmbeddedBroker, partitions: u32, first: u32, count: u32) {
    for n in first..first + count {
        broker.produce(TOPIC, n % partitions, None, n.to_string().as_bytes()).unwrap();
    }
    broker.flush(PATIENCE).unwrap();
}

pub(crate) fn number(record: &Record) -> u32 {
    String::from_utf8(record.value.clone().unwrap()).unwrap().parse().unwrap()
}

pub(crate) fn config(
    broker: &BTreeMap<String, String>,
    group: &str,
    more: &[(&str, &str)],
) -> ConsumerConfig {
    let mut properties = broker.clone();
    properties.insert("group.id".into(), group.into());
    properties.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    ConsumerConfig::from_properties(properties).unwrap()
}

pub(crate) fn builtin(name: &str) -> Box<dyn Assignor> {
    Box::new(Builtin::by_name(name).unwrap())
}

pub(crate) fn consumer(broker: &EmbeddedBroker, group: &str, more: &[(&str, &str)]) -> Consumer {
    let config = config(&broker.consumer_properties(), group, more);
    let consumer = Consumer::new(config, vec![builtin(RANGE)], |_| {}).unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    consumer
}

/// Polls until so many records have come.
pub(crate) fn take(consumer: &Consumer, count: usize) -> Vec<u32> {
    let start = Instant::now();
    let mut taken = Vec::new();
    while taken.len() < count {
        assert!(start.elapsed() < PATIENCE, "{} of {count} records", taken.len());
        taken.extend(consumer.poll(Duration::from_millis(200)).unwrap().iter().map(number));
    }
    taken
}

/// A member that polls on a thread of its own.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) consumer: Arc<Consumer>,
}

impl Member {
    pub(crate) fn leave(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.consumer.close().unwrap();
    }
}

/// What happened to which member.
pub(crate) type Event = (&'static str, GroupEvent);

/// A group under watch.
pub(crate) struct Watched {
    pub(crate) properties: BTreeMap<String, String>,
    events: (Sender<Event>, Receiver<Event>),
    /// Member and partition of each generation's assignments.
    pub(crate) assignments: BTreeMap<i32, BTreeMap<&'static str, BTreeSet<u32>>>,
    /// The numbers of all records that came.
    pub(crate) consumed: Arc<Mutex<BTreeSet<u32>>>,
}

impl Watched {
    pub(crate) fn new(broker: &EmbeddedBroker) -> Self {
        Self {
            properties: broker.consumer_properties(),
            events: channel(),
            assignments: BTreeMap::new(),
            consumed: Arc::default(),
        }
    }

    pub(crate) fn join(
        &self,
        name: &'static str,
        strategies: Vec<Box<dyn Assignor>>,
        more: &[(&str, &str)],
    ) -> Member {
        let events = self.events.0.clone();
        let config = config(&self.properties, "watched", more);
        let consumer = Consumer::new(config, strategies, move |event| {
            let _ = events.send((name, event.clone()));
        });
        let consumer = Arc::new(consumer.unwrap());
        consumer.subscribe(&[TOPIC]).unwrap();
        let (stop, polled, consumed) =
            (Arc::new(AtomicBool::new(false)), Arc::clone(&consumer), Arc::clone(&self.consumed));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for record in polled.poll(Duration::from_millis(100)).unwrap() {
                    consumed.lock().unwrap().insert(number(&record));
                }
            }
        });
        Member { name, stop, thread, consumer }
    }

    /// Waits until one generation has given each of these members, and nobody else, a part, and `partitions` in all.
    pub(crate) fn settled(&mut self, members: &[&'static str], partitions: usize) -> i32 {
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let (name, event) = self.events.1.recv_timeout(left).unwrap_or_else(|_| {
                panic!("{members:?} did not settle; assignments by generation: {:#?}", self.assignments)
            });
            if let GroupEvent::Assigned { generation, partitions: got, .. } = event {
                let got = got.into_iter().flat_map(|t| t.partitions).collect();
                let generation_of = self.assignments.entry(generation).or_default();
                generation_of.insert(name, got);
                let complete = generation_of.values().map(BTreeSet::len).sum::<usize>() == partitions;
                if complete && generation_of.keys().copied().eq(members.iter().copied()) {
                    return generation;
                }
            }
        }
    }

    /// In no generation a partition had two owners.
    pub(crate) fn assert_single_owners(&self) {
        for (generation, members) in &self.assignments {
            let mut owners = BTreeSet::new();
            for partition in members.values().flatten() {
                assert!(
                    owners.insert(partition),
                    "partition {partition} in generation {generation}: {members:?}"
                );
            }
        }
    }

    /// Waits until records `0..count` have all come.
    pub(crate) fn consumed_all(&self, count: u32) {
        let start = Instant::now();
        while (self.consumed.lock().unwrap().len() as u32) < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count} records", self.consumed.lock().unwrap().len());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert_eq!(self.consumed.lock().unwrap().last(), Some(&(count - 1)));
    }
}
