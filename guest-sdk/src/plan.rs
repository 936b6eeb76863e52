//! The plan that [`assign`](crate::Strategy::assign) returns.

use serde::Serialize;

use crate::bindings::assignor::strategy::types::Assignment;
use crate::group::{Member, TopicPartition};
use crate::user_data::{self, EncodeError};

/// Who gets what. Made by [`Group::plan`](crate::Group::plan), or from lists of partition numbers.
///
/// Every partition of every topic must be given to exactly one member, one that is subscribed to its topic. Under the
/// cooperative protocol too a plan is the full target: the host holds back what another member must give up first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    assignments: Vec<Assignment>,
}

impl Plan {
    pub(crate) fn empty(members: usize) -> Self {
        Self { assignments: vec![Assignment { partitions: Vec::new(), user_data: None }; members] }
    }

    /// Gives a partition to a member. Nothing happens if the member belongs to another, larger group.
    pub fn give(&mut self, member: Member<'_>, partition: TopicPartition<'_>) {
        self.give_numbers(member, [partition.number()]);
    }

    /// Gives the partitions of these [numbers](TopicPartition::number) to a member.
    pub fn give_numbers(&mut self, member: Member<'_>, numbers: impl IntoIterator<Item = u32>) {
        if let Some(assignment) = self.assignments.get_mut(member.index()) {
            assignment.partitions.extend(numbers);
        }
    }

    /// The numbers of the partitions that a member was given, in the order in which they were given.
    pub fn numbers(&self, member: Member<'_>) -> &[u32] {
        self.assignments.get(member.index()).map_or(&[], |assignment| &assignment.partitions)
    }

    /// How many partitions a member was given.
    pub fn load(&self, member: Member<'_>) -> usize {
        self.numbers(member).len()
    }

    /// Sends user data to a member: its strategy finds it in [`Assigned::user_data`](crate::Assigned::user_data).
    ///
    /// # Errors
    /// If it can't be encoded.
    pub fn send<T: Serialize + ?Sized>(&mut self, member: Member<'_>, value: &T) -> Result<(), EncodeError> {
        let bytes = user_data::encode(value)?;
        if let Some(assignment) = self.assignments.get_mut(member.index()) {
            assignment.user_data = Some(bytes);
        }
        Ok(())
    }

    /// The plan as the contract wants it: one assignment per member, in the order of the members.
    pub fn into_assignments(self) -> Vec<Assignment> {
        self.assignments
    }
}

/// The numbers of each member's partitions, in the order of the members.
impl From<Vec<Vec<u32>>> for Plan {
    fn from(partitions: Vec<Vec<u32>>) -> Self {
        let assignment = |partitions| Assignment { partitions, user_data: None };
        Self { assignments: partitions.into_iter().map(assignment).collect() }
    }
}
