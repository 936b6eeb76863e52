//! Membership of a classic consumer group, as a state machine without I/O (after quinn-proto and rustls).
//!
//! The driver feeds it events (responses, failures, calls of the application, the time) and carries out the actions it asks
//! for. Nothing in here reads a clock, a socket or a lock, so that each rebalance, race and fault is a quick, deterministic
//! test.
//!
//! ```text
//!            subscribe + poll             both done            coordinator known, back-off over
//!     Idle ───────────────────► Preparing ─────────► Waiting ─────────────────────────────────► Joining
//!      ▲                            ▲                   ▲ ▲                                        │
//!      │ left for want of polls     │ rejoin, once the  │ └── try again, with the same bytes ──────┤
//!      │                            │ application polls │                                  leader  ▼  follower
//!      └────────────────────────── Stable ◄─────────── Syncing ◄────────────── Assigning ◄─────────┴───► Syncing
//! ```
//!
//! - *Preparing*: what the application has processed is committed, and every strategy is asked for its subscription: once per
//!   rebalance, since changed bytes would start another one.
//! - *Waiting*: for the coordinator's address and the end of a back-off.
//! - *Stable*: partitions are delivered. The next rebalance begins at a poll of the application, for only then is what it was
//!   given done with; or at once, when the partitions are lost.
//!
//! Heartbeats flow from JoinGroup's response on, in *Assigning* and *Syncing* as well: a slow strategy must not cost the
//! session. Eager rebalances only: nothing is owned outside *Stable*.

mod action;
mod backoff;
mod responses;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod timing;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::clock::Moment;
use super::error::{ConsumerError, GroupEvent};
use crate::assignor::Interest;
use crate::group::Subscription;
use crate::wire;

use backoff::Backoff;

pub(super) use action::{Action, Delivery, Identity, Planned, RequestId, Settings};
pub(super) use responses::{Coordinator, Join, JoinedMember, Sync};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Preparing { round: u64 },
    Waiting,
    Joining { id: RequestId },
    Assigning { round: u64 },
    Syncing { id: RequestId, sent: Moment },
    Stable { since: Moment },
    Committing,
    Leaving { id: RequestId },
    Failed,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeking {
    /// Not before then.
    Unknown(Moment),
    Finding(RequestId),
    Known,
}

/// A heartbeat that is not answered yet.
#[derive(Debug, Clone, Copy)]
struct Beat {
    id: RequestId,
    sent: Moment,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    state: State,
    coordinator: Seeking,
    identity: Identity,
    topics: Vec<String>,
    /// Why the member must join again; while *Stable* or *Idle* it waits for the application's poll.
    rejoin: Option<String>,
    /// Why this rebalance was joined, for the broker's log (KIP-800).
    join_reason: String,
    /// The bytes of this rebalance, by strategy.
    protocols: Vec<(String, Bytes)>,
    /// The subscription has changed since the bytes were made.
    stale: bool,
    /// The strategy of the current generation, and whether this member leads it.
    strategy: usize,
    leader: bool,
    /// The topics of the group that this member leads, and the partition counts that its plan was made with; `None` where it came
    /// back to a plan that stands, and takes them as they are when it looks next.
    watched: BTreeMap<String, Option<u32>>,
    /// And the racks of their replicas, if watched.
    racks: Option<u64>,
    /// No JoinGroup before then.
    join_after: Moment,
    backoff: Backoff,
    /// SyncGroups in a row that the broker refused without a reason: see [`Self::lighten`].
    syncs_refused: u32,
    beat: Option<Beat>,
    beat_due: Moment,
    /// Until when records may be handed out, and until when the coordinator is known to keep this member: the latter goes on
    /// while the group rebalances, and then the former does not, because the group may complete without this member.
    lease: Moment,
    kept: Moment,
    in_poll: bool,
    last_poll: Moment,
    /// When an asked-for rebalance is due, and why.
    requested: Option<(Moment, String)>,
    next_id: u64,
    actions: VecDeque<Action>,
}

