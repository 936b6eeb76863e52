//! The machine's clocks: what is due when, and until when what holds.

use std::time::Duration;

use super::{Action, Machine, Seeking, State, Then};
use crate::consumer::clock::Moment;

impl Machine {
    /// When [`Self::handle_timeout`] is to be called next.
    pub(in crate::consumer) fn next_timeout(&self) -> Option<Moment> {
        let mut next: Option<Moment> = None;
        let mut at = |moment: Moment| next = Some(next.map_or(moment, |n| n.min(moment)));
        if let (Seeking::Unknown(after), true) = (self.coordinator, self.wants_coordinator()) {
            at(after);
        }
        if self.state == State::Waiting && self.coordinator == Seeking::Known {
            at(self.join_after);
        }
        if self.beats() && self.beat.is_none() && self.coordinator == Seeking::Known {
            at(self.beat_due);
        }
        if let Some(expiry) = self.expiry() {
            at(expiry);
        }
        if let State::Stable { since } = self.state
            && let (Some((due, _)), true, None) = (&self.requested, self.leader, &self.rejoin)
        {
            at((*due).max(since + self.rebalance_gap()));
        }
        if self.must_poll() && !self.in_poll {
            at(self.last_poll + self.settings.max_poll_interval);
        }
        next
    }

    /// Time has passed.
    pub(in crate::consumer) fn handle_timeout(&mut self, now: Moment) {
        if self.must_poll() && !self.in_poll && now >= self.last_poll + self.settings.max_poll_interval {
            self.leave_for_want_of_polls();
        }
        if self.expiry().is_some_and(|expiry| now >= expiry) {
            self.forget_coordinator(now);
            self.lose("no heartbeat was acknowledged within session.timeout.ms");
        }
        if let State::Stable { since } = self.state {
            let gap = since + self.rebalance_gap();
            if self.leader
                && self.rejoin.is_none()
                && let Some((_, cause)) = self.requested.take_if(|(due, _)| now >= (*due).max(gap))
            {
                self.rejoin = Some(cause);
            }
        }
        self.drive(now);
    }

    /// Asked-for rebalances are at least so far apart that each is heard of by heartbeat before the next.
    fn rebalance_gap(&self) -> Duration {
        self.settings.heartbeat_interval.max(Duration::from_secs(1))
    }

    /// When partitions count as lost: a session after the last sign of life that is known to have reached the coordinator, or
    /// after the delivery if that came later (nothing is handed out before a heartbeat then).
    fn expiry(&self) -> Option<Moment> {
        let ends = matches!(self.state, State::Revoking { then: Then::Unsubscribe | Then::Close, .. });
        (self.owns() && !ends).then(|| self.kept.max(self.delivered + self.settings.session_timeout))
    }

    fn must_poll(&self) -> bool {
        !matches!(
            self.state,
            State::Idle
                | State::Revoking { then: Then::Unsubscribe | Then::Close, .. }
                | State::Leaving { .. }
                | State::Failed
                | State::Closed
        )
    }

    pub(super) fn wants_coordinator(&self) -> bool {
        matches!(
            self.state,
            State::Revoking { .. }
                | State::Preparing { .. }
                | State::Waiting
                | State::Synced
                | State::Stable { .. }
        )
    }

    /// Whether heartbeats flow. While JoinGroup is under way the coordinator knows that this member is alive: only a member that
    /// owns partitions needs them then, for its lease.
    pub(super) fn beats(&self) -> bool {
        let sends = match self.state {
            State::Revoking { .. }
            | State::Preparing { .. }
            | State::Assigning { .. }
            | State::Syncing { .. }
            | State::Synced
            | State::Stable { .. } => true,
            State::Waiting | State::Joining { .. } => self.owns(),
            State::Idle | State::Leaving { .. } | State::Failed | State::Closed => false,
        };
        sends && self.identity.generation >= 0
    }

    /// What was sent then shows the coordinator a living member.
    pub(super) fn kept_since(&mut self, sent: Moment) {
        self.kept = self.kept.max(sent + self.settings.session_timeout);
        self.renew_lease();
    }

    /// When this was sent, no rebalance had begun that could go on without this member.
    pub(super) fn intact_since(&mut self, sent: Moment) {
        self.intact = self.intact.max(sent + self.settings.max_poll_interval);
        self.renew_lease();
    }

    fn renew_lease(&mut self) {
        let until = self.kept.min(self.intact);
        if until > self.lease {
            self.lease = until;
            self.actions.push_back(Action::Lease(until));
        }
    }
}
