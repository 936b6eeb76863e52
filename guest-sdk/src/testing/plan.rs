//! What a test wants to know of a plan.

use crate::bindings::assignor::strategy::types::Member;
use crate::group::{Group, TopicPartition};
use crate::plan::Plan;

/// What is wrong with a plan: for any of it the host would fall back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    /// Not one assignment per member.
    #[error("the plan has {assignments} assignments for {members} members")]
    Length {
        /// In the plan.
        assignments: usize,
        /// In the group.
        members: usize,
    },
    /// A number that is no partition's.
    #[error("{member} is given the number {number}, which is no partition's")]
    OutOfRange {
        /// Who.
        member: String,
        /// What.
        number: u32,
    },
    /// A partition twice.
    #[error("{partition} is given to {first} and to {second}")]
    Duplicate {
        /// Which, as `topic-partition`.
        partition: String,
        /// To whom first.
        first: String,
        /// To whom then.
        second: String,
    },
    /// A partition of a topic that the member is not subscribed to.
    #[error("{partition} is given to {member}, which is not subscribed to its topic")]
    Unsubscribed {
        /// Which, as `topic-partition`.
        partition: String,
        /// To whom.
        member: String,
    },
    /// A partition for nobody, though its topic has subscribers.
    #[error("{partition} is given to nobody")]
    Missing {
        /// Which, as `topic-partition`.
        partition: String,
    },
}

/// Checks a plan as the host does: one assignment per member, each partition of every subscribed topic exactly once, to a
/// member that is subscribed to its topic.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(group: &Group, plan: &Plan) -> Result<(), Unsound> {
    let assignments = plan.clone().into_assignments();
    if assignments.len() != group.members().len() {
        return Err(Unsound::Length { assignments: assignments.len(), members: group.members().len() });
    }
    let mut owners = vec![None; group.partition_count() as usize];
    for member in group.members() {
        for &number in plan.numbers(member) {
            let (Some(owner), Some(partition)) = (owners.get_mut(number as usize), group.partition(number))
            else {
                return Err(Unsound::OutOfRange { member: member.id().into(), number });
            };
            if let Some(first) = owner.replace(member.id()) {
                let (first, second) = (first.into(), member.id().into());
                return Err(Unsound::Duplicate { partition: partition.to_string(), first, second });
            }
            if !member.topics().any(|topic| topic.name() == partition.topic) {
                let member = member.id().into();
                return Err(Unsound::Unsubscribed { partition: partition.to_string(), member });
            }
        }
    }
    for topic in group.topics().filter(|&topic| group.members().any(|member| member.is_subscribed(topic))) {
        for partition in topic.partitions() {
            if !owners.get(partition.number() as usize).is_some_and(Option::is_some) {
                return Err(Unsound::Missing { partition: partition.to_string() });
            }
        }
    }
    Ok(())
}

/// The plan by name: each member's id and its partitions as `topic-partition`, in order.
pub fn names<'g>(group: &'g Group, plan: &Plan) -> Vec<(&'g str, Vec<String>)> {
    let partitions = |numbers: &[u32]| {
        let mut partitions: Vec<TopicPartition<'_>> = group.named(numbers).collect();
        partitions.sort_unstable();
        partitions.iter().map(ToString::to_string).collect()
    };
    group.members().map(|member| (member.id(), partitions(plan.numbers(member)))).collect()
}

/// The same group when the plan has come into force: everyone owns what the plan gave it, in the next generation. For tests of
/// stability; change it further through its [raw parts](Group::raw_members).
pub fn after(group: &Group, plan: &Plan) -> Group {
    let generation = group.members().filter_map(|member| member.generation()).max().map_or(1, |g| g + 1);
    let owning = |member: crate::Member<'_>, raw: &Member| {
        let mut owned = plan.numbers(member).to_vec();
        owned.sort_unstable();
        Member { owned, generation: Some(generation), ..raw.clone() }
    };
    let members = group.members().zip(group.raw_members()).map(|(member, raw)| owning(member, raw)).collect();
    Group::new(group.raw_topics().to_vec(), members)
}
