//! Static members (KIP-345): they keep their place while they are away.

use super::*;

const FENCED_INSTANCE_ID: i16 = 82;

fn static_member() -> Member {
    Member::with(&["s"], |settings| settings.is_static = true)
}

#[test]
fn a_static_member_does_not_leave_when_it_is_closed_and_still_commits() {
    let mut m = static_member();
    m.stable();
    let actions = m.close(true);
    assert_eq!(find(&actions, revocation).commit, Commit::Returned);
    let actions = m.given_up(&actions);
    assert!(!has(&actions, leave));
    assert!(actions.contains(&Action::Closed));
}

#[test]
fn kip_1092_whoever_closes_says_otherwise() {
    let leaves_with = |is_static: bool, membership: Membership| {
        let mut m = Member::with(&["s"], |settings| settings.is_static = is_static);
        m.stable();
        m.machine.close(m.now, false, membership);
        let actions = m.actions();
        let actions = m.given_up(&actions);
        has(&actions, leave)
    };
    assert!(leaves_with(true, Membership::Leave));
    assert!(!leaves_with(true, Membership::Remain));
    assert!(leaves_with(false, Membership::Leave));
    assert!(!leaves_with(false, Membership::Remain));
    assert!(leaves_with(false, Membership::Default));
}

#[test]
fn a_static_member_that_is_not_polled_falls_silent_and_does_not_leave() {
    let mut m = static_member();
    m.stable();
    m.machine.application(false, m.now);
    let mut last = Vec::new();
    for _ in 0..20 {
        last = m.pass(ms(3_000));
        if has(&last, lost) {
            break;
        }
        m.heartbeat(&last, 0);
    }
    assert!(has(&last, lost) && !has(&last, leave), "{last:?}");
    assert!(find(&last, trouble).contains("max.poll.interval.ms"));
    assert_eq!(m.pass(ms(100_000)), [], "no heartbeat, so that its session ends");
}

#[test]
fn a_second_one_of_the_same_instance_id_fences_the_first_wherever_it_is() {
    let fenced = |actions: &[Action]| find(actions, failure) == ConsumerError::Fenced;

    let mut m = static_member();
    let id = m.joining();
    assert!(fenced(&m.joined(id, refused(FENCED_INSTANCE_ID))));

    let mut m = static_member();
    let id = m.syncing();
    assert!(fenced(&m.synced(id, FENCED_INSTANCE_ID, &[])));

    let mut m = static_member();
    m.stable();
    let beat = m.pass(ms(3_000));
    let actions = m.heartbeat(&beat, FENCED_INSTANCE_ID);
    assert!(fenced(&actions) && has(&actions, lost));
    assert_eq!(m.pass(ms(100_000)), [], "nothing brings it back");
}

#[test]
fn a_static_member_whose_id_is_unknown_asks_for_a_new_one_by_its_instance_id() {
    let mut m = static_member();
    m.stable();
    let beat = m.pass(ms(3_000));
    let actions = m.heartbeat(&beat, UNKNOWN_MEMBER_ID);
    assert!(has(&actions, lost));
    let mut sent = m.prepare(&actions);
    sent.extend(m.pass(ms(1_000)));
    assert_eq!(find(&sent, join_request).0, "");
}

/// In a stable group a static member is taken in without a rebalance. Had it been about to give something up when it was restarted,
/// nobody would ever ask for what was held back for that.
#[test]
fn a_leader_whose_plan_holds_something_back_sees_to_the_rebalance_that_is_to_follow() {
    let mut m = Member::with(&["s"], |settings| settings.protocol = Protocol::Cooperative);
    let plan = |m: &mut Member, id: RequestId, generation: i32, held_back: bool| {
        let actions = m.joined(id, leader(generation, vec![member("m")]));
        m.heartbeat(&actions, 0);
        let planned = Planned { blobs: vec![], counts: BTreeMap::new(), held_back, racks: None };
        m.machine.planned(m.now, find(&actions, assign_round), Ok(planned));
        let id = find(&m.actions(), sync_id);
        m.synced(id, 0, &[("t", 0)]);
    };
    let beats = |m: &mut Member, times: u32| {
        for _ in 0..times {
            let actions = m.pass(ms(3_000));
            m.heartbeat(&actions, 0);
        }
    };
    let id = m.joining();
    plan(&mut m, id, 5, true);
    beats(&mut m, 3);
    assert!(!m.machine.waits_for_poll(), "others have a session's time to ask");
    beats(&mut m, 1);
    assert!(m.machine.waits_for_poll());

    let actions = m.poll();
    let sent = m.prepare(&actions);
    plan(&mut m, find(&sent, join_id), 6, false);
    beats(&mut m, 20);
    assert!(!m.machine.waits_for_poll(), "all is handed out");
}
