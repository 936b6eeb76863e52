//! The ends of a membership: close, unsubscribe, no polls.

use super::{Action, Commit, GroupEvent, Identity, Machine, Membership, RequestId, Seeking, State, Then};
use crate::consumer::clock::Moment;

impl Machine {
    /// Gives everything up, with a last commit if `commit` says so, and ends the membership. In the middle of a rebalance the
    /// partitions are lost (Kafka: `ConsumerCoordinator.onLeavePrepare`): the coordinator accepts no commit then.
    pub(in crate::consumer) fn close(&mut self, now: Moment, commit: bool, membership: Membership) {
        if matches!(
            self.state,
            State::Revoking { then: Then::Close, .. } | State::Leaving { .. } | State::Closed
        ) {
            return;
        }
        self.membership = membership;
        self.commits_last = commit;
        match self.state {
            State::Revoking { round, .. } => self.state = State::Revoking { round, then: Then::Close },
            State::Stable { .. } | State::Synced => {
                self.revoke(self.owned.partitions.clone(), self.last_commit(), Then::Close);
            }
            _ => {
                self.cancel_assign();
                self.let_go("the consumer is closed during a rebalance");
                self.leave_and_close();
            }
        }
        self.due = None;
        self.drive(now);
    }

    pub(super) fn last_commit(&self) -> Commit {
        if self.commits_last { Commit::Returned } else { Commit::Nothing }
    }

    /// Gives everything up and leaves, without a commit, as Java's client does. A later subscription joins again.
    pub(in crate::consumer) fn unsubscribe(&mut self, now: Moment) {
        self.topics.clear();
        self.stale = false;
        self.rejoin = None;
        match self.state {
            State::Idle | State::Leaving { .. } | State::Failed | State::Closed => {}
            State::Revoking { then: Then::Close, .. } => {}
            State::Revoking { round, .. } => {
                self.state = State::Revoking { round, then: Then::Unsubscribe };
            }
            State::Stable { .. } | State::Synced => {
                self.revoke(self.owned.partitions.clone(), Commit::Nothing, Then::Unsubscribe);
            }
            _ => {
                self.cancel_assign();
                self.let_go("unsubscribed during a rebalance");
                self.left_by_unsubscribing();
            }
        }
        self.due = None;
        self.drive(now);
    }

    pub(super) fn left_by_unsubscribing(&mut self) {
        self.state = State::Idle;
        self.leave("the consumer is not subscribed any more");
        // A subscription that came meanwhile.
        if !self.topics.is_empty() {
            self.rejoin = Some("the subscription changed".into());
        }
    }

    pub(super) fn leave_and_close(&mut self) {
        let member = self.state != State::Failed && self.identity != Identity::none();
        let id = if member { self.leave("the consumer is closed") } else { None };
        match id {
            Some(id) => self.state = State::Leaving { id },
            None => self.closed(),
        }
    }

    pub(super) fn closed(&mut self) {
        self.state = State::Closed;
        self.actions.push_back(Action::Closed);
    }

    /// Ends the membership, with a word to the coordinator where that is wanted and possible.
    pub(super) fn leave(&mut self, reason: &str) -> Option<RequestId> {
        let known = self.coordinator == Seeking::Known && !self.identity.member_id.is_empty();
        let id = (known && self.leaves()).then(|| self.id());
        let member_id = std::mem::take(&mut self.identity.member_id);
        self.reset();
        self.actions.push_back(Action::Unassign);
        if let Some(id) = id {
            self.actions.push_back(Action::Leave { id, member_id, reason: reason.to_owned() });
            self.actions.push_back(Action::Event(GroupEvent::Left { cause: reason.to_owned() }));
        }
        id
    }

    /// Whether the coordinator hears of the end. A static member keeps its place until its session ends, so that it may come back
    /// (KIP-345), unless it is told otherwise (KIP-1092).
    fn leaves(&self) -> bool {
        match self.membership {
            Membership::Default => !self.settings.is_static,
            Membership::Leave => true,
            Membership::Remain => false,
        }
    }

    /// `max.poll.interval.ms` is over.
    pub(super) fn leave_for_want_of_polls(&mut self) {
        let cause = format!(
            "no poll for {} ms (max.poll.interval.ms): poll more often, fetch fewer records at once, or raise it",
            self.settings.max_poll_interval.as_millis()
        );
        self.cancel_assign();
        self.let_go(&cause);
        self.state = State::Idle;
        if self.leave(&cause).is_none() {
            if self.leaves() {
                self.actions.push_back(Action::Event(GroupEvent::Left { cause }));
            } else {
                self.trouble(format!("{cause}; no more heartbeats until then"));
            }
        }
        self.rejoin = Some("polls again after max.poll.interval.ms".into());
    }
}
