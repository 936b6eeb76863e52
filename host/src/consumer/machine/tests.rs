//! Scripted coordinators and a hand-turned clock.

mod incidents;

use super::*;
use crate::group::TopicPartitions;

const MEMBER_ID_REQUIRED: i16 = 79;
const REBALANCE_IN_PROGRESS: i16 = 27;
const UNKNOWN_MEMBER_ID: i16 = 25;
const ILLEGAL_GENERATION: i16 = 22;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

struct Member {
    machine: Machine,
    now: Moment,
}

impl Member {
    /// Session 10 s, heartbeats every 3 s, max.poll.interval 60 s, back-off 100 ms to 1 s.
    fn new(strategies: &[&str]) -> Self {
        let now = Moment::default() + ms(1_000_000);
        let settings = Settings {
            group_id: "g".into(),
            rack: None,
            session_timeout: ms(10_000),
            heartbeat_interval: ms(3_000),
            max_poll_interval: ms(60_000),
            retry_backoff: ms(100),
            retry_backoff_max: ms(1_000),
            strategies: strategies.iter().map(|s| (*s).to_owned()).collect(),
            seed: 7,
        };
        Self { machine: Machine::new(settings, now), now }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.machine.action()).collect()
    }

    fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now = self.now + time;
        self.machine.handle_timeout(self.now);
        self.actions()
    }

    /// The application polls, and holds nothing.
    fn poll(&mut self) -> Vec<Action> {
        self.machine.application(true, self.now);
        self.machine.may_rejoin(self.now);
        self.actions()
    }

    fn coordinator(&mut self, actions: &[Action]) -> Vec<Action> {
        let id = find(actions, |a| if let Action::FindCoordinator(id) = a { Some(*id) } else { None });
        let answer = Coordinator { error: 0, host: "c".into(), port: 9092 };
        self.machine.coordinator_found(self.now, id, Ok(answer));
        self.actions()
    }

    fn prepare(&mut self, actions: &[Action]) -> Vec<Action> {
        let (round, topics) = find(actions, |a| match a {
            Action::Prepare { round, topics, .. } => Some((*round, topics.clone())),
            _ => None,
        });
        let interests = self.machine.settings.strategies.iter().map(|_| Interest::all(&topics)).collect();
        self.machine.prepared(self.now, round, interests);
        self.actions()
    }

    fn joined(&mut self, id: RequestId, answer: Join) -> Vec<Action> {
        self.machine.joined(self.now, id, Ok(answer));
        self.actions()
    }

    fn synced(&mut self, id: RequestId, error: i16, assigned: &[(&str, u32)]) -> Vec<Action> {
        let partitions: Vec<TopicPartitions> = assigned
            .iter()
            .map(|(topic, p)| TopicPartitions { topic: (*topic).into(), partitions: vec![*p] })
            .collect();
        let assignment = wire::assignment::encode(&partitions, None).unwrap().into();
        self.machine.synced(self.now, id, Ok(Sync { error, assignment }));
        self.actions()
    }

    fn heartbeat(&mut self, actions: &[Action], error: i16) -> Vec<Action> {
        let id = find(actions, heartbeat);
        self.machine.heartbeat_answered(self.now, id, Ok(error));
        self.actions()
    }

    /// Subscribes to topic `t` and goes on until JoinGroup is sent.
    fn joining(&mut self) -> RequestId {
        self.machine.subscribe(self.now, vec!["t".into()]);
        assert_eq!(self.actions(), [], "nothing happens before the first poll");
        assert!(self.machine.wants_to_rejoin());
        let actions = self.poll();
        let mut sent = self.coordinator(&actions);
        sent.extend(self.prepare(&actions));
        find(&sent, join_id)
    }

    /// Goes on as a follower until SyncGroup is sent. Its first heartbeat is answered.
    fn syncing(&mut self) -> RequestId {
        let id = self.joining();
        let actions = self.joined(id, follower(5));
        self.heartbeat(&actions, 0);
        find(&actions, sync_id)
    }

    /// Goes on until it owns `t-0`, as a follower.
    fn stable(&mut self) -> Vec<Action> {
        let id = self.syncing();
        self.synced(id, 0, &[("t", 0)])
    }

    /// Goes on until it owns `t-0`, as the leader, with 4 partitions watched.
    fn leading(&mut self) {
        let id = self.joining();
        let actions = self.joined(id, leader(5, vec![member("m")]));
        self.heartbeat(&actions, 0);
        let round = find(&actions, assign_round);
        let counts = BTreeMap::from([("t".to_owned(), 4)]);
        self.machine.planned(self.now, round, Ok(Planned { blobs: vec![], counts, racks: Some(1) }));
        let id = find(&self.actions(), sync_id);
        self.synced(id, 0, &[("t", 0)]);
    }
}

