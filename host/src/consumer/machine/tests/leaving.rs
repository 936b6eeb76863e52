//! Ends of a membership.

use super::*;

#[test]
fn without_polls_the_member_leaves_and_comes_back_with_the_next_poll() {
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.application(false, m.now);
    let mut time = 0;
    loop {
        let actions = m.pass(ms(3_000));
        time += 3_000;
        if time >= 60_000 {
            assert!(has(&actions, lost));
            assert_eq!(find(&actions, leave).1, "m");
            break;
        }
        m.heartbeat(&actions, 0);
    }
    assert_eq!(m.pass(ms(100_000)), [], "nothing before the next poll");
    let actions = m.poll();
    assert!(!has(&actions, revocation), "it has nothing any more");
    assert_eq!(find(&m.prepare(&actions), join_request).0, "");
}

#[test]
fn waiting_inside_poll_is_not_too_long() {
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.application(true, m.now);
    for _ in 0..30 {
        let actions = m.pass(ms(3_000));
        assert!(!has(&actions, leave));
        m.heartbeat(&actions, 0);
    }
}

#[test]
fn close_commits_then_leaves_at_once() {
    let mut m = Member::new(&["s"]);
    m.stable();
    let actions = m.close(true);
    let revocation = find(&actions, revocation);
    assert_eq!(revocation.commit, Commit::Returned, "what it was given, and not only what it has processed");
    assert!(!has(&actions, leave));
    let actions = m.given_up(&actions);
    let (id, member_id) = find(&actions, leave);
    assert_eq!(member_id, "m");
    m.machine.left(id);
    assert_eq!(m.actions(), [Action::Closed]);
}

#[test]
fn close_works_in_every_state() {
    // Before the first poll.
    let mut m = Member::new(&["s"]);
    assert_eq!(m.close(true), [Action::Closed]);
    // While SyncGroup is under way.
    let mut m = Member::new(&["s"]);
    m.syncing();
    assert_eq!(find(&m.close(true), leave).1, "m");
    // While a strategy assigns.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.joined(id, leader(5, vec![member("m")]));
    let actions = m.close(true);
    assert!(has(&actions, |a| matches!(a, Action::CancelAssign).then_some(())));
    assert_eq!(find(&actions, leave).1, "m");
    // Twice.
    assert_eq!(m.close(true), []);
    // After a fatal error.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.joined(id, refused(23));
    assert_eq!(m.close(true), [Action::Closed]);
}
