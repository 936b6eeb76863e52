//! What the application's thread and the driver's share, behind one lock.
//!
//! The rules that keep records right live here:
//! - Only the application's thread touches the data path. The driver says *what* is assigned, as an epoch with positions; the
//!   application's thread installs that at its next `poll`. A record fetched under one epoch is never handed out in another.
//! - Nothing is handed out after the lease.
//! - A record counts as *returned* when `poll` gives it to the application, and as *processed* at the next `poll`. Auto-commit
//!   commits what is processed; `commit` and `close` commit what is returned.
//! - Partitions are given up only while the application is inside `poll`: then everything it was given is processed. Unless
//!   they are lost, of course.

mod assignment;
#[cfg(test)]
mod tests;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::Moment;
use super::error::ConsumerError;
use super::machine::Identity;
use super::offsets::Offsets;
use crate::group::TopicPartitions;

pub(super) use assignment::Assignment;

/// Who a consumer is within its group (Kafka: `ConsumerGroupMetadata`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `group.id`.
    pub group_id: String,
    /// The member id that the broker gave; empty while the consumer is no member.
    pub member_id: String,
    /// The group's generation; -1 while the consumer is no member.
    pub generation: i32,
    /// Whether this member leads: its strategy decides.
    pub is_leader: bool,
    /// The strategy that the group runs; `None` while the consumer is no member.
    pub strategy: Option<String>,
}

#[derive(Debug)]
struct State {
    /// Goes up whenever what is to be fetched changes.
    epoch: u64,
    assignment: Option<Assignment>,
    lease: Moment,
    in_poll: bool,
    last_poll: Moment,
    /// A rebalance waits for the application to be inside `poll`.
    rejoin: bool,
    /// Partitions were lost whose records had been returned and not committed: what `commit` then says.
    lost: Option<String>,
    error: Option<ConsumerError>,
    subscribed: bool,
    closed: bool,
    ended: bool,
    requested: Option<(Duration, String)>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// For the application's thread: something it waits for has changed.
    changed: Condvar,
    /// For the driver: look again.
    pub(super) wake: Notify,
}

/// What the application's thread is to fetch, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) epoch: u64,
    pub(super) offsets: Offsets,
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandOut {
    /// It is the application's.
    Given,
    /// Its epoch is over: it will be fetched again by whom it belongs to.
    Over,
    /// The lease has ended; it may be renewed.
    Wait,
}

