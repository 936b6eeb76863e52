//! What happens to the group, in lines on standard error.

use std::io::Write;
use std::time::Duration;

use assignor_host::consumer::{GroupEvent, Rebalance, RebalanceOutcome};
use assignor_host::{Event, TopicPartitions};

use crate::anatomy::printable;
use crate::assign::ranges;

/// Writes a line.
pub(super) fn say(line: &str) {
    // Nobody left to read it: nothing to do about that.
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(super) fn of_group(event: &GroupEvent) {
    if let Some(line) = group_line(event) {
        say(&line);
    }
}

pub(super) fn of_strategy(event: &Event) {
    if let Some(line) = strategy_line(event) {
        say(&line);
    }
}

fn group_line(event: &GroupEvent) -> Option<String> {
    Some(match event {
        GroupEvent::Joining { cause } => format!("joining: {}", printable(cause)),
        GroupEvent::Assigned { generation, partitions, leader, strategy } => {
            let role = if *leader { "as the leader" } else { "by the leader" };
            format!("assigned in generation {generation}, {strategy} {role}: {}", listed(partitions))
        }
        GroupEvent::Revoked { partitions } => format!("given up: {}", listed(partitions)),
        GroupEvent::Lost { partitions, cause } => {
            format!("lost: {}; {}", listed(partitions), printable(cause))
        }
        GroupEvent::Left { cause } => format!("left: {}", printable(cause)),
        GroupEvent::FirstChoiceNotChosen { wanted, chosen } => {
            format!("first choice {} not chosen, the group runs {}", printable(wanted), printable(chosen))
        }
        GroupEvent::Trouble { message } => format!("trouble: {}", printable(message)),
        GroupEvent::Rebalanced(rebalance) => rebalance_line(rebalance),
        // The next poll returns it.
        GroupEvent::Failed { .. } => return None,
        // What later versions tell: better raw than not at all.
        other => printable(&format!("{other:?}")),
    })
}

fn rebalance_line(rebalance: &Rebalance) -> String {
    let phases = rebalance.phases.each().into_iter().filter(|(_, took)| !took.is_zero());
    let phases: Vec<String> = phases.map(|(name, took)| format!("{name} {}", time(took))).collect();
    let ended = match rebalance.outcome {
        RebalanceOutcome::Assigned => "rebalanced",
        RebalanceOutcome::Superseded => "rebalance overtaken by another one",
        RebalanceOutcome::Failed => "rebalance failed",
        _ => "rebalance ended",
    };
    format!("{ended} in {} ({}): {}", time(rebalance.took), phases.join(", "), printable(&rebalance.cause))
}

fn strategy_line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Fallback { strategy, used, cause, in_a_row } => {
            let again = if *in_a_row > 1 { format!(", {in_a_row} times in a row") } else { String::new() };
            format!(
                "{strategy} failed ({}){again}, {used} decides instead: {}",
                cause.code(),
                printable(&cause.to_string())
            )
        }
        Event::CallFailed { strategy, call, cause } => {
            format!("{strategy} failed in {call} ({}): {}", cause.code(), printable(&cause.to_string()))
        }
        Event::Benched { strategy, pause, failures } => {
            format!("{strategy} is not asked for {}, after {failures} failures", time(*pause))
        }
        Event::Replaced { strategy, digest } => format!("{strategy} is replaced by {digest}"),
        Event::ReplaceFailed { strategy, cause } => {
            format!("{strategy} is not replaced ({}): {}", cause.code(), printable(&cause.to_string()))
        }
        other => printable(&format!("{other:?}")),
    })
}

fn listed(partitions: &[TopicPartitions]) -> String {
    let topics = partitions.iter().filter(|t| !t.partitions.is_empty());
    let topics: Vec<String> =
        topics.map(|t| format!("{} {}", printable(&t.topic), ranges(&t.partitions))).collect();
    if topics.is_empty() { "no partitions".into() } else { topics.join("; ") }
}

/// To the millisecond below ten seconds, to the tenth above.
fn time(time: Duration) -> String {
    match time.as_millis() {
        0 => format!("{} us", time.as_micros()),
        ms @ 1..10_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assignor_host::CallError;

    fn partitions(topic: &str, partitions: &[u32]) -> TopicPartitions {
        TopicPartitions { topic: topic.into(), partitions: partitions.to_vec() }
    }

    #[test]
    fn an_assignment_is_one_line_however_many_partitions() {
        let event = GroupEvent::Assigned {
            generation: 3,
            partitions: vec![
                partitions("a", &[0, 1, 2, 5]),
                partitions("none", &[]),
                partitions("b\n", &[7]),
            ],
            leader: true,
            strategy: "weighted".into(),
        };
        let line = group_line(&event).unwrap();
        assert_eq!(line, "assigned in generation 3, weighted as the leader: a 0-2, 5; b 7");
        let nothing = GroupEvent::Revoked { partitions: Vec::new() };
        assert_eq!(group_line(&nothing).unwrap(), "given up: no partitions");
    }

    #[test]
    fn a_fallback_tells_who_decides_and_why() {
        let event = Event::Fallback {
            strategy: "mine".into(),
            used: "keep",
            cause: CallError::Trap("boom".into()).into(),
            in_a_row: 2,
        };
        let line = strategy_line(&event).unwrap();
        assert_eq!(
            line,
            "mine failed (trap), 2 times in a row, keep decides instead: the strategy trapped: boom"
        );
    }

    #[test]
    fn times_are_told_as_precisely_as_they_matter() {
        let told = [40, 2_000, 9_999_000, 61_000_000].map(|us| time(Duration::from_micros(us)));
        assert_eq!(told, ["40 us", "2 ms", "9999 ms", "61.0 s"]);
    }
}
