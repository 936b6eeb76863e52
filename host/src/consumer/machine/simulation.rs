//! Whole groups under random faults: several machines, a model of Kafka's group coordinator, a network that delays and breaks,
//! applications that dawdle. Simulated time, so that a minute takes milliseconds; a seed repeats a run.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::group::{MemberSubscription, TopicPartitions};

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
    Join { member_id: String, protocols: Vec<(String, Bytes)> },
    Sync { identity: Identity, plan: Vec<(String, Bytes)> },
    Heartbeat { identity: Identity },
    Leave { member_id: String },
    Found,
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

/// After `GroupMetadata` and `GroupCoordinator` of Kafka's classic groups.
#[derive(Default)]
struct Group {
    phase: Phase,
    generation: i32,
    leader: String,
    members: BTreeMap<String, Known>,
    /// Older brokers answer heartbeats of a syncing group so.
    strict_heartbeats: bool,
    named: u32,
    /// Ids that were given with MEMBER_ID_REQUIRED.
    pending: BTreeSet<String>,
}

#[derive(Default, Clone, Copy, PartialEq, Debug)]
enum Phase {
    #[default]
    Empty,
    Preparing {
        until: u64,
    },
    Completing {
        until: u64,
    },
    Stable,
}

#[derive(Default)]
struct Known {
    expires: u64,
    protocols: Vec<(String, Bytes)>,
    joining: Option<(usize, RequestId)>,
    syncing: Option<(usize, RequestId)>,
    synced: bool,
    assignment: Bytes,
}

type Answers = Vec<(usize, RequestId, Message)>;

impl Group {
    fn join(
        &mut self,
        now: u64,
        node: usize,
        id: RequestId,
        member_id: String,
        protocols: Vec<(String, Bytes)>,
    ) -> Answers {
        if member_id.is_empty() {
            self.named += 1;
            let member_id = format!("{node}-{}", self.named);
            self.pending.insert(member_id.clone());
            let answer = Join { error: 79, member_id, ..Join::default() };
            return vec![(node, id, Message::Joined(answer))];
        }
        let known = self.members.contains_key(&member_id);
        if !known && !self.pending.remove(&member_id) {
            return vec![(node, id, Message::Joined(Join { error: 25, ..Join::default() }))];
        }
        let leads = self.leader == member_id;
        let member = self.members.entry(member_id.clone()).or_default();
        let changed = member.protocols != protocols;
        member.protocols = protocols;
        member.joining = Some((node, id));
        member.expires = u64::MAX;
        match self.phase {
            Phase::Empty => {
                self.phase = Phase::Preparing { until: now + 300 };
                Answers::new()
            }
            Phase::Preparing { .. } => self.try_complete(now, false),
            Phase::Stable if known && !leads && !changed => self.same_again(now, &member_id),
            Phase::Completing { .. } if known && !changed => self.same_again(now, &member_id),
            _ => self.prepare(now),
        }
    }

    /// The answer to a member that joins again and changes nothing.
    fn same_again(&mut self, now: u64, member_id: &str) -> Answers {
        let members = self.listed(member_id);
        let (generation, leader) = (self.generation, self.leader.clone());
        let Some(member) = self.members.get_mut(member_id) else { return Answers::new() };
        member.expires = now + SESSION;
        let Some((node, id)) = member.joining.take() else { return Answers::new() };
        let answer = Join {
            error: 0,
            generation,
            protocol: "s".into(),
            leader,
            member_id: member_id.into(),
            members,
            skip_assignment: false,
        };
        vec![(node, id, Message::Joined(answer))]
    }

    fn listed(&self, member_id: &str) -> Vec<JoinedMember> {
        if self.leader != member_id {
            return Vec::new();
        }
        let listed = self.members.iter().map(|(id, m)| JoinedMember {
            id: id.clone(),
            instance_id: None,
            metadata: m.protocols[0].1.clone(),
        });
        listed.collect()
    }

