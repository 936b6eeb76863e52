//! From the first poll to the first delivery, and again.

use super::*;

#[test]
fn a_follower_joins_syncs_and_is_given_its_partitions() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, follower(5));
    assert!(has(&actions, heartbeat), "heartbeats flow from JoinGroup's response on");
    let (plan, identity) = find(&actions, |a| match a {
        Action::Sync { plan, identity, .. } => Some((plan.clone(), identity.clone())),
        _ => None,
    });
    assert!(plan.is_empty());
    let actions = m.synced(find(&actions, sync_id), 0, &[("t", 3)]);
    let delivery = find(&actions, delivery);
    assert_eq!(delivery.identity, identity);
    assert_eq!(identity, Identity { member_id: "m".into(), generation: 5 });
    assert_eq!(delivery.partitions, [TopicPartitions { topic: "t".into(), partitions: vec![3] }]);
    assert!(!delivery.leader);
}

#[test]
fn the_leader_assigns_and_sends_everybodys_part() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m"), member("n")]));
    let members = find(&actions, |a| match a {
        Action::Assign { members, .. } => Some(members.clone()),
        _ => None,
    });
    assert_eq!(members.iter().map(|m| m.subscription.topics.len()).collect::<Vec<_>>(), [1, 1]);
    assert!(!has(&actions, sync_id));

    let blobs = vec![("m".to_owned(), Bytes::from_static(b"1")), ("n".to_owned(), Bytes::from_static(b"2"))];
    let planned = Planned { blobs: blobs.clone(), counts: BTreeMap::new(), held_back: false, racks: None };
    m.machine.planned(m.now, find(&actions, assign_round), Ok(planned));
    let plan = find(&m.actions(), |a| match a {
        Action::Sync { plan, .. } => Some(plan.clone()),
        _ => None,
    });
    assert_eq!(plan, blobs);
}

#[test]
fn a_subscription_that_can_not_be_decoded_is_a_member_without_topics_and_is_reported() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let broken = JoinedMember {
        id: "broken".into(),
        instance_id: None,
        metadata: Bytes::from_static(&[0, 1, 0x7f, 0xff, 0xff, 0xff]),
    };
    let actions = m.joined(id, leader(5, vec![member("m"), broken]));
    let members = find(&actions, |a| match a {
        Action::Assign { members, .. } => Some(members.clone()),
        _ => None,
    });
    assert_eq!(members[1].member_id, "broken");
    assert!(members[1].subscription.topics.is_empty());
    assert!(find(&actions, trouble).contains("broken"));
}

#[test]
fn member_id_required_joins_again_at_once_with_the_id_and_the_same_bytes() {
    let mut m = Member::new(&["s", "range"]);
    m.machine.subscribe(m.now, vec!["t".into(), "a".into()]);
    let actions = m.poll();
    let mut sent = m.coordinator(&actions);
    sent.extend(m.prepare(&actions));
    let first = find(&sent, join_request);
    assert_eq!(first.0, "");
    assert_eq!(first.1.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["s", "range"]);
    let topics = wire::subscription::decode(&first.1[0].1).unwrap().topics;
    assert_eq!(topics[..], ["a", "t"], "sorted: the broker compares bytes");

    let answer = Join { member_id: "given".into(), ..refused(MEMBER_ID_REQUIRED) };
    let actions = m.joined(find(&sent, join_id), answer);
    assert!(!has(&actions, prepare), "subscription is asked once per rebalance");
    assert_eq!(find(&actions, join_request), ("given".to_owned(), first.1));
}

