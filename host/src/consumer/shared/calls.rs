//! Calls of the rebalance listener that are due, on their way from the driver to the application's thread.

use std::collections::VecDeque;
use std::thread::{ThreadId, current};

use crate::group::TopicPartitions;

/// What the listener is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum Told {
    Assigned,
    /// The revocation of this round waits for it.
    Revoked(u64),
    Lost,
}

/// A call that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Call {
    pub(in crate::consumer) told: Told,
    pub(in crate::consumer) partitions: Vec<TopicPartitions>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Whether there is a listener.
    pub(super) listening: bool,
    due: VecDeque<Call>,
    running: Option<(ThreadId, Told)>,
    /// The listener knows that suspended partitions are given up.
    revoked: bool,
    finished: Option<u64>,
}

impl Calls {
    /// Whether a call is due that can be made now.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty() && self.running.is_none()
    }

    /// Takes a call for the listener, if there is one; says whether there is.
    pub(super) fn push(&mut self, told: Told, partitions: Vec<TopicPartitions>) -> bool {
        if self.listening {
            self.due.push_back(Call { told, partitions });
        }
        self.listening
    }

    /// The next call, for the calling thread. One at a time.
    pub(super) fn begin(&mut self) -> Option<Call> {
        if self.running.is_some() {
            return None;
        }
        let call = self.due.pop_front()?;
        self.running = Some((current().id(), call.told));
        self.revoked |= matches!(call.told, Told::Revoked(_));
        Some(call)
    }

    /// The running call is over.
    pub(super) fn finish(&mut self) {
        if let Some((_, Told::Revoked(round))) = self.running.take() {
            self.finished = Some(round);
        }
    }

    /// The revocation whose call is over.
    pub(super) fn take_finished(&mut self) -> Option<u64> {
        self.finished.take()
    }

    /// Whether the listener runs on this very thread.
    pub(super) fn run_here(&self) -> bool {
        self.running.is_some_and(|(thread, _)| thread == current().id())
    }

    /// The revocation is over: it was carried out, or what was to be given up is lost. Says whether the listener has heard of it.
    pub(super) fn end_revocation(&mut self) -> bool {
        self.due.retain(|call| !matches!(call.told, Told::Revoked(_)));
        std::mem::take(&mut self.revoked)
    }

    /// Nobody is to be called any more.
    pub(super) fn silence(&mut self) {
        self.listening = false;
        for call in std::mem::take(&mut self.due) {
            if let Told::Revoked(round) = call.told {
                self.finished = Some(round);
            }
        }
    }
}