#[track_caller]
fn find<T>(actions: &[Action], pick: impl Fn(&Action) -> Option<T>) -> T {
    actions.iter().find_map(pick).unwrap_or_else(|| panic!("not among {actions:#?}"))
}

fn has<T>(actions: &[Action], pick: impl Fn(&Action) -> Option<T>) -> bool {
    actions.iter().any(|a| pick(a).is_some())
}

fn join_id(a: &Action) -> Option<RequestId> {
    if let Action::Join { id, .. } = a { Some(*id) } else { None }
}

fn join_request(a: &Action) -> Option<(String, Vec<(String, Bytes)>)> {
    if let Action::Join { member_id, protocols, .. } = a {
        Some((member_id.clone(), protocols.clone()))
    } else {
        None
    }
}

fn sync_id(a: &Action) -> Option<RequestId> {
    if let Action::Sync { id, .. } = a { Some(*id) } else { None }
}

fn assign_round(a: &Action) -> Option<u64> {
    if let Action::Assign { round, .. } = a { Some(*round) } else { None }
}

fn prepare(a: &Action) -> Option<Option<Identity>> {
    if let Action::Prepare { commit, .. } = a { Some(commit.clone()) } else { None }
}

fn heartbeat(a: &Action) -> Option<RequestId> {
    if let Action::Heartbeat { id, .. } = a { Some(*id) } else { None }
}

fn delivery(a: &Action) -> Option<Delivery> {
    if let Action::Deliver(d) = a { Some(d.clone()) } else { None }
}

fn lost(a: &Action) -> Option<String> {
    if let Action::Lose { cause } = a { Some(cause.clone()) } else { None }
}

fn lease(a: &Action) -> Option<Moment> {
    if let Action::Lease(until) = a { Some(*until) } else { None }
}

fn failure(a: &Action) -> Option<ConsumerError> {
    if let Action::Fail(e) = a { Some(e.clone()) } else { None }
}

fn leave(a: &Action) -> Option<(RequestId, String)> {
    if let Action::Leave { id, member_id, .. } = a { Some((*id, member_id.clone())) } else { None }
}

fn trouble(a: &Action) -> Option<String> {
    if let Action::Event(GroupEvent::Trouble { message }) = a { Some(message.clone()) } else { None }
}

fn follower(generation: i32) -> Join {
    Join {
        error: 0,
        generation,
        protocol: "s".into(),
        leader: "other".into(),
        member_id: "m".into(),
        members: vec![],
        skip_assignment: false,
    }
}

fn leader(generation: i32, members: Vec<JoinedMember>) -> Join {
    Join { leader: "m".into(), members, ..follower(generation) }
}

fn refused(error: i16) -> Join {
    Join { error, ..Join::default() }
}

