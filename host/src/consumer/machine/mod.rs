//! Membership of a classic consumer group, as a state machine without I/O (after quinn-proto and rustls).
//!
//! The driver feeds it events (responses, failures, calls of the application, the time) and carries out the actions it asks
//! for. Nothing in here reads a clock, a socket or a lock, so that each rebalance, race and fault is a quick, deterministic
//! test.
//!
//! ```text
//!            poll                  given up          asked         coordinator known, back-off over
//!     Idle ────────► Revoking ─────────────► Preparing ────► Waiting ──────────────────────► Joining
//!      ▲              ▲  ▲  │                    ▲             ▲ ▲                              │
//!      │ no polls     │  │  │ given up           │ lost        │ └─ try again, same bytes ──────┤
//!      │              │  │  ▼                    │             │                        leader  ▼  follower
//!      └─────────── Stable ◄──────── Synced ◄── Syncing ◄── Assigning ◄────────────────────────┴──► Syncing
//!          poll, to rejoin       something is taken away, poll
//! ```
//!
//! # One rebalance, in order
//!
//! The order of calls is Kafka's (`ConsumerCoordinator`), under both protocols:
//!
//! 1. The rebalance waits until the application polls, for only then is what it was given done with. What it has processed is
//!    committed, if commits are automatic. *Revoking*: under the eager protocol everything is given up; under the cooperative one
//!    only partitions of topics that are not subscribed any more. The rebalance listener hears of it, and may commit itself,
//!    before the partitions are gone.
//! 2. *Preparing*: every strategy is asked for its subscription, once per rebalance, since changed bytes would start another one.
//!    JoinGroup carries them, with what is owned and the generation in which that was installed.
//! 3. *Joining*, *Assigning* (the leader), *Syncing*. Heartbeats flow from JoinGroup's response on: a slow strategy must not cost the
//!    session. A member that owns partitions sends them while it joins, too, and goes on handing out their records.
//! 4. *Synced*: what the assignment takes away is given up at the next poll, as in step 1. With nothing to give up this step is
//!    skipped.
//! 5. *Stable*: the chosen strategy hears of the whole assignment, and the listener of what was added. Partitions that stay are
//!    not touched.
//! 6. A member that had to give something up in step 4 joins again at once: what it gave up is then assigned to its new owner.
//!
//! A member whose generation is gone has *lost* its partitions: nothing is committed, the listener hears so, and it joins again
//! without waiting for a poll.
//!
//! # Which protocol
//!
//! Each member derives it from its own list: the strategies' common protocols, cooperative first, as in Kafka. Members of one group
//! may differ while lists are changed in a rolling upgrade. That is safe because claims are told by whom owns something, and because
//! our leader gives nobody what another one claims ([`withhold`](crate::plan::withhold)), whatever the strategy or its own protocol.
//!
//! # The lease
//!
//! Records are handed out until a moment before which nobody else can have been given the partitions. The coordinator lets go of a
//! member when no sign of life came for `session.timeout.ms`, or when a group's rebalance goes on without it, after the
//! group's rebalance time-out, which is not shorter than this member's `max.poll.interval.ms`. So the lease is the earlier of
//!
//! - *kept* plus `session.timeout.ms`: when the last request was sent that shows the coordinator a living member, and that it is known
//!   to have answered. A heartbeat that is told of a rebalance counts: the member is known.
//! - *intact* plus `max.poll.interval.ms`: when the last request was sent that proves, by its answer, that no rebalance
//!   had begun that could go on without this member. A heartbeat that is told of a rebalance does not count.
//!
//! While JoinGroup is under way the coordinator keeps the member's session alive by itself, but this member can't know whether JoinGroup
//! has arrived; were it lost, the group would go on without this member. Heartbeats are what tells, and so they go on.

mod action;
mod backoff;
mod leaving;
mod ownership;
mod rebalance;
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
use crate::assignor::Protocol;
use backoff::Backoff;
use ownership::{Owned, Partitions};

pub use action::Membership;
pub(super) use action::{Action, Commit, Delivery, Identity, Planned, RequestId, Revocation, Settings};
pub(super) use responses::{Coordinator, Join, JoinedMember, Sync};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// The application gives up `giving_up`.
    Revoking {
        round: u64,
        then: Then,
    },
    Preparing {
        round: u64,
    },
    Waiting,
    Joining {
        id: RequestId,
    },
    Assigning {
        round: u64,
    },
    Syncing {
        id: RequestId,
        sent: Moment,
    },
    /// `due` waits for the application's poll.
    Synced,
    Stable {
        since: Moment,
    },
    Leaving {
        id: RequestId,
    },
    Failed,
    Closed,
}

