//! Apache Kafka itself: a cluster on the loopback interface, each node a process of its own. `cargo xtask java` fetches it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use assignor_tests::built;

use crate::admin::Admin;
use crate::process::{Frozen, freeze};

/// The longest that a node may take to start or to stop, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(90);

/// The listener that every node has: clients without any security, and the nodes among each other.
pub(crate) const PLAINTEXT: &str = "PLAINTEXT";
const CONTROLLER: &str = "CONTROLLER";

/// Quick to start, small, and no more threads than needed: a test's broker never runs long enough for the optimising compiler.
const JVM: [&str; 6] = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms64m",
    "-Xmx384m",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
];

/// What differs from a broker's defaults: no waiting for members that might come, sessions as short as tests want them, and
/// internal topics, threads and buffers as small as one group needs.
const PROPERTIES: [(&str, &str); 20] = [
    ("auto.create.topics.enable", "false"),
    ("background.threads", "2"),
    // A node that was killed may come back when its session is over.
    ("broker.heartbeat.interval.ms", "500"),
    ("broker.session.timeout.ms", "3000"),
    ("controller.listener.names", CONTROLLER),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "500"),
    ("inter.broker.listener.name", PLAINTEXT),
    ("log.cleaner.dedupe.buffer.size", "4194304"),
    ("log.index.size.max.bytes", "1048576"),
    ("num.io.threads", "4"),
    ("num.network.threads", "2"),
    ("offsets.topic.num.partitions", "6"),
    ("process.roles", "broker,controller"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
];

/// What a cluster is to be like.
#[derive(Clone, Default)]
pub(crate) struct Options {
    nodes: usize,
    listeners: Vec<Listener>,
    racks: Vec<String>,
    properties: BTreeMap<String, String>,
    credentials: Vec<String>,
}

#[derive(Clone)]
struct Listener {
    name: String,
    protocol: String,
    /// What clients are told instead of the port that is listened on, node by node.
    advertised: Vec<u16>,
}

impl Options {
    /// A cluster of so many nodes, all of them brokers and controllers, with a plain listener each.
    pub(crate) fn nodes(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// A property of every node.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// One more listener of every node: its name, and `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
    pub(crate) fn listener(self, name: &str, protocol: &str) -> Self {
        self.proxied(name, protocol, &[])
    }

    /// One more listener whose clients are told other ports, node by node: those of proxies before it.
    pub(crate) fn proxied(mut self, name: &str, protocol: &str, advertised: &[u16]) -> Self {
        let advertised = advertised.to_vec();
        self.listeners.push(Listener { name: name.into(), protocol: protocol.into(), advertised });
        self
    }

    /// The nodes' racks, one each.
    pub(crate) fn racks(mut self, racks: &[&str]) -> Self {
        self.racks = racks.iter().map(|&rack| rack.to_owned()).collect();
        self
    }

    /// A user who may log in by SCRAM from the first moment on: `SCRAM-SHA-256=[name=alice,password=secret]`.
    pub(crate) fn credential(mut self, credential: &str) -> Self {
        self.credentials.push(credential.into());
        self
    }
}

/// A running cluster. Dropping it kills it and, unless the test fails, removes its folder; nodes of a test that is killed end by
/// themselves.
pub(crate) struct Cluster {
    folder: PathBuf,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts a cluster, and waits until all nodes serve.
    pub(crate) fn start(options: &Options) -> Self {
        // Another process may take a port between the look and its use.
        for _ in 0..3 {
            let start = Instant::now();
            let mut cluster = Self::create(options);
            cluster.nodes.iter_mut().for_each(Node::spawn);
            match cluster.nodes.iter_mut().try_for_each(Node::started) {
                Ok(()) => {
                    eprintln!("Kafka: {} node(s) after {:.1?}", options.nodes, start.elapsed());
                    return cluster;
                }
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("Kafka does not start:\n{log}"),
            }
        }
        panic!("no ports for Kafka that nobody else takes");
    }

    fn create(options: &Options) -> Self {
        let folder = folder();
        let listeners: Vec<&str> =
            [CONTROLLER, PLAINTEXT].into_iter().chain(options.listeners.iter().map(|l| &*l.name)).collect();
        let ports: Vec<BTreeMap<String, u16>> = (0..options.nodes)
            .map(|_| listeners.iter().map(|&name| (name.to_owned(), free_port())).collect())
            .collect();
        let nodes = (1..).zip(&ports).map(|(id, own)| {
            let node = Node {
                id,
                ports: own.clone(),
                properties: folder.join(format!("node-{id}.properties")),
                log: folder.join(format!("node-{id}.log")),
                credentials: options.credentials.clone(),
                running: None,
            };
            let data = folder.join(format!("node-{id}"));
            std::fs::write(&node.properties, properties(options, id, &ports, &data)).unwrap();
            node
        });
        let nodes = nodes.collect();
        Self { folder, nodes }
    }

    /// `bootstrap.servers` of the plain listeners.
    pub(crate) fn bootstrap(&self) -> String {
        self.servers(PLAINTEXT)
    }

