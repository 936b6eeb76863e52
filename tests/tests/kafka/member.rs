//! Member programs, as a test has them: started, told what to do, frozen, killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::ledger::Ledger;
use crate::lines::{self, clock_offset};
use crate::process::{Frozen, freeze, resident};
use crate::program::ROLE;
#[cfg(test)]
use crate::stage::{Cast, EXTRA, GROUP, ORDERS, Stage};

const PATIENCE: Duration = Duration::from_secs(60);

/// The test that is a member when it is told so.
const TEST: &str = "member::a_member_joins_reads_obeys_and_leaves";

/// The arguments that run it, and keep the harness from writing into a member's lines: with one thread it would announce the test.
pub(crate) const BECOME_A_MEMBER: [&str; 5] = ["--exact", TEST, "--nocapture", "--test-threads", "2"];

/// What runs a member.
#[derive(Clone)]
pub(crate) enum Program {
    /// This binary.
    Ours,
    #[allow(dead_code, reason = "other clients' members come to the stage, too")]
    /// Another client's: a command that takes the member's arguments behind its own.
    Other(Vec<OsString>),
}

/// What a member is started with.
#[derive(Clone)]
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Program,
    pub(crate) name: &'a str,
    pub(crate) topics: &'a str,
    /// Kafka's names and values.
    pub(crate) properties: BTreeMap<String, String>,
    /// What it writes to its standard error comes here.
    pub(crate) log: &'a Path,
}

/// A member's process. Dropping it kills it.
pub(crate) struct Member {
    name: String,
    process: Child,
    /// Locked by who writes to it.
    input: Mutex<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    ledger: Ledger,
}

impl Member {
    /// Starts a member, all of whose lines go to the ledger. It waits for `start`.
    pub(crate) fn new(start: Start<'_>, ledger: &Ledger) -> Self {
        let name = start.name.to_owned();
        ledger.enter(&name, start.properties.get("group.instance.id").map(String::as_str));
        let mut arguments = vec![name.clone(), start.topics.to_owned()];
        arguments.extend(start.properties.iter().map(|(key, value)| format!("{key}={value}")));
        let mut command = match start.program {
            Program::Ours => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(BECOME_A_MEMBER);
                command.env(ROLE, serde_json::to_string(&("ours", arguments)).unwrap());
                command
            }
            Program::Other(command) => {
                let (program, before) = command.split_first().unwrap();
                let mut command = Command::new(program);
                command.args(before).args(arguments);
                command
            }
        };
        command.env("CLOCK_OFFSET_US", clock_offset().to_string());
        let log = File::options().create(true).append(true).open(start.log).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let (noted, noter) = (ledger.clone(), name.clone());
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((time, line)) = lines::parse(&line) {
                    noted.note(&noter, time, line);
                }
            }
            noted.exit(&noter);
        });
        let input = Mutex::new(process.stdin.take().unwrap());
        Self { name, process, input, reader: Some(reader), ledger: ledger.clone() }
    }

    /// Waits until it can be told to start.
    pub(crate) fn ready(&self) {
        self.ledger
            .wait("a member's program starts", PATIENCE, |book| book.is_ready(&self.name).then_some(()));
    }

    /// Tells it something.
    pub(crate) fn tell(&self, command: &str) {
        if command == "stop" {
            self.ledger.ending(&self.name);
        }
        let line = format!("{command}\n");
        // If it has ended, whoever waits for it finds out.
        let _ = self.input.lock().unwrap().write_all(line.as_bytes());
    }

    /// Stops its process where it is, until what this returns is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        freeze(self.process.id())
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident(self.process.id())
    }

    /// Ends it at once (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Has it leave as it should, and waits for its end.
    pub(crate) fn stop(mut self) {
        self.tell("stop");
        let start = Instant::now();
        while self.process.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end();
        self.ledger.wait("it says so", Duration::ZERO, |book| book.is_closed(&self.name).then_some(()));
    }

    fn end(&mut self) {
        self.ledger.ending(&self.name);
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Everything that it said is heard before anything else is concluded.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_member_joins_reads_obeys_and_leaves() {
    crate::program::run_if_asked();

    let mut stage =
        Stage::new(Cast { members: 1, ..Cast::ours("range", &[("enable.auto.commit", "false")]) });
    let name = stage.leader();
    stage.wait("it says what it runs", |book| (book.strategy(&name) == "range").then_some(()));
    assert!(stage.members[&name].resident() > 1 << 20);
    stage.mute(EXTRA);
    stage.topics.remove(EXTRA);
    stage.members[&name].tell(&format!("subscribe {ORDERS}"));
    stage.settled();
    let before = stage.wait("assigned", |book| Some(book.assignments(&name)));
    stage.members[&name].tell("rebalance");
    stage.wait("a rebalance", |book| (book.assignments(&name) > before).then_some(()));
    stage.members[&name].tell("pace 20");
    stage.members[&name].tell("what?");
    stage.wait("it doesn't understand", |book| (book.events(&name, "what?") > 0).then_some(()));
    stage.all_read();
    let group = stage.admin.describe_group(GROUP);
    assert_eq!((&*group.group_state, &*group.protocol_data, group.members.len()), ("Stable", "range", 1));
    let tally = stage.ledger.tally();
    assert!(tally.read > 0 && tally.acknowledged >= tally.read);
    stage.stop(&name);
}
