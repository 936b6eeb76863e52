//! The machine's clocks: what is due when, and until when what holds.

use std::time::Duration;

use super::{Action, GroupEvent, Machine, Seeking, State};
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
        if let State::Stable { since } = self.state {
            at(self.expiry(since));
            if let (Some((due, _)), true, None) = (&self.requested, self.leader, &self.rejoin) {
                at((*due).max(since + self.rebalance_gap()));
            }
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
        if let State::Stable { since } = self.state {
            let gap = since + self.rebalance_gap();
            if now >= self.expiry(since) {
                self.forget_coordinator(now);
                self.lose("no heartbeat was acknowledged within session.timeout.ms");
            } else if self.leader
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
    fn expiry(&self, since: Moment) -> Moment {
        self.kept.max(since + self.settings.session_timeout)
    }

    fn must_poll(&self) -> bool {
        !matches!(
            self.state,
            State::Idle | State::Committing | State::Leaving { .. } | State::Failed | State::Closed
        )
    }

    fn leave_for_want_of_polls(&mut self) {
        let cause = format!(
            "no poll for {} ms (max.poll.interval.ms): poll more often, fetch fewer records at once, or raise it",
            self.settings.max_poll_interval.as_millis()
        );
        self.cancel_assign();
        let owned = matches!(self.state, State::Stable { .. });
        self.state = State::Idle;
        if owned {
            self.actions.push_back(Action::Lose { cause: cause.clone() });
        }
        if !self.identity.member_id.is_empty() && self.coordinator == Seeking::Known {
            self.leave(&cause);
        } else {
            self.reset();
            self.actions.push_back(Action::Event(GroupEvent::Left { cause }));
        }
        self.rejoin = Some("polls again after max.poll.interval.ms".into());
    }

    pub(super) fn wants_coordinator(&self) -> bool {
        matches!(self.state, State::Preparing { .. } | State::Waiting | State::Stable { .. })
    }

    /// Whether heartbeats flow. Not while JoinGroup is under way: the coordinator then waits for others, and knows that this
    /// member is alive.
    pub(super) fn beats(&self) -> bool {
        self.identity.generation >= 0
            && matches!(
                self.state,
                State::Preparing { .. }
                    | State::Assigning { .. }
                    | State::Syncing { .. }
                    | State::Stable { .. }
            )
    }

    /// The coordinator kept this member when it answered what was sent then, and the group was not rebalancing. A rebalance that
    /// began later can't complete without this member before the rebalance time-out has passed, nor can it be expelled
    /// before the session time-out has.
    pub(super) fn extend_lease(&mut self, sent: Moment) {
        self.extend_kept(sent);
        let until = sent + self.settings.session_timeout.min(self.settings.max_poll_interval);
        if until > self.lease {
            self.lease = until;
            self.actions.push_back(Action::Lease(until));
        }
    }

    pub(super) fn extend_kept(&mut self, sent: Moment) {
        self.kept = self.kept.max(sent + self.settings.session_timeout);
    }
}