/// What follows when partitions are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Another rebalance.
    Join,
    /// The assignment that takes them away.
    Deliver,
    /// This leader leaves, and comes back as a follower.
    StepDown,
    Unsubscribe,
    Close,
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
    owned: Owned,
    /// Part of what is owned, while *Revoking*.
    giving_up: Partitions,
    /// What the coordinator has assigned, until it is delivered.
    due: Option<Delivery>,
    /// The strategy of the current generation, and whether this member leads it.
    strategy: usize,
    leader: bool,
    /// How many members the leader has seen in the current generation.
    members: usize,
    /// Which strategies have no working plugin behind them.
    degraded: Vec<bool>,
    /// The leader is about to leave because its strategy is degraded, and with how many members it last did so.
    steps_down: bool,
    stepped_down_among: usize,
    /// The broker assigns the partitions of this group (KIP-848).
    broker_assigns: bool,
    /// The topics of the group that this member leads, and the partition counts that its plan was made with; `None` where it came
    /// back to a plan that stands, and takes them as they are when it looks next.
    watched: BTreeMap<String, Option<u32>>,
    /// And the racks of their replicas, if watched.
    racks: Option<u64>,
    /// The leader's plan holds something back, and when the leader asks for the rebalance that is to follow if nobody else does.
    held_back: bool,
    follow_up: Option<Moment>,
    /// No JoinGroup before then.
    join_after: Moment,
    /// When the first JoinGroup was sent since one was accepted.
    first_join: Option<Moment>,
    backoff: Backoff,
    /// SyncGroups in a row that the broker refused without a reason: see [`Self::lighten`].
    syncs_refused: u32,
    beat: Option<Beat>,
    beat_due: Moment,
    /// SyncGroup of the current generation was answered.
    synced: bool,
    /// See "The lease" above: the lease, and the two moments that it is the earlier one of.
    lease: Moment,
    kept: Moment,
    intact: Moment,
    /// When something was delivered last.
    delivered: Moment,
    in_poll: bool,
    last_poll: Moment,
    /// When an asked-for rebalance is due, and why.
    requested: Option<(Moment, String)>,
    /// What becomes of the membership in the end, and whether what the application was given is committed then.
    membership: Membership,
    commits_last: bool,
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
            owned: Owned::default(),
            giving_up: Partitions::default(),
            due: None,
            strategy: 0,
            leader: false,
            members: 0,
            degraded: Vec::new(),
            steps_down: false,
            stepped_down_among: 1,
            broker_assigns: false,
            watched: BTreeMap::new(),
            racks: None,
            held_back: false,
            follow_up: None,
            join_after: now,
            first_join: None,
            backoff,
            syncs_refused: 0,
            beat: None,
            beat_due: now,
            synced: false,
            lease: now,
            kept: now,
            intact: now,
            delivered: now,
            in_poll: false,
            last_poll: now,
            requested: None,
            membership: Membership::Default,
            commits_last: false,
            next_id: 0,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, if any.
    pub(super) fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether what comes next waits for the application: the driver calls [`Self::at_poll`] as soon as nothing that it was given is
    /// still being processed.
    pub(super) fn waits_for_poll(&self) -> bool {
        match self.state {
            State::Idle | State::Stable { .. } => self.rejoin.is_some(),
            State::Synced => true,
            _ => false,
        }
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
            State::Preparing { .. } | State::Waiting => self.prepare(cause.into()),
            State::Idle | State::Stable { .. } | State::Leaving { .. } => self.rejoin = Some(cause.into()),
            // What is under way can't be taken back: its outcome finds the bytes stale and begins again.
            _ => {}
        }
        self.drive(now);
    }

    /// Whether the application is inside `poll`, and when it was last.
    pub(super) fn application(&mut self, in_poll: bool, last_poll: Moment) {
        self.in_poll = in_poll;
        self.last_poll = last_poll;
    }

    /// Asks for a rebalance after a time. Only the leader's starts one; a later request replaces an earlier one.
    pub(super) fn request_rebalance(&mut self, now: Moment, after: Duration, cause: String) {
        self.requested = Some((now + after, cause));
        self.drive(now);
    }

    // Progress.

    /// Everything that became possible, or due, is done.
    fn drive(&mut self, now: Moment) {
        if self.state == State::Waiting && self.stale {
            self.prepare("the subscription changed".into());
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
            self.send_join(now);
        }
        if self.beats() && self.beat.is_none() && now >= self.beat_due {
            let id = self.id();
            self.beat = Some(Beat { id, sent: now });
            self.beat_due = now + self.settings.heartbeat_interval;
            self.actions.push_back(Action::Heartbeat { id, identity: self.identity.clone() });
        }
    }

    fn send_join(&mut self, now: Moment) {
        let id = self.id();
        self.state = State::Joining { id };
        // What a heartbeat from before says is overtaken by JoinGroup's answer.
        self.beat = None;
        self.first_join.get_or_insert(now);
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

    /// Whether something was delivered and is neither given up nor lost.
    fn owns(&self) -> bool {
        self.owned.generation.is_some()
    }

    fn is_cooperative(&self) -> bool {
        self.settings.protocol == Protocol::Cooperative
    }

    /// Nothing of this membership holds any more.
    fn reset(&mut self) {
        self.identity = Identity::none();
        self.reset_generation();
    }

    fn reset_generation(&mut self) {
        self.identity.generation = -1;
        self.beat = None;
        self.synced = false;
        self.lease = Moment::default();
        self.kept = Moment::default();
        self.intact = Moment::default();
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
        self.cancel_assign();
        self.let_go(&error.to_string());
        if let State::Revoking { then: Then::Close, .. } = self.state {
            return self.closed();
        }
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
