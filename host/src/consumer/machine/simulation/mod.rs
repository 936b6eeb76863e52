//! Whole groups under random faults: several machines, a model of Kafka's group coordinator, a network that delays and breaks,
//! applications that dawdle, crash and come back. Simulated time, so that a minute takes milliseconds; a seed repeats a run.

mod group;

use std::collections::{BTreeMap, BTreeSet};

use self::group::{Group, Phase};
use super::*;
use crate::assignor::Interest;
use crate::builtin::Builtin;
use crate::group::{MemberSubscription, TopicPartitions};
use crate::plan::withhold;
use crate::wire;

const PARTITIONS: u32 = 7;
const TICK: u64 = 10;
const SESSION: u64 = 1_000;
const MAX_POLL: u64 = 3_000;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
    fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}

fn at(ms: u64) -> Moment {
    Moment::default() + Duration::from_millis(ms)
}

/// A request on its way, or its answer.
#[derive(Debug, Clone)]
enum Message {
    Join { member_id: (String, Option<String>), protocols: Vec<(String, Bytes)> },
    Sync { identity: Identity, plan: Vec<(String, Bytes)> },
    Heartbeat { identity: Identity },
    Leave { member_id: String },
    Found,
    GivenUp(u64),
    Prepared(u64),
    Planned(u64, Vec<MemberSubscription>),
    Joined(Join),
    Synced(Sync),
    Beaten(i16),
    Left,
    Broken(&'static str),
}

#[derive(Debug)]
struct Mail {
    due: u64,
    node: usize,
    id: RequestId,
    message: Message,
}

/// A consumer: machine, application, and what the driver would keep for them.
struct Node {
    machine: Machine,
    protocol: Protocol,
    instance: Option<String>,
    in_poll: bool,
    /// When the application enters or leaves `poll` next.
    turn: u64,
    last_poll: u64,
    lease: Moment,
    owned: BTreeSet<u32>,
    generation: i32,
    closed: bool,
}

struct World {
    random: Random,
    now: u64,
    group: Group,
    nodes: Vec<Node>,
    mail: Vec<Mail>,
    faults: bool,
    generations: BTreeMap<i32, BTreeMap<u32, usize>>,
    /// How often a partition came through a rebalance without being given up.
    stayed: usize,
    restarts: u64,
}

/// What a run's members are like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Eager,
    Cooperative,
    /// Some eager, some cooperative, as in the middle of a rolling upgrade.
    Mixed,
}

