//! What the driver hears: from the application, and from its own tasks.

use std::collections::BTreeSet;
use std::sync::mpsc::SyncSender;

use super::{Pattern, Query};
use crate::consumer::clock::Moment;
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::{Coordinator, Identity, Join, Membership, Planned, RequestId, Sync};
use crate::consumer::offsets::{Commits, End, Offsets};
use crate::consumer::shared::Key;
use crate::consumer::strategist::Asked;

/// What the application asks for.
pub(in crate::consumer) enum Command {
    Subscribe(Vec<String>),
    /// To all topics that match.
    SubscribePattern(Pattern),
    /// Answered as soon as it has begun.
    Unsubscribe(SyncSender<()>),
    /// Find out where these partitions begin or end: they go on from there, if they still wait under this stamp.
    Reset {
        partitions: BTreeSet<Key>,
        end: End,
        stamp: u64,
    },
    Query(Query),
    Commit {
        identity: Identity,
        offsets: Commits,
        reply: Box<dyn FnOnce(Result<(), CommitError>) + Send>,
    },
    /// Some position is out of range.
    OutOfRange,
    Close {
        /// Whether to commit what the application was given.
        commit: bool,
        membership: Membership,
        /// The driver ends then, whatever is still to be done.
        deadline: Moment,
    },
}

/// Why a commit failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) enum CommitError {
    /// Trying again can help.
    NotNow(String),
    Final(ConsumerError),
}

/// What the driver's own tasks found out.
pub(super) enum Event {
    Coordinator(RequestId, Result<Coordinator, String>),
    /// What was due before partitions are given up is committed, or can't be.
    CommittedBefore {
        round: u64,
        troubles: Vec<String>,
    },
    Prepared {
        round: u64,
        asked: Asked,
    },
    Joined(RequestId, Result<Join, String>),
    Planned {
        round: u64,
        planned: Result<Planned, String>,
        troubles: Vec<String>,
    },
    Synced(RequestId, Result<Sync, String>),
    Beat(RequestId, Result<i16, String>),
    Left(RequestId),
    /// A commit was answered with this code.
    Committed {
        identity: Identity,
        offsets: Offsets,
        code: i16,
    },
    AutoCommitDone,
    /// Where partitions of this delivery start: at the group's committed offsets, or not.
    Located {
        delivery: u64,
        offsets: Offsets,
        committed: bool,
    },
    Corrected {
        examined: Offsets,
        result: Result<Offsets, ConsumerError>,
    },
    /// Partitions of this delivery have no committed offset, and `auto.offset.reset` is `none`.
    Stuck {
        delivery: u64,
        partitions: BTreeSet<Key>,
    },
    /// The cluster's topics were asked for by the pattern of this number.
    Listed {
        number: u64,
        topics: Option<BTreeSet<String>>,
    },
    /// Watched topics were looked up, if a broker answered.
    LookedUp {
        answered: bool,
    },
    Trouble(String),
    Failed(ConsumerError),
}

impl CommitError {
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotNow(reason) => format!("the commit failed: {reason}"),
            Self::Final(error) => error.to_string(),
        }
    }
}
