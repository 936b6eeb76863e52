//! Groups whose members are of every client there is, led by each of them in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use assignor_host::wire::assignment;
use assignor_tests::built;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;

use crate::admin::Admin;
use crate::broker::{Cluster, Options};
use crate::ledger::{Book, Ledger};
use crate::lines::Partition;
use crate::member::BECOME_A_MEMBER;
use crate::producer::Producer;
use crate::troupe::{Troupe, Whose};

use Whose::{FranzGo, Java, KafkaPython, Librdkafka, Ours};

const EVERY: [Whose; 5] = [Ours, Java, Librdkafka, KafkaPython, FranzGo];

/// The strategies of Kafka, and which clients have them. All clients know them by these names in JoinGroup, whatever they call them in
/// their configuration: Java by the names of classes, franz-go by `RangeBalancer()` and so on, kafka-python by classes.
const STRATEGIES: [(&str, &[Whose]); 4] = [
    ("range", &EVERY),
    ("roundrobin", &EVERY),
    ("cooperative-sticky", &EVERY),
    // librdkafka has no `sticky` that is eager.
    ("sticky", &[Ours, Java, KafkaPython, FranzGo]),
];

/// The longest that a group may take to be at rest.
const PATIENCE: Duration = Duration::from_secs(90);

/// Kafka, and a host for the members of each client.
struct Scene {
    troupes: BTreeMap<Whose, Troupe>,
    admin: Admin,
    cluster: Cluster,
}

/// The scene that tests share while any of them runs.
fn scene() -> Arc<Scene> {
    static SHARED: Mutex<Weak<Scene>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Cluster::start(&Options::nodes(1));
        let host = |whose: Whose| {
            let log = cluster.folder().join(format!("{}.log", whose.name()));
            (whose, Troupe::start(whose, &BECOME_A_MEMBER, &log))
        };
        let scene = Arc::new(Scene { troupes: EVERY.map(host).into(), admin: cluster.admin(), cluster });
        *shared = Arc::downgrade(&scene);
        scene
    })
}

/// A group with two topics and a producer of its own.
struct Group {
    name: String,
    members: BTreeMap<String, Whose>,
    partitions: BTreeSet<Partition>,
    producer: Producer,
    ledger: Ledger,
    scene: Arc<Scene>,
}

impl Group {
    fn new(scene: &Arc<Scene>, name: &str) -> Self {
        let ledger = Ledger::default();
        let producer =
            Producer::start(&scene.cluster.bootstrap(), ledger.clone(), Duration::from_millis(100));
        let mut partitions = BTreeSet::new();
        for (topic, count) in [(format!("{name}.one"), 7), (format!("{name}.two"), 4)] {
            scene.admin.create_topic(&topic, count);
            producer.topic(&topic, count);
            partitions.extend((0..count).map(|partition| (topic.clone(), partition)));
        }
        let (name, members, scene) = (name.to_owned(), BTreeMap::new(), Arc::clone(scene));
        Self { name, members, partitions, producer, ledger, scene }
    }

