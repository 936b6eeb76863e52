use super::*;

fn partition() -> Partition {
    ("t".into(), 0)
}

fn assigned(generation: i32, partitions: &[Partition]) -> Line {
    let partitions = partitions.iter().cloned().collect();
    Line::Assigned { generation, leader: None, strategy: "s".into(), partitions }
}

fn record(value: u64) -> Line {
    Line::Record { partition: partition(), value }
}

fn book(members: &[&str]) -> Ledger {
    let ledger = Ledger::default();
    members.iter().for_each(|name| ledger.enter(name, None));
    ledger
}

fn broken(ledger: &Ledger) -> Option<String> {
    ledger.lock().broken.clone()
}

#[test]
fn two_owners_in_one_generation_are_found() {
    let ledger = book(&["a", "b"]);
    ledger.note("a", 1, assigned(3, &[partition()]));
    ledger.note("b", 2, assigned(4, &[partition()]));
    assert_eq!(broken(&ledger), None);
    ledger.note("a", 3, assigned(4, &[partition()]));
    assert!(broken(&ledger).unwrap().contains("in generation 4"));
}

#[test]
fn a_record_after_the_lease_is_found_whoever_is_heard_first() {
    for late_first in [false, true] {
        let ledger = book(&["a", "b"]);
        ledger.note("a", 1, assigned(3, &[partition()]));
        ledger.note("a", 5, record(1));
        if late_first {
            ledger.note("a", 11, record(2));
        }
        ledger.note("b", 10, assigned(4, &[partition()]));
        if !late_first {
            assert_eq!(broken(&ledger), None, "what came before was a's");
            ledger.note("a", 11, record(2));
        }
        assert!(broken(&ledger).unwrap().contains("1 µs after b's"));
    }
}

#[test]
fn a_record_of_what_was_given_up_is_found() {
    let ledger = book(&["a"]);
    ledger.note("a", 1, assigned(3, &[partition()]));
    ledger.note("a", 2, Line::Revoked { partitions: BTreeSet::from([partition()]) });
    ledger.note("a", 3, record(1));
    ledger.note("a", 3, assigned(4, &[partition()]));
    assert_eq!(broken(&ledger), None, "its own again, by a line that came late");
    ledger.note("a", 5, Line::Revoked { partitions: BTreeSet::from([partition()]) });
    ledger.note("a", 6, record(2));
    ledger.ending("a");
    ledger.exit("a");
    assert!(broken(&ledger).unwrap().contains("had given up"));
}

#[test]
fn what_is_missing_and_what_comes_again_is_counted() {
    let ledger = book(&["a"]);
    ledger.note("a", 1, assigned(3, &[partition()]));
    ledger.acknowledged(1, partition());
    ledger.note("a", 2, record(1));
    ledger.note("a", 3, record(1));
    ledger.note("a", 3, record(2));
    ledger.acknowledged(2, partition());
    ledger.all_read(u64::MAX, Duration::ZERO);
    ledger.acknowledged(3, partition());
    ledger.all_read(3, Duration::ZERO);
    assert_eq!(ledger.lock().missing, BTreeSet::from([3]));
    assert_eq!(ledger.tally(), Tally { acknowledged: 3, read: 2, redelivered: 1 });
    let recovered =
        |record| ledger.lock().recovered(Mark { time: 1, record }, &BTreeSet::from([partition()]));
    assert_eq!((recovered(2), recovered(3)), (Some(3), None));
    ledger.deleted("t");
    ledger.all_read(u64::MAX, Duration::ZERO);
}
