//! A group on a real cluster, with a producer that never stops and a ledger that misses nothing: what disturbances are played on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::admin::Admin;
use crate::broker::{Cluster, Options};
use crate::ledger::{Book, Ledger, Mark};
use crate::lines::{Partition, now};
use crate::member::{Member, Program, Start};
use crate::producer::Producer;
use crate::proxy::Proxy;

/// The longest that a group may take to be at rest again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a session lasts, in milliseconds.
pub(crate) const SESSION_MS: u64 = 2_000;

/// The listener that leads through the proxy.
const PROXIED: &str = "PROXIED";

/// The topic that is always there.
pub(crate) const ORDERS: &str = "orders";
pub(crate) const ORDERS_PARTITIONS: u32 = 12;
/// One that comes and goes.
pub(crate) const EXTRA: &str = "extra";
pub(crate) const EXTRA_PARTITIONS: u32 = 3;

/// How the group is made up.
#[derive(Clone)]
pub(crate) struct Cast {
    pub(crate) program: Program,
    /// The value of `partition.assignment.strategy`, and whatever else the members are configured with.
    pub(crate) properties: Vec<(String, String)>,
    /// How many members there are between disturbances.
    pub(crate) members: usize,
    /// How many nodes the cluster has.
    pub(crate) nodes: usize,
}

impl Cast {
    /// Three members of ours on one node.
    pub(crate) fn ours(strategy: &str, properties: &[(&str, &str)]) -> Self {
        let list = [("partition.assignment.strategy", strategy)];
        let properties = list.iter().chain(properties).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Self { program: Program::Ours, properties: properties.collect(), members: 3, nodes: 1 }
    }
}

pub(crate) struct Stage {
    // In this order they end: members before the broker they talk to.
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) producer: Producer,
    pub(crate) ledger: Ledger,
    /// One before each node.
    proxies: Vec<Proxy>,
    pub(crate) admin: Admin,
    pub(crate) cast: Cast,
    /// What the members subscribe to, and how many partitions each topic has.
    pub(crate) topics: BTreeMap<String, u32>,
    joined: usize,
    log: PathBuf,
    pub(crate) cluster: Cluster,
    /// Processes and clusters of one test at a time: each has its own share of the machine.
    _turn: MutexGuard<'static, ()>,
}

/// The group's name.
pub(crate) const GROUP: &str = "stage";

