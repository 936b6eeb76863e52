use super::*;
use crate::consumer::machine::Identity;
use crate::consumer::shared::Assignment;
use crate::group::TopicPartitions;
use std::cell::Cell;
use std::sync::Mutex;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Script {
    next: VecDeque<Fetched>,
    stopped: Vec<u32>,
    started: Vec<(u32, i64)>,
    fails: bool,
}

struct Path(Arc<Mutex<Script>>);

impl DataPath for Path {
    fn change(&mut self, stop: &BTreeSet<Key>, start: &Offsets) -> Result<(), ConsumerError> {
        let mut script = self.0.lock().unwrap();
        if std::mem::take(&mut script.fails) {
            return Err(ConsumerError::Data("no".into()));
        }
        script.stopped.extend(stop.iter().map(|(_, p)| *p));
        script.started.extend(start.iter().map(|((_, p), offset)| (*p, *offset)));
        Ok(())
    }
    fn clear(&mut self) {
        self.0.lock().unwrap().stopped.push(u32::MAX);
    }
    fn next(&mut self, _: Duration) -> Fetched {
        self.0.lock().unwrap().next.pop_front().unwrap_or(Fetched::Nothing)
    }
    fn renew(&mut self) -> Result<(), ConsumerError> {
        self.clear();
        Ok(())
    }
    fn wake_by(&mut self, _: Arc<dyn Fn() + Send + Sync>) {}
}

/// Counts resets, and takes no record of a bad offset.
struct Told<'a>(&'a Cell<u32>, Option<i64>);

impl Calls for Told<'_> {
    fn listener(&mut self) {}
    fn out_of_range(&mut self) {
        self.0.set(self.0.get() + 1);
    }
    fn fit(&mut self, records: &[Record]) -> Result<usize, ConsumerError> {
        match records.iter().position(|r| Some(r.offset) == self.1) {
            Some(0) => Err(ConsumerError::Data("bad".into())),
            Some(good) => Ok(good),
            None => Ok(records.len()),
        }
    }
}

fn record(offset: i64) -> Fetched {
    of(0, offset)
}

