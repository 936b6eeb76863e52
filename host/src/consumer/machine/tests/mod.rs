//! Scripted coordinators and a hand-turned clock.

mod answers;
mod cooperative;
mod incidents;
mod joining;
mod leading;
mod lease;
mod leaving;
mod static_members;
mod stepping_down;

use super::*;
use crate::assignor::Interest;
use crate::group::{Subscription, TopicPartitions};
use crate::wire;

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
        Self::with(strategies, |_| {})
    }

    fn with(strategies: &[&str], change: impl FnOnce(&mut Settings)) -> Self {
        let now = Moment::default() + ms(1_000_000);
        let mut settings = Settings {
            group_id: "g".into(),
            rack: None,
            session_timeout: ms(10_000),
            heartbeat_interval: ms(3_000),
            max_poll_interval: ms(60_000),
            retry_backoff: ms(100),
            retry_backoff_max: ms(1_000),
            strategies: strategies.iter().map(|s| (*s).to_owned()).collect(),
            protocol: Protocol::Eager,
            is_static: false,
            seed: 7,
        };
        change(&mut settings);
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
        self.machine.at_poll(self.now);
        let mut actions = self.actions();
        if has(&actions, revocation) {
            actions.extend(self.given_up(&actions));
        }
        actions
    }

    /// The application has given up what it shall.
    fn given_up(&mut self, actions: &[Action]) -> Vec<Action> {
        self.machine.revoked(self.now, find(actions, revocation).round);
        self.actions()
    }

    fn coordinator(&mut self, actions: &[Action]) -> Vec<Action> {
        let id = find(actions, |a| if let Action::FindCoordinator(id) = a { Some(*id) } else { None });
        let answer = Coordinator { error: 0, host: "c".into(), port: 9092 };
        self.machine.coordinator_found(self.now, id, Ok(answer));
        self.actions()
    }

    fn close(&mut self, commit: bool) -> Vec<Action> {
        self.machine.close(self.now, commit, Membership::Default);
        self.actions()
    }

    fn prepare(&mut self, actions: &[Action]) -> Vec<Action> {
        let (round, topics) = find(actions, |a| match a {
            Action::Prepare { round, topics, .. } => Some((*round, topics.clone())),
            _ => None,
        });
        let interests = self.machine.settings.strategies.iter().map(|_| Interest::all(&topics)).collect();
        self.machine.prepared(self.now, round, interests, Vec::new());
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
        assert!(self.machine.waits_for_poll());
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
        self.machine.planned(
            self.now,
            round,
            Ok(Planned { blobs: vec![], counts, held_back: false, racks: Some(1) }),
        );
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

fn prepare(a: &Action) -> Option<u64> {
    if let Action::Prepare { round, .. } = a { Some(*round) } else { None }
}

fn revocation(a: &Action) -> Option<Revocation> {
    if let Action::Revoke(revocation) = a { Some(revocation.clone()) } else { None }
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
