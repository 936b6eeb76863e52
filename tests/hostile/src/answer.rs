//! The correct answers, and the faults in them.

use assignor_guest_sdk::bindings::exports::assignor::strategy::strategy::{
    Assignment, Interest, Member, Protocol, Topic,
};
use assignor_guest_sdk::{built_in, config};

use crate::fault::number;

/// The faults of an answer: each belongs to one function.
pub(crate) const FAULTS: [&str; 24] = [
    "name-empty",
    "name-reserved",
    "name-illegal",
    "name-long",
    "name-huge",
    "protocols-none",
    "protocols-cooperative",
    "protocols-huge",
    "topic-unknown",
    "topics-huge",
    "interest-huge",
    "partition-twice",
    "partition-shared",
    "partition-range",
    "partition-unsubscribed",
    "partition-missing",
    "partitions-none",
    "partitions-huge",
    "assignments-few",
    "assignments-many",
    "assignments-huge",
    "assignment-huge",
    "built-in",
    "echo",
];

const MIB: usize = 1 << 20;

pub(crate) fn echo(members: Vec<Member>) -> Vec<Assignment> {
    members.into_iter().map(|member| Assignment { partitions: member.owned, user_data: None }).collect()
}

pub(crate) fn built_in(members: &[Member]) -> Result<Vec<Assignment>, String> {
    let strategy = config::text("strategy").unwrap_or_default();
    let plan = built_in::assign_members(&strategy, members, &[]).map_err(|error| error.to_string())?;
    Ok(plan.into_iter().map(|partitions| Assignment { partitions, user_data: None }).collect())
}

pub(crate) fn name(correct: String, fault: &str) -> String {
    match fault {
        "name-empty" => String::new(),
        "name-reserved" => "range".to_owned(),
        "name-illegal" => "no name\nwith \u{fc}".to_owned(),
        "name-long" => "n".repeat(65),
        "name-huge" => "n".repeat(number("bytes", 20 * MIB)),
        _ => correct,
    }
}

pub(crate) fn protocols(correct: Vec<Protocol>, fault: &str) -> Vec<Protocol> {
    match fault {
        "protocols-none" => Vec::new(),
        "protocols-cooperative" => vec![Protocol::Cooperative],
        "protocols-huge" => vec![Protocol::Eager; number("bytes", 20 * MIB)],
        _ => correct,
    }
}

pub(crate) fn interest(mut correct: Interest, fault: &str) -> Interest {
    match fault {
        "topic-unknown" => correct.topics.push("a-topic-that-nobody-gave".to_owned()),
        "topics-huge" => correct.topics = vec!["t".repeat(1024); number("bytes", 20 * MIB) / 1024],
        "interest-huge" => correct.user_data = Some(vec![1; number("bytes", 2 * MIB)]),
        _ => {}
    }
    correct
}

/// Partitions in order to members in turn, those that are not subscribed left out.
pub(crate) fn round_robin(topics: &[Topic], members: &[Member]) -> Vec<Assignment> {
    let mut plan = vec![Assignment { partitions: Vec::new(), user_data: None }; members.len()];
    let mut turn = 0;
    for (number, topic) in (0u32..).zip(topics) {
        for partition in topic.first..topic.first.saturating_add(topic.count) {
            let in_turn = (0..members.len()).map(|step| (turn + step) % members.len());
            let subscribed =
                |&index: &usize| members.get(index).is_some_and(|m| m.topics.binary_search(&number).is_ok());
            let Some(index) = in_turn.into_iter().find(subscribed) else { continue };
            if let Some(assignment) = plan.get_mut(index) {
                assignment.partitions.push(partition);
            }
            turn = index + 1;
        }
    }
    plan
}

/// The plan with the fault in it; an error in words where the group has no room for the fault.
pub(crate) fn plan(
    mut plan: Vec<Assignment>,
    topics: &[Topic],
    members: &[Member],
    fault: &str,
) -> Result<Vec<Assignment>, String> {
    let room = |what: &str| format!("the fault {fault} needs a group with {what}");
    let needs_owner = || room("a partition that somebody is subscribed to");
    let with_partitions = |plan: &mut Vec<Assignment>| {
        plan.iter().position(|assignment| !assignment.partitions.is_empty()).ok_or_else(needs_owner)
    };
    match fault {
        "partition-twice" => {
            let owner = with_partitions(&mut plan)?;
            let partitions = plan.get_mut(owner).map(|assignment| &mut assignment.partitions);
            if let Some(partitions) = partitions {
                partitions.extend_from_within(..1);
            }
        }
        "partition-shared" => {
            let needed = || room("two members on one topic");
            let two = |number: u32| {
                let mut subscribers =
                    (0..).zip(members).filter(move |(_, member)| member.topics.contains(&number));
                Some((subscribers.next()?.0, subscribers.next()?.0))
            };
            let shared = (0u32..).zip(topics).find_map(|(number, topic)| Some((two(number)?, topic.first)));
            let ((one, other), partition) = shared.ok_or_else(needed)?;
            for (index, assignment) in plan.iter_mut().enumerate() {
                assignment.partitions.retain(|&number| number != partition);
                if index == one || index == other {
                    assignment.partitions.push(partition);
                }
            }
        }
        "partition-range" => {
            let behind = topics.last().map_or(0, |topic| topic.first + topic.count);
            let first = plan.first_mut().ok_or_else(|| room("a member"))?;
            first.partitions.push(behind);
        }
        "partition-unsubscribed" => {
            let stranger = |topic: u32| members.iter().position(|member| !member.topics.contains(&topic));
            let misplaced =
                (0u32..).zip(topics).find_map(|(number, topic)| Some((stranger(number)?, topic.first)));
            let (stranger, partition) =
                misplaced.ok_or_else(|| room("a member that is not subscribed to some topic"))?;
            for (index, assignment) in plan.iter_mut().enumerate() {
                assignment.partitions.retain(|&number| number != partition);
                if index == stranger {
                    assignment.partitions.push(partition);
                }
            }
        }
        "partition-missing" => {
            let owner = with_partitions(&mut plan)?;
            plan.get_mut(owner).and_then(|assignment| assignment.partitions.pop());
        }
        "partitions-none" => plan.iter_mut().for_each(|assignment| assignment.partitions.clear()),
        "partitions-huge" => {
            let first = plan.first_mut().ok_or_else(|| room("a member"))?;
            first.partitions = vec![0; number("bytes", 20 * MIB) / 4];
        }
        "assignments-few" => {
            plan.pop().ok_or_else(|| room("a member"))?;
        }
        "assignments-many" => plan.push(Assignment { partitions: Vec::new(), user_data: None }),
        "assignments-huge" => {
            let size = size_of::<Assignment>();
            plan = vec![
                Assignment { partitions: Vec::new(), user_data: None };
                number("bytes", 20 * MIB) / size
            ];
        }
        "assignment-huge" => {
            let first = plan.first_mut().ok_or_else(|| room("a member"))?;
            first.user_data = Some(vec![1; number("bytes", 2 * MIB)]);
        }
        _ => {}
    }
    Ok(plan)
}