    fn prepare(&mut self, now: u64) -> Answers {
        let mut answers = Answers::new();
        for member in self.members.values_mut() {
            if let Some((node, id)) = member.syncing.take() {
                answers.push((node, id, Message::Synced(Sync { error: 27, ..Sync::default() })));
            }
        }
        self.phase = Phase::Preparing { until: now + MAX_POLL };
        answers.extend(self.try_complete(now, false));
        answers
    }

    fn try_complete(&mut self, now: u64, late: bool) -> Answers {
        if !late && self.members.values().any(|m| m.joining.is_none()) {
            return Answers::new();
        }
        self.members.retain(|_, m| m.joining.is_some());
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return Answers::new();
        }
        self.generation += 1;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        self.phase = Phase::Completing { until: now + MAX_POLL };
        for member in self.members.values_mut() {
            member.synced = false;
            member.assignment = Bytes::new();
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        ids.iter().flat_map(|id| self.same_again(now, id)).collect()
    }

    fn sync(
        &mut self,
        now: u64,
        node: usize,
        id: RequestId,
        identity: &Identity,
        plan: Vec<(String, Bytes)>,
    ) -> Answers {
        let refuse = |error| vec![(node, id, Message::Synced(Sync { error, ..Sync::default() }))];
        let leads = self.leader == identity.member_id;
        let Some(member) = self.members.get_mut(&identity.member_id) else { return refuse(25) };
        if identity.generation != self.generation {
            return refuse(22);
        }
        match self.phase {
            Phase::Empty => return refuse(25),
            Phase::Preparing { .. } => return refuse(27),
            Phase::Stable => {
                member.expires = now + SESSION;
                member.synced = true;
                let assignment = member.assignment.clone();
                return vec![(node, id, Message::Synced(Sync { error: 0, assignment }))];
            }
            Phase::Completing { .. } => {}
        }
        member.syncing = Some((node, id));
        member.synced = true;
        member.expires = now + SESSION;
        if !leads {
            return Answers::new();
        }
        self.phase = Phase::Stable;
        for (id, blob) in plan {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = blob;
            }
        }
        let mut answers = Answers::new();
        for member in self.members.values_mut() {
            if let Some((node, id)) = member.syncing.take() {
                member.expires = now + SESSION;
                let assignment = member.assignment.clone();
                answers.push((node, id, Message::Synced(Sync { error: 0, assignment })));
            }
        }
        answers
    }

    fn heartbeat(&mut self, now: u64, identity: &Identity) -> i16 {
        let Some(member) = self.members.get_mut(&identity.member_id) else { return 25 };
        if identity.generation != self.generation {
            return 22;
        }
        member.expires = member.expires.max(now + SESSION);
        match self.phase {
            Phase::Preparing { .. } => 27,
            Phase::Completing { .. } if self.strict_heartbeats => 27,
            _ => 0,
        }
    }

    fn remove(&mut self, now: u64, member_id: &str) -> Answers {
        let Some(member) = self.members.remove(member_id) else { return Answers::new() };
        let mut answers = Answers::new();
        if let Some((node, id)) = member.joining {
            answers.push((node, id, Message::Joined(Join { error: 25, ..Join::default() })));
        }
        if let Some((node, id)) = member.syncing {
            answers.push((node, id, Message::Synced(Sync { error: 25, ..Sync::default() })));
        }
        answers.extend(match self.phase {
            Phase::Stable | Phase::Completing { .. } => self.prepare(now),
            Phase::Preparing { .. } => self.try_complete(now, false),
            Phase::Empty => Answers::new(),
        });
        answers
    }

    fn pass(&mut self, now: u64) -> Answers {
        let mut answers = Answers::new();
        let expired: Vec<String> =
            self.members.iter().filter(|(_, m)| m.expires <= now).map(|(id, _)| id.clone()).collect();
        for id in expired {
            answers.extend(self.remove(now, &id));
        }
        match self.phase {
            Phase::Preparing { until } if now >= until => answers.extend(self.try_complete(now, true)),
            Phase::Completing { until } if now >= until => {
                let late: Vec<String> =
                    self.members.iter().filter(|(_, m)| !m.synced).map(|(id, _)| id.clone()).collect();
                for id in late {
                    answers.extend(self.remove(now, &id));
                }
            }
            _ => {}
        }
        answers
    }
}

