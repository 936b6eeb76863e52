//! What member programs write, line by line. A member program is one consumer in a process of its own; those of other clients
//! speak alike.
//!
//! | line | meaning |
//! | --- | --- |
//! | `ready TIME` | the consumer is made, and waits for `start` |
//! | `assigned TIME GENERATION LEADER STRATEGY PARTITIONS` | all that it owns after a rebalance |
//! | `revoked TIME PARTITIONS` | what it gives up in good order |
//! | `lost TIME PARTITIONS` | what it has lost |
//! | `record TIME TOPIC PARTITION OFFSET VALUE` | handed out; one time for a batch, read right after `poll` |
//! | `error TIME TEXT` | what `poll` or `commit` failed with |
//! | `event TIME TEXT` | anything else |
//! | `closed TIME` | it has left as it was told to |
//!
//! TIME is that of the boot-time clock in microseconds. GENERATION is -1, LEADER (1 or 0) and STRATEGY are `-` where a client doesn't
//! tell. PARTITIONS are `topic:0,1,2;other:5`, or `-`.
//!
//! It is told, on its standard input: `start`, `stop` (close and end), `busy MS` (say `event TIME busy`, then don't poll for so long, once), `pace MS` (nor after each
//! poll that gave records), `subscribe a,b`, `rebalance`, and one of ours `replace NAME PATH`. It ends at once when its input does.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A topic's partition.
pub(crate) type Partition = (String, u32);

/// A line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Ready,
    Assigned { generation: i32, leader: Option<bool>, strategy: String, partitions: BTreeSet<Partition> },
    Revoked { partitions: BTreeSet<Partition> },
    Lost { partitions: BTreeSet<Partition> },
    Record { partition: Partition, value: u64 },
    Error { text: String },
    Event { text: String },
    Closed,
}

/// Now, by the boot-time clock, in microseconds.
pub(crate) fn now() -> u64 {
    let since = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
    since.as_micros().try_into().unwrap()
}

/// What the boot-time clock is ahead of the monotonic one, for members that can only read that, in microseconds.
pub(crate) fn clock_offset() -> u128 {
    // In this order, so that it is not below zero.
    let [monotonic, boot] = [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_BOOTTIME]
        .map(|clock| Duration::from(clock_gettime(clock).unwrap()));
    (boot - monotonic).as_micros()
}

/// Reads a line: its time and what it says. `None` for what no member writes, as the test harness around ours does.
pub(crate) fn parse(line: &str) -> Option<(u64, Line)> {
    let mut words = line.splitn(3, ' ');
    let (kind, time) = (words.next()?, words.next()?.parse().ok()?);
    let rest = words.next().unwrap_or_default();
    let line = match kind {
        "ready" => Line::Ready,
        "closed" => Line::Closed,
        "error" => Line::Error { text: rest.to_owned() },
        "event" => Line::Event { text: rest.to_owned() },
        "revoked" => Line::Revoked { partitions: read_partitions(rest)? },
        "lost" => Line::Lost { partitions: read_partitions(rest)? },
        "assigned" => {
            let mut words = rest.split(' ');
            Line::Assigned {
                generation: words.next()?.parse().ok()?,
                leader: match words.next()? {
                    "-" => None,
                    leader => Some(leader == "1"),
                },
                strategy: words.next()?.to_owned(),
                partitions: read_partitions(words.next()?)?,
            }
        }
        "record" => {
            let mut words = rest.split(' ');
            let partition = (words.next()?.to_owned(), words.next()?.parse().ok()?);
            let _offset: i64 = words.next()?.parse().ok()?;
            Line::Record { partition, value: words.next()?.parse().ok()? }
        }
        _ => return None,
    };
    Some((time, line))
}

/// Partitions as a word.
pub(crate) fn write_partitions<'a>(topics: impl IntoIterator<Item = (&'a str, &'a [u32])>) -> String {
    let topic = |(topic, partitions): (&str, &[u32])| {
        let partitions: Vec<String> = partitions.iter().map(u32::to_string).collect();
        format!("{topic}:{}", partitions.join(","))
    };
    let topics = topics.into_iter().filter(|(_, partitions)| !partitions.is_empty());
    let text = topics.map(topic).collect::<Vec<_>>().join(";");
    if text.is_empty() { "-".into() } else { text }
}

fn read_partitions(text: &str) -> Option<BTreeSet<Partition>> {
    let mut read = BTreeSet::new();
    for topic in text.split(';').filter(|_| text != "-") {
        let (topic, partitions) = topic.split_once(':')?;
        for partition in partitions.split(',') {
            read.insert((topic.to_owned(), partition.parse().ok()?));
        }
    }
    Some(read)
}

#[test]
fn lines_are_understood_and_others_passed_over() {
    let partitions = write_partitions([("a", &[0, 2][..]), ("b", &[]), ("c", &[1])]);
    let all = BTreeSet::from([("a".to_owned(), 0), ("a".to_owned(), 2), ("c".to_owned(), 1)]);
    let assigned = parse(&format!("assigned 17 3 1 range {partitions}")).unwrap();
    let expected =
        Line::Assigned { generation: 3, leader: Some(true), strategy: "range".into(), partitions: all };
    assert_eq!(assigned, (17, expected));
    let nothing = parse("assigned 17 -1 - - -").unwrap().1;
    assert!(matches!(nothing, Line::Assigned { leader: None, partitions, .. } if partitions.is_empty()));
    let record = Line::Record { partition: ("a".into(), 1), value: 9 };
    assert_eq!(parse("record 18 a 1 500 9").unwrap(), (18, record));
    assert_eq!(parse("error 19 it is so").unwrap().1, Line::Error { text: "it is so".into() });
    assert!(
        ["", "running 1 test", "test a ... ok", "record 18 a 1"].iter().all(|line| parse(line).is_none())
    );
}
