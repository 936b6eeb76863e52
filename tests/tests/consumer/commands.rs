//! `assignor consume` and `assignor group`, as scripts and people meet them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use assignor_host::consumer::EmbeddedBroker;
use assignor_tests::built;
use serde_json::Value;

use crate::support::{PATIENCE, TOPIC, broker, produce};

/// The broker's properties and these, in a file.
fn properties(folder: &Path, broker: &EmbeddedBroker, group: &str, more: &[(&str, &str)]) -> String {
    let mut properties = broker.consumer_properties();
    // The session is too short for what plugins may take by default.
    let limits =
        [("group.id", group), ("assignor.limit.assign.ms", "200"), ("assignor.limit.host.wait.ms", "200")];
    properties.extend(limits.map(|(key, value)| (key.to_owned(), value.to_owned())));
    properties.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let lines: String = properties.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let file = folder.join(format!("{group}.properties"));
    std::fs::write(&file, lines).unwrap();
    file.to_str().unwrap().to_owned()
}

fn assignor(args: &[&str]) -> Output {
    Command::new(built("debug/assignor")).args(args).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn values(output: &Output) -> Vec<u32> {
    let records = text(&output.stdout);
    let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut values: Vec<u32> = records.map(|r| r["value"].as_str().unwrap().parse().unwrap()).collect();
    values.sort_unstable();
    values
}

#[test]
fn as_many_records_as_wanted_are_printed_and_committed_and_no_more() {
    let broker = broker(1);
    produce(&broker, 1, 0, 20);
    let folder = tempfile::tempdir().unwrap();
    let config = properties(folder.path(), &broker, "some", &[]);
    let consume = |more: &[&str]| {
        assignor(&[&["consume", "--config", &config, "--topic", TOPIC, "--json"][..], more].concat())
    };
    let first = consume(&["--max-records", "7"]);
    assert_eq!(code(&first), 0, "{}", text(&first.stderr));
    assert_eq!(values(&first), (0..7).collect::<Vec<_>>());
    let told = text(&first.stderr);
    for part in
        ["joining: first subscription", "range as the leader: events 0", "left the group after 7 records"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let line: Value = serde_json::from_str(text(&first.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&line["topic"], &line["partition"], &line["offset"]), (&TOPIC.into(), &0.into(), &0.into()));
    assert!(line["timestamp_ms"].is_i64() && line["key"].is_null());

    let rest = consume(&["--exit-when-idle", "2000", "--quiet"]);
    assert_eq!(code(&rest), 0, "{}", text(&rest.stderr));
    assert_eq!(values(&rest), (7..20).collect::<Vec<_>>());
    assert_eq!(text(&rest.stderr), "");
}

/// A running command, its standard error line by line.
struct Running {
    child: Child,
    told: Receiver<String>,
    all: Vec<String>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(built("debug/assignor"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, told) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, told, all: Vec::new() }
    }

    /// What follows `begins` in the next line that begins so.
    fn line(&mut self, begins: &str) -> String {
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let line =
                self.told.recv_timeout(left).unwrap_or_else(|e| panic!("{begins}: {e}; {:#?}", self.all));
            self.all.push(line.clone());
            if let Some(rest) = line.strip_prefix(begins) {
                return rest.to_owned();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The metrics that are served at this URL.
fn metrics(url: &str) -> String {
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn metrics_are_served_while_it_consumes_and_a_signal_ends_it_in_good_order() {
    let broker = broker(2);
    produce(&broker, 2, 0, 20);
    let folder = tempfile::tempdir().unwrap();
    let config = properties(folder.path(), &broker, "metered", &[("client.id", "c")]);
    let mut running = Running::start(&["consume", "--config", &config, "--topic", TOPIC, "--metrics", "0"]);
    let url = running.line("metrics at ");
    // The embedded broker sometimes needs a second generation.
    let assigned = running.line("assigned in generation ");
    assert!(assigned.ends_with(", range as the leader: events 0-1"), "{assigned}");
    let rebalanced = running.line("rebalanced in ");
    for phase in ["prepare", "join", "assign", "sync", "install"] {
        assert!(rebalanced.contains(phase), "{phase}: {rebalanced}");
    }
    let start = Instant::now();
    let expected = [
        "assignor_records_total{client_id=\"c\",group=\"metered\"} 20",
        "assignor_assigned_partitions{client_id=\"c\",group=\"metered\"} 2",
        "assignor_leader{client_id=\"c\",group=\"metered\"} 1",
        "assignor_rebalances_total{client_id=\"c\",group=\"metered\",cause=\"subscribe\",outcome=\"assigned\"} 1",
        "assignor_partition_lag{client_id=\"c\",group=\"metered\",topic=\"events\",partition=\"0\"} 0",
        "assignor_partition_lag{client_id=\"c\",group=\"metered\",topic=\"events\",partition=\"1\"} 0",
        "assignor_assign_seconds_count{client_id=\"c\",group=\"metered\",strategy=\"range\"} ",
        "# EOF",
    ];
    loop {
        let text = metrics(&url);
        let missing = expected.iter().find(|line| !text.lines().any(|l| l.starts_with(*line)));
        let Some(missing) = missing else { break };
        assert!(start.elapsed() < PATIENCE, "{missing} is missing: {text}");
    }
    assert!(Command::new("kill").arg(running.child.id().to_string()).status().unwrap().success());
    running.line("asked to end: left the group after 20 records");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    let mut printed = String::new();
    running.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed.lines().count(), 20);
}

#[test]
fn a_plugin_that_fails_is_named_with_its_cause_and_what_decided_instead() {
    let broker = broker(1);
    produce(&broker, 1, 0, 1);
    let folder = tempfile::tempdir().unwrap();
    // Loading it may take its time on a busy machine.
    let patient = [("session.timeout.ms", "30000"), ("assignor.limit.call.ms", "2000")];
    let config = properties(folder.path(), &broker, "failing", &patient);
    let strategy = format!("hostile={}", built("plugins/hostile.wasm").display());
    let output = assignor(&[
        "consume",
        "--config",
        &config,
        "--topic",
        TOPIC,
        "--strategy",
        &strategy,
        "--set",
        "assignor.strategy.hostile.fault=trap",
        "--set",
        "assignor.strategy.hostile.at=assign",
        "--max-records",
        "1",
    ]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "0\n"), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("hostile failed (trap), keep decides instead: "), "{told}");
}

#[test]
fn what_is_wrong_with_the_input_is_told_apart_from_what_is_wrong_with_the_group() {
    let consume = ["consume", "--topic", "t"];
    for (args, named) in [
        (&["--group", "g"][..], "--bootstrap-server"),
        (&["--bootstrap-server", "localhost:9092"], "group.id"),
        (
            &["--bootstrap-server", "localhost:9092", "--group", "g", "--set", "auto.offset.rset=latest"],
            "auto.offset.reset",
        ),
        (&["--bootstrap-server", "localhost:9092", "--group", "g", "--strategy", "rnage"], "rnage"),
        (&["--bootstrap-server", "localhost:9092", "--group", "g", "--metrics", "here"], "--metrics"),
        (&["--config", "missing.properties"], "missing.properties"),
    ] {
        let output = assignor(&[&consume[..], args].concat());
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(named), "{named}: {}", text(&output.stderr));
    }
    assert_eq!(code(&assignor(&["consume", "--bootstrap-server", "localhost:9092", "--group", "g"])), 2);
    assert_eq!(code(&assignor(&["group"])), 2);
    // Nobody listens there.
    for more in [&[][..], &["g"]] {
        let output =
            assignor(&[&["group", "--bootstrap-server", "127.0.0.1:1", "--json"][..], more].concat());
        assert_eq!((code(&output), text(&output.stdout).as_str()), (1, ""));
        assert!(text(&output.stderr).contains("127.0.0.1:1"), "{}", text(&output.stderr));
    }
}
