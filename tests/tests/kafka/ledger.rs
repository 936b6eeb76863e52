//! The owner ledger: who owned which partition when, what was acknowledged to the producer, and what was handed out by whom.
//!
//! Two things are wrong at once, whenever they are written down:
//! - a partition with two owners in one generation;
//! - a record that a member hands out after another one's ownership of its partition began in a later generation: the lease had
//!   ended.
//!
//! And one thing in the end: a record that was acknowledged and never handed out. Records that are handed out more than once
//! are counted.
//!
//! Records are known by the number that each holds; later ones hold higher numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lines::{Line, Partition};

/// How often it is looked whether what is waited for has happened.
const LOOK: Duration = Duration::from_millis(10);

/// So many ownerships of a partition are looked back at.
const REMEMBERED: usize = 200;

/// Shared by all that write to it.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
pub(crate) struct Book {
    members: BTreeMap<String, Member>,
    partitions: BTreeMap<Partition, Owned>,
    /// What was acknowledged, and must be read.
    acknowledged: HashMap<u64, Partition>,
    /// How often each record was handed out.
    read: HashMap<u64, u32>,
    /// What was acknowledged, and has not been read.
    missing: BTreeSet<u64>,
    redelivered: u64,
    broken: Option<String>,
}

/// A member, dead or alive.
#[derive(Default)]
struct Member {
    /// Its `group.instance.id`, or else its name: where a static member comes back, it is the same owner.
    seat: String,
    alive: bool,
    /// It may end: it was killed, or told to stop.
    ending: bool,
    ready: bool,
    closed: bool,
    generation: i32,
    leader: Option<bool>,
    strategy: String,
    owned: BTreeSet<Partition>,
    /// Nothing may come of what it gave up in good order.
    revoked: BTreeSet<Partition>,
    /// Something did, all the same. It is all right if the next line says that the partition is its own again: records and
    /// assignments are told by different threads.
    suspect: Option<(Partition, u64)>,
    /// Assignments so far.
    assignments: u32,
    lines: Vec<(u64, Line)>,
}

#[derive(Default)]
struct Owned {
    holds: Vec<Hold>,
    handed: Vec<Handed>,
}

/// The start of an ownership.
struct Hold {
    member: String,
    seat: String,
    generation: i32,
    since: u64,
}

/// A record that was handed out.
struct Handed {
    member: String,
    seat: String,
    generation: i32,
    time: u64,
    value: u64,
}

/// A moment, and the number of the first record that was sent after it.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) time: u64,
    pub(crate) record: u64,
}

