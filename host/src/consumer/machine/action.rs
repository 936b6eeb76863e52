//! What goes into the machine at the start, and what comes out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

#[cfg(doc)]
use super::Machine;
use crate::assignor::Protocol;
use crate::consumer::clock::Moment;
use crate::consumer::config::Address;
use crate::consumer::error::{ConsumerError, GroupEvent};
use crate::group::{MemberSubscription, TopicPartitions};

/// What the machine needs to know.
#[derive(Debug, Clone)]
pub(in crate::consumer) struct Settings {
    pub(in crate::consumer) group_id: String,
    pub(in crate::consumer) rack: Option<String>,
    pub(in crate::consumer) session_timeout: Duration,
    pub(in crate::consumer) heartbeat_interval: Duration,
    pub(in crate::consumer) max_poll_interval: Duration,
    pub(in crate::consumer) retry_backoff: Duration,
    pub(in crate::consumer) retry_backoff_max: Duration,
    /// Names of the strategies, in the order of preference.
    pub(in crate::consumer) strategies: Vec<String>,
    /// Whether rebalances are cooperative: what the strategies agree on.
    pub(in crate::consumer) protocol: Protocol,
    /// Whether this is a static member (`group.instance.id`, KIP-345).
    pub(in crate::consumer) is_static: bool,
    /// Seeds the spread of back-offs, so that a group does not come back in step.
    pub(in crate::consumer) seed: u64,
}

/// Who this member is, for requests that the coordinator fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Identity {
    pub(in crate::consumer) member_id: String,
    pub(in crate::consumer) generation: i32,
}

impl Identity {
    pub(super) fn none() -> Self {
        Self { member_id: String::new(), generation: -1 }
    }
}

/// Identifies a request, so that the answer to one that no longer matters is dropped.
pub(in crate::consumer) type RequestId = u64;

/// What the driver is to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::consumer) enum Action {
    /// Ask any broker for the group's coordinator; answer with [`Machine::coordinator_found`].
    FindCoordinator(RequestId),
    /// Open the two connections to the coordinator, in place of any that are open.
    Connect(Address),
    /// Have the application give up partitions; answer with [`Machine::revoked`].
    Revoke(Revocation),
    /// Ask every strategy for its subscription; answer with [`Machine::prepared`].
    Prepare { round: u64, topics: Vec<String>, identity: Identity },
    /// Send JoinGroup; answer with [`Machine::joined`]. The coordinator accepts no commits from its answer on until there is a
    /// delivery.
    Join { id: RequestId, member_id: String, reason: String, protocols: Vec<(String, Bytes)> },
    /// Run the strategy of this name; answer with [`Machine::planned`]. Without `user_data`, assignments go without.
    Assign {
        round: u64,
        strategy: usize,
        identity: Identity,
        members: Vec<MemberSubscription>,
        user_data: bool,
    },
    /// End the running call of a strategy: its result does not matter any more.
    CancelAssign,
    /// Send SyncGroup; answer with [`Machine::synced`].
    Sync { id: RequestId, identity: Identity, protocol: String, plan: Vec<(String, Bytes)> },
    /// Send Heartbeat; answer with [`Machine::heartbeat_answered`].
    Heartbeat { id: RequestId, identity: Identity },
    /// Send LeaveGroup; answer with [`Machine::left`].
    Leave { id: RequestId, member_id: String, reason: String },
    /// What is owned has come through a rebalance: it is committed as this identity from now on.
    Renew(Identity),
    /// Tell the chosen strategy of an assignment, and install it.
    Deliver(Delivery),
    /// Records may be handed out until then.
    Lease(Moment),
    /// The partitions are lost: hand out nothing any more, commit nothing.
    Lose { cause: String },
    /// This consumer is no member any more, and owns nothing.
    Unassign,
    /// Tell the observer.
    Event(GroupEvent),
    /// Report an error to the application.
    Fail(ConsumerError),
    /// All is done; the driver may end.
    Closed,
}

/// Partitions that the application gives up in good order: they are not handed out any more, what is due is committed, the
/// rebalance listener hears of it, and then they are gone.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::consumer) struct Revocation {
    pub(in crate::consumer) round: u64,
    /// As whom to commit.
    pub(in crate::consumer) identity: Identity,
    pub(in crate::consumer) partitions: Vec<TopicPartitions>,
    pub(in crate::consumer) commit: Commit,
}

/// What is committed before partitions are given up: of all partitions, also of those that stay (Kafka:
/// `ConsumerCoordinator.onJoinPrepare`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum Commit {
    /// What the application has processed, where commits are automatic.
    Processed,
    /// What the application was given.
    Returned,
    Nothing,
}

/// What becomes of the membership when a consumer closes (KIP-1092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Membership {
    /// A dynamic member leaves the group, a static one remains.
    #[default]
    Default,
    /// Leave the group: its partitions go to others at once.
    Leave,
    /// Remain: the group waits for `session.timeout.ms`, so that a successor may come.
    Remain,
}

/// An assignment of this member.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::consumer) struct Delivery {
    pub(in crate::consumer) identity: Identity,
    /// The index of the strategy that the group runs.
    pub(in crate::consumer) strategy: usize,
    pub(in crate::consumer) leader: bool,
    /// All that the member owns now.
    pub(in crate::consumer) partitions: Vec<TopicPartitions>,
    /// What of it was not owned before.
    pub(in crate::consumer) added: Vec<TopicPartitions>,
    pub(in crate::consumer) user_data: Option<Vec<u8>>,
}

/// A leader's plan on the wire, and what it was made for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::consumer) struct Planned {
    /// Each member's assignment blob.
    pub(in crate::consumer) blobs: Vec<(String, Bytes)>,
    /// The partition counts it was made with: a change of one of these asks for another rebalance.
    pub(in crate::consumer) counts: BTreeMap<String, u32>,
    /// It gives nobody what another member must give up first: another rebalance is to follow.
    pub(in crate::consumer) held_back: bool,
    /// A digest of the racks that it was made with, where a change of these does so, too.
    pub(in crate::consumer) racks: Option<u64>,
}
