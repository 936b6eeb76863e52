//! The steps of a rebalance that are not the coordinator's: giving up, asking, planning, installing, losing.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Action, Commit, GroupEvent, Machine, Owned, Partitions, Planned, Revocation, State, Then};
use crate::assignor::Interest;
use crate::consumer::clock::Moment;
use crate::group::Subscription;
use crate::wire;

impl Machine {
    /// The application polls, and so has let go of everything it was given: what waited for that begins.
    pub(in crate::consumer) fn at_poll(&mut self, now: Moment) {
        match self.state {
            State::Idle => {
                if let Some(cause) = self.rejoin.take() {
                    self.prepare(cause);
                }
            }
            State::Stable { .. } => {
                if let Some(cause) = self.rejoin.take() {
                    self.join_reason = cause;
                    let (then, partitions) = if std::mem::take(&mut self.steps_down) {
                        (Then::StepDown, self.owned.partitions.clone())
                    } else if self.is_cooperative() {
                        (Then::Join, self.owned.partitions.outside(&self.topics))
                    } else {
                        (Then::Join, self.owned.partitions.clone())
                    };
                    self.revoke(partitions, Commit::Processed, then);
                }
            }
            State::Synced => {
                let taken = self.taken();
                self.revoke(taken, Commit::Processed, Then::Deliver);
            }
            _ => {}
        }
        self.drive(now);
    }

    pub(super) fn revoke(&mut self, partitions: Partitions, commit: Commit, then: Then) {
        let round = self.id();
        self.state = State::Revoking { round, then };
        self.actions.push_back(Action::Revoke(Revocation {
            round,
            identity: self.identity.clone(),
            partitions: partitions.listed(),
            commit,
        }));
        self.giving_up = partitions;
    }

    /// The partitions are given up: what was due is committed, whatever became of it, and the listener has heard.
    pub(in crate::consumer) fn revoked(&mut self, now: Moment, round: u64) {
        let State::Revoking { round: waiting, then } = self.state else { return };
        if waiting != round {
            return;
        }
        let given_up = std::mem::take(&mut self.giving_up);
        self.owned.partitions = self.owned.partitions.without(&given_up);
        let ends = matches!(then, Then::StepDown | Then::Unsubscribe | Then::Close);
        if ends && !self.owned.partitions.is_empty() {
            // The end was asked for while only some were given up.
            let commit = if then == Then::Close { self.last_commit() } else { Commit::Nothing };
            self.revoke(self.owned.partitions.clone(), commit, then);
            return;
        }
        if ends || !self.is_cooperative() {
            self.owned = Owned::default();
        }
        let cause = self.join_reason.clone();
        match then {
            Then::Join => self.prepare(cause),
            Then::Deliver => self.deliver(now),
            Then::StepDown => {
                self.leave(&cause);
                self.back_off(now);
                self.prepare(cause);
            }
            Then::Unsubscribe => self.left_by_unsubscribing(),
            Then::Close => self.leave_and_close(),
        }
        self.drive(now);
    }

    /// Begins to join with fresh bytes.
    pub(super) fn prepare(&mut self, cause: String) {
        let round = self.id();
        self.stale = false;
        self.rejoin = None;
        self.requested = None;
        self.held_back = false;
        self.follow_up = None;
        self.steps_down = false;
        self.state = State::Preparing { round };
        self.actions.push_back(Action::Event(GroupEvent::Joining { cause: cause.clone() }));
        let (topics, identity) = (self.topics.clone(), self.identity.clone());
        self.actions.push_back(Action::Prepare { round, topics, identity });
        self.join_reason = cause;
    }

    /// The strategies' subscriptions, in their order, and which of them have no working plugin.
    pub(in crate::consumer) fn prepared(
        &mut self,
        now: Moment,
        round: u64,
        interests: Vec<Interest>,
        degraded: Vec<bool>,
    ) {
        if self.state != (State::Preparing { round }) {
            return;
        }
        self.degraded = degraded;
        self.protocols.clear();
        for (name, interest) in self.settings.strategies.clone().into_iter().zip(interests) {
            let blob = self.subscription_blob(interest).or_else(|e| {
                self.trouble(format!(
                    "the subscription of {name:?} can't be encoded ({e}): joining with all topics and no user data"
                ));
                self.subscription_blob(Interest::all(&self.topics))
            });
            match blob {
                Ok(blob) => self.protocols.push((name, blob)),
                Err(e) => self.trouble(format!("the topics can't be encoded for {name:?}: {e}")),
            }
        }
        self.state = State::Waiting;
        self.drive(now);
    }