/// How much has happened so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) acknowledged: u64,
    pub(crate) read: u64,
    pub(crate) redelivered: u64,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Book> {
        // Each entry leaves the book whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member begins.
    pub(crate) fn enter(&self, name: &str, instance: Option<&str>) {
        let seat = instance.unwrap_or(name).to_owned();
        let member = Member { seat, alive: true, generation: -1, ..Member::default() };
        assert!(self.lock().members.insert(name.to_owned(), member).is_none(), "two members named {name}");
    }

    /// A member may end from now on.
    pub(crate) fn ending(&self, name: &str) {
        self.lock().members.get_mut(name).unwrap().ending = true;
    }

    /// A member's process has ended, and said all it had to say.
    pub(crate) fn exit(&self, name: &str) {
        let mut book = self.lock();
        let member = book.members.get_mut(name).unwrap();
        member.alive = false;
        if !member.ending {
            let last = member.lines.last().cloned();
            book.broken.get_or_insert(format!("{name} ended by itself, its last line is {last:?}"));
        }
        if let Err(what) = book.clear(name, &BTreeSet::new()) {
            book.broken.get_or_insert(what);
        }
    }

    /// Writes down what a member says.
    pub(crate) fn note(&self, name: &str, time: u64, line: Line) {
        let mut book = self.lock();
        if let Err(what) = book.note(name, time, line) {
            book.broken.get_or_insert(what);
        }
    }

    /// A record was acknowledged.
    pub(crate) fn acknowledged(&self, value: u64, partition: Partition) {
        let mut book = self.lock();
        if !book.read.contains_key(&value) {
            book.missing.insert(value);
        }
        book.acknowledged.insert(value, partition);
    }

    /// A topic is deleted: what nobody has read of it is gone.
    pub(crate) fn deleted(&self, topic: &str) {
        let mut book = self.lock();
        let Book { acknowledged, missing, .. } = &mut *book;
        missing.retain(|value| acknowledged[value].0 != topic);
        acknowledged.retain(|value, partition| partition.0 != topic || !missing.contains(value));
    }

    /// Looks something up; fails if an invariant has broken.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Book) -> T) -> T {
        let (found, broken) = {
            let book = self.lock();
            (look(&book), book.broken.clone())
        };
        if let Some(broken) = broken {
            panic!("{broken}");
        }
        found
    }

    /// Waits for something, and fails when an invariant breaks meanwhile, or the time is over.
    pub(crate) fn wait<T>(&self, what: &str, limit: Duration, mut look: impl FnMut(&Book) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            // Nobody panics with the lock in hand: others have something to write, still.
            let (found, broken) = {
                let book = self.lock();
                (look(&book), book.broken.clone())
            };
            if let Some(broken) = broken {
                panic!("{broken}");
            }
            if let Some(found) = found {
                return found;
            }
            if start.elapsed() > limit {
                let state = self.lock().state();
                panic!("not within {limit:?}: {what}\n{state}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until everything that has been acknowledged and is numbered below `until` is read.
    pub(crate) fn all_read(&self, until: u64, limit: Duration) {
        self.wait("all that is acknowledged is read", limit, |book| {
            book.missing.first().is_none_or(|&first| first >= until).then_some(())
        });
    }

    /// What has happened so far.
    pub(crate) fn tally(&self) -> Tally {
        let book = self.lock();
        Tally {
            acknowledged: book.acknowledged.len() as u64,
            read: book.read.len() as u64,
            redelivered: book.redelivered,
        }
    }

    /// How many events and errors a member has told that hold these words.
    pub(crate) fn events(&self, name: &str, words: &str) -> usize {
        self.lock().events(name, words)
    }
}

impl Book {
    fn note(&mut self, name: &str, time: u64, line: Line) -> Result<(), String> {
        let member = self.members.get_mut(name).ok_or_else(|| format!("nobody is named {name}"))?;
        if !matches!(line, Line::Record { .. }) {
            member.lines.push((time, line.clone()));
        }
        match line {
            Line::Ready => member.ready = true,
            Line::Closed => member.closed = true,
            Line::Assigned { generation, leader, strategy, partitions } => {
                self.clear(name, &partitions)?;
                let member = self.members.get_mut(name).ok_or("nobody")?;
                member.generation = generation;
                member.leader = leader;
                member.strategy = strategy;
                member.assignments += 1;
                member.revoked.clear();
                member.owned.clone_from(&partitions);
                let seat = member.seat.clone();
                for partition in partitions {
                    let hold = Hold { member: name.to_owned(), seat: seat.clone(), generation, since: time };
                    self.partitions.entry(partition.clone()).or_default().hold(&partition, hold)?;
                }
            }
            Line::Revoked { partitions } => {
                member.owned.retain(|p| !partitions.contains(p));
                member.revoked.extend(partitions);
            }
            // A record may have been on its way out when they were lost: the lease tells whether it should have been.
            Line::Lost { partitions } => member.owned.retain(|p| !partitions.contains(p)),
            Line::Record { partition, value } => {
                if member.revoked.contains(&partition) {
                    member.suspect.get_or_insert((partition.clone(), value));
                }
                let handed = Handed {
                    member: name.to_owned(),
                    seat: member.seat.clone(),
                    generation: member.generation,
                    time,
                    value,
                };
                self.read(value);
                self.partitions.entry(partition.clone()).or_default().hand_out(&partition, handed)?;
            }
            Line::Error { .. } | Line::Event { .. } => {}
        }
        Ok(())
    }

    /// A member's own partitions are these: what came of another one since it gave that up should not have come.
    fn clear(&mut self, name: &str, owned: &BTreeSet<Partition>) -> Result<(), String> {
        let member = self.members.get_mut(name).ok_or_else(|| format!("nobody is named {name}"))?;
        match member.suspect.take().filter(|(partition, _)| !owned.contains(partition)) {
            None => Ok(()),
            Some((partition, value)) => {
                Err(format!("{name} handed out {value} of {partition:?}, which it had given up"))
            }
        }
    }

    fn read(&mut self, value: u64) {
        let times = self.read.entry(value).or_insert(0);
        *times += 1;
        if *times > 1 {
            self.redelivered += 1;
        }
        self.missing.remove(&value);
    }

    fn alive(&self) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(|(_, member)| member.alive)
    }

    pub(crate) fn is_ready(&self, name: &str) -> bool {
        self.members[name].ready
    }

    pub(crate) fn is_alive(&self, name: &str) -> bool {
        self.members[name].alive
    }

    pub(crate) fn is_closed(&self, name: &str) -> bool {
        self.members[name].closed
    }

    /// The leader, if all members that are alive tell who leads, and they are of one generation.
    pub(crate) fn leader(&self) -> Option<String> {
        let mut leaders = self.alive().filter(|(_, member)| member.leader == Some(true));
        let (name, _) = leaders.next()?;
        leaders.next().is_none().then(|| name.clone())
    }

    /// How often a member has been assigned something, be it nothing.
    pub(crate) fn assignments(&self, name: &str) -> u32 {
        self.members[name].assignments
    }

    pub(crate) fn owns(&self, name: &str) -> &BTreeSet<Partition> {
        &self.members[name].owned
    }

    pub(crate) fn owned(&self, name: &str) -> usize {
        self.members[name].owned.len()
    }

    /// The strategy that the group runs, as this member has been told.
    pub(crate) fn strategy(&self, name: &str) -> &str {
        &self.members[name].strategy
    }

    /// How many events and errors a member has told that hold these words.
    pub(crate) fn events(&self, name: &str, words: &str) -> usize {
        let holds = |(_, line): &&(u64, Line)| match line {
            Line::Error { text } | Line::Event { text } => text.contains(words),
            _ => false,
        };
        self.members[name].lines.iter().filter(holds).count()
    }

    /// Whether all members that are alive are of one generation, as far as they tell, and have these partitions, each exactly once.
    pub(crate) fn settled(&self, partitions: &BTreeSet<Partition>) -> Option<()> {
        let assigned = self.alive().all(|(_, member)| member.assignments > 0);
        let told: BTreeSet<i32> = self.alive().map(|(_, m)| m.generation).filter(|&g| g >= 0).collect();
        let mut owned: Vec<_> = self.alive().flat_map(|(_, member)| &member.owned).collect();
        owned.sort();
        (assigned && told.len() <= 1 && owned.into_iter().eq(partitions)).then_some(())
    }

    /// When the last of these partitions gave its first record that was sent after that moment, once all have.
    pub(crate) fn recovered(&self, since: Mark, partitions: &BTreeSet<Partition>) -> Option<u64> {
        let first = |partition| {
            let handed = self.partitions.get(partition)?.handed.iter().rev();
            let later = handed.take_while(|handed| handed.time >= since.time);
            later.filter(|handed| handed.value >= since.record).map(|handed| handed.time).min()
        };
        partitions.iter().map(first).try_fold(0, |last, time| Some(last.max(time?)))
    }

    /// For whom reads a failed test.
    fn state(&self) -> String {
        let member = |(name, m): (&String, &Member)| {
            let tail: Vec<String> = m
                .lines
                .iter()
                .rev()
                .take(12)
                .rev()
                .map(|(time, line)| format!("    {time} {line:?}"))
                .collect();
            format!(
                "  {name}: generation {}, {} partitions\n{}",
                m.generation,
                m.owned.len(),
                tail.join("\n")
            )
        };
        let members: Vec<String> = self.alive().map(member).collect();
        let count = self.missing.len();
        let of = |value| format!("{value} of {:?}", self.acknowledged[value]);
        let missing: Vec<String> = self.missing.iter().take(20).map(of).collect();
        format!("members:\n{}\n{count} records are missing: {}", members.join("\n"), missing.join("; "))
    }
}

impl Owned {
    fn hold(&mut self, partition: &Partition, hold: Hold) -> Result<(), String> {
        let told = hold.generation >= 0;
        if let Some(other) = self.holds.iter().rev().take(REMEMBERED).find(|other| {
            told && other.generation == hold.generation
                && other.member != hold.member
                && other.seat != hold.seat
        }) {
            return Err(format!(
                "{partition:?} is {}'s and {}'s in generation {}",
                other.member, hold.member, hold.generation
            ));
        }
        // Lines of different members arrive in any order.
        for handed in self.handed.iter().rev().take_while(|handed| handed.time > hold.since) {
            judge(partition, handed, &hold)?;
        }
        self.holds.push(hold);
        Ok(())
    }

    fn hand_out(&mut self, partition: &Partition, handed: Handed) -> Result<(), String> {
        for hold in self.holds.iter().rev().take(REMEMBERED) {
            judge(partition, &handed, hold)?;
        }
        // Sorted by time, or nearly so already.
        let at = self.handed.iter().rposition(|other| other.time <= handed.time).map_or(0, |i| i + 1);
        self.handed.insert(at, handed);
        Ok(())
    }
}

/// Whether a record was handed out while another's ownership in a later generation had begun.
fn judge(partition: &Partition, handed: &Handed, hold: &Hold) -> Result<(), String> {
    let late = hold.seat != handed.seat
        && handed.generation >= 0
        && hold.generation > handed.generation
        && handed.time > hold.since;
    if late {
        return Err(format!(
            "{} handed out record {} of {partition:?} in generation {} {} µs after {}'s ownership of generation {} began",
            handed.member,
            handed.value,
            handed.generation,
            handed.time - hold.since,
            hold.member,
            hold.generation
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
