//! `poll`: installs what the driver says is assigned, fetches, and hands out by the rules of [`super::shared`].

use std::time::Duration;

use super::clock::Moment;
use super::data::{DataPath, Fetched, Record};
use super::error::ConsumerError;
use super::offsets::Offsets;
use super::shared::{HandOut, Shared};

/// How long a look for records may take before it is looked again whether they may still be handed out.
const SLICE: Duration = Duration::from_millis(50);

/// The application's side of the data path.
pub(super) struct Fetcher {
    path: Box<dyn DataPath>,
    /// The epoch that is installed in the data path.
    epoch: u64,
    /// Whether anything is assigned in it.
    assigned: bool,
    /// Fetched under this epoch, and not handed out yet, since the lease had ended.
    pending: Vec<Record>,
}

impl Fetcher {
    pub(super) fn new(path: Box<dyn DataPath>) -> Self {
        Self { path, epoch: 0, assigned: false, pending: Vec::new() }
    }

    /// Up to `max` records, as soon as there is one, or none when the time is over. `out_of_range` is called when a position turns
    /// out to be outside its partition.
    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        max: usize,
        timeout: Duration,
        clock: impl Fn() -> Moment,
        out_of_range: impl Fn(),
    ) -> Result<Vec<Record>, ConsumerError> {
        let deadline = clock() + timeout;
        loop {
            self.install(shared)?;
            let remaining = deadline.since(clock());
            if self.assigned && self.pending.is_empty() {
                self.fetch(max, remaining.min(SLICE), &out_of_range)?;
            }
            if !self.pending.is_empty() {
                match shared.hand_out(self.epoch, &next_offsets(&self.pending), clock()) {
                    HandOut::Given => return Ok(std::mem::take(&mut self.pending)),
                    // The next turn installs the new epoch, whose positions are those of what was handed out.
                    HandOut::Over => self.pending.clear(),
                    HandOut::Wait => {}
                }
            }
            let remaining = deadline.since(clock());
            if remaining.is_zero() {
                return Ok(Vec::new());
            }
            if !self.assigned || !self.pending.is_empty() {
                shared.wait(self.epoch, remaining.min(SLICE));
            }
        }
    }

    fn install(&mut self, shared: &Shared) -> Result<(), ConsumerError> {
        let Some(fetch) = shared.fetch(self.epoch)? else { return Ok(()) };
        self.pending.clear();
        self.path.assign(&fetch.offsets)?;
        self.epoch = fetch.epoch;
        self.assigned = !fetch.offsets.is_empty();
        Ok(())
    }

    fn fetch(&mut self, max: usize, limit: Duration, out_of_range: &impl Fn()) -> Result<(), ConsumerError> {
        let mut limit = limit;
        while self.pending.len() < max {
            match self.path.next(limit) {
                Fetched::Record(record) => self.pending.push(record),
                Fetched::Nothing => break,
                Fetched::OutOfRange => {
                    out_of_range();
                    break;
                }
                // What is already here is handed out first; the error comes again.
                Fetched::Failed(error) if self.pending.is_empty() => return Err(error),
                Fetched::Failed(_) => break,
            }
            limit = Duration::ZERO;
        }
        Ok(())
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
mod tests {
    use super::*;
    use crate::consumer::machine::Identity;
    use crate::consumer::shared::Assignment;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Script {
        next: VecDeque<Fetched>,
        assigned: Vec<Offsets>,
    }

    struct Path(Arc<Mutex<Script>>);

    impl DataPath for Path {
        fn assign(&mut self, offsets: &Offsets) -> Result<(), ConsumerError> {
            self.0.lock().unwrap().assigned.push(offsets.clone());
            Ok(())
        }
        fn next(&mut self, _: Duration) -> Fetched {
            self.0.lock().unwrap().next.pop_front().unwrap_or(Fetched::Nothing)
        }
    }

    fn record(offset: i64) -> Fetched {
        Fetched::Record(Record {
            topic: "t".into(),
            partition: 0,
            offset,
            timestamp_ms: None,
            key: None,
            value: None,
            headers: Vec::new(),
        })
    }

    struct Bench {
        shared: Shared,
        fetcher: Fetcher,
        script: Arc<Mutex<Script>>,
        now: Moment,
        resets: Cell<u32>,
    }

    impl Bench {
        fn new() -> Self {
            let now = Moment::default() + SECOND * 100;
            let shared = Shared::new(now);
            shared.subscribed().unwrap();
            let script = Arc::new(Mutex::new(Script::default()));
            let fetcher = Fetcher::new(Box::new(Path(Arc::clone(&script))));
            let mut bench = Self { shared, fetcher, script, now, resets: Cell::new(0) };
            bench.assign(1, 10);
            bench
        }
        fn assign(&mut self, generation: i32, offset: i64) {
            let identity = Identity { member_id: "m".into(), generation };
            let mut assignment = Assignment::new(identity, false, "s".into(), Vec::new());
            assignment.start(Offsets::from([(("t".to_owned(), 0), offset)]), true);
            self.shared.install(assignment);
            self.shared.lease(self.now + SECOND);
        }
        fn script(&self, fetched: impl IntoIterator<Item = Fetched>) {
            self.script.lock().unwrap().next.extend(fetched);
        }
        fn poll(&mut self) -> Result<Vec<i64>, ConsumerError> {
            self.shared.enter_poll(self.now)?;
            let now = self.now;
            let reset = || self.resets.set(self.resets.get() + 1);
            let records = self.fetcher.poll(&self.shared, 2, Duration::ZERO, || now, reset);
            self.shared.leave_poll(self.now);
            records.map(|records| records.iter().map(|r| r.offset).collect())
        }
        fn assigned(&self) -> Vec<i64> {
            self.script.lock().unwrap().assigned.iter().flat_map(|a| a.values().copied()).collect()
        }
    }

    #[test]
    fn a_poll_gives_at_most_so_many_records() {
        let mut bench = Bench::new();
        bench.script([record(10), record(11), record(12)]);
        assert_eq!(bench.poll().unwrap(), [10, 11]);
        assert_eq!(bench.poll().unwrap(), [12]);
        assert_eq!(bench.poll().unwrap(), [0i64; 0]);
        assert_eq!(bench.assigned(), [10], "an assignment is installed once");
    }

    #[test]
    fn a_new_epoch_begins_where_the_driver_says_whatever_was_fetched() {
        let mut bench = Bench::new();
        bench.script([record(10), record(11)]);
        bench.poll().unwrap();
        bench.assign(2, 11);
        bench.script([record(11)]);
        assert_eq!(bench.poll().unwrap(), [11]);
        assert_eq!(bench.assigned(), [10, 11]);
    }

    #[test]
    fn records_that_the_lease_held_back_are_given_when_it_is_renewed_and_dropped_with_their_epoch() {
        let mut bench = Bench::new();
        bench.shared.lease(Moment::default());
        bench.script([record(10), record(11)]);
        assert_eq!(bench.poll().unwrap(), [0i64; 0]);
        bench.shared.lease(bench.now + SECOND);
        assert_eq!(bench.poll().unwrap(), [10, 11]);

        bench.shared.lease(Moment::default());
        bench.script([record(12)]);
        assert_eq!(bench.poll().unwrap(), [0i64; 0]);
        bench.shared.lose("expelled");
        bench.assign(2, 12);
        bench.script([record(12)]);
        assert_eq!(bench.poll().unwrap(), [12], "once, not twice");
    }

    #[test]
    fn a_position_out_of_range_asks_for_a_correction_and_the_rest_goes_on() {
        let mut bench = Bench::new();
        bench.script([record(10), Fetched::OutOfRange, record(11)]);
        assert_eq!(bench.poll().unwrap(), [10]);
        assert_eq!(bench.resets.get(), 1);
        assert_eq!(bench.poll().unwrap(), [11]);
    }

    #[test]
    fn an_error_comes_after_what_was_fetched_before_it() {
        let mut bench = Bench::new();
        let error = || Fetched::Failed(ConsumerError::Data("broken".into()));
        bench.script([record(10), error(), error()]);
        assert_eq!(bench.poll().unwrap(), [10]);
        assert_eq!(bench.poll().unwrap_err().code(), "data");
    }
}