    fn subscription_blob(&self, interest: Interest) -> Result<Bytes, wire::WireError> {
        let mut topics = interest.topics;
        // The broker compares bytes: an unsorted list would cause needless rebalances (KAFKA-12898).
        topics.sort();
        topics.dedup();
        let subscription = Subscription {
            topics: topics.into(),
            user_data: interest.user_data,
            owned: self.owned.partitions.listed(),
            generation: self.owned.generation,
            rack: self.settings.rack.clone(),
        };
        wire::subscription::encode(&subscription, wire::HIGHEST_VERSION).map(Bytes::from)
    }

    /// The leader's plan, or why there is none.
    pub(in crate::consumer) fn planned(&mut self, now: Moment, round: u64, planned: Result<Planned, String>) {
        if self.state != (State::Assigning { round }) {
            return;
        }
        match planned {
            Ok(planned) => {
                self.watched = planned.counts.into_iter().map(|(topic, n)| (topic, Some(n))).collect();
                self.racks = planned.racks;
                self.held_back = planned.held_back;
                self.send_sync(now, planned.blobs);
            }
            Err(e) => {
                self.trouble(format!("the leader has no plan: {e}; joining again"));
                self.back_off(now);
                self.state = State::Waiting;
            }
        }
        self.drive(now);
    }

    /// What the assignment that is due takes away.
    pub(super) fn taken(&self) -> Partitions {
        let due = self.due.as_ref().map(|due| Partitions::of(due.partitions.clone())).unwrap_or_default();
        self.owned.partitions.without(&due)
    }

    /// Installs the assignment that is due. What it takes away is given up.
    pub(super) fn deliver(&mut self, now: Moment) {
        let Some(due) = self.due.take() else { return };
        let gave_up = matches!(self.state, State::Revoking { .. });
        self.owned = Owned {
            partitions: Partitions::of(due.partitions.clone()),
            generation: Some(self.identity.generation),
        };
        self.state = State::Stable { since: now };
        self.delivered = now;
        self.actions.push_back(Action::Deliver(due));
        // Who gives something up joins again. A static member that is restarted before it could has nothing to give up any more, and a
        // stable group takes it in without a rebalance (KIP-345): what was held back would be nobody's.
        self.follow_up = (self.leader && self.held_back).then(|| now + self.settings.session_timeout);
        if gave_up {
            // Its new owner gets it in the rebalance that this begins.
            self.rejoin = Some("gave up partitions that another member shall have".into());
        }
        if self.stale {
            self.rejoin = Some("the subscription changed".into());
        }
        self.consider_stepping_down();
    }

    /// A leader whose plugin can't be loaded would keep a healthy group in fallback, since a leader that stays remains leader: it
    /// leaves and comes back, so that another member leads. Not a second time before more members are there than when it last did
    /// so, or two such leaders would take turns for ever. A static member that leaves would lose what it is static for.
    fn consider_stepping_down(&mut self) {
        let degraded = self.degraded.get(self.strategy).copied().unwrap_or_default();
        if !degraded {
            self.stepped_down_among = 1;
        }
        if degraded && self.leader && !self.settings.is_static && self.members > self.stepped_down_among {
            self.stepped_down_among = self.members;
            self.steps_down = true;
            let strategy = self.settings.strategies.get(self.strategy).cloned().unwrap_or_default();
            self.rejoin = Some(format!(
                "the plugin of {strategy:?} can't be loaded here: this leader leaves once, so that another member leads"
            ));
        }
    }

    /// Partition counts of watched topics, and the racks of their replicas, have been looked up again.
    pub(in crate::consumer) fn looked_up(
        &mut self,
        now: Moment,
        counts: &BTreeMap<String, u32>,
        racks: Option<u64>,
    ) {
        if !self.leader {
            return;
        }
        if self.watched.values().any(Option::is_none) {
            self.racks = racks;
        }
        let mut change = None;
        for (topic, watched) in &mut self.watched {
            let after = counts.get(topic).copied().unwrap_or(0);
            let before = *watched.get_or_insert(after);
            if before != after {
                change = Some(format!("topic {topic} has {after} partitions, it was assigned with {before}"));
            }
        }
        if racks != self.racks {
            change.get_or_insert_with(|| "partitions have replicas in other racks".into());
        }
        if let (Some(change), State::Stable { .. }) = (change, self.state) {
            self.rejoin.get_or_insert(change);
        }
        self.drive(now);
    }

    /// The partitions are another member's, or may be: this one begins anew.
    pub(super) fn lose(&mut self, cause: &str) {
        self.cancel_assign();
        self.let_go(cause);
        self.prepare(cause.to_owned());
    }

    /// The partitions are lost, if there are any.
    pub(super) fn let_go(&mut self, cause: &str) {
        if self.owns() {
            self.actions.push_back(Action::Lose { cause: cause.to_owned() });
        }
        self.owned = Owned::default();
        self.giving_up = Partitions::default();
        self.due = None;
    }
}
