//! The native strategies.

mod keep;
mod order;
mod range;
mod roundrobin;
mod subset;
#[cfg(test)]
mod tests;

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

/// The native strategies by name.
pub const NAMES: [&str; 3] = [KEEP, RANGE, ROUNDROBIN];

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

impl Assignor for Builtin {
    fn name(&self) -> &str {
        self.name
    }

    fn protocols(&self) -> &[Protocol] {
        match self.name {
            KEEP => &[Protocol::Eager, Protocol::Cooperative],
            _ => &[Protocol::Eager],
        }
    }

    fn assign(&mut self, _: &Context, group: &Group) -> Result<Plan, CallError> {
        Ok(self.plan(group))
    }
}
