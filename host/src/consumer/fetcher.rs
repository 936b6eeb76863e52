//! `poll`: installs what the driver says is assigned, fetches, and hands out by the rules of [`super::shared`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::clock::Moment;
use super::data::{DataPath, Fetched, Record};
use super::error::ConsumerError;
use super::offsets::Offsets;
use super::shared::{Fetch, HandOut, Key, Shared, Start};

/// So many looks for records are made in a row at most: what comes late and is dropped, and what is no record, must not hold up a poll
/// for ever.
const LOOKS: usize = 1_000;

/// How many records a poll fetches at most, and how many of them it gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) fetched: usize,
    pub(super) given: usize,
}

/// What a poll calls.
pub(super) trait Calls {
    /// The rebalance listener may have to be called.
    fn listener(&mut self);

    /// A position turns out to be outside its partition.
    fn out_of_range(&mut self);

    /// How many of these records may be given, from the first one on, which is the first that was not given yet. An error is the
    /// poll's; the records stay.
    fn fit(&mut self, records: &[Record]) -> Result<usize, ConsumerError> {
        Ok(records.len())
    }
}

/// How long a look for records may take before it is looked again whether they may still be handed out.
const SLICE: Duration = Duration::from_millis(50);

/// What is installed in the data path for a partition.
#[derive(Debug, Clone, Copy)]
struct Installed {
    stamp: u64,
    /// No record before this one is awaited: it belongs to what was installed earlier.
    next: i64,
}

/// The application's side of the data path.
pub(super) struct Fetcher {
    path: Box<dyn DataPath>,
    /// The epoch that is installed in the data path.
    epoch: u64,
    /// How often a topic had been created again when the data path was last renewed.
    recreated: u64,
    /// By topic and partition.
    installed: BTreeMap<String, BTreeMap<u32, Installed>>,
    /// Fetched, and not handed out yet.
    pending: VecDeque<Record>,
}

impl Fetcher {
    pub(super) fn new(path: Box<dyn DataPath>) -> Self {
        Self { path, epoch: 0, recreated: 0, installed: BTreeMap::new(), pending: VecDeque::new() }
    }

    /// Has `wake` called when there may be records again.
    pub(super) fn wake_by(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.path.wake_by(wake);
    }

    /// Up to `most` records, as soon as there is one, or none when the time is over.
    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        most: Most,
        timeout: Duration,
        clock: impl Fn() -> Moment,
        mut calls: impl Calls,
    ) -> Result<Vec<Record>, ConsumerError> {
        let deadline = clock() + timeout;
        loop {
            calls.listener();
            self.install(shared)?;
            let remaining = deadline.since(clock());
            if !self.installed.is_empty() && self.pending.is_empty() {
                self.fetch(most.fetched, remaining.min(SLICE), &mut calls)?;
            }
            if !self.pending.is_empty() {
                let some = self.pending.make_contiguous();
                let some = some.get(..most.given.min(some.len())).unwrap_or_default();
                let fit = calls.fit(some)?;
                let some = some.get(..fit).unwrap_or_default();
                let count = some.len();
                match shared.hand_out(self.epoch, &next_offsets(some), clock()) {
                    HandOut::Given if count == self.pending.len() => {
                        return Ok(std::mem::take(&mut self.pending).into());
                    }
                    HandOut::Given => return Ok(self.pending.drain(..count).collect()),
                    // The next turn installs the new epoch, and sees what of these still counts.
                    HandOut::Over | HandOut::Wait => {}
                }
            }
            let remaining = deadline.since(clock());
            if remaining.is_zero() {
                return Ok(Vec::new());
            }
            if self.installed.is_empty() || !self.pending.is_empty() {
                shared.wait(self.epoch, remaining.min(SLICE));
            }
        }
    }

    /// Brings the data path from one epoch to the next. Partitions that both have go on as they are, with what was fetched of them.
    fn install(&mut self, shared: &Shared) -> Result<(), ConsumerError> {
        let Some(Fetch { epoch, starts, recreated }) = shared.fetch(self.epoch)? else { return Ok(()) };
        if recreated != self.recreated {
            self.path.renew()?;
            self.installed.clear();
            self.pending.clear();
            self.recreated = recreated;
        }
        let installed = |(topic, partition): &Key| self.installed.get(topic)?.get(partition).copied();
        let goes_on = |key: &Key, start: &Start| installed(key).is_some_and(|i| i.stamp == start.stamp);
        let begin: BTreeMap<Key, Start> =
            starts.iter().filter(|(key, start)| !goes_on(key, start)).map(|(k, s)| (k.clone(), *s)).collect();
        let all = self.installed.iter().flat_map(|(t, list)| list.keys().map(|p| (t.clone(), *p)));
        let stop: BTreeSet<Key> =
            all.filter(|key| begin.contains_key(key) || !starts.contains_key(key)).collect();

        let offsets = begin.iter().map(|(key, start)| (key.clone(), start.offset)).collect();
        if let Err(error) = self.path.change(&stop, &offsets) {
            // What it does now is unknown: the next try begins from nothing.
            self.path.clear();
            self.installed.clear();
            self.pending.clear();
            return Err(error);
        }
        for (topic, partition) in &stop {
            if let Some(list) = self.installed.get_mut(topic) {
                list.remove(partition);
            }
        }
        self.installed.retain(|_, list| !list.is_empty());
        self.pending.retain(|record| !stop.contains(&(record.topic.to_string(), record.partition)));
        for ((topic, partition), Start { offset, stamp }) in begin {
            self.installed.entry(topic).or_default().insert(partition, Installed { stamp, next: offset });
        }
        self.epoch = epoch;
        Ok(())
    }

    fn fetch(&mut self, max: usize, limit: Duration, calls: &mut impl Calls) -> Result<(), ConsumerError> {
        let mut limit = limit;
        for _ in 0..LOOKS.max(max) {
            if self.pending.len() >= max {
                break;
            }
            match self.path.next(limit) {
                Fetched::Record(record) => self.take(record),
                Fetched::Nothing => break,
                // Neither ends what is there.
                Fetched::Passing => {}
                Fetched::OutOfRange => calls.out_of_range(),
                // What is already here is handed out first; the error comes again.
                Fetched::Failed(error) if self.pending.is_empty() => return Err(error),
                Fetched::Failed(_) => break,
            }
            limit = Duration::ZERO;
        }
        Ok(())
    }

    /// Keeps a record, unless it comes late: of a partition that is not fetched any more, or from where it is not fetched any more.
    fn take(&mut self, record: Record) {
        let installed =
            self.installed.get_mut(&*record.topic).and_then(|list| list.get_mut(&record.partition));
        if let Some(installed) = installed.filter(|i| record.offset >= i.next) {
            installed.next = record.offset + 1;
            self.pending.push_back(record);
        }
    }
}

/// The offset after the last record of each partition.
fn next_offsets(records: &[Record]) -> Offsets {
    let mut next = Offsets::new();
    // Records come in runs of one partition: the last of each run tells.
    let after = records.iter().skip(1).map(Some).chain([None]);
    for (record, after) in records.iter().zip(after) {
        let run_ends = after.is_none_or(|a| a.partition != record.partition || a.topic != record.topic);
        if run_ends {
            next.insert((record.topic.to_string(), record.partition), record.offset + 1);
        }
    }
    next
}

#[cfg(test)]
mod tests;