    /// Has a member made, which waits to be started. Its name, which is its client id as well, begins with the group's.
    fn prepare(&mut self, whose: Whose, name: &str, strategies: &str) -> String {
        let name = format!("{}.{name}", self.name);
        let properties = [
            ("bootstrap.servers", self.scene.cluster.bootstrap()),
            ("group.id", self.name.clone()),
            ("client.id", name.clone()),
            ("partition.assignment.strategy", strategies.to_owned()),
            ("session.timeout.ms", "20000".to_owned()),
            ("heartbeat.interval.ms", "300".to_owned()),
            ("max.poll.interval.ms", "60000".to_owned()),
            ("auto.offset.reset", "earliest".to_owned()),
            ("auto.commit.interval.ms", "500".to_owned()),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value)).into();
        let topics = format!("{0}.one,{0}.two", self.name);
        self.ledger.enter(&name, None);
        let (ledger, of) = (self.ledger.clone(), name.clone());
        let hear = move |time, line| ledger.note(&of, time, line);
        self.scene.troupes[&whose].admit(&name, &topics, &properties, hear);
        self.members.insert(name.clone(), whose);
        name
    }

    /// Starts members at once, when all of them are ready to.
    fn start(&self, names: &[String]) {
        let ready = |book: &Book| names.iter().all(|name| book.is_ready(name)).then_some(());
        self.ledger.wait("members are made", PATIENCE, ready);
        names.iter().for_each(|name| self.tell(name, "start"));
    }

    fn stop(&mut self, name: &str) {
        self.ledger.ending(name);
        self.tell(name, "stop");
        self.ledger.wait("a member leaves", PATIENCE, |book| book.is_closed(name).then_some(()));
        self.ledger.exit(name);
        self.members.remove(name);
    }

    fn tell(&self, name: &str, command: &str) {
        self.scene.troupes[&self.members[name]].tell([name], command);
    }

    /// Waits until the group is stable with all its members, by this strategy, and what its leader gave out is each
    /// partition once, and what members say they own; then until all that was produced so far is read.
    fn at_rest(&self, strategy: &str) -> DescribedGroup {
        let begun = Instant::now();
        let group = loop {
            let group = self.scene.admin.describe_group(&self.name);
            match self.is_at_rest(&group, strategy) {
                Ok(()) => break group,
                Err(why) => {
                    if begun.elapsed() > PATIENCE {
                        // With what the members have said.
                        self.ledger.wait::<()>(
                            &format!("{} at rest: {why}", self.name),
                            Duration::ZERO,
                            |_| None,
                        );
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        self.ledger.all_read(self.producer.next(), PATIENCE);
        group
    }

    fn is_at_rest(&self, group: &DescribedGroup, strategy: &str) -> Result<(), String> {
        if &*group.group_state != "Stable" || group.members.len() != self.members.len() {
            return Err(format!("{} members, {}", group.members.len(), &*group.group_state));
        }
        if &*group.protocol_data != strategy {
            return Err(format!("the strategy is {}", &*group.protocol_data));
        }
        let mut given: Vec<Partition> = Vec::new();
        for member in &group.members {
            let (topics, _) = assignment::decode(&member.member_assignment).map_err(|e| e.to_string())?;
            let part = topics.iter().flat_map(|t| t.partitions.iter().map(|&p| (t.topic.to_string(), p)));
            let part: BTreeSet<Partition> = part.collect();
            let owned = self.ledger.look(|book| book.owns(&member.client_id).clone());
            if owned != part {
                return Err(format!("{} is given {part:?} and says it owns {owned:?}", &*member.client_id));
            }
            given.extend(part);
        }
        given.sort();
        // Each once, and none left out.
        if given.iter().eq(&self.partitions) { Ok(()) } else { Err(format!("given out: {given:?}")) }
    }

    /// The client id of the leader whose assignment the broker received last, as it writes into its log.
    fn leader(&self) -> String {
        let leader = |line: &str| {
            let (_, rest) = line.split_once("Assignment received from leader ")?;
            // A member id is the client id, a hyphen and a UUID.
            let id = rest.split(' ').next()?;
            let client = id.get(..id.len().checked_sub(37)?)?;
            client.starts_with(&format!("{}.", self.name)).then(|| client.to_owned())
        };
        self.scene.cluster.logs().lines().rev().find_map(leader).unwrap()
    }

    fn stop_all(mut self) {
        for name in self.members.keys().cloned().collect::<Vec<_>>() {
            self.stop(&name);
        }
    }
}

/// One client's member is the first to join and so leads; the others join it, all at once; then it leaves.
fn led_by(scene: &Arc<Scene>, strategy: &str, leader: Whose, clients: &[Whose]) {
    let mut group = Group::new(scene, &format!("{strategy}-led-by-{}", leader.name()));
    let first = group.prepare(leader, leader.name(), strategy);
    group.start(std::slice::from_ref(&first));
    group.at_rest(strategy);
    let others: Vec<String> = clients
        .iter()
        .filter(|&&client| client != leader)
        .map(|&client| group.prepare(client, client.name(), strategy))
        .collect();
    group.start(&others);
    let described = group.at_rest(strategy);
    assert_eq!(group.leader(), first, "the first one stays the leader");
    for member in &described.members {
        let whose = group.members[&*member.client_id];
        crate::tellings::judge(strategy, whose, &member.member_metadata);
    }
    group.stop(&first);
    group.at_rest(strategy);
    eprintln!("{}: then {}", group.name, group.leader());
    group.stop_all();
}

fn led_by_each(strategy: &str) {
    let scene = scene();
    let (_, clients) = STRATEGIES.iter().find(|(name, _)| *name == strategy).unwrap();
    std::thread::scope(|scope| {
        for &leader in *clients {
            let scene = &scene;
            scope.spawn(move || led_by(scene, strategy, leader, clients));
        }
    });
}

#[test]
fn range_is_led_by_each_client_in_turn() {
    led_by_each("range");
}

#[test]
fn roundrobin_is_led_by_each_client_in_turn() {
    led_by_each("roundrobin");
}

#[test]
fn cooperative_sticky_is_led_by_each_client_in_turn() {
    led_by_each("cooperative-sticky");
}

#[test]
fn sticky_is_led_by_each_client_that_has_it_in_turn() {
    led_by_each("sticky");
}

/// Some members list a plugin first, and what all have second. The plugin decides only while nobody else is there.
fn some_have_a_plugin(scene: &Arc<Scene>, common: &str) {
    let mut group = Group::new(scene, &format!("some-have-a-plugin-besides-{common}"));
    let strategies = format!("weighted={},{common}", built("plugins/weighted.wasm").display());
    let first = group.prepare(Ours, "with-plugin-1", &strategies);
    group.start(std::slice::from_ref(&first));
    group.at_rest("weighted");

    let mut others = vec![group.prepare(Ours, "with-plugin-2", &strategies)];
    others.extend([Ours, Java, Librdkafka, KafkaPython, FranzGo].map(|w| group.prepare(w, w.name(), common)));
    group.start(&others);
    group.at_rest(common);
    for name in [&first, &others[0]] {
        let said = |book: &Book| {
            (book.strategy(name) == common && book.events(name, "FirstChoiceNotChosen") > 0).then_some(())
        };
        group.ledger.wait("its first choice is not chosen, it says", PATIENCE, said);
    }

    // Once those without the plugin have left, it decides again.
    others.iter().skip(1).for_each(|name| group.stop(name));
    group.at_rest("weighted");
    group.stop_all();
}

#[test]
fn a_group_in_which_only_some_have_the_plugin_runs_what_all_have() {
    let scene = scene();
    std::thread::scope(|scope| {
        for common in ["cooperative-sticky", "range"] {
            let scene = &scene;
            scope.spawn(move || some_have_a_plugin(scene, common));
        }
    });
}
