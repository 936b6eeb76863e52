//! Members of every client: one process for each client, which is the host of all its members, since virtual machines and
//! interpreters are slow to start.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use assignor_tests::built;

use crate::lines::{self, Line, clock_offset};
use crate::program::ROLE;

/// Whose members there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Whose {
    /// This project's.
    Ours,
    /// Kafka's own client.
    Java,
    /// librdkafka's, through the crate rdkafka.
    Librdkafka,
    /// kafka-python's.
    KafkaPython,
    /// franz-go's.
    FranzGo,
}

impl Whose {
    /// As part of a member's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Java => "java",
            Self::Librdkafka => "librdkafka",
            Self::KafkaPython => "kafka-python",
            Self::FranzGo => "franz-go",
        }
    }

    /// The program, which with a member's arguments is that member, and without any the host of many.
    pub(crate) fn program(self) -> Command {
        match self {
            Self::Ours | Self::Librdkafka => Command::new(std::env::current_exe().unwrap()),
            Self::Java => {
                let mut java = Command::new("java");
                // As tests start them: never long enough for the optimising compiler.
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-jar"]);
                java.arg(built("java/member/member.jar"));
                java
            }
            Self::KafkaPython => {
                let mut python = Command::new(built("clients/python/bin/python"));
                python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/group_member.py"));
                python
            }
            Self::FranzGo => Command::new(built("clients/group-member")),
        }
    }
}

/// Hears what a member says.
type Hearer = Box<dyn Fn(u64, Line) + Send>;

/// A host. Dropping it ends its members at once.
pub(crate) struct Troupe {
    process: Child,
    input: Mutex<ChildStdin>,
    hearers: Arc<Mutex<HashMap<String, Hearer>>>,
    reader: Option<JoinHandle<()>>,
}

impl Troupe {
    /// Starts a host, whose clients' logs go to a file. `before` are the arguments of this binary by which it becomes one.
    pub(crate) fn start(whose: Whose, before: &[&str], log: &Path) -> Self {
        let mut command = whose.program();
        if let Whose::Ours | Whose::Librdkafka = whose {
            let none: &[String] = &[];
            command.args(before).env(ROLE, serde_json::to_string(&(whose.name(), none)).unwrap());
        }
        command.env("CLOCK_OFFSET_US", clock_offset().to_string());
        let log = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let hearers: Arc<Mutex<HashMap<String, Hearer>>> = Arc::default();
        let hear = Arc::clone(&hearers);
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some((name, said)) = line.split_once(' ') else { continue };
                if let (Some(hearer), Some((time, line))) =
                    (hear.lock().unwrap().get(name), lines::parse(said))
                {
                    hearer(time, line);
                }
            }
        });
        let input = Mutex::new(process.stdin.take().unwrap());
        Self { process, input, hearers, reader: Some(reader) }
    }

    /// Has a member made, whose lines are heard by this from then on.
    pub(crate) fn admit(
        &self,
        name: &str,
        topics: &str,
        properties: &BTreeMap<String, String>,
        hearer: impl Fn(u64, Line) + Send + 'static,
    ) {
        let newcomer = self.hearers.lock().unwrap().insert(name.to_owned(), Box::new(hearer)).is_none();
        assert!(newcomer, "two members named {name}");
        let properties: String = properties.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        self.write(&format!("new {name} {topics}{properties}\n"));
    }

    /// Tells members something, all at once.
    pub(crate) fn tell<'a>(&self, names: impl IntoIterator<Item = &'a str>, command: &str) {
        self.write(&names.into_iter().map(|name| format!("{name} {command}\n")).collect::<String>());
    }

    fn write(&self, lines: &str) {
        // If it has ended, whoever waits for a member finds out.
        let _ = self.input.lock().unwrap().write_all(lines.as_bytes());
    }
}

impl Drop for Troupe {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
