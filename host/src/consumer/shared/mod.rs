//! What the application's thread and the driver's share, behind one lock.
//!
//! The rules that keep records right live here:
//! - Only the application's thread touches the data path. The driver says *what* is assigned, as an epoch with positions; the
//!   application's thread installs that at its next `poll`. A record fetched under one epoch is never handed out in another.
//! - Nothing is handed out after the lease.
//! - A record counts as *returned* when `poll` gives it to the application, and as *processed* at the next `poll`. Auto-commit
//!   commits what is processed; `commit` and `close` commit what is returned.
//! - Partitions are given up only while the application is inside `poll`, or after one that was held and so returned nothing: then
//!   everything it was given is processed. Unless they are lost, of course. From then on they are *suspended*: nothing of them is handed out, and they can still be committed, until
//!   the rebalance listener has heard.
//! - The rebalance listener is called on the application's thread, inside `poll` or `close`. Its time counts as time between polls.
//!   What was assigned before a call is due is not handed out before the call.
//! - What is paused is not fetched. Whatever changes a position, but for handing out, gives it a new stamp, and with it a new epoch:
//!   nothing that was fetched before a pause or a seek is handed out after it.
//! - Between JoinGroup and the next assignment nothing is committed: the coordinator would refuse it.

mod assignment;
mod calls;
mod driving;
mod moving;
mod signal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::Moment;
use super::error::ConsumerError;
use super::machine::Identity;
use super::offsets::Offsets;
use crate::group::TopicPartitions;

pub(super) use assignment::{Assignment, Key, Start};
use calls::Calls;
pub(super) use calls::{Call, Told};
pub(super) use signal::Signal;

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
    /// How often a topic has been deleted and created again.
    recreated: u64,
    assignment: Option<Assignment>,
    lease: Moment,
    in_poll: bool,
    last_poll: Moment,
    /// Something waits for the application to be inside `poll`.
    wanted: bool,
    /// For a moment nothing is handed out, while the driver decides what to suspend: what was handed out before is processed.
    held: bool,
    /// JoinGroup is under way, or was, and no assignment has come since.
    joining: bool,
    calls: Calls,
    /// Partitions were lost whose records had been returned and not committed: what `commit` then says.
    lost: Option<String>,
    error: Option<ConsumerError>,
    subscribed: bool,
    subscription: Vec<String>,
    closed: bool,
    ended: bool,
    requested: Option<(Duration, String)>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// For the application: something it waits for has changed.
    changed: Arc<Signal>,
    /// For the driver: look again.
    pub(super) wake: Notify,
}

/// What the application's thread is to fetch, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) epoch: u64,
    pub(super) starts: BTreeMap<Key, Start>,
    /// Goes up when a topic was deleted and created again.
    pub(super) recreated: u64,
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandOut {
    /// It is the application's.
    Given,
    /// Its epoch is over: it will be fetched again by whom it belongs to.
    Over,
    /// The lease has ended, and may be renewed; or the rebalance listener is to be called first.
    Wait,
}

impl Shared {
    pub(super) fn new(now: Moment) -> Self {
        let state = State {
            epoch: 0,
            recreated: 0,
            assignment: None,
            lease: Moment::default(),
            in_poll: false,
            last_poll: now,
            wanted: false,
            held: false,
            joining: false,
            calls: Calls::default(),
            lost: None,
            error: None,
            subscribed: false,
            subscription: Vec::new(),
            closed: false,
            ended: false,
            requested: None,
        };
        Self { state: Mutex::new(state), changed: Arc::default(), wake: Notify::new() }
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
        state.last_poll = now;
        if let Some(assignment) = &mut state.assignment {
            assignment.process_returned();
        }
        if state.wanted {
            // Nothing more is handed out before the driver has looked, or polls too short for it to see could keep it from ever doing
            // so.
            state.held = true;
            self.wake.notify_one();
        }
        if let Some(error) = state.take_error() {
            return Err(error);
        }
        state.in_poll = true;
        state.last_poll = now;
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
        let starts = || state.assignment.as_ref().map(Assignment::starts).unwrap_or_default();
        Ok((state.epoch != epoch).then(|| Fetch {
            epoch: state.epoch,
            starts: starts(),
            recreated: state.recreated,
        }))
    }