fn of(partition: u32, offset: i64) -> Fetched {
    Fetched::Record(Record {
        topic: "t".into(),
        partition,
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
    given: usize,
    bad: Option<i64>,
}

impl Bench {
    fn new() -> Self {
        let now = Moment::default() + SECOND * 100;
        let shared = Shared::new(now);
        shared.subscribed().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let fetcher = Fetcher::new(Box::new(Path(Arc::clone(&script))));
        let mut bench = Self { shared, fetcher, script, now, resets: Cell::new(0), given: 2, bad: None };
        bench.assign(1, &[0]);
        bench.start(0, 10);
        bench
    }
    fn assign(&mut self, generation: i32, partitions: &[u32]) {
        let identity = Identity { member_id: "m".into(), generation };
        let partitions = vec![TopicPartitions { topic: "t".into(), partitions: partitions.to_vec() }];
        self.shared.assign(Assignment::new(identity, false, "s".into(), partitions), Vec::new());
        self.shared.lease(self.now + SECOND);
    }
    fn start(&self, partition: u32, offset: i64) {
        self.shared.start(Offsets::from([(("t".to_owned(), partition), offset)]), true);
    }
    fn script(&self, fetched: impl IntoIterator<Item = Fetched>) {
        self.script.lock().unwrap().next.extend(fetched);
    }
    fn poll(&mut self) -> Result<Vec<i64>, ConsumerError> {
        self.shared.enter_poll(self.now)?;
        let now = self.now;
        let most = Most { fetched: 2, given: self.given };
        let calls = Told(&self.resets, self.bad);
        let records = self.fetcher.poll(&self.shared, most, Duration::ZERO, || now, calls);
        self.shared.leave_poll(self.now);
        records.map(|records| records.iter().map(|r| r.offset).collect())
    }
    fn started(&self) -> Vec<(u32, i64)> {
        self.script.lock().unwrap().started.clone()
    }
    fn stopped(&self) -> Vec<u32> {
        self.script.lock().unwrap().stopped.clone()
    }
}

#[test]
fn a_poll_gives_at_most_so_many_records() {
    let mut bench = Bench::new();
    bench.script([record(10), record(11), record(12)]);
    assert_eq!(bench.poll().unwrap(), [10, 11]);
    assert_eq!(bench.poll().unwrap(), [12]);
    assert_eq!(bench.poll().unwrap(), [0i64; 0]);
    assert_eq!(bench.started(), [(0, 10)], "an assignment is installed once");
}

#[test]
fn a_new_epoch_begins_where_the_driver_says_whatever_was_fetched() {
    let mut bench = Bench::new();
    bench.script([record(10), record(11)]);
    bench.poll().unwrap();
    bench.shared.unassign();
    bench.assign(2, &[0]);
    bench.start(0, 11);
    bench.script([record(11)]);
    assert_eq!(bench.poll().unwrap(), [11]);
    assert_eq!((bench.stopped(), bench.started()), (vec![0], vec![(0, 10), (0, 11)]));
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
    bench.assign(2, &[0]);
    bench.start(0, 12);
    bench.script([record(12)]);
    assert_eq!(bench.poll().unwrap(), [12], "once, not twice");
}

#[test]
fn partitions_that_stay_go_on_as_they_are_with_what_was_fetched_of_them() {
    let mut bench = Bench::new();
    bench.assign(2, &[0, 1]);
    bench.start(1, 50);
    // Fetched, but held back.
    bench.shared.lease(Moment::default());
    bench.script([record(10), of(1, 50)]);
    assert_eq!(bench.poll().unwrap(), [0i64; 0]);
    // Partition 1 goes, partition 2 comes.
    bench.assign(3, &[0, 2]);
    bench.start(2, 70);
    bench.script([record(11), of(1, 51), of(2, 70)]);
    assert_eq!(bench.poll().unwrap(), [10], "what was fetched of partition 1 is gone");
    assert_eq!(bench.poll().unwrap(), [11, 70], "and what comes late of it is dropped");
    assert_eq!((bench.stopped(), bench.started()), (vec![1], vec![(0, 10), (1, 50), (2, 70)]));
}

#[test]
fn records_from_before_a_partition_was_started_anew_are_dropped() {
    let mut bench = Bench::new();
    bench.script([record(10)]);
    assert_eq!(bench.poll().unwrap(), [10]);
    bench.shared.correct(&at(11), &at(40));
    bench.script([record(11), record(40)]);
    assert_eq!(bench.poll().unwrap(), [40]);
    assert_eq!((bench.stopped(), bench.started()), (vec![0], vec![(0, 10), (0, 40)]));
}

#[test]
fn after_a_failed_change_everything_is_started_again() {
    let mut bench = Bench::new();
    bench.script([record(10)]);
    assert_eq!(bench.poll().unwrap(), [10]);
    bench.assign(2, &[0, 1]);
    bench.start(1, 50);
    bench.script.lock().unwrap().fails = true;
    assert_eq!(bench.poll().unwrap_err().code(), "data");
    assert_eq!(bench.poll().unwrap(), [0i64; 0]);
    assert_eq!((bench.stopped(), bench.started()), (vec![u32::MAX], vec![(0, 10), (0, 11), (1, 50)]));
}

#[test]
fn a_position_out_of_range_asks_for_a_correction_and_the_rest_goes_on() {
    let mut bench = Bench::new();
    bench.script([record(10), Fetched::OutOfRange, Fetched::Passing, record(11)]);
    assert_eq!(bench.poll().unwrap(), [10, 11]);
    assert_eq!(bench.resets.get(), 1);
}

fn at(offset: i64) -> Offsets {
    Offsets::from([(("t".to_owned(), 0), offset)])
}

fn key(partition: u32) -> BTreeSet<Key> {
    BTreeSet::from([("t".to_owned(), partition)])
}

#[test]
fn what_was_fetched_of_a_paused_partition_is_dropped_and_fetched_again_when_it_is_resumed() {
    let mut bench = Bench::new();
    bench.assign(2, &[0, 1]);
    bench.start(1, 50);
    // Fetched, but held back.
    bench.shared.lease(Moment::default());
    bench.script([record(10), of(1, 50)]);
    assert_eq!(bench.poll().unwrap(), [0i64; 0]);
    bench.shared.pause(&key(0), true).unwrap();
    bench.shared.lease(bench.now + SECOND);
    bench.script([record(11), of(1, 51)]);
    assert_eq!(bench.poll().unwrap(), [50]);
    assert_eq!(bench.poll().unwrap(), [51], "what comes late of a paused partition is dropped");
    bench.shared.pause(&key(0), false).unwrap();
    bench.script([record(10)]);
    assert_eq!(bench.poll().unwrap(), [10]);
    assert_eq!((bench.stopped(), bench.started()), (vec![0], vec![(0, 10), (1, 50), (0, 10)]));
}

#[test]
fn after_a_seek_nothing_comes_that_was_fetched_before_it() {
    let mut bench = Bench::new();
    bench.given = 1;
    bench.script([record(10), record(11)]);
    assert_eq!(bench.poll().unwrap(), [10]);
    bench.shared.seek(&at(70)).unwrap();
    bench.script([record(12), record(70)]);
    assert_eq!(bench.poll().unwrap(), [70], "neither what was fetched nor what comes late");
    bench.shared.seek(&at(11)).unwrap();
    bench.script([record(11)]);
    assert_eq!(bench.poll().unwrap(), [11], "and back");
    assert_eq!((bench.stopped(), bench.started()), (vec![0, 0], vec![(0, 10), (0, 70), (0, 11)]));
}

#[test]
fn a_record_that_does_not_fit_stops_at_it_until_somebody_seeks() {
    let mut bench = Bench::new();
    bench.bad = Some(11);
    bench.script([record(10), record(11), record(12)]);
    assert_eq!(bench.poll().unwrap(), [10], "what is before it");
    for _ in 0..2 {
        assert_eq!(bench.poll().unwrap_err(), ConsumerError::Data("bad".into()));
        assert_eq!(bench.shared.positions(), at(11), "the position does not move past it");
    }
    bench.shared.seek(&at(12)).unwrap();
    bench.script([record(12)]);
    assert_eq!(bench.poll().unwrap(), [12]);
}

#[test]
fn what_is_fetched_at_once_can_be_given_one_by_one() {
    let mut bench = Bench::new();
    bench.given = 1;
    bench.script([record(10), record(11)]);
    for offset in [10, 11] {
        assert_eq!(bench.poll().unwrap(), [offset]);
        assert_eq!(bench.shared.positions(), at(offset + 1), "what is not given yet is not counted");
    }
}

#[test]
fn when_a_topic_was_created_anew_everything_is_fetched_anew_from_where_it_was_given() {
    let mut bench = Bench::new();
    bench.given = 1;
    bench.script([record(10), record(11)]);
    assert_eq!(bench.poll().unwrap(), [10]);
    bench.script.lock().unwrap().started.clear();
    bench.shared.recreated(0);
    bench.shared.recreated(1);
    bench.script([record(11), record(12)]);
    assert_eq!(bench.poll().unwrap(), [11]);
    assert_eq!(bench.script.lock().unwrap().started, [(0, 11)]);
    bench.shared.recreated(1);
    assert_eq!(bench.poll().unwrap(), [12]);
    assert_eq!(bench.script.lock().unwrap().started, [(0, 11)], "once for each time");
}

#[test]
fn an_error_comes_after_what_was_fetched_before_it() {
    let mut bench = Bench::new();
    let error = || Fetched::Failed(ConsumerError::Data("broken".into()));
    bench.script([record(10), error(), error()]);
    assert_eq!(bench.poll().unwrap(), [10]);
    assert_eq!(bench.poll().unwrap_err().code(), "data");
}
