//! Consumers of ours within the test's own process, and what is seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, GroupEvent};
use assignor_host::{Assignor, Catalog, Event, Observer};

use crate::broker::{Cluster, Options};
use crate::lines::Partition;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One node that tests share which do it no harm. Rules of access are obeyed; where there are none, everything is allowed.
pub(crate) static SHARED: LazyLock<Cluster> =
    LazyLock::new(|| Cluster::start(&with_rules(Options::nodes(1))));

/// With rules of access.
pub(crate) fn with_rules(options: Options) -> Options {
    options
        .set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .set("allow.everyone.if.no.acl.found", "true")
}

/// What consumers are configured with, unless a test says otherwise.
pub(crate) fn properties(servers: &str, group: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = [
        ("bootstrap.servers", servers),
        ("group.id", group),
        ("session.timeout.ms", "3000"),
        ("heartbeat.interval.ms", "200"),
        ("auto.offset.reset", "earliest"),
        ("metadata.max.age.ms", "1000"),
    ];
    all.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Everything that was seen of a consumer.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) group: Vec<GroupEvent>,
    pub(crate) strategy: Vec<Event>,
    pub(crate) errors: Vec<ConsumerError>,
    pub(crate) records: usize,
}

/// A consumer that polls on a thread of its own until it is closed or dropped.
pub(crate) struct Watched {
    pub(crate) consumer: Arc<Consumer>,
    seen: Arc<Mutex<Seen>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watched {
    /// With the strategies that the properties name.
    pub(crate) fn new(properties: BTreeMap<String, String>, topics: &[&str]) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let noted = Arc::clone(&seen);
        let observer: Observer = Arc::new(move |event| noted.lock().unwrap().strategy.push(event.clone()));
        let catalog = Catalog::from_properties(&properties, &observer).unwrap();
        Self::start(properties, catalog.assignors(), topics, seen)
    }

    /// With this strategy.
    pub(crate) fn running(
        properties: BTreeMap<String, String>,
        strategy: Box<dyn Assignor>,
        topics: &[&str],
    ) -> Self {
        Self::start(properties, vec![strategy], topics, Arc::default())
    }

    fn start(
        properties: BTreeMap<String, String>,
        strategies: Vec<Box<dyn Assignor>>,
        topics: &[&str],
        seen: Arc<Mutex<Seen>>,
    ) -> Self {
        let noted = Arc::clone(&seen);
        let config = ConsumerConfig::from_properties(properties).unwrap();
        let observer = move |event: &GroupEvent| noted.lock().unwrap().group.push(event.clone());
        let consumer = Arc::new(Consumer::new(config, strategies, observer).unwrap());
        consumer.subscribe(topics).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (polled, noted, stop) = (Arc::clone(&consumer), Arc::clone(&seen), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match polled.poll(Duration::from_millis(50)) {
                    Ok(records) => noted.lock().unwrap().records += records.len(),
                    Err(error) => {
                        noted.lock().unwrap().errors.push(error);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            }
        });
        Self { consumer, seen, ended, thread: Some(thread) }
    }

    /// Waits until something is seen.
    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut(&Seen) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let (found, told) = {
                let seen = self.seen.lock().unwrap();
                let late = start.elapsed() > PATIENCE;
                (look(&seen), late.then(|| format!("{:#?}\n{:#?}", seen.group, seen.errors)))
            };
            if let Some(found) = found {
                return found;
            }
            assert!(told.is_none(), "{what}: not within {PATIENCE:?}: {}", told.unwrap_or_default());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What has been seen up to now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }

    /// What it owns now.
    pub(crate) fn owned(&self) -> BTreeSet<Partition> {
        let topics = self.consumer.assignment();
        topics.iter().flat_map(|t| t.partitions.iter().map(|&p| (t.topic.clone(), p))).collect()
    }

    /// Leaves the group.
    pub(crate) fn close(mut self) {
        self.end();
        self.consumer.close().unwrap();
    }

    fn end(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until these consumers own so many partitions, none of them twice.
pub(crate) fn share(members: &[&Watched], partitions: usize) {
    let start = Instant::now();
    loop {
        let owned: Vec<Partition> = members.iter().flat_map(|member| member.owned()).collect();
        let distinct: BTreeSet<&Partition> = owned.iter().collect();
        let everyone = members.iter().all(|member| !member.owned().is_empty());
        if everyone && owned.len() == partitions && distinct.len() == partitions {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{owned:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
