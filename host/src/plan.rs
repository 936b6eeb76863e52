//! A plan, and the check that it passes before it leaves the leader.

#[cfg(test)]
mod tests;

use crate::group::Group;

/// What one member gets (Kafka: `ConsumerPartitionAssignor.Assignment`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Numbers of its partitions, as the [`Group`] gives them.
    pub partitions: Vec<u32>,
    /// Bytes for the member's own strategy.
    pub user_data: Option<Vec<u8>>,
}

/// One assignment per member, in the order of the group's members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The assignments.
    pub assignments: Vec<Assignment>,
}

impl Plan {
    /// A plan of partitions only.
    pub fn of(partitions: Vec<Vec<u32>>) -> Self {
        let assignments =
            partitions.into_iter().map(|partitions| Assignment { partitions, user_data: None }).collect();
        Self { assignments }
    }

    /// The index of the member that gets each partition, by the partition's number. For a plan that passed [`check`].
    pub fn owners(&self, group: &Group) -> Vec<Option<u32>> {
        let mut owners = vec![None; group.partitions() as usize];
        for (member, assignment) in (0u32..).zip(&self.assignments) {
            for &partition in &assignment.partitions {
                if let Some(owner) = owners.get_mut(partition as usize) {
                    *owner = Some(member);
                }
            }
        }
        owners
    }
}

/// No member's index.
const NOBODY: u32 = u32::MAX;

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Not one entry per member.
    #[error("the plan has {found} assignments for {members} members")]
    Length {
        /// Entries in the plan.
        found: usize,
        /// Members in the group.
        members: usize,
    },
    /// A partition is assigned twice.
    #[error("{topic}-{partition} is assigned to both {first:?} and {second:?}")]
    Duplicate {
        /// The partition's topic.
        topic: String,
        /// Its index in the topic.
        partition: u32,
        /// Member id of the earlier entry.
        first: String,
        /// Member id of the later entry; the same one if the partition is twice in one entry.
        second: String,
    },
    /// A number that is no partition's.
    #[error("{member:?} is assigned the number {number}, but the group has {partitions} partitions")]
    OutOfRange {
        /// The member id.
        member: String,
        /// The number.
        number: u32,
        /// How many partitions there are.
        partitions: u32,
    },
    /// A partition of a topic that the member did not ask for.
    #[error("{member:?} is assigned {topic}-{partition} but is not subscribed to that topic")]
    Unsubscribed {
        /// The member id.
        member: String,
        /// The topic.
        topic: String,
        /// The partition's index in the topic.
        partition: u32,
    },
    /// Partitions of subscribed topics that nobody gets.
    #[error("{missing} partitions are assigned to nobody, the first is {topic}-{partition}")]
    Incomplete {
        /// How many.
        missing: usize,
        /// The topic of the first one.
        topic: String,
        /// Its index in the topic.
        partition: u32,
    },
    /// After withholding, a partition would still go to a new owner while another member claims it. A fault of the host.
    #[error("{topic}-{partition} would go to {member:?} while another member still owns it")]
    Unsafe {
        /// The member id of the new owner.
        member: String,
        /// The topic.
        topic: String,
        /// The partition's index in the topic.
        partition: u32,
    },
}

impl Violation {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "plan-length",
            Self::Duplicate { .. } => "plan-duplicate",
            Self::OutOfRange { .. } => "plan-out-of-range",
            Self::Unsubscribed { .. } => "plan-unsubscribed",
            Self::Incomplete { .. } => "plan-incomplete",
            Self::Unsafe { .. } => "plan-unsafe",
        }
    }
}

/// Whether a plan must give out every partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every partition of the group must be assigned.
    Full,
    /// Some may be left out, as the `hold` fallback does.
    Partial,
}

