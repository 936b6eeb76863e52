//! Watches the driver rebalance: a `tracing` span for each rebalance and one for each of its phases inside, and the summary that
//! observers and metrics get.
//!
//! It only looks at what the machine asks for and at what comes back, so that it can't change what is done.

use tracing::{Span, field};

use super::Event;
use crate::consumer::clock::Moment;
use crate::consumer::error::GroupEvent;
use crate::consumer::machine::Action;
use crate::consumer::rebalance::{Phase, Phases, Rebalance, RebalanceOutcome, cause_code};

/// The rebalance under way, if one is.
#[derive(Debug, Default)]
pub(super) struct Watch {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    so_far: Rebalance,
    began: Moment,
    /// Phases under way: more than one, since the coordinator is looked for while strategies are asked.
    open: [Option<(Moment, Span)>; 7],
    span: Span,
}

impl Watch {
    /// What the driver is about to do. Gives the rebalance that this ends, if it ends one.
    pub(super) fn action(&mut self, group: &str, action: &Action, now: Moment) -> Option<Rebalance> {
        match action {
            Action::Event(GroupEvent::Joining { cause }) => {
                let ended = self.end(RebalanceOutcome::Superseded, now);
                self.running = Some(Running::new(group, cause, now));
                return ended;
            }
            Action::Revoke(_) => self.open(Phase::Revoke, now),
            Action::Prepare { .. } => self.open(Phase::Prepare, now),
            Action::FindCoordinator(_) => self.open(Phase::FindCoordinator, now),
            Action::Join { .. } => self.open(Phase::Join, now),
            Action::Assign { members, .. } => {
                let count = members.len();
                self.note(|r| r.members = Some(count));
                self.open(Phase::Assign, now);
            }
            Action::Sync { identity, protocol, .. } => {
                self.note(|r| {
                    r.generation = identity.generation;
                    r.strategy.clone_from(protocol);
                });
                self.open(Phase::Sync, now);
            }
            Action::Deliver(delivery) => {
                self.note(|r| {
                    r.generation = delivery.identity.generation;
                    r.leader = delivery.leader;
                });
                self.open(Phase::Install, now);
            }
            Action::Fail(_) => return self.end(RebalanceOutcome::Failed, now),
            Action::Event(GroupEvent::Left { .. }) | Action::Closed => {
                return self.end(RebalanceOutcome::Left, now);
            }
            _ => {}
        }
        None
    }

    /// What came back.
    pub(super) fn event(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Prepared { .. } => self.close(Phase::Prepare, now),
            Event::Coordinator(..) => self.close(Phase::FindCoordinator, now),
            Event::Joined(..) => self.close(Phase::Join, now),
            Event::Planned { .. } => self.close(Phase::Assign, now),
            Event::Synced(..) => self.close(Phase::Sync, now),
            _ => {}
        }
    }

    /// The assignment is installed.
    pub(super) fn installed(&mut self, now: Moment) -> Option<Rebalance> {
        self.end(RebalanceOutcome::Assigned, now)
    }

    /// The application has let go of what it gives up.
    pub(super) fn given_up(&mut self, now: Moment) {
        self.close(Phase::Revoke, now);
    }

    fn note(&mut self, note: impl FnOnce(&mut Rebalance)) {
        if let Some(running) = &mut self.running {
            note(&mut running.so_far);
        }
    }

    fn open(&mut self, phase: Phase, now: Moment) {
        let Some(running) = &mut self.running else { return };
        let parent = &running.span;
        // A span's name has to be a literal.
        let span = match phase {
            Phase::Revoke => tracing::info_span!(parent: parent, "revoke"),
            Phase::Prepare => tracing::info_span!(parent: parent, "prepare"),
            Phase::FindCoordinator => tracing::info_span!(parent: parent, "find_coordinator"),
            Phase::Join => tracing::info_span!(parent: parent, "join"),
            Phase::Assign => tracing::info_span!(parent: parent, "assign"),
            Phase::Sync => tracing::info_span!(parent: parent, "sync"),
            Phase::Install => tracing::info_span!(parent: parent, "install"),
        };
        // One that was never answered, as when its connection was replaced, ends here.
        running.close(phase, now);
        if let Some(slot) = running.open.get_mut(phase as usize) {
            *slot = Some((now, span));
        }
    }

    fn close(&mut self, phase: Phase, now: Moment) {
        if let Some(running) = &mut self.running {
            running.close(phase, now);
        }
    }

    fn end(&mut self, outcome: RebalanceOutcome, now: Moment) -> Option<Rebalance> {
        let mut running = self.running.take()?;
        for phase in Phase::ALL {
            running.close(phase, now);
        }
        let Running { mut so_far, began, span, .. } = running;
        so_far.outcome = outcome;
        so_far.took = now.since(began);
        span.record("outcome", outcome.code());
        span.record("generation", so_far.generation);
        span.record("strategy", so_far.strategy.as_str());
        span.record("leader", so_far.leader);
        if let Some(members) = so_far.members {
            span.record("members", members);
        }
        Some(so_far)
    }
}

impl Running {
    fn new(group: &str, cause: &str, now: Moment) -> Self {
        let code = cause_code(cause);
        let span = tracing::info_span!(
            parent: None,
            "rebalance",
            group,
            cause,
            code,
            generation = field::Empty,
            strategy = field::Empty,
            leader = field::Empty,
            members = field::Empty,
            outcome = field::Empty,
        );
        let so_far = Rebalance {
            cause: cause.to_owned(),
            cause_code: code,
            outcome: RebalanceOutcome::Superseded,
            generation: -1,
            strategy: String::new(),
            leader: false,
            members: None,
            took: std::time::Duration::ZERO,
            phases: Phases::default(),
        };
        Self { so_far, began: now, open: Default::default(), span }
    }

    fn close(&mut self, phase: Phase, now: Moment) {
        if let Some((since, _span)) = self.open.get_mut(phase as usize).and_then(Option::take) {
            *self.so_far.phases.of(phase) += now.since(since);
        }
    }
}

#[cfg(test)]
mod tests;
