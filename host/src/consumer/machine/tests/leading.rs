//! What a leader watches, and when it asks for a rebalance.

use super::*;

#[test]
fn sarama_1462_the_leader_joins_again_when_a_watched_topics_partitions_change() {
    let mut m = Member::new(&["s"]);
    m.leading();
    assert_eq!(m.machine.watched().collect::<Vec<_>>(), ["t"]);
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 4)]), Some(1));
    assert!(!m.machine.waits_for_poll());
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 6)]), Some(1));
    assert!(m.machine.waits_for_poll());

    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 6)]), Some(1));
    assert!(!m.machine.waits_for_poll(), "a follower leaves that to the leader");
}

#[test]
fn kafka_14867_the_leader_joins_again_when_replicas_are_in_other_racks() {
    let mut m = Member::new(&["s"]);
    m.leading();
    let counts = BTreeMap::from([("t".to_owned(), 4)]);
    m.machine.looked_up(m.now, &counts, Some(1));
    assert!(!m.machine.waits_for_poll());
    m.machine.looked_up(m.now, &counts, Some(2));
    assert!(m.machine.waits_for_poll());
}

#[test]
fn a_rebalance_can_be_asked_for_by_the_leader_only_and_not_too_often() {
    let mut m = Member::new(&["s"]);
    m.leading();
    m.machine.request_rebalance(m.now, ms(0), "asked".into());
    m.pass(ms(2_999));
    assert!(!m.machine.waits_for_poll(), "a heartbeat interval apart at least");
    m.pass(ms(1));
    assert!(m.machine.waits_for_poll());

    let mut m = Member::new(&["s"]);
    m.leading();
    m.machine.request_rebalance(m.now, ms(60_000), "later".into());
    m.machine.request_rebalance(m.now, ms(5_000), "instead".into());
    m.pass(ms(4_999));
    assert!(!m.machine.waits_for_poll());
    m.pass(ms(1));
    assert!(m.machine.waits_for_poll());

    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.request_rebalance(m.now, ms(0), "asked".into());
    m.pass(ms(5_000));
    assert!(!m.machine.waits_for_poll());
}
