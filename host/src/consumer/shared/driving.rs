//! The driver's side of what is shared.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Assignment, Key, Shared, Told};
use crate::consumer::clock::Moment;
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::Identity;
use crate::consumer::offsets::Offsets;
use crate::group::TopicPartitions;

impl Shared {
    /// Whether the application is inside `poll`, and when it was last.
    pub(in crate::consumer) fn application(&self) -> (bool, Moment) {
        let state = self.lock();
        (state.in_poll, state.last_poll)
    }

    /// Stops handing out if the application has processed everything that it was given, until [`release`](Self::release); else
    /// remembers to wake the driver when it has.
    pub(in crate::consumer) fn hold_in_poll(&self) -> bool {
        let mut state = self.lock();
        state.held |= state.in_poll;
        let (held, asked) = (state.held, state.wanted);
        state.wanted = !held;
        drop(state);
        if !held && !asked {
            // A task that waits for a stream polls.
            self.changed.notify_all();
        }
        held
    }

    /// Records are handed out again.
    pub(in crate::consumer) fn release(&self) {
        let mut state = self.lock();
        let held = std::mem::take(&mut state.held);
        state.wanted = false;
        drop(state);
        if held {
            self.changed.notify_all();
        }
    }

    /// Nothing of these partitions is handed out any more. Tells what `commit` picks of the assignment.
    pub(in crate::consumer) fn suspend(
        &self,
        partitions: &[TopicPartitions],
        commit: impl Fn(&Assignment) -> Offsets,
    ) -> Offsets {
        let mut state = self.lock();
        let Some(assignment) = &mut state.assignment else { return Offsets::new() };
        assignment.suspend(partitions);
        let offsets = commit(assignment);
        state.epoch += 1;
        drop(state);
        self.changed.notify_all();
        offsets
    }

    /// Has the listener told that suspended partitions are given up; says whether there is one.
    pub(in crate::consumer) fn tell_revoked(&self, round: u64, partitions: Vec<TopicPartitions>) -> bool {
        let waits = self.lock().calls.push(Told::Revoked(round), partitions);
        self.changed.notify_all();
        waits
    }

    /// The revocation of which the listener has heard.
    pub(in crate::consumer) fn take_finished(&self) -> Option<u64> {
        self.lock().calls.take_finished()
    }

    /// Suspended partitions are gone.
    pub(in crate::consumer) fn drop_suspended(&self) {
        let mut state = self.lock();
        state.calls.end_revocation();
        if let Some(assignment) = &mut state.assignment {
            assignment.drop_suspended();
        }
        state.epoch += 1;
    }

    /// JoinGroup is under way.
    pub(in crate::consumer) fn joining(&self) {
        self.lock().joining = true;
    }

    /// Commits go as this identity from now on.
    pub(in crate::consumer) fn renew(&self, identity: Identity) {
        let mut state = self.lock();
        state.joining = false;
        if let Some(assignment) = &mut state.assignment {
            assignment.renew(identity);
        }
    }

    /// Whether an answer to a commit as `identity` says something about the current generation. While a rebalance is under way it
    /// does not, if partitions have stayed.
    pub(in crate::consumer) fn is_current(&self, identity: &Identity) -> bool {
        let state = self.lock();
        state.assignment.as_ref().is_none_or(|a| a.identity == *identity && !state.joining)
    }

    /// Nothing is owned any more.
    pub(in crate::consumer) fn unassign(&self) {
        let mut state = self.lock();
        state.take_assignment();
        state.calls.end_revocation();
        drop(state);
        self.changed.notify_all();
    }

    /// The partitions are another member's, or may be. Tells which.
    pub(in crate::consumer) fn lose(&self, cause: &str) -> Option<Vec<TopicPartitions>> {
        let mut state = self.lock();
        let lost = state.take_assignment();
        state.lease = Moment::default();
        let told = state.calls.end_revocation();
        let partitions = lost.as_ref().map(|a| a.listed(told));
        if lost.as_ref().is_some_and(|a| !a.returned().is_empty()) {
            state.lost = Some(cause.to_owned());
        }
        if let Some(partitions) = partitions.as_ref().filter(|p| !p.is_empty()) {
            state.calls.push(Told::Lost, partitions.clone());
        }
        drop(state);
        self.changed.notify_all();
        partitions
    }

    /// These partitions are owned, of which `added` were not before. Tells which have no position.
    pub(in crate::consumer) fn assign(&self, new: Assignment, added: Vec<TopicPartitions>) -> BTreeSet<Key> {
        let mut state = self.lock();
        state.epoch += 1;
        state.joining = false;
        let assignment = match state.assignment.take() {
            Some(mut assignment) => {
                assignment.replace(new.identity, new.leader, new.strategy, new.partitions);
                assignment
            }
            None => {
                // What was lost earlier has been read again by somebody: a commit now is about the new partitions.
                state.lost = None;
                new
            }
        };
        let unplaced = assignment.unplaced();
        state.assignment = Some(assignment);
        state.calls.push(Told::Assigned, added);
        drop(state);
        self.changed.notify_all();
        unplaced
    }

    /// So often a topic has been deleted and created again: the data path must forget what it knows of the former one.
    pub(in crate::consumer) fn recreated(&self, times: u64) {
        let mut state = self.lock();
        if state.recreated != times {
            state.recreated = times;
            state.epoch += 1;
        }
    }

    /// More partitions of the assignment have a position.
    pub(in crate::consumer) fn start(&self, offsets: Offsets, committed: bool) {
        let mut state = self.lock();
        state.epoch += 1;
        let stamp = state.epoch;
        if let Some(assignment) = &mut state.assignment {
            assignment.start(offsets, committed, stamp);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Of these positions, which were looked at, some go on from other offsets.
    pub(in crate::consumer) fn correct(&self, examined: &Offsets, corrected: &Offsets) {
        let mut state = self.lock();
        state.epoch += 1;
        let stamp = state.epoch;
        if let Some(assignment) = &mut state.assignment {
            assignment.correct(examined, corrected, stamp);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Where each partition goes on.
    pub(in crate::consumer) fn positions(&self) -> Offsets {
        self.lock().assignment.as_ref().map(Assignment::next_offsets).unwrap_or_default()
    }

    /// What auto-commit is to commit.
    pub(in crate::consumer) fn to_auto_commit(&self) -> Option<(Identity, Offsets)> {
        let state = self.lock();
        let due = state.assignment.as_ref().filter(|_| !state.joining);
        let due = due.map(|a| (a.identity.clone(), a.processed()));
        due.filter(|(_, offsets)| !offsets.is_empty())
    }

    pub(in crate::consumer) fn committed(&self, identity: &Identity, offsets: &Offsets) {
        let mut state = self.lock();
        let Some(assignment) = state.assignment.as_mut().filter(|a| a.is_of(identity)) else { return };
        assignment.committed(offsets);
    }

    pub(in crate::consumer) fn lease(&self, until: Moment) {
        self.lock().lease = until;
        self.changed.notify_all();
    }

    /// What the next `poll` returns. One that no later call can mend is not covered up by one that it can.
    pub(in crate::consumer) fn report(&self, error: ConsumerError) {
        let mut state = self.lock();
        if state.error.as_ref().is_none_or(ConsumerError::is_retriable) {
            state.error = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(in crate::consumer) fn take_request(&self) -> Option<(Duration, String)> {
        self.lock().requested.take()
    }

    /// The driver ends.
    pub(in crate::consumer) fn end(&self) {
        let mut state = self.lock();
        state.take_assignment();
        state.ended = true;
        drop(state);
        self.changed.notify_all();
    }
}
