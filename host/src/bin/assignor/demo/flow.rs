//! Records with sequence numbers into the topic, and the count of those that came out.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use assignor_host::consumer::{EmbeddedBroker, Record};

use super::{PARTITIONS, TOPIC};

/// Between two records of one partition.
const PACE: Duration = Duration::from_millis(20);

/// Produces into all partitions until it is stopped.
pub(super) struct Flow {
    broker: Arc<EmbeddedBroker>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Flow {
    pub(super) fn start(broker: Arc<EmbeddedBroker>) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (to, stopped) = (Arc::clone(&broker), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("demo-producer".into()).spawn(move || {
            for sequence in 0u64.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                for partition in 0..PARTITIONS {
                    to.produce(TOPIC, partition, None, &sequence.to_be_bytes())?;
                }
                std::thread::sleep(PACE);
            }
            Ok(())
        })?;
        Ok(Self { broker, stop, thread })
    }

    /// Stops, and says how many records have arrived at the broker.
    pub(super) fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the producer panicked"))??;
        self.broker.flush(Duration::from_secs(30)).context("not all records have arrived at the broker")
    }
}

/// Which records have come out, and how often.
#[derive(Debug)]
pub(super) struct Tally {
    seen: HashSet<(u32, u64)>,
    redelivered: u64,
    by_member: Vec<u64>,
}

impl Tally {
    pub(super) fn new(members: usize) -> Self {
        Self { seen: HashSet::new(), redelivered: 0, by_member: vec![0; members] }
    }

    /// Counts a record that a member was handed. What bears no sequence number is none of the demo's.
    pub(super) fn count(&mut self, member: usize, record: &Record) {
        let Some(sequence) = record.value.as_deref().and_then(|value| value.try_into().ok()) else { return };
        if !self.seen.insert((record.partition, u64::from_be_bytes(sequence))) {
            self.redelivered += 1;
        }
        if let Some(count) = self.by_member.get_mut(member) {
            *count += 1;
        }
    }

    /// Different records.
    pub(super) fn consumed(&self) -> u64 {
        self.seen.len() as u64
    }

    /// How often a record came again.
    pub(super) fn redelivered(&self) -> u64 {
        self.redelivered
    }

    /// Records that a member was handed.
    pub(super) fn of_member(&self, member: usize) -> u64 {
        self.by_member.get(member).copied().unwrap_or_default()
    }
}

/// The tally holds even if a thread panicked beside it.
pub(super) fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_and_what_comes_again_is_told_apart() {
        let record = |partition, value: Option<&[u8]>| Record {
            topic: TOPIC.into(),
            partition,
            offset: 0,
            timestamp_ms: None,
            key: None,
            value: value.map(Into::into),
            headers: Vec::new(),
        };
        let mut tally = Tally::new(2);
        let one = 1u64.to_be_bytes();
        tally.count(0, &record(0, Some(&one)));
        tally.count(1, &record(1, Some(&one)));
        tally.count(1, &record(0, Some(&one)));
        tally.count(1, &record(0, Some(b"foreign record")));
        tally.count(1, &record(0, None));
        assert_eq!((tally.consumed(), tally.redelivered()), (2, 1));
        assert_eq!((tally.of_member(0), tally.of_member(1), tally.of_member(2)), (1, 2, 0));
    }
}