#[test]
fn a_rebalance_waits_for_the_applications_poll_and_commits_before_it_joins() {
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.application(false, m.now);
    let actions = m.pass(ms(3_000));
    let actions = m.heartbeat(&actions, REBALANCE_IN_PROGRESS);
    assert!(!has(&actions, prepare));
    assert!(m.machine.waits_for_poll());
    assert!(has(&m.pass(ms(3_000)), heartbeat), "heartbeats go on meanwhile");

    let actions = m.poll();
    let identity = Identity { member_id: "m".into(), generation: 5 };
    let revocation = find(&actions, revocation);
    assert_eq!((revocation.identity, revocation.commit), (identity, Commit::Processed));
    assert_eq!(revocation.partitions, [TopicPartitions { topic: "t".into(), partitions: vec![0] }]);
    assert!(!has(&actions, lost));
    let actions = m.prepare(&actions);
    assert_eq!(find(&actions, join_request).0, "m");
    assert!(!has(&m.pass(ms(9_000)), heartbeat), "none while JoinGroup is under way");
}

#[test]
fn a_rebalance_during_sync_group_joins_again_at_once_with_the_same_bytes() {
    let mut m = Member::new(&["s"]);
    let id = m.syncing();
    let actions = m.synced(id, REBALANCE_IN_PROGRESS, &[]);
    assert!(has(&actions, join_id));
    assert!(!has(&actions, prepare));
    assert!(!has(&actions, delivery));
}

#[test]
fn a_topic_that_was_not_asked_for_is_not_accepted() {
    let mut m = Member::new(&["s"]);
    let id = m.syncing();
    let actions = m.synced(id, 0, &[("t", 0), ("alien", 0)]);
    assert!(!has(&actions, delivery));
    assert!(has(&actions, trouble));
    assert!(has(&actions, prepare));
}

#[test]
fn an_assignment_that_can_not_be_decoded_is_not_accepted() {
    let mut m = Member::new(&["s"]);
    let id = m.syncing();
    let assignment = Bytes::from_static(&[0, 1, 0x7f, 0xff, 0xff, 0xff]);
    m.machine.synced(m.now, id, Ok(Sync { error: 0, assignment }));
    let actions = m.actions();
    assert!(has(&actions, trouble) && !has(&actions, delivery));
    assert!(has(&m.pass(ms(200)), join_id));
}

#[test]
fn an_empty_assignment_blob_is_an_assignment_of_nothing() {
    let mut m = Member::new(&["s"]);
    let id = m.syncing();
    m.machine.synced(m.now, id, Ok(Sync::default()));
    assert!(find(&m.actions(), delivery).partitions.is_empty());
}

#[test]
fn a_changed_subscription_is_sent_whatever_is_under_way() {
    let topics = |actions: &[Action]| {
        let request = find(actions, join_request);
        wire::subscription::decode(&request.1[0].1).unwrap().topics.to_vec()
    };
    let change = vec!["t".to_owned(), "u".to_owned()];

    // While JoinGroup is under way: its answer begins a new round.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.machine.subscribe(m.now, change.clone());
    let actions = m.joined(id, follower(5));
    assert!(!has(&actions, sync_id));
    assert_eq!(topics(&m.prepare(&actions)), ["t", "u"]);

    // While SyncGroup is under way: the assignment stands until the next poll.
    let mut m = Member::new(&["s"]);
    let id = m.syncing();
    m.machine.subscribe(m.now, change.clone());
    assert!(has(&m.synced(id, 0, &[("t", 0)]), delivery));
    let actions = m.poll();
    assert_eq!(topics(&m.prepare(&actions)), ["t", "u"]);

    // While subscriptions are asked: the answer to the older question is dropped.
    let mut m = Member::new(&["s"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let first = m.poll();
    m.coordinator(&first);
    m.machine.subscribe(m.now, change.clone());
    let second = m.actions();
    assert!(!has(&m.prepare(&first), join_id));
    assert_eq!(topics(&m.prepare(&second)), ["t", "u"]);

    // The same topics in another order change nothing.
    m.machine.subscribe(m.now, vec!["u".into(), "t".into()]);
    assert_eq!(m.actions(), []);
}

#[test]
fn another_strategy_than_the_first_choice_is_reported_once() {
    let mut m = Member::new(&["plugin", "s"]);
    let id = m.joining();
    let actions = m.joined(id, follower(5));
    let chosen = |a: &Action| match a {
        Action::Event(GroupEvent::FirstChoiceNotChosen { wanted, chosen }) => {
            Some((wanted.clone(), chosen.clone()))
        }
        _ => None,
    };
    assert_eq!(find(&actions, chosen), ("plugin".to_owned(), "s".to_owned()));
    let again = m.synced(find(&actions, sync_id), REBALANCE_IN_PROGRESS, &[]);
    let actions = m.joined(find(&again, join_id), follower(6));
    assert!(!has(&actions, chosen));
}

#[test]
fn a_group_without_leader_is_reported_as_assigned_by_its_broker() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, Join { leader: String::new(), ..follower(5) });
    let told = Action::Event(GroupEvent::BrokerAssigns { strategy: "s".into() });
    assert!(actions.contains(&told));
    let actions = m.synced(find(&actions, sync_id), REBALANCE_IN_PROGRESS, &[]);
    let actions = m.joined(find(&actions, join_id), Join { leader: String::new(), ..follower(6) });
    assert!(!actions.contains(&told), "once");
    let actions = m.synced(find(&actions, sync_id), REBALANCE_IN_PROGRESS, &[]);
    let actions = m.joined(find(&actions, join_id), follower(7));
    let actions = m.synced(find(&actions, sync_id), REBALANCE_IN_PROGRESS, &[]);
    let actions = m.joined(find(&actions, join_id), Join { leader: String::new(), ..follower(8) });
    assert!(actions.contains(&told), "and again when it happens again");
}

