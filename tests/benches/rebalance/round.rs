//! One group: it comes into being, gets one member more, and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde::Serialize;

use crate::admin::Admin;
use crate::broker::Cluster;
use crate::lines::{Line, Partition, now};
use crate::troupe::{Troupe, Whose};

/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many partitions there are for each member of the group as it is at first.
const PARTITIONS_EACH: usize = 2;

/// What is measured of one client.
#[derive(Serialize)]
pub(crate) struct Cell {
    pub(crate) strategy: String,
    /// `heartbeat.interval.ms`.
    pub(crate) heartbeat_ms: u32,
    /// How many members join at once; one more joins them.
    pub(crate) members: usize,
    #[serde(serialize_with = "name")]
    pub(crate) whose: Whose,
    pub(crate) rounds: Vec<Times>,
}

fn name<S: serde::Serializer>(whose: &Whose, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(whose.name())
}

/// Milliseconds since members were told to join.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Times {
    /// All join at once: until half of them have had a record.
    pub(crate) half: f64,
    /// Until each has had one.
    pub(crate) each: f64,
    /// Until each partition has given one to the owner that keeps it.
    pub(crate) settled: f64,
    /// One more joins the settled group: until it has had a record.
    pub(crate) one_more: f64,
    /// Until each partition has given one to its owner.
    pub(crate) settled_again: f64,
}

impl Cell {
    pub(crate) fn new(strategy: &str, heartbeat_ms: u32, members: usize, whose: Whose) -> Self {
        Self { strategy: strategy.to_owned(), heartbeat_ms, members, whose, rounds: Vec::new() }
    }

    pub(crate) fn title(&self) -> String {
        format!(
            "{}, heartbeat {} ms, {} members, {}",
            self.strategy,
            self.heartbeat_ms,
            self.members,
            self.whose.name()
        )
    }
}

fn topic_name(members: usize) -> String {
    format!("for-{members}")
}

/// Makes the topic that groups of so many members read, with a record in each partition.
pub(crate) fn topic(cluster: &Cluster, admin: &Admin, members: usize) {
    let (name, partitions) = (topic_name(members), members * PARTITIONS_EACH);
    admin.create_topic(&name, u32::try_from(partitions).unwrap());
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap()).create().unwrap();
    for partition in 0..partitions {
        let partition = i32::try_from(partition).unwrap();
        producer.send(BaseRecord::<[u8], [u8]>::to(&name).partition(partition).payload(b"1")).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

/// The life of a group. Nobody commits, so that whoever is given a partition is given its record.
pub(crate) fn round(cluster: &Cluster, troupe: &Troupe, cell: &Cell, turn: usize) -> Times {
    let group =
        format!("{}-{}-{}-{}-{turn}", cell.strategy, cell.heartbeat_ms, cell.members, cell.whose.name());
    let topic = topic_name(cell.members);
    let properties: BTreeMap<String, String> = [
        ("bootstrap.servers", cluster.bootstrap()),
        ("group.id", group.clone()),
        ("partition.assignment.strategy", cell.strategy.clone()),
        ("heartbeat.interval.ms", cell.heartbeat_ms.to_string()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("member.commit", "never".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let names: Vec<String> = (0..=cell.members).map(|number| format!("{group}.{number}")).collect();
    let (heard, hears) = channel();
    for (number, name) in names.iter().enumerate() {
        let mut properties = properties.clone();
        properties.insert("client.id".into(), name.clone());
        let heard = heard.clone();
        // Nobody hears what they say when all is over.
        troupe.admit(name, &topic, &properties, move |time, line| drop(heard.send((number, time, line))));
    }
    let partitions =
        (0..cell.members * PARTITIONS_EACH).map(|p| (topic.clone(), u32::try_from(p).unwrap())).collect();
    let mut watch = Watch { title: cell.title(), hears, members: BTreeMap::new(), partitions };
    watch.until("they are made", |members| {
        (members.values().filter(|m| m.ready).count() == names.len()).then_some(())
    });

    let (last, first) = names.split_last().unwrap();
    let begun = now();
    troupe.tell(first.iter().map(String::as_str), "start");
    let settled = watch.settled(cell.members);
    let mut firsts: Vec<u64> = watch.members.values().filter_map(|m| m.first).collect();
    firsts.sort_unstable();
    let since = |begun: u64, time: u64| time.saturating_sub(begun) as f64 / 1_000.0;
    let half = since(begun, firsts[(firsts.len() - 1) / 2]);
    let each = since(begun, *firsts.last().unwrap());
    let settled = since(begun, settled);

    let begun = now();
    troupe.tell([last.as_str()], "start");
    let again = watch.settled(cell.members + 1);
    let one_more = since(begun, watch.members[&cell.members].first.unwrap());
    let settled_again = since(begun, again);

    troupe.tell(names.iter().map(String::as_str), "stop");
    watch.until("they leave", |members| {
        (members.values().filter(|m| m.closed).count() == names.len()).then_some(())
    });
    Times { half, each, settled, one_more, settled_again }
}

/// What members have said.
struct Watch {
    title: String,
    hears: Receiver<(usize, u64, Line)>,
    members: BTreeMap<usize, Member>,
    partitions: BTreeSet<Partition>,
}

#[derive(Default)]
struct Member {
    ready: bool,
    closed: bool,
    /// When its first record came.
    first: Option<u64>,
    /// What it owns, and when each gave its first record since.
    owned: BTreeMap<Partition, Option<u64>>,
    /// When a record came of what it isn't known to own: ours are told of an assignment on one thread and poll on another.
    early: BTreeMap<Partition, u64>,
}

impl Watch {
    /// Waits until so many members each own something, all of them together each partition once, and each partition has given its
    /// owner a record: when the last did.
    fn settled(&mut self, count: usize) -> u64 {
        let partitions = self.partitions.clone();
        self.until("each partition gives a record to its owner", |members| {
            let owners = members.values().filter(|m| !m.owned.is_empty()).count();
            let mut owned: Vec<_> = members.values().flat_map(|m| m.owned.keys()).collect();
            owned.sort();
            let whole = owners == count && owned.into_iter().eq(&partitions);
            let mut given = members.values().flat_map(|m| m.owned.values());
            if whole { given.try_fold(0, |last, given| Some(last.max((*given)?))) } else { None }
        })
    }

    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&BTreeMap<usize, Member>) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&self.members) {
                return found;
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let said = self.hears.recv_timeout(left);
            let (number, time, line) =
                said.unwrap_or_else(|_| panic!("{}: not in {PATIENCE:?}: {what}", self.title));
            self.members.entry(number).or_default().note(time, line);
        }
    }
}

impl Member {
    fn note(&mut self, time: u64, line: Line) {
        match line {
            Line::Ready => self.ready = true,
            Line::Closed => self.closed = true,
            Line::Assigned { partitions, .. } => {
                // What it had before goes on, unless it was given up.
                let known =
                    |p: &Partition| self.owned.get(p).copied().flatten().or(self.early.get(p).copied());
                self.owned = partitions.into_iter().map(|p| (p.clone(), known(&p))).collect();
                self.early.clear();
            }
            Line::Revoked { partitions } | Line::Lost { partitions } => {
                self.owned.retain(|partition, _| !partitions.contains(partition));
                self.early.clear();
            }
            Line::Record { partition, .. } => {
                self.first.get_or_insert(time);
                match self.owned.get_mut(&partition) {
                    Some(given) => *given = given.or(Some(time)),
                    None => drop(self.early.entry(partition).or_insert(time)),
                }
            }
            Line::Error { text } => eprintln!("a member says: {text}"),
            Line::Event { .. } => {}
        }
    }
}
