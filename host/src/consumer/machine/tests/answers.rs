//! What the coordinator answers besides: it moves, loads, refuses, forgets, breaks off (Kafka: `AbstractCoordinatorTest`,
//! `ConsumerCoordinatorTest`).

use super::*;

#[test]
fn a_coordinator_that_is_not_there_yet_is_looked_for_again_after_a_growing_pause() {
    let mut m = Member::new(&["s"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    m.prepare(&actions);
    let mut id = find(&actions, |a| if let Action::FindCoordinator(id) = a { Some(*id) } else { None });
    let mut pauses = Vec::new();
    for _ in 0..6 {
        m.machine.coordinator_found(m.now, id, Ok(Coordinator { error: 15, ..Coordinator::default() }));
        m.actions();
        let pause = m.machine.next_timeout().unwrap().since(m.now);
        pauses.push(pause);
        let actions = m.pass(pause);
        id = find(&actions, |a| if let Action::FindCoordinator(id) = a { Some(*id) } else { None });
    }
    for (pause, expected) in pauses.iter().zip([100, 200, 400, 800, 1000, 1000]) {
        assert!(*pause >= ms(expected * 8 / 10) && *pause <= ms(expected * 12 / 10), "{pauses:?}");
    }
}

#[test]
fn a_coordinator_that_moved_is_found_anew_and_one_that_loads_is_asked_again() {
    for (code, finds) in [(16, true), (15, true), (14, false)] {
        let mut m = Member::new(&["s"]);
        let id = m.joining();
        m.joined(id, refused(code));
        let mut actions = m.pass(ms(200));
        assert_eq!(has(&actions, |a| matches!(a, Action::FindCoordinator(_)).then_some(())), finds);
        if finds {
            actions = m.coordinator(&actions);
        }
        assert!(has(&actions, join_id), "error {code}");
    }
}

#[test]
fn a_heartbeat_that_tells_of_a_rebalance_leaves_assign_and_sync_alone() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m")]));
    let after = m.heartbeat(&actions, REBALANCE_IN_PROGRESS);
    assert!(!has(&after, |a| matches!(a, Action::CancelAssign).then_some(())));
    let planned = Planned { blobs: vec![], counts: BTreeMap::new(), held_back: false, racks: None };
    m.machine.planned(m.now, find(&actions, assign_round), Ok(planned));
    assert!(has(&m.actions(), sync_id));
}

#[test]
fn a_generation_that_is_gone_cancels_the_running_assign() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m")]));
    let after = m.heartbeat(&actions, UNKNOWN_MEMBER_ID);
    assert!(has(&after, |a| matches!(a, Action::CancelAssign).then_some(())));
    assert_eq!(find(&after, join_request).0, "", "a member id that is unknown is not used again");
    let late = Planned { blobs: vec![], counts: BTreeMap::new(), held_back: false, racks: None };
    m.machine.planned(m.now, find(&actions, assign_round), Ok(late));
    assert_eq!(m.actions(), [], "the late plan goes nowhere");
}

#[test]
fn a_lost_generation_loses_the_partitions_and_joins_without_waiting_for_a_poll() {
    for (code, member_id) in [(ILLEGAL_GENERATION, "m"), (UNKNOWN_MEMBER_ID, "")] {
        let mut m = Member::new(&["s"]);
        m.stable();
        m.machine.application(false, m.now);
        let actions = m.pass(ms(3_000));
        let actions = m.heartbeat(&actions, code);
        assert!(has(&actions, lost));
        assert!(!has(&actions, revocation), "what is lost is not committed");
        let actions = m.prepare(&actions);
        assert_eq!(find(&actions, join_request).0, member_id);
    }
}

#[test]
fn a_commit_that_is_refused_tells_of_the_membership_as_a_heartbeat_does() {
    let identity = Identity { member_id: "m".into(), generation: 5 };
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.commit_refused(m.now, &Identity { generation: 4, ..identity.clone() }, UNKNOWN_MEMBER_ID);
    assert_eq!(m.actions(), [], "an older generation's commit says nothing");
    m.machine.commit_refused(m.now, &identity, REBALANCE_IN_PROGRESS);
    assert!(m.machine.waits_for_poll());
    m.machine.commit_refused(m.now, &identity, ILLEGAL_GENERATION);
    assert!(has(&m.actions(), lost));
}

#[test]
fn errors_that_trying_again_can_not_heal_end_the_membership_in_words() {
    for (code, expected, words) in [
        (23, "inconsistent-protocol", "no strategy in common"),
        (82, "fenced", "group.instance.id"),
        (26, "refused", "session.timeout.ms"),
        (24, "refused", "group.id"),
        (35, "refused", "JoinGroup"),
    ] {
        let mut m = Member::new(&["s"]);
        let id = m.joining();
        let actions = m.joined(id, refused(code));
        let error = find(&actions, failure);
        assert_eq!(error.code(), expected);
        assert!(error.to_string().contains(words), "{error}");
        assert!(!m.machine.waits_for_poll());
        assert_eq!(m.machine.next_timeout(), None);
    }
}

#[test]
fn errors_that_an_operator_can_heal_are_reported_and_tried_again_at_the_next_poll() {
    for (code, expected) in [(30, "group-authorization"), (81, "group-full")] {
        let mut m = Member::new(&["s"]);
        let id = m.joining();
        let actions = m.joined(id, refused(code));
        assert_eq!(find(&actions, failure).code(), expected);
        let actions = m.poll();
        m.prepare(&actions);
        assert!(has(&m.pass(ms(2_000)), join_id));
    }
}

#[test]
fn an_error_that_is_not_known_is_tried_again() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    assert!(has(&m.joined(id, refused(999)), trouble));
    assert!(has(&m.pass(ms(200)), join_id));
}

#[test]
fn answers_to_requests_that_no_longer_matter_are_dropped() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    assert_eq!(m.joined(id + 100, follower(5)), []);
    let actions = m.joined(id, follower(5));
    assert_eq!(m.joined(id, follower(6)), []);
    let beat = find(&actions, heartbeat);
    let sync = find(&actions, sync_id);
    m.synced(sync, REBALANCE_IN_PROGRESS, &[]);
    m.machine.heartbeat_answered(m.now, beat, Ok(UNKNOWN_MEMBER_ID));
    assert_eq!(m.actions(), [], "a heartbeat from before JoinGroup says nothing any more");
}

#[test]
fn a_connection_that_breaks_is_made_again_and_the_membership_goes_on() {
    let mut m = Member::new(&["s"]);
    m.stable();
    let actions = m.pass(ms(3_000));
    m.machine.heartbeat_answered(m.now, find(&actions, heartbeat), Err("reset".into()));
    let actions = m.pass(ms(200));
    let actions = m.coordinator(&actions);
    assert!(has(&actions, |a| matches!(a, Action::Connect(_)).then_some(())));
    let identity = find(&actions, |a| match a {
        Action::Heartbeat { identity, .. } => Some(identity.clone()),
        _ => None,
    });
    assert_eq!(identity, Identity { member_id: "m".into(), generation: 5 });

    for during in ["JoinGroup", "SyncGroup"] {
        let mut m = Member::new(&["s"]);
        if during == "JoinGroup" {
            let id = m.joining();
            m.machine.joined(m.now, id, Err("reset".into()));
        } else {
            let id = m.syncing();
            m.machine.synced(m.now, id, Err("reset".into()));
        }
        assert!(find(&m.actions(), trouble).contains(during));
        let actions = m.pass(ms(200));
        assert!(has(&m.coordinator(&actions), join_id));
    }
}