    /// Hands out a batch that was fetched under `epoch`: `next` is the offset after its last record of each partition. In the same
    /// breath `poll` is left, so that no rebalance slips in between.
    pub(super) fn hand_out(&self, epoch: u64, next: &Offsets, now: Moment) -> HandOut {
        let mut state = self.lock();
        if state.epoch != epoch || state.closed {
            return HandOut::Over;
        }
        if now >= state.lease || state.held || state.calls.are_due() {
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
        if state.epoch != epoch || state.closed || state.error.is_some() || state.calls.are_due() {
            return;
        }
        self.changed.wait(state, limit);
    }

    /// As whom the application commits what it names itself.
    pub(super) fn to_commit_as(&self) -> Result<Identity, ConsumerError> {
        let mut state = self.lock();
        if state.closed && !state.calls.run_here() {
            return Err(ConsumerError::Closed);
        }
        if let Some(cause) = state.lost.take() {
            return Err(ConsumerError::CommitFailed(cause));
        }
        match &state.assignment {
            Some(_) if state.joining => Err(ConsumerError::RebalanceInProgress),
            Some(assignment) => Ok(assignment.identity.clone()),
            None if state.joining => Err(ConsumerError::RebalanceInProgress),
            None => Err(ConsumerError::CommitFailed("this consumer is no member of its group now".into())),
        }
    }

    /// What `commit` is to commit, and as whom. `None` if there is nothing.
    pub(super) fn to_commit(&self) -> Result<Option<(Identity, Offsets)>, ConsumerError> {
        let mut state = self.lock();
        // The listener may commit what a closing consumer gives up.
        if state.closed && !state.calls.run_here() {
            return Err(ConsumerError::Closed);
        }
        if let Some(cause) = state.lost.take() {
            return Err(ConsumerError::CommitFailed(cause));
        }
        let due = state.assignment.as_ref().map(|a| (a.identity.clone(), a.returned()));
        let due = due.filter(|(_, offsets)| !offsets.is_empty());
        if due.is_some() && state.joining {
            return Err(ConsumerError::RebalanceInProgress);
        }
        Ok(due)
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

    /// Waits until the driver has ended, or the listener is to be called; says whether it has ended.
    pub(super) fn wait_for_end(&self, limit: Duration) -> bool {
        let state = self.lock();
        let waits = |state: &mut State| !state.ended && !state.calls.are_due();
        self.changed.wait_while(state, limit, waits).ended
    }

    /// Whether there is a rebalance listener from now on.
    pub(super) fn listen(&self, listening: bool) {
        let mut state = self.lock();
        if listening {
            state.calls.listening = true;
        } else {
            state.calls.silence();
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Whether the rebalance listener runs on this very thread.
    pub(super) fn in_listener(&self) -> bool {
        self.lock().calls.run_here()
    }

    /// The next call of the listener, which begins now.
    pub(super) fn begin_call(&self, now: Moment) -> Option<Call> {
        let mut state = self.lock();
        let call = state.calls.begin()?;
        // It may take its time, as between two polls.
        state.in_poll = false;
        state.last_poll = now;
        Some(call)
    }

    /// The call is over; the application is inside `poll` or `close` again.
    pub(super) fn finish_call(&self, now: Moment) {
        let mut state = self.lock();
        state.calls.finish();
        state.in_poll = true;
        state.last_poll = now;
        drop(state);
        self.changed.notify_all();
        self.wake.notify_one();
    }
}

impl State {
    fn take_assignment(&mut self) -> Option<Assignment> {
        self.epoch += 1;
        self.joining = false;
        self.assignment.take()
    }

    /// An error that polling on can heal is reported once, any other one forever; one that a seek heals, until then.
    fn take_error(&mut self) -> Option<ConsumerError> {
        let stuck = self.assignment.as_ref().and_then(Assignment::stuck);
        if self.error.is_none()
            && let Some((topic, partition)) = stuck
        {
            return Some(ConsumerError::NoOffset { topic, partition });
        }
        let error = self.error.clone();
        self.error.take_if(|e| e.is_retriable());
        error
    }
}