impl World {
    fn new(seed: u64, nodes: usize, kind: Kind) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let strict_heartbeats = random.percent(50);
        let statics = random.percent(50);
        let mut world = Self {
            random,
            now: 10_000,
            group: Group::new(strict_heartbeats),
            nodes: Vec::new(),
            mail: Vec::new(),
            faults: true,
            generations: BTreeMap::new(),
            stayed: 0,
            restarts: 0,
        };
        for index in 0..nodes {
            let protocol = match kind {
                Kind::Cooperative => Protocol::Cooperative,
                Kind::Mixed if index % 2 == 0 => Protocol::Cooperative,
                _ => Protocol::Eager,
            };
            let instance = (statics && world.random.percent(60)).then(|| format!("i{index}"));
            let node = world.node(protocol, instance);
            world.nodes.push(node);
        }
        world
    }

    fn node(&mut self, protocol: Protocol, instance: Option<String>) -> Node {
        self.restarts += 1;
        let settings = Settings {
            group_id: "g".into(),
            rack: None,
            session_timeout: Duration::from_millis(SESSION),
            heartbeat_interval: Duration::from_millis(200),
            max_poll_interval: Duration::from_millis(MAX_POLL),
            retry_backoff: Duration::from_millis(50),
            retry_backoff_max: Duration::from_millis(400),
            strategies: vec!["s".into()],
            protocol,
            is_static: instance.is_some(),
            seed: self.random.below(u64::MAX),
        };
        let mut machine = Machine::new(settings, at(self.now));
        // Answers to the one before are not taken for its own.
        machine.next_id = self.restarts * 1_000_000;
        machine.subscribe(at(self.now), vec!["t".into()]);
        Node {
            machine,
            protocol,
            instance,
            in_poll: false,
            turn: self.now + self.random.below(5_000),
            last_poll: self.now,
            lease: Moment::default(),
            owned: BTreeSet::new(),
            generation: -1,
            closed: false,
        }
    }

    /// A process dies, and another one takes its place.
    fn restart(&mut self, node: usize) {
        let Node { protocol, instance, .. } = &self.nodes[node];
        let (protocol, instance) = (*protocol, instance.clone());
        self.mail.retain(|mail| mail.node != node);
        self.nodes[node] = self.node(protocol, instance);
    }

    fn post(&mut self, node: usize, id: RequestId, message: Message) {
        let slow = self.faults && self.random.percent(3);
        let delay = if slow { self.random.below(2_000) } else { self.random.below(60) };
        self.mail.push(Mail { due: self.now + delay, node, id, message });
    }

    /// A request, which may get lost on its way or on its answer's: the connection breaks then.
    fn send(&mut self, node: usize, id: RequestId, message: Message, kind: &'static str) {
        // The connection's own time-out, for answers that went to an older request of the same member.
        let limit = if kind == "heartbeat" { SESSION } else { MAX_POLL + 5_000 };
        self.mail.push(Mail { due: self.now + limit, node, id, message: Message::Broken(kind) });
        if self.faults && self.random.percent(3) {
            self.post(node, id, Message::Broken(kind));
            if self.random.percent(50) {
                return;
            }
            // A static member's request that came after its successor's would fence that one.
            if self.nodes[node].instance.is_some() {
                self.mail.push(Mail { due: self.now, node, id, message });
                return;
            }
        }
        self.post(node, id, message);
        self.in_order(node);
    }

    /// JoinGroup and SyncGroup of a member go over one connection: none overtakes another.
    fn in_order(&mut self, node: usize) {
        let in_turn = |mail: &&mut Mail| {
            mail.node == node && matches!(mail.message, Message::Join { .. } | Message::Sync { .. })
        };
        let mut earliest = 0;
        for mail in self.mail.iter_mut().filter(in_turn) {
            mail.due = mail.due.max(earliest);
            earliest = mail.due;
        }
    }

    fn deliver(&mut self, mail: Mail) {
        let Mail { node, id, message, .. } = mail;
        let now = self.now;
        let answers = match message {
            Message::Join { member_id, protocols } => self.group.join(now, node, id, member_id, protocols),
            Message::Sync { identity, plan } => self.group.sync(now, node, id, &identity, plan),
            Message::Heartbeat { identity } => {
                vec![(node, id, Message::Beaten(self.group.heartbeat(now, &identity)))]
            }
            Message::Leave { member_id } => {
                let mut answers = self.group.remove(now, &member_id);
                answers.push((node, id, Message::Left));
                answers
            }
            answer => {
                self.answer(node, id, answer);
                return;
            }
        };
        for (node, id, message) in answers {
            self.post(node, id, message);
        }
    }

    fn answer(&mut self, node: usize, id: RequestId, answer: Message) {
        let (now, machine) = (at(self.now), &mut self.nodes[node].machine);
        match answer {
            Message::Found => {
                let found = Coordinator { error: 0, host: "c".into(), port: 1 };
                machine.coordinator_found(now, id, Ok(found));
            }
            Message::GivenUp(round) => machine.revoked(now, round),
            Message::Prepared(round) => {
                machine.prepared(now, round, vec![Interest::all(&["t".into()])], Vec::new());
            }
            Message::Planned(round, members) => {
                let counts = BTreeMap::from([("t".to_owned(), PARTITIONS)]);
                let group = crate::group::Group::new(&counts, members).unwrap();
                let mut plan = Builtin::cooperative_sticky().plan(&group);
                let held_back = withhold(&group, &mut plan) > 0;
                let blobs = group.members().iter().zip(&plan.assignments).map(|(member, assignment)| {
                    let blob =
                        wire::assignment::encode_numbers(&group, &assignment.partitions, None).unwrap();
                    (member.id.clone(), blob.into())
                });
                let planned =
                    Planned { blobs: blobs.collect(), counts: BTreeMap::new(), held_back, racks: None };
                machine.planned(now, round, Ok(planned));
            }
            Message::Joined(join) => machine.joined(now, id, Ok(join)),
            Message::Synced(sync) => machine.synced(now, id, Ok(sync)),
            Message::Beaten(code) => machine.heartbeat_answered(now, id, Ok(code)),
            Message::Left => machine.left(id),
            Message::Broken("join") => machine.joined(now, id, Err("broken".into())),
            Message::Broken("sync") => machine.synced(now, id, Err("broken".into())),
            Message::Broken(_) => machine.heartbeat_answered(now, id, Err("broken".into())),
            request => panic!("{request:?} is no answer"),
        }
        self.act(node);
    }

    fn act(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].machine.action() {
            match action {
                Action::FindCoordinator(id) => self.post(node, id, Message::Found),
                Action::Revoke(Revocation { round, partitions, .. }) => {
                    assert!(
                        self.nodes[node].in_poll || self.nodes[node].closing(),
                        "what it was given is processed"
                    );
                    let given_up = numbers(&partitions);
                    self.nodes[node].owned.retain(|p| !given_up.contains(p));
                    self.post(node, 0, Message::GivenUp(round));
                }
                Action::Prepare { round, .. } => self.post(node, 0, Message::Prepared(round)),
                Action::Join { id, member_id, protocols, .. } => {
                    let this = &self.nodes[node];
                    let told = wire::subscription::decode(&protocols[0].1).unwrap();
                    assert_eq!(numbers(&told.owned), this.owned, "it claims what it owns");
                    assert!(this.protocol == Protocol::Cooperative || this.owned.is_empty());
                    assert!(this.owned.is_empty() || told.generation == Some(this.generation));
                    let member_id = (member_id, this.instance.clone());
                    self.send(node, id, Message::Join { member_id, protocols }, "join");
                }
                Action::Assign { round, members, .. } => {
                    self.post(node, 0, Message::Planned(round, members));
                }
                Action::Sync { id, identity, plan, .. } => {
                    self.send(node, id, Message::Sync { identity, plan }, "sync");
                }
                Action::Heartbeat { id, identity } => {
                    self.send(node, id, Message::Heartbeat { identity }, "heartbeat");
                }
                Action::Leave { id, member_id, .. } => self.post(node, id, Message::Leave { member_id }),
                Action::Deliver(delivery) => self.install(node, &delivery),
                Action::Lease(until) => self.nodes[node].lease = until,
                Action::Lose { .. } | Action::Unassign => self.nodes[node].owned.clear(),
                Action::Fail(error) => panic!("{error}"),
                Action::Closed => self.nodes[node].closed = true,
                Action::Connect(_) | Action::CancelAssign | Action::Renew(_) | Action::Event(_) => {}
            }
        }
    }

    fn install(&mut self, node: usize, delivery: &Delivery) {
        let (owned, generation) = (numbers(&delivery.partitions), delivery.identity.generation);
        let (before, added) = (&self.nodes[node].owned, numbers(&delivery.added));
        assert!(before.is_subset(&owned), "what is taken away was given up before");
        assert_eq!(added, &owned - before);
        self.stayed += before.len();
        for partition in &owned {
            let owners = self.generations.entry(generation).or_default();
            let owner = *owners.entry(*partition).or_insert(node);
            assert_eq!(owner, node, "two owners of {partition} in generation {generation}");
        }
        self.nodes[node].owned = owned;
        self.nodes[node].generation = generation;
    }

    fn application(&mut self, node: usize) {
        let now = self.now;
        let (poll, work) = (self.random.below(300), self.random.below(200));
        let dawdles = self.faults && self.random.percent(8);
        // Around max.poll.interval, where races are.
        let dawdle = MAX_POLL - 100 + self.random.below(200);
        let this = &mut self.nodes[node];
        if now >= this.turn {
            this.in_poll = !this.in_poll;
            this.last_poll = now;
            this.turn = now
                + 1
                + if this.in_poll {
                    poll
                } else if dawdles {
                    dawdle
                } else {
                    work
                };
        }
        this.machine.application(this.in_poll, at(this.last_poll));
    }

    fn tick(&mut self) {
        self.now += TICK;
        let now = self.now;
        for (node, id, message) in self.group.pass(now) {
            self.post(node, id, message);
        }
        let (due, later) = std::mem::take(&mut self.mail).into_iter().partition(|m: &Mail| m.due <= now);
        self.mail = later;
        let due: Vec<Mail> = due;
        for mail in due {
            self.deliver(mail);
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].closed {
                continue;
            }
            self.application(node);
            self.nodes[node].machine.handle_timeout(at(now));
            self.act(node);
            // The application may be handed records right before the driver takes them away.
            self.assert_one_owner();
            let this = &mut self.nodes[node];
            if this.machine.waits_for_poll() && this.in_poll {
                this.machine.at_poll(at(now));
                self.act(node);
            }
            if self.faults && self.random.below(3_000) == 0 {
                self.restart(node);
            }
        }
    }

    /// Whoever may be handed records of a partition now is the only one.
    fn assert_one_owner(&self) {
        let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.in_poll || node.closed || at(self.now) >= node.lease {
                continue;
            }
            for partition in &node.owned {
                if let Some(other) = owners.insert(*partition, index) {
                    panic!("{partition} is handed out by both {other} and {index} at {}", self.now);
                }
            }
        }
    }

    fn settled(&self) -> bool {
        let open = || self.nodes.iter().filter(|n| !n.closed);
        let owned: usize = open().map(|n| n.owned.len()).sum();
        self.group.phase == Phase::Stable
            && owned == PARTITIONS as usize
            && open().all(|n| n.generation == self.group.generation && at(self.now) < n.lease)
    }

    fn describe(&self) -> String {
        let mut text = format!("{:?}, generation {}", self.group.phase, self.group.generation);
        for (id, m) in &self.group.members {
            text.push_str(&format!("\nknown {id}: joining {:?} synced {}", m.joining, m.synced));
        }
        for node in &self.nodes {
            let m = &node.machine;
            text.push_str(&format!(
                "\n{:?} {:?} {:?} owns {:?}, closed {}, leased {}, in poll {}",
                m.state,
                m.identity,
                m.rejoin,
                node.owned,
                node.closed,
                at(self.now) < node.lease,
                node.in_poll
            ));
        }
        text
    }

    fn settle(&mut self) {
        self.faults = false;
        let end = self.now + 30_000;
        while !self.settled() {
            self.tick();
            assert!(self.now < end, "not settled: {}", self.describe());
        }
    }
}

