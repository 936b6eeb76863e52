//! A member of ours, as a program: this test binary, run again.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, GroupEvent, Record};
use assignor_host::{Catalog, Observer, TopicPartitions};

use crate::lines::{now, write_partitions};

/// In the environment of a member: its arguments, as JSON.
pub(crate) const ROLE: &str = "ASSIGNOR_TEST_MEMBER";

const POLL: Duration = Duration::from_millis(50);

/// Becomes a member, if that is what this process is for.
pub(crate) fn run_if_asked() {
    if let Ok(arguments) = std::env::var(ROLE) {
        let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
        let [name, topics, properties @ ..] = &arguments[..] else { panic!("{arguments:?}") };
        eprintln!("{name}: {properties:?}");
        let properties = properties.iter().filter_map(|p| p.split_once('='));
        let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        run(topics.split(',').map(str::to_owned).collect(), properties);
    }
}

fn run(topics: Vec<String>, properties: BTreeMap<String, String>) -> ! {
    let commands = commands();
    let observer: Observer = Arc::new(|event| say("event", &format!("{event:?}")));
    let catalog = Catalog::from_properties(&properties, &observer).unwrap();
    let manual = properties.get("enable.auto.commit").is_some_and(|value| value == "false");
    let config = ConsumerConfig::from_properties(properties).unwrap();
    let consumer = Consumer::new(config, catalog.assignors(), tell).unwrap();
    say("ready", "");
    assert_eq!(commands.recv().unwrap(), "start");
    consumer.subscribe(&topics).unwrap();
    let mut pace = Duration::ZERO;
    loop {
        loop {
            match commands.try_recv() {
                Ok(command) => obey(&command, &consumer, &catalog, &mut pace),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => std::process::exit(1),
            }
        }
        match consumer.poll(POLL) {
            Ok(records) if records.is_empty() => {}
            Ok(records) => {
                hand_out(&records);
                if manual {
                    report(consumer.commit());
                }
                std::thread::sleep(pace);
            }
            Err(error) => {
                let retriable = error.is_retriable();
                report(Err(error));
                if !retriable {
                    std::process::exit(2);
                }
                // A broker that refuses is asked again, and not all the time.
                std::thread::sleep(POLL);
            }
        }
    }
}

/// The lines of the standard input. Whoever wrote them is gone when it ends.
fn commands() -> Receiver<String> {
    let (commands, received) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            commands.send(line).unwrap();
        }
        std::process::exit(1);
    });
    received
}

fn obey(command: &str, consumer: &Consumer, catalog: &Catalog, pace: &mut Duration) {
    let words: Vec<&str> = command.split(' ').collect();
    let ms = |text: &str| Duration::from_millis(text.parse().unwrap());
    match words[..] {
        ["stop"] => {
            report(consumer.close());
            say("closed", "");
            std::process::exit(0);
        }
        ["busy", time] => {
            say("event", "busy");
            std::thread::sleep(ms(time));
        }
        ["pace", time] => *pace = ms(time),
        ["subscribe", topics] => {
            report(consumer.subscribe(&topics.split(',').collect::<Vec<_>>()));
        }
        ["rebalance"] => consumer.request_rebalance("it was asked for"),
        ["replace", name, path] => {
            // The strategy asks for the rebalance by itself.
            if let Err(error) = catalog.get(name).unwrap().replace(&std::fs::read(path).unwrap()) {
                say("error", &error.to_string());
            }
        }
        _ => say("error", &format!("what is {command:?}?")),
    }
}

fn hand_out(records: &[Record]) {
    let time = now();
    let mut lines = Vec::new();
    for record in records {
        let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default());
        writeln!(lines, "record {time} {} {} {} {value}", record.topic, record.partition, record.offset)
            .unwrap();
    }
    write(&lines);
}

fn report(result: Result<(), ConsumerError>) {
    if let Err(error) = result {
        say("error", &error.to_string());
    }
}

fn tell(event: &GroupEvent) {
    let partitions =
        |all: &[TopicPartitions]| write_partitions(all.iter().map(|t| (&*t.topic, &*t.partitions)));
    match event {
        GroupEvent::Assigned { generation, partitions: all, leader, strategy } => {
            say("assigned", &format!("{generation} {} {strategy} {}", i32::from(*leader), partitions(all)));
        }
        GroupEvent::Revoked { partitions: all } => say("revoked", &partitions(all)),
        GroupEvent::Lost { partitions: all, cause } => {
            say("lost", &partitions(all));
            say("event", cause);
        }
        other => say("event", &format!("{other:?}")),
    }
}

fn say(kind: &str, rest: &str) {
    write(format!("{kind} {} {}\n", now(), rest.replace('\n', " ")).as_bytes());
}

/// Whole lines at once, past the test harness, which would keep what is printed.
fn write(lines: &[u8]) {
    let mut output = std::io::stdout().lock();
    if output.write_all(lines).and_then(|()| output.flush()).is_err() {
        std::process::exit(1);
    }
}
