//! The native strategies.

mod distinct;
mod keep;
mod order;
mod range;
mod roundrobin;
mod sticky;
mod subset;
mod telling;
#[cfg(test)]
mod tests;

pub use sticky::StickyPath;
pub(crate) use subset::assign_subset;

use std::borrow::Cow;

use crate::assignor::{Assignor, Context, Interest, Protocol};
use crate::cause::CallError;
use crate::group::{Group, TopicPartitions};
use crate::plan::Plan;

use telling::Telling;

/// Kafka's `CooperativeStickyAssignor`.
pub const COOPERATIVE_STICKY: &str = "cooperative-sticky";
/// Our own: everyone keeps what they validly own, the rest goes to the least loaded.
pub const KEEP: &str = "keep";
/// Kafka's `RangeAssignor`.
pub const RANGE: &str = "range";
/// Kafka's `RoundRobinAssignor`.
pub const ROUNDROBIN: &str = "roundrobin";
/// Kafka's `StickyAssignor`.
pub const STICKY: &str = "sticky";

/// The native strategies by name.
pub const NAMES: [&str; 5] = [COOPERATIVE_STICKY, KEEP, RANGE, ROUNDROBIN, STICKY];

/// A native strategy of one consumer. Its plan is a function of the group alone; between rebalances it remembers only what its
/// member tells the leader.
#[derive(Debug, Clone)]
pub struct Builtin {
    name: &'static str,
    core: Core,
    telling: Telling,
}

/// From a group, and whether to mind racks where they don't matter, too, to a plan.
type Core = fn(&Group, bool) -> Explained;

impl Builtin {
    /// The native strategy of that name, which may be that of Kafka's class; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        match crate::names::reserved(name)? {
            COOPERATIVE_STICKY => Some(Self::cooperative_sticky()),
            KEEP => Some(Self::keep()),
            RANGE => Some(Self::range()),
            ROUNDROBIN => Some(Self { name: ROUNDROBIN, core: roundrobin, telling: Telling::Nothing }),
            STICKY => Some(Self { name: STICKY, core: sticky, telling: Telling::sticky() }),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The group as the strategy's leader takes it: where members tell in their user data what they own, or since when, their
    /// claims are those. For [`plan`](Self::plan) and [`explain`](Self::explain); [`assign`](Assignor::assign) does it by itself.
    pub fn as_told<'a>(&self, group: &'a Group) -> Cow<'a, Group> {
        self.telling.read(group)
    }

    /// Splits the group's partitions: always a complete and valid plan, the full target under the cooperative protocol, too.
    ///
    /// Ownership is what [`Member::owned`](crate::Member::owned) says; nobody's user data is read, unlike in
    /// [`assign`](Assignor::assign).
    pub fn plan(&self, group: &Group) -> Plan {
        self.explain(group, false).plan
    }

    /// The plan, and how it was made. With `prefer_racks` racks are minded even where every partition is in all of them (Java:
    /// `AbstractPartitionAssignor.preferRackAwareLogic`, which tests set).
    pub fn explain(&self, group: &Group, prefer_racks: bool) -> Explained {
        (self.core)(group, prefer_racks)
    }

    /// The fallback that moves the least.
    pub(crate) fn keep() -> Self {
        Self { name: KEEP, core: keep, telling: Telling::Nothing }
    }

    /// The fallback of last resort under the eager protocol.
    pub(crate) fn range() -> Self {
        Self { name: RANGE, core: range, telling: Telling::Nothing }
    }

    /// The fallback of last resort under the cooperative protocol.
    pub(crate) fn cooperative_sticky() -> Self {
        Self { name: COOPERATIVE_STICKY, core: sticky, telling: Telling::cooperative_sticky() }
    }

    /// What members validly own and nothing else.
    pub(crate) fn hold(group: &Group) -> Plan {
        Plan::of(group.members().iter().map(|m| m.owned.clone()).collect())
    }
}

fn keep(group: &Group, _: bool) -> Explained {
    Explained { plan: keep::assign(group), path: None, racks: false }
}

fn range(group: &Group, prefer_racks: bool) -> Explained {
    let (plan, racks) = range::assign(group, prefer_racks);
    Explained { plan, path: None, racks }
}

fn roundrobin(group: &Group, _: bool) -> Explained {
    Explained { plan: roundrobin::assign(group), path: None, racks: false }
}

fn sticky(group: &Group, prefer_racks: bool) -> Explained {
    let (plan, path, racks) = sticky::assign(group, prefer_racks);
    Explained { plan, path: Some(path), racks }
}

/// A native strategy's plan, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The full target: nothing is withheld.
    pub plan: Plan,
    /// Which of its two algorithms a sticky strategy took; `None` for others.
    pub path: Option<StickyPath>,
    /// Whether racks were minded.
    pub racks: bool,
}

impl Assignor for Builtin {
    fn name(&self) -> &str {
        self.name
    }

    fn protocols(&self) -> &[Protocol] {
        match self.name {
            COOPERATIVE_STICKY | KEEP => &[Protocol::Eager, Protocol::Cooperative],
            _ => &[Protocol::Eager],
        }
    }

    fn subscription(&mut self, _: &Context, topics: &[String]) -> Result<Interest, CallError> {
        let user_data = self.telling.user_data().map_err(|e| CallError::Host(e.to_string()))?;
        Ok(Interest { topics: topics.to_vec(), user_data })
    }

    fn assign(&mut self, _: &Context, group: &Group) -> Result<Plan, CallError> {
        Ok(self.plan(&self.as_told(group)))
    }

    fn on_assignment(
        &mut self,
        _: &Context,
        partitions: &[TopicPartitions],
        _: Option<&[u8]>,
        generation: i32,
    ) -> Result<(), CallError> {
        self.telling.remember(partitions, generation);
        Ok(())
    }
}
