//! Until when records are handed out, and when partitions count as lost.

use super::*;

#[test]
fn the_lease_counts_from_when_an_acknowledged_heartbeat_was_sent() {
    let mut m = Member::new(&["s"]);
    let start = m.now;
    m.stable();
    let beat = m.pass(ms(3_000));
    m.now = m.now + ms(2_000);
    let actions = m.heartbeat(&beat, 0);
    assert_eq!(find(&actions, lease), start + ms(13_000), "sent at 3 s, not answered at 5 s");

    // The next one is never answered: nothing may be handed out after 13 s, and at 13 s the partitions are lost.
    assert!(has(&m.pass(ms(1_000)), heartbeat));
    assert!(!has(&m.pass(ms(6_999)), lost));
    assert!(has(&m.pass(ms(1)), lost));
}

#[test]
fn a_rebalance_ends_the_lease_when_the_group_may_go_on_without_this_member() {
    let mut m = Member::new(&["s"]);
    let start = m.now;
    m.stable();
    m.machine.application(true, m.now);
    let mut leased = start;
    for _ in 0..30 {
        let beat = m.pass(ms(3_000));
        let actions = m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
        assert!(!has(&actions, lost), "it is kept for the rebalance time-out");
        leased = actions.iter().find_map(lease).unwrap_or(leased);
        assert!(leased <= start + ms(60_000), "max.poll.interval.ms after nothing had begun");
        assert!(leased == start + ms(60_000) || leased == m.now + ms(10_000), "a session at a time");
    }
    assert_eq!(leased, start + ms(60_000));
}

#[test]
fn an_assignment_that_comes_late_is_not_lost_before_a_heartbeat_could_be_answered() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, follower(5));
    let id = find(&actions, sync_id);
    m.now = m.now + ms(15_000);
    let actions = m.synced(id, 0, &[("t", 0)]);
    assert!(has(&actions, delivery));
    assert!(!has(&m.pass(ms(9_000)), lost));
}

#[test]
fn time_outs_never_lie_in_the_past_after_they_were_handled() {
    let mut m = Member::new(&["s"]);
    m.leading();
    for _ in 0..200 {
        let Some(next) = m.machine.next_timeout() else { break };
        let actions = m.pass(next.since(m.now));
        assert!(m.machine.next_timeout().is_none_or(|n| n > m.now), "{:?}", m.machine);
        for action in &actions {
            match action {
                Action::Heartbeat { id, .. } => {
                    m.machine.heartbeat_answered(m.now, *id, Ok(0));
                }
                Action::FindCoordinator(id) => {
                    let answer = Coordinator { error: 15, ..Coordinator::default() };
                    m.machine.coordinator_found(m.now, *id, Ok(answer));
                }
                _ => {}
            }
        }
        m.actions();
    }
}