impl Machine {
    pub(super) fn new(settings: Settings, now: Moment) -> Self {
        let backoff = Backoff::new(settings.retry_backoff, settings.retry_backoff_max, settings.seed);
        Self {
            settings,
            state: State::Idle,
            coordinator: Seeking::Unknown(now),
            identity: Identity::none(),
            topics: Vec::new(),
            rejoin: None,
            join_reason: String::new(),
            protocols: Vec::new(),
            stale: false,
            strategy: 0,
            leader: false,
            watched: BTreeMap::new(),
            racks: None,
            join_after: now,
            backoff,
            syncs_refused: 0,
            beat: None,
            beat_due: now,
            lease: now,
            kept: now,
            in_poll: false,
            last_poll: now,
            requested: None,
            next_id: 0,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, if any.
    pub(super) fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether the next rebalance waits for the application: the driver calls [`Self::may_rejoin`] as soon as nothing that it was
    /// given is still being processed.
    pub(super) fn wants_to_rejoin(&self) -> bool {
        self.rejoin.is_some() && matches!(self.state, State::Idle | State::Stable { .. })
    }

    /// Topics whose partition counts the leader watches.
    pub(super) fn watched(&self) -> impl Iterator<Item = &String> {
        self.watched.keys()
    }

    // Calls of the application.

    /// Subscribes to these topics instead of the current ones.
    pub(super) fn subscribe(&mut self, now: Moment, mut topics: Vec<String>) {
        topics.sort();
        topics.dedup();
        if topics == self.topics || matches!(self.state, State::Failed | State::Closed) {
            return;
        }
        let first = self.topics.is_empty();
        self.topics = topics;
        self.stale = true;
        let cause = if first { "first subscription" } else { "the subscription changed" };
        match self.state {
            State::Preparing { .. } | State::Waiting => self.prepare(cause.into(), None),
            // What is under way can't be taken back: the answer finds the bytes stale and begins again.
            State::Joining { .. } | State::Assigning { .. } | State::Syncing { .. } => {}
            _ => self.rejoin = Some(cause.into()),
        }
        self.drive(now);
    }

    /// Whether the application is inside `poll`, and when it was last.
    pub(super) fn application(&mut self, in_poll: bool, last_poll: Moment) {
        self.in_poll = in_poll;
        self.last_poll = last_poll;
    }

    /// The application has let go of everything: the rebalance that waited for it begins.
    pub(super) fn may_rejoin(&mut self, now: Moment) {
        let Some(cause) = self.rejoin.take_if(|_| matches!(self.state, State::Idle | State::Stable { .. }))
        else {
            return;
        };
        let commit = matches!(self.state, State::Stable { .. }).then(|| self.identity.clone());
        self.prepare(cause, commit);
        self.drive(now);
    }

    /// Asks for a rebalance after a time. Only the leader's starts one; a later request replaces an earlier one.
    pub(super) fn request_rebalance(&mut self, now: Moment, after: Duration, cause: String) {
        self.requested = Some((now + after, cause));
        self.drive(now);
    }

    /// Leaves the group, after a last commit if there is something to commit.
    pub(super) fn close(&mut self, now: Moment, commit: bool) {
        if matches!(self.state, State::Committing | State::Leaving { .. } | State::Closed) {
            return;
        }
        self.cancel_assign();
        if commit && matches!(self.state, State::Stable { .. }) {
            self.state = State::Committing;
            self.actions.push_back(Action::CommitBeforeLeaving(self.identity.clone()));
        } else {
            self.leave_and_close();
        }
        self.drive(now);
    }

    /// The commit before leaving is done, whatever became of it.
    pub(super) fn committed_before_leaving(&mut self, now: Moment) {
        if self.state == State::Committing {
            self.leave_and_close();
        }
        self.drive(now);
    }

    fn leave_and_close(&mut self) {
        let member = !matches!(self.state, State::Failed) && !self.identity.member_id.is_empty();
        if member && self.coordinator == Seeking::Known {
            let id = self.leave("the consumer is closed");
            self.state = State::Leaving { id };
        } else {
            self.closed();
        }
    }

    fn leave(&mut self, reason: &str) -> RequestId {
        let id = self.id();
        let member_id = std::mem::take(&mut self.identity.member_id);
        self.reset();
        self.actions.push_back(Action::Leave { id, member_id, reason: reason.to_owned() });
        self.actions.push_back(Action::Event(GroupEvent::Left { cause: reason.to_owned() }));
        id
    }

    fn closed(&mut self) {
        self.state = State::Closed;
        self.actions.push_back(Action::Closed);
    }

    // Answers of the driver's own work.

    /// The strategies' subscriptions, in their order; the commit that went with it is done, whatever became of it.
    pub(super) fn prepared(&mut self, now: Moment, round: u64, interests: Vec<Interest>) {
        if self.state != (State::Preparing { round }) {
            return;
        }
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
            owned: Vec::new(),
            generation: None,
            rack: self.settings.rack.clone(),
        };
        wire::subscription::encode(&subscription, wire::HIGHEST_VERSION).map(Bytes::from)
    }

    /// The leader's plan, or why there is none.
    pub(super) fn planned(&mut self, now: Moment, round: u64, planned: Result<Planned, String>) {
        if self.state != (State::Assigning { round }) {
            return;
        }
        match planned {
            Ok(planned) => {
                self.watched = planned.counts.into_iter().map(|(topic, n)| (topic, Some(n))).collect();
                self.racks = planned.racks;
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

    /// Partition counts of watched topics, and the racks of their replicas, have been looked up again.
    pub(super) fn looked_up(&mut self, now: Moment, counts: &BTreeMap<String, u32>, racks: Option<u64>) {
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

    // Progress.

    fn prepare(&mut self, cause: String, commit: Option<Identity>) {
        let round = self.id();
        self.stale = false;
        self.rejoin = None;
        self.requested = None;
        self.state = State::Preparing { round };
        self.actions.push_back(Action::Event(GroupEvent::Joining { cause: cause.clone() }));
        self.actions.push_back(Action::Prepare {
            round,
            topics: self.topics.clone(),
            commit,
            identity: self.identity.clone(),
        });
        self.join_reason = cause;
    }

    /// Everything that became possible, or due, is done.
    fn drive(&mut self, now: Moment) {
        if self.state == State::Waiting && self.stale {
            self.prepare("the subscription changed".into(), None);
        }
        if let (Seeking::Unknown(after), true) = (self.coordinator, self.wants_coordinator())
            && now >= after
        {
            let id = self.id();
            self.coordinator = Seeking::Finding(id);
            self.actions.push_back(Action::FindCoordinator(id));
        }
        if self.coordinator != Seeking::Known {
            return;
        }
        if self.state == State::Waiting && now >= self.join_after {
            self.send_join();
        }
        if self.beats() && self.beat.is_none() && now >= self.beat_due {
            let id = self.id();
            self.beat = Some(Beat { id, sent: now });
            self.beat_due = now + self.settings.heartbeat_interval;
            self.actions.push_back(Action::Heartbeat { id, identity: self.identity.clone() });
        }
    }

    fn send_join(&mut self) {
        let id = self.id();
        self.state = State::Joining { id };
        self.beat = None;
        self.actions.push_back(Action::Join {
            id,
            member_id: self.identity.member_id.clone(),
            reason: self.join_reason.clone(),
            protocols: self.protocols.clone(),
        });
    }

    fn send_sync(&mut self, now: Moment, plan: Vec<(String, Bytes)>) {
        let id = self.id();
        self.state = State::Syncing { id, sent: now };
        let protocol = self.settings.strategies.get(self.strategy).cloned().unwrap_or_default();
        self.actions.push_back(Action::Sync { id, identity: self.identity.clone(), protocol, plan });
    }

    fn lose(&mut self, cause: &str) {
        self.actions.push_back(Action::Lose { cause: cause.to_owned() });
        self.prepare(cause.to_owned(), None);
    }

    /// Nothing of this membership holds any more.
    fn reset(&mut self) {
        self.identity = Identity::none();
        self.reset_generation();
    }

    fn reset_generation(&mut self) {
        self.identity.generation = -1;
        self.beat = None;
        self.lease = Moment::default();
        self.kept = Moment::default();
        self.actions.push_back(Action::Lease(self.lease));
    }

    fn cancel_assign(&mut self) {
        if matches!(self.state, State::Assigning { .. } | State::Preparing { .. }) {
            self.actions.push_back(Action::CancelAssign);
        }
    }

    fn forget_coordinator(&mut self, now: Moment) {
        let pause = self.backoff.next();
        self.coordinator = Seeking::Unknown(now + pause);
        self.beat = None;
        self.beat_due = now;
    }

    fn back_off(&mut self, now: Moment) {
        let pause = self.backoff.next();
        self.join_after = now + pause;
    }

    fn fail(&mut self, error: ConsumerError) {
        let retriable = error.is_retriable();
        if matches!(self.state, State::Stable { .. }) {
            self.actions.push_back(Action::Lose { cause: error.to_string() });
        }
        self.cancel_assign();
        self.state = if retriable { State::Idle } else { State::Failed };
        self.rejoin = retriable.then(|| format!("trying again after: {error}"));
        self.actions.push_back(Action::Event(GroupEvent::Failed { error: error.clone() }));
        self.actions.push_back(Action::Fail(error));
    }

    fn trouble(&mut self, message: String) {
        self.actions.push_back(Action::Event(GroupEvent::Trouble { message }));
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