#[test]
fn a_leader_without_a_plan_joins_again_after_a_pause() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m")]));
    m.machine.planned(m.now, find(&actions, assign_round), Err("no metadata".into()));
    let actions = m.actions();
    assert!(find(&actions, trouble).contains("no metadata"));
    assert!(!has(&actions, join_id));
    assert!(has(&m.pass(ms(200)), join_id));
}

#[test]
fn a_group_that_is_too_large_for_the_broker_goes_on_without_user_data_and_pauses_grow() {
    const UNKNOWN_SERVER_ERROR: i16 = -1;
    let mut m = Member::new(&["s"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    let mut sent = m.coordinator(&actions);
    let round = find(&actions, |a| if let Action::Prepare { round, .. } = a { Some(*round) } else { None });
    let interest = Interest { topics: vec!["t".into()], user_data: Some(vec![1; 9]) };
    m.machine.prepared(m.now, round, vec![interest], Vec::new());
    sent.extend(m.actions());

    // Of each round: whether assignments and the subscription had user data, and the pause after it.
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let (_, protocols) = find(&sent, join_request);
        let subscription = wire::subscription::decode(&protocols[0].1).unwrap();
        assert_eq!(subscription.topics[..], ["t"]);
        let actions = m.joined(find(&sent, join_id), leader(5, vec![member("m")]));
        let in_assignments = find(&actions, |a| match a {
            Action::Assign { user_data, .. } => Some(*user_data),
            _ => None,
        });
        m.heartbeat(&actions, 0);
        let planned = Planned { blobs: vec![], counts: BTreeMap::new(), held_back: false, racks: None };
        m.machine.planned(m.now, find(&actions, assign_round), Ok(planned));
        let id = find(&m.actions(), sync_id);
        let actions = m.synced(id, UNKNOWN_SERVER_ERROR, &[]);
        assert!(find(&actions, trouble).contains("message.max.bytes"));
        let pause = m.machine.next_timeout().unwrap().since(m.now);
        rounds.push((in_assignments, subscription.user_data.is_some(), pause));
        sent = m.pass(pause);
    }
    let with: Vec<_> = rounds.iter().map(|(a, s, _)| (*a, *s)).collect();
    assert_eq!(with, [(true, true), (false, true), (false, false), (false, false), (false, false)]);
    for ((.., pause), expected) in rounds.iter().zip([100, 200, 400, 800, 1000]) {
        assert!(*pause >= ms(expected * 8 / 10) && *pause <= ms(expected * 12 / 10), "{rounds:?}");
    }
}