impl Stage {
    /// The curtain rises: a cluster of its own, topics, a producer, and members at rest.
    pub(crate) fn new(cast: Cast) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed is over, too.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let proxies: Vec<Proxy> = (0..cast.nodes).map(|_| Proxy::new()).collect();
        let ports: Vec<u16> = proxies.iter().map(Proxy::port).collect();
        let mut cluster = Cluster::start(&Options::nodes(cast.nodes).proxied(PROXIED, "PLAINTEXT", &ports));
        for (id, proxy) in (1..).zip(&proxies) {
            proxy.forward(cluster.node(id).port(PROXIED));
        }
        let admin = cluster.admin();
        let topics =
            BTreeMap::from([(ORDERS.to_owned(), ORDERS_PARTITIONS), (EXTRA.to_owned(), EXTRA_PARTITIONS)]);
        let ledger = Ledger::default();
        let producer = Producer::start(&cluster.bootstrap(), ledger.clone(), Duration::from_millis(25));
        let log = cluster.folder().join("members.log");
        let mut stage = Self {
            members: BTreeMap::new(),
            producer,
            ledger,
            proxies,
            admin,
            cast,
            topics,
            joined: 0,
            log,
            cluster,
            _turn: turn,
        };
        for (topic, partitions) in stage.topics.clone() {
            stage.admin.create_topic(&topic, partitions);
            stage.producer.topic(&topic, partitions);
        }
        stage.restore();
        stage
    }

    /// The partitions that the group reads.
    pub(crate) fn partitions(&self) -> BTreeSet<Partition> {
        self.topics.iter().flat_map(|(topic, &count)| (0..count).map(|p| (topic.clone(), p))).collect()
    }

    /// Brings one more member into being, ready to be told to start.
    pub(crate) fn prepare(&mut self, more: &[(&str, &str)]) -> String {
        self.joined += 1;
        let name = format!("m{}", self.joined);
        let mut properties: BTreeMap<String, String> = [
            ("bootstrap.servers", self.cluster.bootstrap()),
            ("group.id", GROUP.to_owned()),
            ("client.id", name.clone()),
            ("session.timeout.ms", SESSION_MS.to_string()),
            ("heartbeat.interval.ms", "300".to_owned()),
            ("max.poll.interval.ms", "6000".to_owned()),
            ("auto.offset.reset", "earliest".to_owned()),
            ("auto.commit.interval.ms", "200".to_owned()),
            ("metadata.max.age.ms", "1000".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        properties.extend(self.cast.properties.iter().cloned());
        properties.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let topics: Vec<&str> = self.topics.keys().map(String::as_str).collect();
        let start = Start {
            program: &self.cast.program,
            name: &name,
            topics: &topics.join(","),
            properties,
            log: &self.log,
        };
        self.members.insert(name.clone(), Member::new(start, &self.ledger));
        name
    }

    /// One more member joins.
    pub(crate) fn join(&mut self, more: &[(&str, &str)]) -> String {
        let name = self.prepare(more);
        self.members[&name].ready();
        self.members[&name].tell("start");
        name
    }

    /// One more member joins, which reaches its broker through the proxy.
    pub(crate) fn join_proxied(&mut self) -> String {
        let servers: Vec<String> = self.proxies.iter().map(|p| format!("127.0.0.1:{}", p.port())).collect();
        self.join(&[("bootstrap.servers", &servers.join(","))])
    }

    /// Closes the connections of members that joined through the proxy.
    pub(crate) fn cut(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Holds back, or lets pass, what such members send and get.
    pub(crate) fn hold(&self, held: bool) {
        self.proxies.iter().for_each(|proxy| proxy.hold(held));
    }

    /// Several members join at once.
    pub(crate) fn join_all(&mut self, count: usize) {
        let names: Vec<String> = (0..count).map(|_| self.prepare(&[])).collect();
        names.iter().for_each(|name| self.members[name].ready());
        names.iter().for_each(|name| self.members[name].tell("start"));
    }

    pub(crate) fn kill(&mut self, name: &str) {
        self.members.remove(name).unwrap().kill();
    }

    pub(crate) fn stop(&mut self, name: &str) {
        self.members.remove(name).unwrap().stop();
    }

    /// As many members as at first, all partitions theirs, everything read.
    pub(crate) fn restore(&mut self) {
        while self.members.len() > self.cast.members {
            let newest = self.members.keys().max_by_key(|name| number(name)).unwrap().clone();
            self.stop(&newest);
        }
        self.join_all(self.cast.members - self.members.len());
        self.settled();
        self.all_read();
    }

    /// Waits until all members have all partitions, each one owner.
    pub(crate) fn settled(&self) {
        let partitions = self.partitions();
        self.ledger.wait("the group is at rest", PATIENCE, |book| book.settled(&partitions))
    }

    /// Waits until everything acknowledged so far is read.
    pub(crate) fn all_read(&self) {
        self.ledger.all_read(self.producer.next(), PATIENCE);
    }

    /// Now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { time: now(), record: self.producer.next() }
    }

    /// Waits until each partition gives records that were sent after that moment, and says how long it took.
    pub(crate) fn recovered(&self, since: Mark) -> Duration {
        let partitions = self.partitions();
        let last =
            self.wait("every partition gives records again", |book| book.recovered(since, &partitions));
        Duration::from_micros(last.saturating_sub(since.time))
    }

    /// No records any more for a topic; those that are there are all read.
    pub(crate) fn mute(&self, topic: &str) {
        self.producer.topic(topic, 0);
        self.producer.flush();
        self.all_read();
    }

    /// Records again.
    pub(crate) fn unmute(&self, topic: &str) {
        self.producer.topic(topic, self.topics[topic]);
    }

    pub(crate) fn wait<T>(&self, what: &str, look: impl FnMut(&Book) -> Option<T>) -> T {
        self.ledger.wait(what, PATIENCE, look)
    }

    pub(crate) fn leader(&self) -> String {
        self.wait("one member leads", Book::leader)
    }

    /// Has one new member lead, with more properties than the others, which come anew.
    pub(crate) fn lead_with(&mut self, more: &[(&str, &str)]) -> String {
        let name = self.join(more);
        let others: Vec<String> = self.members.keys().filter(|other| **other != name).cloned().collect();
        others.iter().for_each(|other| self.stop(other));
        self.settled();
        self.restore();
        assert_eq!(self.leader(), name, "a leader that stays leads on");
        name
    }

    /// Any member that does not lead.
    pub(crate) fn follower(&self) -> String {
        let leader = self.leader();
        self.members.keys().find(|name| **name != leader).unwrap().clone()
    }
}

fn number(name: &str) -> usize {
    name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}
