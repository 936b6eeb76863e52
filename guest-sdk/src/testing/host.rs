//! A host for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::bindings::assignor::strategy::types::Member;
use crate::cluster::Node;
use crate::imports::Imports;
use crate::log::Level;

/// What the imports answer in a test, until [`install`](Self::install)ed nothing. What is not described is answered as by a
/// host that does not know: not set, absent, "unavailable".
#[derive(Default)]
#[must_use]
pub struct Host {
    group_id: String,
    member_id: String,
    instance_id: Option<String>,
    rack: Option<String>,
    generation: Option<i32>,
    now_ms: u64,
    seed: u64,
    config: BTreeMap<String, String>,
    nodes: Option<Vec<Node>>,
    leaders: BTreeMap<u32, Vec<i32>>,
    replicas: BTreeMap<u32, Vec<Vec<i32>>>,
    begin: BTreeMap<u32, Vec<i64>>,
    end: BTreeMap<u32, Vec<i64>>,
    committed: BTreeMap<u32, Vec<i64>>,
    built_in: Option<Box<BuiltIn>>,
}

type BuiltIn = dyn Fn(&str, &[Member], &[u32]) -> Result<Vec<Vec<u32>>, String>;

impl Host {
    /// A host that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key of the strategy's configuration.
    pub fn config(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.config.insert(key.into(), value.to_string());
        self
    }

    /// Sets `group.id`.
    pub fn group_id(mut self, id: &str) -> Self {
        self.group_id = id.into();
        self
    }

    /// Sets this member's id.
    pub fn member_id(mut self, id: &str) -> Self {
        self.member_id = id.into();
        self
    }

    /// Sets `group.instance.id`.
    pub fn instance_id(mut self, id: &str) -> Self {
        self.instance_id = Some(id.into());
        self
    }

    /// Sets `client.rack`.
    pub fn rack(mut self, rack: &str) -> Self {
        self.rack = Some(rack.into());
        self
    }

    /// Sets the group's generation.
    pub fn generation(mut self, generation: i32) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Sets the clock, in milliseconds since 1970-01-01 UTC. It stands still.
    pub fn now_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds a broker.
    pub fn node(mut self, id: i32, host: &str, rack: Option<&str>) -> Self {
        let node = Node { id, host: host.into(), rack: rack.map(Into::into) };
        self.nodes.get_or_insert_default().push(node);
        self
    }

    /// Sets the leaders of a topic's partitions, by the topic's [number](crate::Topic::number); -1 for none.
    pub fn leaders(mut self, topic: u32, leaders: impl Into<Vec<i32>>) -> Self {
        self.leaders.insert(topic, leaders.into());
        self
    }

    /// Sets the replicas of a topic's partitions, by the topic's [number](crate::Topic::number).
    pub fn replicas(mut self, topic: u32, replicas: impl Into<Vec<Vec<i32>>>) -> Self {
        self.replicas.insert(topic, replicas.into());
        self
    }

    /// Sets begin, end and committed offsets of a topic's partitions, by the topic's [number](crate::Topic::number); -1
    /// where one is not known.
    pub fn offsets(
        mut self,
        topic: u32,
        begin: impl Into<Vec<i64>>,
        end: impl Into<Vec<i64>>,
        committed: impl Into<Vec<i64>>,
    ) -> Self {
        self.begin.insert(topic, begin.into());
        self.end.insert(topic, end.into());
        self.committed.insert(topic, committed.into());
        self
    }

    /// Sets how many records of each partition of a topic are still to be read: offsets from 0, with 0 committed.
    pub fn lag(self, topic: u32, lag: impl Into<Vec<i64>>) -> Self {
        let lag = lag.into();
        let zeros = vec![0; lag.len()];
        self.offsets(topic, zeros.clone(), lag, zeros)
    }

    /// Answers for the native strategies: given a name, members and the numbers to leave out, the numbers of each member's
    /// partitions.
    pub fn built_in(
        mut self,
        answer: impl Fn(&str, &[Member], &[u32]) -> Result<Vec<Vec<u32>>, String> + 'static,
    ) -> Self {
        self.built_in = Some(Box::new(answer));
        self
    }