impl Shared {
    pub(super) fn new(now: Moment) -> Self {
        let state = State {
            epoch: 0,
            assignment: None,
            lease: Moment::default(),
            in_poll: false,
            last_poll: now,
            rejoin: false,
            lost: None,
            error: None,
            subscribed: false,
            closed: false,
            ended: false,
            requested: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), wake: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each critical section leaves the state whole, and none calls foreign code.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The application's side.

    pub(super) fn subscribed(&self) -> Result<(), ConsumerError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConsumerError::Closed);
        }
        state.subscribed = true;
        Ok(())
    }

    /// Enters `poll`: whatever the application was given is processed now.
    pub(super) fn enter_poll(&self, now: Moment) -> Result<(), ConsumerError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConsumerError::Closed);
        }
        if !state.subscribed {
            return Err(ConsumerError::NotSubscribed);
        }
        if let Some(error) = state.take_error() {
            return Err(error);
        }
        state.in_poll = true;
        state.last_poll = now;
        if let Some(assignment) = &mut state.assignment {
            assignment.process_returned();
        }
        if state.rejoin {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Leaves `poll`.
    pub(super) fn leave_poll(&self, now: Moment) {
        let mut state = self.lock();
        state.in_poll = false;
        state.last_poll = now;
    }

    /// What is to be fetched, if that is not `epoch` any more.
    pub(super) fn fetch(&self, epoch: u64) -> Result<Option<Fetch>, ConsumerError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConsumerError::Closed);
        }
        if let Some(error) = state.take_error() {
            return Err(error);
        }
        let offsets = || state.assignment.as_ref().map(Assignment::next_offsets).unwrap_or_default();
        Ok((state.epoch != epoch).then(|| Fetch { epoch: state.epoch, offsets: offsets() }))
    }

    /// Hands out a batch that was fetched under `epoch`: `next` is the offset after its last record of each partition. In the same
    /// breath `poll` is left, so that no rebalance slips in between.
    pub(super) fn hand_out(&self, epoch: u64, next: &Offsets, now: Moment) -> HandOut {
        let mut state = self.lock();
        if state.epoch != epoch || state.closed {
            return HandOut::Over;
        }
        if now >= state.lease {
            return HandOut::Wait;
        }
        let Some(assignment) = &mut state.assignment else { return HandOut::Over };
        assignment.returned_to(next);
        state.in_poll = false;
        state.last_poll = now;
        HandOut::Given
    }

    /// Waits until something changes, at most so long.
    pub(super) fn wait(&self, epoch: u64, limit: Duration) {
        let state = self.lock();
        if state.epoch != epoch || state.closed || state.error.is_some() {
            return;
        }
        drop(self.changed.wait_timeout(state, limit));
    }

    /// What `commit` is to commit, and as whom. `None` if there is nothing.
    pub(super) fn to_commit(&self) -> Result<Option<(Identity, Offsets)>, ConsumerError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConsumerError::Closed);
        }
        if let Some(cause) = state.lost.take() {
            return Err(ConsumerError::CommitFailed(cause));
        }
        let due = state.assignment.as_ref().map(|a| (a.identity.clone(), a.returned()));
        Ok(due.filter(|(_, offsets)| !offsets.is_empty()))
    }

    pub(super) fn partitions(&self) -> Vec<TopicPartitions> {
        self.lock().assignment.as_ref().map(|a| a.partitions.clone()).unwrap_or_default()
    }

    pub(super) fn metadata(&self, group_id: &str) -> GroupMetadata {
        let state = self.lock();
        let assignment = state.assignment.as_ref();
        GroupMetadata {
            group_id: group_id.to_owned(),
            member_id: assignment.map(|a| a.identity.member_id.clone()).unwrap_or_default(),
            generation: assignment.map_or(-1, |a| a.identity.generation),
            is_leader: assignment.is_some_and(|a| a.leader),
            strategy: assignment.map(|a| a.strategy.clone()),
        }
    }

    /// Asks for a rebalance; a later request replaces an earlier one.
    pub(super) fn request_rebalance(&self, after: Duration, cause: String) {
        self.lock().requested = Some((after, cause));
        self.wake.notify_one();
    }

    /// No more `poll`; says whether this is the first call.
    pub(super) fn close(&self) -> bool {
        let first = !std::mem::replace(&mut self.lock().closed, true);
        self.changed.notify_all();
        first
    }

    /// Waits for the driver's end; says whether it came in time.
    pub(super) fn wait_for_end(&self, limit: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.ended);
        waited.is_ok_and(|(state, _)| state.ended)
    }

    // The driver's side.

    /// Whether the application is inside `poll`, and when it was last.
    pub(super) fn application(&self) -> (bool, Moment) {
        let state = self.lock();
        (state.in_poll, state.last_poll)
    }

    /// Gives up the partitions, if the application is inside `poll`; else remembers to wake the driver when it is.
    pub(super) fn give_up_in_poll(&self) -> Option<Option<Assignment>> {
        let mut state = self.lock();
        state.rejoin = !state.in_poll;
        if !state.in_poll {
            return None;
        }
        let given_up = state.take_assignment();
        drop(state);
        self.changed.notify_all();
        Some(given_up)
    }

    /// Gives up the partitions at once, in good order.
    pub(super) fn give_up(&self) -> Option<Assignment> {
        let given_up = self.lock().take_assignment();
        self.changed.notify_all();
        given_up
    }

    /// The partitions are another member's, or may be.
    pub(super) fn lose(&self, cause: &str) -> Option<Assignment> {
        let mut state = self.lock();
        let lost = state.take_assignment();
        state.lease = Moment::default();
        if lost.as_ref().is_some_and(|a| !a.returned().is_empty()) {
            state.lost = Some(cause.to_owned());
        }
        drop(state);
        self.changed.notify_all();
        lost
    }

    pub(super) fn install(&self, assignment: Assignment) {
        let mut state = self.lock();
        state.epoch += 1;
        state.assignment = Some(assignment);
        // What was lost earlier has been read again by somebody: a commit now is about the new partitions.
        state.lost = None;
        drop(state);
        self.changed.notify_all();
    }

    /// More partitions of the assignment have a position.
    pub(super) fn start(&self, identity: &Identity, offsets: Offsets) {
        let mut state = self.lock();
        let Some(assignment) = state.assignment.as_mut().filter(|a| a.identity == *identity) else { return };
        assignment.start(offsets, false);
        state.epoch += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Goes on from other offsets, of these partitions.
    pub(super) fn correct(&self, identity: &Identity, offsets: &Offsets) {
        let mut state = self.lock();
        let Some(assignment) = state.assignment.as_mut().filter(|a| a.identity == *identity) else { return };
        assignment.correct(offsets);
        state.epoch += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// The current assignment's identity and where each partition goes on.
    pub(super) fn positions(&self) -> Option<(Identity, Offsets)> {
        self.lock().assignment.as_ref().map(|a| (a.identity.clone(), a.next_offsets()))
    }

    /// What auto-commit is to commit.
    pub(super) fn to_auto_commit(&self) -> Option<(Identity, Offsets)> {
        let state = self.lock();
        let due = state.assignment.as_ref().map(|a| (a.identity.clone(), a.processed()));
        due.filter(|(_, offsets)| !offsets.is_empty())
    }

    pub(super) fn committed(&self, identity: &Identity, offsets: &Offsets) {
        let mut state = self.lock();
        let Some(assignment) = state.assignment.as_mut().filter(|a| a.identity == *identity) else { return };
        assignment.committed(offsets);
    }

    pub(super) fn lease(&self, until: Moment) {
        self.lock().lease = until;
        self.changed.notify_all();
    }

    /// What the next `poll` returns. One that no later call can mend is not covered up by one that it can.
    pub(super) fn report(&self, error: ConsumerError) {
        let mut state = self.lock();
        if state.error.as_ref().is_none_or(ConsumerError::is_retriable) {
            state.error = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn take_request(&self) -> Option<(Duration, String)> {
        self.lock().requested.take()
    }

    /// The driver ends.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.take_assignment();
        state.ended = true;
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn take_assignment(&mut self) -> Option<Assignment> {
        self.epoch += 1;
        self.assignment.take()
    }

    /// An error that polling on can heal is reported once, any other one forever.
    fn take_error(&mut self) -> Option<ConsumerError> {
        let error = self.error.clone();
        self.error.take_if(|e| e.is_retriable());
        error
    }
}