    /// `bootstrap.servers` of listeners of that name.
    pub(crate) fn servers(&self, listener: &str) -> String {
        let servers = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port(listener)));
        servers.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::new(self.nodes.iter().map(|node| node.port(PLAINTEXT)).collect())
    }

    /// The node with that number; the first one's is 1.
    pub(crate) fn node(&mut self, id: i32) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).unwrap()
    }

    /// The number of the node that listens on this port.
    pub(crate) fn node_of(&self, port: u16) -> i32 {
        self.nodes.iter().find(|node| node.ports.values().any(|&own| own == port)).unwrap().id
    }

    /// Where it keeps everything; there is room for other logs. It goes when the cluster does, unless the test fails.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What all nodes have logged.
    pub(crate) fn logs(&self) -> String {
        self.nodes.iter().map(|node| std::fs::read_to_string(&node.log).unwrap_or_default()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
        if std::thread::panicking() {
            eprintln!("what Kafka has logged is in {}", self.folder.display());
        } else {
            // What is left is swept before the next start.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A node, running or not; its data and ports stay its own.
pub(crate) struct Node {
    id: i32,
    ports: BTreeMap<String, u16>,
    properties: PathBuf,
    log: PathBuf,
    credentials: Vec<String>,
    running: Option<Running>,
}

struct Running {
    process: Child,
    /// The lines of its standard output.
    lines: Mutex<Receiver<String>>,
}

impl Node {
    /// The port that it listens on.
    pub(crate) fn port(&self, listener: &str) -> u16 {
        self.ports[listener]
    }

    /// Starts it again, and waits until it serves.
    pub(crate) fn start(&mut self) {
        assert!(self.running.is_none(), "node {} runs already", self.id);
        self.spawn();
        self.started().unwrap_or_else(|log| panic!("node {} does not start again:\n{log}", self.id));
    }

    /// Ends it in good order.
    pub(crate) fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.process.stdin.take().unwrap().write_all(b"stop\n").unwrap();
        // Its output ends when it does.
        let ended = running.lines.get_mut().unwrap().recv_timeout(PATIENCE);
        if ended != Err(RecvTimeoutError::Disconnected) {
            running.process.kill().unwrap();
        }
        let status = running.process.wait().unwrap();
        assert!(status.success(), "node {} does not stop: {ended:?}, {status}:\n{}", self.id, self.log());
    }

    /// Ends it at once (SIGKILL), if it runs.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended by itself.
            let _ = running.process.kill();
            let _ = running.process.wait();
        }
    }

    /// Stops it where it is, until what this returns is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        freeze(self.running.as_ref().expect("it runs").process.id())
    }

    fn spawn(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let jar = built("java/kafka/kafka.jar");
        let mut java = Command::new("java");
        java.args(JVM).arg(format!("-XX:SharedArchiveFile={}", jar.with_extension("jsa").display()));
        java.arg("-jar").arg(jar).arg(&self.properties).args(&self.credentials);
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = java.spawn().unwrap_or_else(|e| panic!("java: {e}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let (lines, received) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody listens to a node that was killed.
                let _ = lines.send(line);
            }
        });
        self.running = Some(Running { process, lines: Mutex::new(received) });
    }

    /// Waits until it serves, or tells its log.
    fn started(&mut self) -> Result<(), String> {
        let lines = self.running.as_mut().unwrap().lines.get_mut().unwrap();
        let start = Instant::now();
        loop {
            match lines.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(line) if line == "started" => return Ok(()),
                // The virtual machine may have said something.
                Ok(_) => {}
                Err(_) => return Err(self.log()),
            }
        }
    }

    /// The end of what it has logged.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

fn properties(options: &Options, id: i32, ports: &[BTreeMap<String, u16>], data: &Path) -> String {
    let index = usize::try_from(id - 1).unwrap();
    let own = &ports[index];
    let plain = |name: &str| Listener { name: name.into(), protocol: "PLAINTEXT".into(), advertised: vec![] };
    let mut listeners = vec![plain(CONTROLLER), plain(PLAINTEXT)];
    listeners.extend(options.listeners.iter().cloned());
    let list = |write: &dyn Fn(&Listener) -> String, listeners: &[Listener]| {
        listeners.iter().map(write).collect::<Vec<_>>().join(",")
    };
    let address = |name: &str, port: u16| format!("{name}://127.0.0.1:{port}");
    let advertised =
        |l: &Listener| address(&l.name, l.advertised.get(index).copied().unwrap_or(own[&l.name]));
    let voters =
        (1..).zip(ports).map(|(id, ports): (i32, _)| format!("{id}@127.0.0.1:{}", ports[CONTROLLER]));

    let mut all: BTreeMap<&str, String> = PROPERTIES.map(|(key, value)| (key, value.to_owned())).into();
    all.extend([
        ("node.id", id.to_string()),
        ("log.dirs", data.display().to_string()),
        ("controller.quorum.voters", voters.collect::<Vec<_>>().join(",")),
        ("listeners", list(&|l| address(&l.name, own[&l.name]), &listeners)),
        // Controllers aren't for clients.
        ("advertised.listeners", list(&advertised, &listeners[1..])),
        ("listener.security.protocol.map", list(&|l| format!("{}:{}", l.name, l.protocol), &listeners)),
        ("offsets.topic.replication.factor", options.nodes.min(3).to_string()),
    ]);
    if let Some(rack) = options.racks.get(index) {
        all.insert("broker.rack", rack.clone());
    }
    all.extend(options.properties.iter().map(|(key, value)| (&**key, value.clone())));
    all.iter().fold(String::new(), |mut text, (key, value)| {
        writeln!(text, "{key}={}", value.replace('\\', "\\\\").replace('\n', "\\\n")).unwrap();
        text
    })
}

/// A new folder, in cargo's target folder. Those of earlier runs, which failed or were killed, are removed: a failed test's log can be
/// read until the next run.
fn folder() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka");
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    if made == 0 {
        for entry in std::fs::read_dir(&all).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let running =
                name.split('-').next().is_some_and(|process| Path::new("/proc").join(process).exists());
            if !running {
                // Another process may be at it, too.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
    let folder = all.join(format!("{}-{made}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port that nobody listens on, below those that the kernel gives to clients: while a node is down, nobody gets its port by
/// chance.
fn free_port() -> u16 {
    static GIVEN: LazyLock<Mutex<BTreeSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().unwrap();
    loop {
        let port = fastrand::u16(15_000..32_000);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
}