/// A consumer: machine, application, and what the driver would keep for them.
struct Node {
    machine: Machine,
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
}

impl World {
    fn new(seed: u64, nodes: usize) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let strict_heartbeats = random.percent(50);
        let mut world = Self {
            random,
            now: 10_000,
            group: Group { strict_heartbeats, ..Group::default() },
            nodes: Vec::new(),
            mail: Vec::new(),
            faults: true,
            generations: BTreeMap::new(),
        };
        for index in 0..nodes {
            let settings = Settings {
                group_id: "g".into(),
                rack: None,
                session_timeout: Duration::from_millis(SESSION),
                heartbeat_interval: Duration::from_millis(200),
                max_poll_interval: Duration::from_millis(MAX_POLL),
                retry_backoff: Duration::from_millis(50),
                retry_backoff_max: Duration::from_millis(400),
                strategies: vec!["s".into()],
                seed: seed + index as u64,
            };
            let mut machine = Machine::new(settings, at(world.now));
            machine.subscribe(at(world.now), vec!["t".into()]);
            world.nodes.push(Node {
                machine,
                in_poll: false,
                turn: world.now + world.random.below(5_000),
                last_poll: world.now,
                lease: Moment::default(),
                owned: BTreeSet::new(),
                generation: -1,
                closed: false,
            });
        }
        world
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
        }
        self.post(node, id, message);
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
            Message::Prepared(round) => machine.prepared(now, round, vec![Interest::all(&["t".into()])]),
            Message::Planned(round, members) => {
                let blobs = members.iter().enumerate().map(|(index, member)| {
                    let mine = (0..PARTITIONS).filter(|p| *p as usize % members.len() == index).collect();
                    let partitions = vec![TopicPartitions { topic: "t".into(), partitions: mine }];
                    let blob = wire::assignment::encode(&partitions, None).unwrap();
                    (member.member_id.clone(), blob.into())
                });
                let planned = Planned { blobs: blobs.collect(), counts: BTreeMap::new(), racks: None };
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
                Action::Prepare { round, .. } => self.post(node, 0, Message::Prepared(round)),
                Action::Join { id, member_id, protocols, .. } => {
                    assert!(self.nodes[node].owned.is_empty(), "eager members give up everything first");
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
                Action::Lose { .. } => self.nodes[node].owned.clear(),
                Action::Fail(error) => panic!("{error}"),
                Action::Closed => self.nodes[node].closed = true,
                Action::Connect(_)
                | Action::CancelAssign
                | Action::CommitBeforeLeaving(_)
                | Action::Event(_) => {}
            }
        }
    }

    fn install(&mut self, node: usize, delivery: &Delivery) {
        let partitions = delivery.partitions.iter().flat_map(|t| t.partitions.iter().copied());
        let (owned, generation) = (partitions.collect::<BTreeSet<u32>>(), delivery.identity.generation);
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
            if this.machine.wants_to_rejoin() && this.in_poll {
                this.owned.clear();
                this.machine.may_rejoin(at(now));
                self.act(node);
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

#[test]
fn groups_under_faults_never_have_two_owners_and_settle_when_the_faults_end() {
    for seed in 0..300 {
        let members = 2 + (seed % 4) as usize;
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, members);
            while world.now < 60_000 {
                world.tick();
            }
            world.settle();
            // One leaves in good order.
            world.nodes[0].machine.close(at(world.now), false);
            world.act(0);
            world.nodes[0].owned.clear();
            world.tick();
            world.settle();
            assert!(world.nodes[0].closed);
            world.generations.len()
        });
        let generations = run.unwrap_or_else(|e| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e)
        });
        assert!(generations > 3, "seed {seed}: nothing happened");
    }
}
