//! What a rebalance was, and how long each part of it took.

use std::time::Duration;

/// One rebalance as this member lived through it, told when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebalance {
    /// Why the member joined.
    pub cause: String,
    /// The cause as programs read it: one of few, see [`cause_code`].
    pub cause_code: &'static str,
    /// How it ended.
    pub outcome: RebalanceOutcome,
    /// The group's generation; -1 if the group did not get that far.
    pub generation: i32,
    /// The strategy that the group runs; empty if it did not get that far.
    pub strategy: String,
    /// Whether this member led.
    pub leader: bool,
    /// How many members the group has; only the leader knows.
    pub members: Option<usize>,
    /// From the first step to the end.
    pub took: Duration,
    /// What of that went where. Parts may overlap, and waiting between them belongs to none.
    pub phases: Phases,
}

/// The parts of a rebalance, each with the time that it took in all, as often as it was repeated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phases {
    /// Partitions are given up: what was processed is committed, and the rebalance listener hears of it.
    pub revoke: Duration,
    /// Strategies tell their subscriptions.
    pub prepare: Duration,
    /// The group's coordinator is looked for; zero if it was known.
    pub find_coordinator: Duration,
    /// JoinGroup, which the coordinator answers when all members have come.
    pub join: Duration,
    /// The leader looks the topics up, its strategy decides, the plan is checked; zero for others.
    pub assign: Duration,
    /// SyncGroup, which the coordinator answers when the leader has assigned.
    pub sync: Duration,
    /// Where to read on is looked up, as far as it can be told at once.
    pub install: Duration,
}

impl Phases {
    /// Name and time of each, in their order.
    pub fn each(&self) -> [(&'static str, Duration); 7] {
        let times = [
            self.revoke,
            self.prepare,
            self.find_coordinator,
            self.join,
            self.assign,
            self.sync,
            self.install,
        ];
        std::array::from_fn(|i| {
            (Phase::ALL.get(i).map_or("", |p| p.name()), times.get(i).copied().unwrap_or_default())
        })
    }
}

/// How a rebalance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RebalanceOutcome {
    /// With an assignment.
    Assigned,
    /// Another one began before it was over: the group or the subscription had changed again.
    Superseded,
    /// With an error, which the next `poll` returns.
    Failed,
    /// The member left the group.
    Left,
}

impl RebalanceOutcome {
    /// The outcome as programs read it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Left => "left",
        }
    }
}

/// A part of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Revoke,
    Prepare,
    FindCoordinator,
    Join,
    Assign,
    Sync,
    Install,
}

impl Phase {
    pub(super) const ALL: [Self; 7] = [
        Self::Revoke,
        Self::Prepare,
        Self::FindCoordinator,
        Self::Join,
        Self::Assign,
        Self::Sync,
        Self::Install,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Prepare => "prepare",
            Self::FindCoordinator => "find_coordinator",
            Self::Join => "join",
            Self::Assign => "assign",
            Self::Sync => "sync",
            Self::Install => "install",
        }
    }
}

impl Phases {
    pub(super) fn of(&mut self, phase: Phase) -> &mut Duration {
        match phase {
            Phase::Revoke => &mut self.revoke,
            Phase::Prepare => &mut self.prepare,
            Phase::FindCoordinator => &mut self.find_coordinator,
            Phase::Join => &mut self.join,
            Phase::Assign => &mut self.assign,
            Phase::Sync => &mut self.sync,
            Phase::Install => &mut self.install,
        }
    }
}

/// What begins a cause's text, and its code. Whatever begins otherwise is what somebody asked for: `requested`.
const CAUSES: &[(&str, &str)] = &[
    ("first subscription", "subscribe"),
    ("the subscription changed", "subscription-changed"),
    ("the group is rebalancing", "group"),
    ("gave up partitions that another member shall have", "given-up"),
    ("partitions that were held back for their owners", "held-back"),
    ("the plugin of ", "stepped-down"),
    ("topic ", "partitions-changed"),
    ("partitions have replicas in other racks", "racks-changed"),
    ("the leader assigned topic ", "alien-topic"),
    ("the group does not know this member", "expelled"),
    ("the group has gone on to another generation", "generation-missed"),
    ("no heartbeat was acknowledged within session.timeout.ms", "session-timeout"),
    ("polls again after max.poll.interval.ms", "poll-interval"),
    ("trying again after", "error"),
];

/// A cause as programs read it. There are few, so that they can be counted apart:
///
/// | code | the member joined because |
/// | --- | --- |
/// | `subscribe` | the application subscribed for the first time |
/// | `subscription-changed` | it subscribed to other topics |
/// | `group` | the group rebalances: a member came, left, or joined again |
/// | `given-up` | it gave up partitions in a cooperative rebalance, which others get in the next one |
/// | `held-back` | it leads, and partitions that it held back for their owners were still nobody's |
/// | `stepped-down` | it led while its plugin could not be loaded, and left once so that another member leads |
/// | `partitions-changed` | the leader found a topic with another number of partitions |
/// | `racks-changed` | the leader found replicas in other racks |
/// | `alien-topic` | the leader assigned a topic that this member had not subscribed to |
/// | `expelled` | the coordinator did not know this member any more |
/// | `generation-missed` | the group had gone on without this member |
/// | `session-timeout` | no heartbeat got through within `session.timeout.ms` |
/// | `poll-interval` | the application polls again after it had not for `max.poll.interval.ms` |
/// | `error` | an error that can heal was reported, and the application polls on |
/// | `requested` | a strategy, its replacement or the application asked for it |
pub fn cause_code(cause: &str) -> &'static str {
    CAUSES.iter().find(|(begins, _)| cause.starts_with(begins)).map_or("requested", |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_that_has_a_code_is_one_that_the_machine_tells() {
        let machine = [
            include_str!("machine/leaving.rs"),
            include_str!("machine/mod.rs"),
            include_str!("machine/rebalance.rs"),
            include_str!("machine/responses.rs"),
            include_str!("machine/timing.rs"),
        ];
        for (begins, code) in CAUSES {
            let told = format!("\"{begins}");
            assert!(
                machine.iter().any(|text| text.contains(&told)),
                "{begins}: the machine tells it otherwise"
            );
            assert_eq!(cause_code(begins), *code);
        }
        assert_eq!(cause_code("the plugin was replaced"), "requested");
    }
}