/// Checks a plan against its group: one entry per member, each partition at most once, in range, of a subscribed topic, and
/// all of them assigned.
///
/// # Errors
/// The first violation, in that order.
pub fn check(group: &Group, plan: &Plan, completeness: Completeness) -> Result<(), Violation> {
    let members = group.members();
    if plan.assignments.len() != members.len() {
        return Err(Violation::Length { found: plan.assignments.len(), members: members.len() });
    }
    let partitions = group.partitions();
    let mut owners = vec![NOBODY; partitions as usize];
    let mut assigned = 0usize;
    for ((index, member), assignment) in (0u32..).zip(members).zip(&plan.assignments) {
        // Mostly everybody wants every topic, and then there is nothing to look up.
        let wants_all = member.topics.len() == group.topics().len();
        for &number in &assignment.partitions {
            let Some(owner) = owners.get_mut(number as usize) else {
                return Err(Violation::OutOfRange { member: member.id.clone(), number, partitions });
            };
            if *owner != NOBODY {
                let first = members.get(*owner as usize).map_or_else(String::new, |m| m.id.clone());
                let (topic, partition) = name(group, number);
                return Err(Violation::Duplicate { topic, partition, first, second: member.id.clone() });
            }
            *owner = index;
            let wanted = wants_all
                || group.topic_of(number).is_some_and(|topic| member.topics.binary_search(&topic).is_ok());
            if !wanted {
                let (topic, partition) = name(group, number);
                return Err(Violation::Unsubscribed { member: member.id.clone(), topic, partition });
            }
        }
        assigned += assignment.partitions.len();
    }
    if completeness == Completeness::Full && assigned != owners.len() {
        let number = owners.iter().position(|&owner| owner == NOBODY).unwrap_or_default();
        let (topic, partition) = name(group, u32::try_from(number).unwrap_or(u32::MAX));
        return Err(Violation::Incomplete { missing: owners.len() - assigned, topic, partition });
    }
    Ok(())
}

/// Takes out of a checked plan what another member must give up first, and returns how many partitions that were.
///
/// A claimed partition may go to a member only if that member claims it at a strictly higher generation than every other
/// claimant, or nobody else claims it. Claims are taken raw, not resolved: a member that wrongly believes it owns a partition
/// still reads it. Done under every protocol: an eager leader among cooperative members would otherwise make two owners
/// (KAFKA-15170 and the mixed lists of franz-go 366, 686, 1365).
pub fn withhold(group: &Group, plan: &mut Plan) -> usize {
    if group.members().iter().all(|m| m.claimed.is_empty()) {
        return 0;
    }
    // A claim that is stronger than every other is ownership, if its member is subscribed, and nobody else gets partitions of
    // the topic anyway. So each claimed partition may go to its owner, or to nobody.
    const UNCLAIMED: u32 = u32::MAX - 1;
    let mut owners = vec![UNCLAIMED; group.partitions() as usize];
    for member in group.members() {
        set(&mut owners, &member.claimed, NOBODY);
    }
    for (index, member) in (0u32..).zip(group.members()) {
        set(&mut owners, &member.owned, index);
    }
    let mut withheld = 0;
    for (index, assignment) in (0u32..).zip(&mut plan.assignments) {
        let before = assignment.partitions.len();
        assignment
            .partitions
            .retain(|&p| owners.get(p as usize).is_some_and(|&owner| owner == index || owner == UNCLAIMED));
        withheld += before - assignment.partitions.len();
    }
    withheld
}

fn set(owners: &mut [u32], partitions: &[u32], value: u32) {
    for &partition in partitions {
        if let Some(owner) = owners.get_mut(partition as usize) {
            *owner = value;
        }
    }
}

/// Asserts that a plan gives nobody what another member still owns. Independent of [`withhold`] on purpose: it goes over
/// the claims, not over the plan.
///
/// # Errors
/// [`Violation::Unsafe`] for the first partition that is not safe.
pub fn assert_safe(group: &Group, plan: &Plan) -> Result<(), Violation> {
    if group.members().iter().all(|m| m.claimed.is_empty()) {
        return Ok(());
    }
    let owners = plan.owners(group);
    for (index, claimant) in (0u32..).zip(group.members()) {
        for &number in &claimant.claimed {
            let Some(&Some(owner)) = owners.get(number as usize) else { continue };
            if owner == index {
                continue;
            }
            let safe = group.members().get(owner as usize).is_some_and(|new| {
                new.claimed.binary_search(&number).is_ok()
                    && new.claim_generation() > claimant.claim_generation()
            });
            if !safe {
                let member = group.members().get(owner as usize).map_or_else(String::new, |m| m.id.clone());
                let (topic, partition) = name(group, number);
                return Err(Violation::Unsafe { member, topic, partition });
            }
        }
    }
    Ok(())
}

fn name(group: &Group, number: u32) -> (String, u32) {
    let topic = group.topic_of(number).and_then(|t| group.topics().get(t as usize));
    topic.map_or_else(|| (String::new(), number), |t| (t.name.clone(), number - t.first))
}
