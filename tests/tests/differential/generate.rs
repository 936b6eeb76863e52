//! Groups of every kind, made of a seed.

use std::collections::{BTreeMap, BTreeSet};

use assignor_host::described::{DescribedGroup, DescribedMember, DescribedNode, DescribedTopic};
use fastrand::Rng;

use super::Strategy;
use super::claims::StickyData;
use super::history;

/// The most members, topics, and partitions of a topic.
const MOST: Size = Size { members: 60, topics: 30, partitions: 40 };

/// Topics that members subscribe to and that nobody has made, and ones that were there once.
const ABSENT: [&str; 3] = ["absent", "never-made", "zz-gone"];

/// Parts of member ids. Kafka compares UTF-16 units, in which the last but one comes before the last; in UTF-8 it is the other
/// way round.
const ID_PARTS: [&str; 8] =
    ["consumer-", "c", "Ünal-", "потребитель", "消費者", "a\u{301}", "\u{1f980}", "\u{ff5e}"];

#[derive(Clone, Copy)]
struct Size {
    members: usize,
    topics: usize,
    partitions: u32,
}

/// The group of that number: a group that has just come together, or one that has lived for a while. What members own is under
/// `owned` and `generation`; see [`told`].
pub(crate) fn group(seed: u64, number: u64) -> DescribedGroup {
    let mut rng = rng(seed, number);
    let mut group = fresh(&mut rng);
    if rng.u8(..10) < 6 {
        history::play(&mut group, &mut rng);
    } else if rng.bool() {
        claim_at_random(&mut group, &mut rng);
    }
    rng.shuffle(&mut group.members);
    group
}