impl Node {
    fn closing(&self) -> bool {
        matches!(self.machine.state, State::Revoking { then: Then::Close, .. })
    }
}

fn numbers(partitions: &[TopicPartitions]) -> BTreeSet<u32> {
    partitions.iter().flat_map(|t| t.partitions.iter().copied()).collect()
}

/// Runs such groups under faults; says how often partitions stayed where they were through a rebalance.
fn run(kind: Kind, seeds: std::ops::Range<u64>) -> usize {
    let mut stayed = 0;
    for seed in seeds {
        let members = 2 + (seed % 4) as usize;
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, members, kind);
            while world.now < 60_000 {
                world.tick();
            }
            world.settle();
            // One closes in good order.
            world.nodes[0].machine.close(at(world.now), false, Membership::Default);
            world.act(0);
            let end = world.now + 1_000;
            while !world.nodes[0].closed {
                assert!(world.now < end, "not closed: {}", world.describe());
                world.tick();
            }
            world.settle();
            (world.generations.len(), world.stayed)
        });
        let (generations, stay) = run.unwrap_or_else(|e| {
            eprintln!("{kind:?}, seed {seed}");
            std::panic::resume_unwind(e)
        });
        assert!(generations > 3, "seed {seed}: nothing happened");
        stayed += stay;
    }
    stayed
}

#[test]
fn eager_groups_under_faults_never_have_two_owners_and_settle_when_the_faults_end() {
    assert_eq!(run(Kind::Eager, 0..200), 0, "everything is given up in each rebalance");
}

#[test]
fn cooperative_groups_under_faults_never_have_two_owners_and_settle_when_the_faults_end() {
    assert!(run(Kind::Cooperative, 200..500) > 10_000);
}

#[test]
fn groups_of_eager_and_cooperative_members_never_have_two_owners_either() {
    assert!(run(Kind::Mixed, 500..700) > 3_000);
}