fn member(id: &str) -> JoinedMember {
    let subscription = Subscription { topics: ["t".into()].into(), ..Subscription::default() };
    let metadata = wire::subscription::encode(&subscription, wire::HIGHEST_VERSION).unwrap().into();
    JoinedMember { id: id.into(), instance_id: None, metadata }
}

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
    let planned = Planned { blobs: blobs.clone(), counts: BTreeMap::new(), racks: None };
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
fn a_rebalance_waits_for_the_applications_poll_and_commits_before_it_joins() {
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.application(false, m.now);
    let actions = m.pass(ms(3_000));
    let actions = m.heartbeat(&actions, REBALANCE_IN_PROGRESS);
    assert!(!has(&actions, prepare));
    assert!(m.machine.wants_to_rejoin());
    assert!(has(&m.pass(ms(3_000)), heartbeat), "heartbeats go on meanwhile");

    let actions = m.poll();
    let identity = Identity { member_id: "m".into(), generation: 5 };
    assert_eq!(find(&actions, prepare), Some(identity));
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
fn a_heartbeat_that_tells_of_a_rebalance_leaves_assign_and_sync_alone() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m")]));
    let after = m.heartbeat(&actions, REBALANCE_IN_PROGRESS);
    assert!(!has(&after, |a| matches!(a, Action::CancelAssign).then_some(())));
    let planned = Planned { blobs: vec![], counts: BTreeMap::new(), racks: None };
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
    let late = Planned { blobs: vec![], counts: BTreeMap::new(), racks: None };
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
        assert_eq!(find(&actions, prepare), None, "what is lost is not committed");
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
    assert!(m.machine.wants_to_rejoin());
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
        assert!(!m.machine.wants_to_rejoin());
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
fn a_rebalance_ends_the_lease_but_not_the_membership() {
    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.application(false, m.now);
    for _ in 0..10 {
        let beat = m.pass(ms(3_000));
        let actions = m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
        assert!(!has(&actions, lease), "the group may complete without a member that does not poll");
        assert!(!has(&actions, lost), "it is kept for the rebalance time-out");
    }
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
    assert_eq!(find(&actions, prepare), None);
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
    m.machine.close(m.now, true);
    let actions = m.actions();
    assert!(has(&actions, |a| matches!(a, Action::CommitBeforeLeaving(_)).then_some(())));
    assert!(!has(&actions, leave));
    m.machine.committed_before_leaving(m.now);
    let (id, member_id) = find(&m.actions(), leave);
    assert_eq!(member_id, "m");
    m.machine.left(id);
    assert_eq!(m.actions(), [Action::Closed]);
}

#[test]
fn close_works_in_every_state() {
    // Before the first poll.
    let mut m = Member::new(&["s"]);
    m.machine.close(m.now, true);
    assert_eq!(m.actions(), [Action::Closed]);
    // While SyncGroup is under way.
    let mut m = Member::new(&["s"]);
    m.syncing();
    m.machine.close(m.now, true);
    assert_eq!(find(&m.actions(), leave).1, "m");
    // While a strategy assigns.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.joined(id, leader(5, vec![member("m")]));
    m.machine.close(m.now, true);
    let actions = m.actions();
    assert!(has(&actions, |a| matches!(a, Action::CancelAssign).then_some(())));
    assert_eq!(find(&actions, leave).1, "m");
    // Twice.
    m.machine.close(m.now, true);
    assert_eq!(m.actions(), []);
    // After a fatal error.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.joined(id, refused(23));
    m.machine.close(m.now, true);
    assert_eq!(m.actions(), [Action::Closed]);
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
fn sarama_1462_the_leader_joins_again_when_a_watched_topics_partitions_change() {
    let mut m = Member::new(&["s"]);
    m.leading();
    assert_eq!(m.machine.watched().collect::<Vec<_>>(), ["t"]);
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 4)]), Some(1));
    assert!(!m.machine.wants_to_rejoin());
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 6)]), Some(1));
    assert!(m.machine.wants_to_rejoin());

    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.looked_up(m.now, &BTreeMap::from([("t".to_owned(), 6)]), Some(1));
    assert!(!m.machine.wants_to_rejoin(), "a follower leaves that to the leader");
}

#[test]
fn kafka_14867_the_leader_joins_again_when_replicas_are_in_other_racks() {
    let mut m = Member::new(&["s"]);
    m.leading();
    let counts = BTreeMap::from([("t".to_owned(), 4)]);
    m.machine.looked_up(m.now, &counts, Some(1));
    assert!(!m.machine.wants_to_rejoin());
    m.machine.looked_up(m.now, &counts, Some(2));
    assert!(m.machine.wants_to_rejoin());
}

#[test]
fn a_rebalance_can_be_asked_for_by_the_leader_only_and_not_too_often() {
    let mut m = Member::new(&["s"]);
    m.leading();
    m.machine.request_rebalance(m.now, ms(0), "asked".into());
    m.pass(ms(2_999));
    assert!(!m.machine.wants_to_rejoin(), "a heartbeat interval apart at least");
    m.pass(ms(1));
    assert!(m.machine.wants_to_rejoin());

    let mut m = Member::new(&["s"]);
    m.leading();
    m.machine.request_rebalance(m.now, ms(60_000), "later".into());
    m.machine.request_rebalance(m.now, ms(5_000), "instead".into());
    m.pass(ms(4_999));
    assert!(!m.machine.wants_to_rejoin());
    m.pass(ms(1));
    assert!(m.machine.wants_to_rejoin());

    let mut m = Member::new(&["s"]);
    m.stable();
    m.machine.request_rebalance(m.now, ms(0), "asked".into());
    m.pass(ms(5_000));
    assert!(!m.machine.wants_to_rejoin());
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
    assert!(find(&actions, trouble).contains("KIP-848"));
    assert!(has(&actions, sync_id));
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

#[test]
fn a_group_that_is_too_large_for_the_broker_goes_on_without_user_data_and_pauses_grow() {
    const UNKNOWN_SERVER_ERROR: i16 = -1;
    let mut m = Member::new(&["s"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    let mut sent = m.coordinator(&actions);
    let round = find(&actions, |a| if let Action::Prepare { round, .. } = a { Some(*round) } else { None });
    let interest = Interest { topics: vec!["t".into()], user_data: Some(vec![1; 9]) };
    m.machine.prepared(m.now, round, vec![interest]);
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
        let planned = Planned { blobs: vec![], counts: BTreeMap::new(), racks: None };
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