/// For what is decided after the group is made.
pub(crate) fn rng(seed: u64, number: u64) -> Rng {
    let mut rng = Rng::with_seed(seed);
    Rng::with_seed(rng.u64(..) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Nobody owns anything yet.
fn fresh(rng: &mut Rng) -> DescribedGroup {
    // Small groups show more per second and shrink faster; the largest are there for what only they show.
    let most = match rng.u8(..100) {
        0..60 => Size { members: 6, topics: 5, partitions: 8 },
        60..95 => Size { members: 15, topics: 10, partitions: 16 },
        _ => MOST,
    };
    let brokers = if rng.u8(..10) < 6 { Vec::new() } else { brokers(rng) };
    let mut group = DescribedGroup { nodes: brokers, ..DescribedGroup::default() };
    let even = rng.bool();
    let partitions = rng.u32(1..=most.partitions);
    for _ in 0..rng.usize(..=most.topics) {
        let partitions = if even { partitions } else { rng.u32(..=most.partitions) };
        let topic = topic(partitions, &group.nodes, rng);
        group.topics.insert(topic_name(&group, rng), topic);
    }
    let wish = Wish::any(rng);
    for _ in 0..rng.usize(1..=most.members) {
        let member = newcomer(&group, wish, rng);
        group.members.push(member);
    }
    group
}

/// A name that no topic has.
pub(crate) fn topic_name(group: &DescribedGroup, rng: &mut Rng) -> String {
    loop {
        let part = *rng.choice(&["t", "orders.", "Clicks_", "a-"]).unwrap();
        let name = format!("{part}{}", rng.u8(..100));
        if !group.topics.contains_key(&name) {
            return name;
        }
    }
}

/// One to four racks; a broker may have none.
fn brokers(rng: &mut Rng) -> Vec<DescribedNode> {
    let racks = rng.usize(1..=4);
    let racks = &["rack-a", "rack-b", "rack-c", "Rack-d"][..racks];
    let without = rng.u8(..4) == 0;
    let node = |id: i32| {
        let rack = racks[usize::try_from(id).unwrap() % racks.len()].to_owned();
        DescribedNode { id, host: String::new(), rack: Some(rack).filter(|_| !without || rng.u8(..4) > 0) }
    };
    (0..i32::try_from(racks.len() * 2).unwrap()).map(node).collect()
}

/// A topic whose partitions have replicas on some brokers, if there are brokers.
pub(crate) fn topic(partitions: u32, brokers: &[DescribedNode], rng: &mut Rng) -> DescribedTopic {
    let mut topic = DescribedTopic { partitions, replicas: None, lag: Default::default() };
    if brokers.is_empty() {
        return topic;
    }
    let factor = rng.usize(..=brokers.len().min(4));
    let steady = rng.bool();
    let mut replicas = |partition: u32| -> Vec<i32> {
        if steady {
            // As Kafka spreads them: one broker after the other.
            return (0..factor).map(|i| brokers[(partition as usize + i) % brokers.len()].id).collect();
        }
        (0..factor).map(|_| rng.choice(brokers).unwrap().id).collect()
    };
    topic.replicas = Some((0..partitions).map(&mut replicas).collect());
    topic
}

/// Which topics the members of a group ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// All of them everything.
    Everything,
    /// All of them everything, and a topic that doesn't exist.
    MoreThanThereIs,
    /// Most of them everything, the others some topics.
    OddOnes,
    /// Each some topics.
    Some,
    /// One of a few ranges of the topics.
    Ranges,
}

impl Wish {
    fn any(rng: &mut Rng) -> Self {
        match rng.u8(..10) {
            0..4 => Self::Everything,
            4 => Self::MoreThanThereIs,
            5 | 6 => Self::OddOnes,
            7 | 8 => Self::Some,
            _ => Self::Ranges,
        }
    }

    /// What one member asks for.
    pub(crate) fn topics(self, group: &DescribedGroup, rng: &mut Rng) -> Vec<String> {
        let names: Vec<&str> = group.topics.keys().map(String::as_str).collect();
        let some = |rng: &mut Rng| -> Vec<&str> {
            let likely = rng.u8(1..=10);
            let all = names.iter().chain(&ABSENT).copied();
            all.filter(|_| rng.u8(..10) < likely && rng.u8(..10) < 9).collect()
        };
        let topics = match self {
            Self::Everything => names.clone(),
            Self::MoreThanThereIs => names.iter().copied().chain([ABSENT[0]]).collect(),
            Self::OddOnes if rng.u8(..4) > 0 => names.clone(),
            Self::OddOnes | Self::Some => some(rng),
            Self::Ranges => {
                let buckets = names.chunks(names.len().div_ceil(4).max(1)).collect::<Vec<_>>();
                rng.choice(buckets).map(<[_]>::to_vec).unwrap_or_default()
            }
        };
        topics.into_iter().map(str::to_owned).collect()
    }
}

/// A member that comes new to a group.
pub(crate) fn newcomer(group: &DescribedGroup, wish: Wish, rng: &mut Rng) -> DescribedMember {
    let racks: BTreeSet<&str> = group.nodes.iter().filter_map(|node| node.rack.as_deref()).collect();
    let rack = match rng.u8(..12) {
        _ if racks.is_empty() && rng.u8(..10) > 0 => None,
        0 => None,
        1 => Some(""),
        2 => Some("elsewhere"),
        _ => rng.choice(racks),
    };
    let is_static = rng.u8(..4) == 0;
    DescribedMember {
        id: member_id(group, rng),
        instance_id: is_static.then(|| instance_id(group, rng)),
        topics: wish.topics(group, rng),
        owned: BTreeMap::new(),
        generation: None,
        rack: rack.map(str::to_owned),
        user_data: None,
        config: BTreeMap::new(),
    }
}

/// An id that no member has.
pub(crate) fn member_id(group: &DescribedGroup, rng: &mut Rng) -> String {
    loop {
        let part = *rng.choice(&ID_PARTS).unwrap();
        let id = match rng.u8(..3) {
            0 => format!("{part}{}", rng.u8(..100)),
            1 => format!("{part}{}-{:08x}", rng.u8(..9), rng.u32(..)),
            _ => format!("{part}{}{}", rng.choice(&ID_PARTS).unwrap(), rng.u8(..100)),
        };
        if group.members.iter().all(|member| member.id != id) {
            return id;
        }
    }
}

/// An instance id that no member has, as Kafka sees to.
fn instance_id(group: &DescribedGroup, rng: &mut Rng) -> String {
    loop {
        let id = format!("{}{}", rng.choice(["i-", "I", "node."]).unwrap(), rng.u16(..500));
        if group.members.iter().all(|member| member.instance_id.as_ref() != Some(&id)) {
            return id;
        }
    }
}

/// Members own what no assignor gave them: at mixed generations, the same partition twice, partitions that don't exist.
fn claim_at_random(group: &mut DescribedGroup, rng: &mut Rng) {
    let (likely, again) = (rng.u8(1..=10), rng.u8(..3));
    let beyond = if rng.u8(..4) == 0 { 3 } else { 0 };
    let mixed = rng.bool();
    let generation = rng.i32(0..9);
    for member in &mut group.members {
        member.generation = match rng.u8(..10) {
            0 => None,
            1..5 if mixed => Some(rng.i32(0..9)),
            _ => Some(generation),
        };
    }
    let partitions = group.topics.iter().map(|(name, topic)| (name.clone(), topic.partitions + beyond));
    for (topic, partitions) in partitions.collect::<Vec<_>>() {
        for partition in 0..partitions {
            while rng.u8(..10) < likely {
                let index = rng.usize(..group.members.len());
                let member = &mut group.members[index];
                if member.topics.contains(&topic) || rng.u8(..10) == 0 {
                    let owned = member.owned.entry(topic.clone()).or_default();
                    if !owned.contains(&partition) {
                        owned.push(partition);
                    }
                }
                if rng.u8(..10) >= again {
                    break;
                }
            }
        }
    }
}

/// The group as its members tell of themselves under a strategy: the claims under `owned` and `generation` become what clients
/// write, each its own way, and sometimes nonsense.
pub(crate) fn told(group: &DescribedGroup, strategy: Strategy, rng: &mut Rng) -> DescribedGroup {
    let mut group = group.clone();
    for member in &mut group.members {
        match strategy {
            Strategy::Range | Strategy::RoundRobin => {}
            Strategy::Sticky => tell_sticky(member, rng),
            Strategy::CooperativeSticky => tell_cooperative(member, rng),
        }
    }
    group
}

fn signed(owned: &BTreeMap<String, Vec<u32>>) -> Vec<(String, Vec<i32>)> {
    let signed = |partitions: &Vec<u32>| partitions.iter().map(|&p| i32::try_from(p).unwrap()).collect();
    owned.iter().map(|(topic, partitions)| (topic.clone(), signed(partitions))).collect()
}

/// Eager members own nothing when they join; their user data says what they owned.
fn tell_sticky(member: &mut DescribedMember, rng: &mut Rng) {
    let mut data =
        StickyData { owned: signed(&member.owned), generation: Some(member.generation.unwrap_or(-1)) };
    let joined_before = member.generation.is_some() || !member.owned.is_empty();
    member.user_data = joined_before.then(|| data.encode());
    if rng.u8(..40) > 0 {
        // What the subscription says of its generation is nothing to `sticky`.
        member.generation = member.generation.filter(|_| rng.u8(..10) > 0);
        member.owned.clear();
    }
    match rng.u8(..60) {
        0..3 => {
            data.generation = None;
            member.user_data = Some(data.encode());
        }
        3 => member.user_data = Some(vec![0xff; rng.usize(1..9)]),
        4 => member.user_data = Some(Vec::new()),
        5 => {
            if let Some(bytes) = &mut member.user_data {
                bytes.truncate(rng.usize(..=bytes.len()));
            }
        }
        6 => {
            if let Some((_, partitions)) = data.owned.first_mut().filter(|_| rng.u8(..3) == 0) {
                partitions.push(-1);
                member.user_data = Some(data.encode());
            }
        }
        7 => {
            if let Some(bytes) = &mut member.user_data {
                bytes.extend_from_slice(b"more");
            }
        }
        _ => {}
    }
}

/// Subscriptions from version 2 tell the generation; below it is in user data, or nowhere.
fn tell_cooperative(member: &mut DescribedMember, rng: &mut Rng) {
    let generation = member.generation.unwrap_or(-1);
    match rng.u8(..40) {
        // Java of version 2.4 to 3.1.
        0..4 => {
            member.generation = None;
            member.user_data = Some(generation.to_be_bytes().to_vec());
        }
        // librdkafka and franz-go, of old versions and of new.
        4 | 5 => {
            let data = StickyData { owned: signed(&member.owned), generation: Some(generation) };
            member.user_data = Some(data.encode());
            member.generation = member.generation.filter(|_| rng.bool());
        }
        // kafka-python.
        6 => {
            member.generation = None;
            member.user_data = Some(Vec::new());
        }
        7 => {
            member.generation = None;
            member.user_data = Some(vec![0xff; rng.usize(1..9)]);
        }
        8 => member.generation = None,
        // Java today.
        _ => member.user_data = Some(generation.to_be_bytes().to_vec()),
    }
}
