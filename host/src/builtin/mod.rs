//! The native strategies.

mod keep;
mod order;
mod range;
mod roundrobin;
mod sticky;
mod subset;
#[cfg(test)]
mod tests;

pub use sticky::StickyPath;
pub(crate) use subset::assign_subset;

use crate::assignor::{Assignor, Context, Protocol};
use crate::cause::CallError;
use crate::group::Group;
use crate::plan::Plan;

/// Our own: everyone keeps what they validly own, the rest goes to the least loaded.
pub const KEEP: &str = "keep";
/// Kafka's `RangeAssignor`.
pub const RANGE: &str = "range";
/// Kafka's `RoundRobinAssignor`.
pub const ROUNDROBIN: &str = "roundrobin";

/// Kafka's `StickyAssignor`.
pub const STICKY: &str = "sticky";
/// Kafka's `CooperativeStickyAssignor`.
pub const COOPERATIVE_STICKY: &str = "cooperative-sticky";

/// The native strategies by name.
pub const NAMES: [&str; 5] = [COOPERATIVE_STICKY, KEEP, RANGE, ROUNDROBIN, STICKY];

/// A native strategy: a function of the group alone.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    name: &'static str,
    assign: fn(&Group) -> Plan,
}

impl Builtin {
    /// The native strategy of that name; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        let (name, assign): (_, fn(&Group) -> Plan) = match name {
            KEEP => (KEEP, keep::assign),
            RANGE => (RANGE, range::assign),
            ROUNDROBIN => (ROUNDROBIN, roundrobin::assign),
            STICKY => (STICKY, sticky_plan),
            COOPERATIVE_STICKY => (COOPERATIVE_STICKY, sticky_plan),
            _ => return None,
        };
        Some(Self { name, assign })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Splits the group's partitions: always a complete and valid plan.
    pub fn plan(&self, group: &Group) -> Plan {
        (self.assign)(group)
    }

    /// The plan, and how it was made. With `prefer_racks` racks are minded even where every partition is in all of them (Java:
    /// `AbstractPartitionAssignor.preferRackAwareLogic`, which tests set).
    pub fn explain(&self, group: &Group, prefer_racks: bool) -> Explained {
        match self.name {
            STICKY | COOPERATIVE_STICKY => {
                let (plan, path, racks) = sticky::assign(group, prefer_racks);
                Explained { plan, path: Some(path), racks }
            }
            _ => Explained { plan: self.plan(group), path: None, racks: false },
        }
    }

    /// The fallback that moves the least.
    pub(crate) fn keep() -> Self {
        Self { name: KEEP, assign: keep::assign }
    }

    /// The fallback of last resort under the eager protocol.
    pub(crate) fn range() -> Self {
        Self { name: RANGE, assign: range::assign }
    }

    /// What members validly own and nothing else.
    pub(crate) fn hold(group: &Group) -> Plan {
        Plan::of(group.members().iter().map(|m| m.owned.clone()).collect())
    }
}

fn sticky_plan(group: &Group) -> Plan {
    sticky::assign(group, false).0
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
            KEEP | COOPERATIVE_STICKY => &[Protocol::Eager, Protocol::Cooperative],
            _ => &[Protocol::Eager],
        }
    }

    fn assign(&mut self, _: &Context, group: &Group) -> Result<Plan, CallError> {
        Ok(self.plan(group))
    }
}