    /// Makes the imports answer so on this thread, until what it returns is dropped.
    pub fn install(self) -> Installed {
        let running = Rc::new(Running { host: self, seen: RefCell::default() });
        let before = CURRENT.replace(Some(Rc::clone(&running)));
        Installed { running, before }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A host at work: tells what the strategy did with it. When dropped, the host before it answers again.
#[must_use = "the host answers until this is dropped"]
pub struct Installed {
    running: Rc<Running>,
    before: Option<Rc<Running>>,
}

impl Installed {
    /// What was logged so far.
    pub fn log_lines(&self) -> Vec<(Level, String)> {
        self.running.seen.borrow().log.clone()
    }

    /// The rebalances that were asked for so far, by the time to wait.
    pub fn rebalance_requests(&self) -> Vec<Duration> {
        self.running.seen.borrow().rebalances.clone()
    }
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.running.host.fmt(f)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

struct Running {
    host: Host,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    log: Vec<(Level, String)>,
    rebalances: Vec<Duration>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Running>>> = const { RefCell::new(None) };
}

/// The imports away from WebAssembly: the host installed on this thread, or one that knows nothing.
pub(crate) struct Double;

impl Double {
    fn ask<R>(question: impl FnOnce(&Host) -> R) -> R {
        match CURRENT.with_borrow(Clone::clone) {
            Some(running) => question(&running.host),
            None => question(&Host::default()),
        }
    }

    fn list<T: Clone>(
        topic: u32,
        lists: impl FnOnce(&Host) -> &BTreeMap<u32, Vec<T>>,
    ) -> Result<Vec<T>, String> {
        Self::ask(|host| lists(host).get(&topic).cloned())
            .ok_or_else(|| "unavailable: the test describes no such answer".to_owned())
    }
}

impl Imports for Double {
    fn group_id() -> String {
        Self::ask(|host| host.group_id.clone())
    }
    fn member_id() -> String {
        Self::ask(|host| host.member_id.clone())
    }
    fn instance_id() -> Option<String> {
        Self::ask(|host| host.instance_id.clone())
    }
    fn rack() -> Option<String> {
        Self::ask(|host| host.rack.clone())
    }
    fn generation() -> i32 {
        Self::ask(|host| host.generation.unwrap_or(-1))
    }
    fn now_ms() -> u64 {
        Self::ask(|host| host.now_ms)
    }
    fn seed() -> u64 {
        Self::ask(|host| host.seed)
    }
    fn get(key: &str) -> Option<String> {
        Self::ask(|host| host.config.get(key).cloned())
    }
    fn keys() -> Vec<String> {
        Self::ask(|host| host.config.keys().cloned().collect())
    }
    fn log(level: Level, text: &str) {
        match CURRENT.with_borrow(Clone::clone) {
            Some(running) => running.seen.borrow_mut().log.push((level, text.to_owned())),
            // Shown by the test runner if the test fails.
            None => eprintln!("{level:?}: {text}"),
        }
    }
    fn nodes() -> Result<Vec<Node>, String> {
        Self::ask(|host| host.nodes.clone())
            .ok_or_else(|| "unavailable: the test describes no brokers".to_owned())
    }
    fn leaders(topic: u32) -> Result<Vec<i32>, String> {
        Self::list(topic, |host| &host.leaders)
    }
    fn replicas(topic: u32) -> Result<Vec<Vec<i32>>, String> {
        Self::list(topic, |host| &host.replicas)
    }
    fn begin_offsets(topic: u32) -> Result<Vec<i64>, String> {
        Self::list(topic, |host| &host.begin)
    }
    fn end_offsets(topic: u32) -> Result<Vec<i64>, String> {
        Self::list(topic, |host| &host.end)
    }
    fn committed_offsets(topic: u32) -> Result<Vec<i64>, String> {
        Self::list(topic, |host| &host.committed)
    }
    fn built_in(strategy: &str, members: &[Member], without: &[u32]) -> Result<Vec<Vec<u32>>, String> {
        Self::ask(|host| match &host.built_in {
            Some(answer) => answer(strategy, members, without),
            None => Err("unavailable: the test describes no native strategies".to_owned()),
        })
    }
    fn request_rebalance(after_ms: u64) {
        if let Some(running) = CURRENT.with_borrow(Clone::clone) {
            running.seen.borrow_mut().rebalances.push(Duration::from_millis(after_ms));
        }
    }
}
