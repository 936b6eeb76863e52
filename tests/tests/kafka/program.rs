//! Members as programs: this binary, run again, is a member, or the host of many. What they are told and say: see `lines`.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::librdkafka::Librdkafka;
use crate::lines::now;
use crate::ours::Ours;

/// In the environment of a member: whose client it is of, and its arguments, none of a host; as JSON.
pub(crate) const ROLE: &str = "ASSIGNOR_TEST_MEMBER";

const POLL: Duration = Duration::from_millis(50);

/// A client's consumer.
pub(crate) trait Client: Sized {
    /// Makes a consumer of these properties. What happens to it besides its polls it says by itself.
    fn new(properties: BTreeMap<String, String>, output: &Output) -> Result<Self, String>;

    /// Subscribes to these topics instead of others.
    fn subscribe(&mut self, topics: &[&str]) -> Result<(), Failure>;

    /// Writes down the records that come within a time, if any do, and says whether there were any.
    fn poll(&mut self, within: Duration) -> Result<bool, Failure>;

    /// Commits what has been written down.
    fn commit(&mut self) -> Result<(), Failure>;

    /// Does what not every client can do, if this one can.
    fn obey(&mut self, command: &[&str]) -> Result<(), String>;

    /// Leaves, in good order.
    fn close(self) -> Result<(), Failure>;
}

/// What went wrong.
pub(crate) enum Failure {
    /// It will be tried again.
    Passing(String),
    /// The consumer can't go on.
    Fatal(String),
}

/// Becomes a member, or a host, if that is what this process is for.
pub(crate) fn run_if_asked() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (client, arguments): (String, Vec<String>) = serde_json::from_str(&role).unwrap();
    match &*client {
        "ours" => run::<Ours>(&arguments),
        "librdkafka" => run::<Librdkafka>(&arguments),
        other => panic!("there is no client {other:?} here"),
    }
}

fn run<C: Client>(arguments: &[String]) -> ! {
    let mut members: HashMap<String, Sender<String>> = HashMap::new();
    if !arguments.is_empty() {
        let arguments = arguments.to_vec();
        let (commands, received) = channel();
        members.insert(String::new(), commands);
        std::thread::spawn(move || {
            let well = live::<C>(&arguments, &received, &Output::new(""));
            std::process::exit(if well { 0 } else { 2 });
        });
    }
    let only = members.get("").cloned();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        // Whoever doesn't listen any more has said why.
        if let Some(only) = &only {
            let _ = only.send(line);
        } else if let Some(arguments) = line.strip_prefix("new ") {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let (commands, received) = channel();
            members.insert(arguments[0].clone(), commands);
            std::thread::spawn(move || {
                let output = Output::new(&format!("{} ", arguments[0]));
                live::<C>(&arguments, &received, &output)
            });
        } else if let Some((name, command)) = line.split_once(' ') {
            let _ = members[name].send(command.to_owned());
        }
    }
    // Whoever wanted the members is gone.
    std::process::exit(1);
}

/// A member's life, until it is told to stop, which is well, or can't go on.
fn live<C: Client>(arguments: &[String], commands: &Receiver<String>, output: &Output) -> bool {
    let [name, topics, properties @ ..] = arguments else { panic!("{arguments:?}") };
    eprintln!("{name}: {properties:?}");
    let properties = properties.iter().filter_map(|p| p.split_once('='));
    let mut properties: BTreeMap<String, String> =
        properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let never = properties.remove("member.commit").is_some_and(|value| value == "never");
    let commits = !never && properties.get("enable.auto.commit").is_some_and(|value| value == "false");
    match poll::<C>(topics, properties, commits, commands, output) {
        Ok(()) => true,
        Err(error) => {
            output.say("error", &format!("fatal: {error}"));
            false
        }
    }
}

fn poll<C: Client>(
    topics: &str,
    properties: BTreeMap<String, String>,
    commits: bool,
    commands: &Receiver<String>,
    output: &Output,
) -> Result<(), String> {
    let report = |result| match result {
        Ok(()) => Ok(()),
        Err(Failure::Passing(error)) => {
            output.say("error", &error);
            Ok(())
        }
        Err(Failure::Fatal(error)) => Err(error),
    };
    let mut client = C::new(properties, output)?;
    output.say("ready", "");
    let mut pace = Duration::ZERO;
    let mut started = false;
    loop {
        // Before it starts there is nothing else to do.
        while let Some(command) = if started { next(commands) } else { Some(commands.recv().unwrap()) } {
            let words: Vec<&str> = command.split(' ').collect();
            let ms = |text: &str| Duration::from_millis(text.parse().unwrap());
            match words[..] {
                ["start"] => {
                    report(client.subscribe(&topics.split(',').collect::<Vec<_>>()))?;
                    started = true;
                }
                ["stop"] => {
                    report(client.close())?;
                    output.say("closed", "");
                    return Ok(());
                }
                ["busy", time] => {
                    // Who freezes it now freezes it between two polls.
                    output.say("event", "busy");
                    std::thread::sleep(ms(time));
                }
                ["pace", time] => pace = ms(time),
                ["subscribe", topics] => report(client.subscribe(&topics.split(',').collect::<Vec<_>>()))?,
                _ => {
                    if let Err(error) = client.obey(&words) {
                        output.say("error", &error);
                    }
                }
            }
        }
        match client.poll(POLL) {
            Ok(false) => {}
            Ok(true) => {
                if commits {
                    report(client.commit())?;
                }
                std::thread::sleep(pace);
            }
            Err(failure) => {
                report(Err(failure))?;
                // A broker that refuses is asked again, and not all the time.
                std::thread::sleep(POLL);
            }
        }
    }
}

fn next(commands: &Receiver<String>) -> Option<String> {
    match commands.try_recv() {
        Ok(command) => Some(command),
        Err(TryRecvError::Empty) => None,
        // The process is about to end.
        Err(TryRecvError::Disconnected) => std::process::exit(1),
    }
}

/// What a member says. Lines are written whole, and at once.
#[derive(Clone)]
pub(crate) struct Output {
    /// Each line begins with this.
    prefix: Arc<str>,
}

impl Output {
    fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Writes a line, with its time.
    pub(crate) fn say(&self, kind: &str, rest: &str) {
        let line = format!("{}{kind} {} {}", self.prefix, now(), rest.replace('\n', " "));
        write(&format!("{}\n", line.trim_end()));
    }

    /// Writes down records that were given at the same time: topic, partition, offset and value.
    pub(crate) fn records<'a>(
        &self,
        time: u64,
        records: impl IntoIterator<Item = (&'a str, u32, i64, &'a [u8])>,
    ) {
        let mut lines = String::new();
        for (topic, partition, offset, value) in records {
            let value = String::from_utf8_lossy(value);
            lines.push_str(&format!("{}record {time} {topic} {partition} {offset} {value}\n", self.prefix));
        }
        write(&lines);
    }
}

/// Past the test harness, which would keep what is printed.
fn write(lines: &str) {
    let mut output = std::io::stdout().lock();
    if output.write_all(lines.as_bytes()).and_then(|()| output.flush()).is_err() {
        std::process::exit(1);
    }
}
