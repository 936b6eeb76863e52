//! Members of a group that mean harm: what they write can neither stop nor bloat the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::blobs;
use crate::ledger::Ledger;
use crate::member::{Member, Program, Start};
use crate::raw_member::RawMember;
use crate::watched::{PATIENCE, SHARED, properties};

const PARTITIONS: u32 = 6;

/// More than any of the hostile bytes take, decoded; what they claim is gigabytes.
const BLOAT: u64 = 100 << 20;

/// A rebalance with a hostile member takes no longer, on a machine that is busy with other things.
const LATE: Duration = Duration::from_secs(20);

/// A member of ours in a process of its own.
fn victim(group: &str, strategy: &str, ledger: &Ledger) -> Member {
    let more = [("partition.assignment.strategy", strategy)];
    let properties: BTreeMap<String, String> = properties(&SHARED.bootstrap(), group, &more);
    let log = SHARED.folder().join("victims.log");
    let start = Start { program: &Program::Ours, name: group, topics: group, properties, log: &log };
    let member = Member::new(start, ledger);
    member.ready();
    member.tell("start");
    member
}

/// Waits until the victim has been assigned something again, and says what it owns.
fn assigned(ledger: &Ledger, name: &str, before: u32) -> usize {
    ledger.wait("the victim is assigned", PATIENCE, |book| {
        (book.assignments(name) > before).then(|| book.owned(name))
    })
}

fn assignments(ledger: &Ledger, name: &str) -> u32 {
    ledger.wait("now", PATIENCE, |book| Some(book.assignments(name)))
}

/// A leader of ours, and a member that joins with one hostile subscription after the other.
fn leads_through_hostile_subscriptions(group: &str, strategy: &str) {
    let admin = SHARED.admin();
    admin.create_topic(group, PARTITIONS);
    let ledger = Ledger::default();
    let leader = victim(group, strategy, &ledger);
    assert_eq!(assigned(&ledger, group, 0), PARTITIONS as usize);
    let mut raw = RawMember::new(&admin, group, strategy);
    // A harmless round first: what any rebalance takes is no bloat.
    raw.join(&blobs::Blob::default().short(0).int(0).int(-1).done());
    raw.sync(&[]);
    let memory = leader.resident();
    for (what, subscription) in blobs::subscriptions(group) {
        let start = Instant::now();
        let before = assignments(&ledger, group);
        let joined = raw.join(&subscription);
        assert_eq!(joined.error_code, 0, "{what}");
        assert_ne!(*joined.leader, *raw.id(), "{what}: the leader stays");
        let part = raw.sync(&[]);
        let part = part.unwrap_or_else(|| panic!("{what}: another rebalance follows"));
        let own = assigned(&ledger, group, before);
        let theirs = partitions(&part);
        assert_eq!(own + theirs, PARTITIONS as usize, "{what}: {own} and {theirs}");
        assert!(own >= PARTITIONS as usize / 2, "{what}: the leader has {own}");
        assert!(start.elapsed() < LATE, "{what}: {:?}", start.elapsed());
        let grown = leader.resident().saturating_sub(memory);
        assert!(grown < BLOAT, "{what}: {grown} bytes more");
    }
    let before = assignments(&ledger, group);
    raw.leave();
    assert_eq!(assigned(&ledger, group, before), PARTITIONS as usize);
    leader.stop();
}

/// How many partitions an assignment of one topic holds.
fn partitions(assignment: &[u8]) -> usize {
    assignor_host::wire::assignment::decode(assignment)
        .map_or(0, |(topics, _)| topics.iter().map(|t| t.partitions.len()).sum())
}

#[test]
fn hostile_subscriptions_neither_stop_nor_bloat_a_leader_that_runs_range() {
    leads_through_hostile_subscriptions("hostile-range", "range");
}

/// It reads user data.
#[test]
fn hostile_subscriptions_neither_stop_nor_bloat_a_leader_that_runs_sticky() {
    leads_through_hostile_subscriptions("hostile-sticky", "sticky");
}

#[test]
fn a_hostile_leader_neither_stops_nor_bloats_its_group() {
    let group = "hostile-leader";
    let admin = SHARED.admin();
    admin.create_topic(group, PARTITIONS);
    let nothing = blobs::Blob::default().short(0).int(0).int(-1).done();
    let mut raw = RawMember::new(&admin, group, "range");
    let joined = raw.join(&nothing);
    assert_eq!((joined.error_code, &*joined.leader), (0, raw.id()));
    raw.sync(&[]);
    let ledger = Ledger::default();
    let follower = victim(group, "range", &ledger);
    // Joins with the follower, and tells it this.
    let mut lead = |what: &str, assignment: &[u8]| {
        let start = Instant::now();
        loop {
            let joined = raw.join(&nothing);
            assert_eq!(joined.error_code, 0, "{what}");
            let id = raw.id().to_owned();
            let other = joined.members.iter().find(|m| *m.member_id != *id);
            let plan: Vec<(&str, &[u8])> = other.iter().map(|m| (&*m.member_id, assignment)).collect();
            if raw.sync(&plan).is_some() && !plan.is_empty() {
                return;
            }
            assert!(start.elapsed() < LATE, "{what}: no follower");
        }
    };
    let sound = blobs::assignment(group, &[0, 1, 2, 3, 4, 5]);
    lead("a sound plan", &sound);
    assert_eq!(assigned(&ledger, group, 0), PARTITIONS as usize);
    let memory = follower.resident();
    for (what, assignment) in blobs::assignments(group) {
        lead(what, &assignment);
        // And the follower is there for the next rebalance, as if nothing had been.
        let before = assignments(&ledger, group);
        lead("a sound plan", &sound);
        let owned = ledger.wait(what, PATIENCE, |book| {
            let owned = book.owned(group);
            (book.assignments(group) > before && owned == PARTITIONS as usize).then_some(owned)
        });
        assert_eq!(owned, PARTITIONS as usize, "{what}");
        let grown = follower.resident().saturating_sub(memory);
        assert!(grown < BLOAT, "{what}: {grown} bytes more");
    }
    let before = assignments(&ledger, group);
    raw.leave();
    assert_eq!(assigned(&ledger, group, before), PARTITIONS as usize);
    follower.stop();
}
