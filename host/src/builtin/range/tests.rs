use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::order;
use super::*;
use crate::group::{Group, MemberSubscription};
use crate::plan::{Completeness, check};
use crate::test_support::{any_racked_group, group, member};

/// Members of these topics and racks, named a, b, c and so on.
fn members(wanted: &[(&[&str], Option<&str>)]) -> Vec<MemberSubscription> {
    ('a'..)
        .zip(wanted)
        .map(|(id, (topics, rack))| {
            let mut member = member(&id.to_string(), topics, None, &[]);
            member.subscription.rack = rack.map(str::to_owned);
            member
        })
        .collect()
}

/// Topics with the rack of each partition's replicas: `"1 2 12"` is three partitions in the racks 1, 2, and both.
fn racked(topics: &[(&str, &str)], members: Vec<MemberSubscription>) -> Group {
    let brokers: BTreeMap<i32, String> = (1..=3).map(|rack| (rack, rack.to_string())).collect();
    let of_one = |racks: &str| -> Vec<i32> { racks.bytes().map(|rack| i32::from(rack - b'0')).collect() };
    let replicas: BTreeMap<&str, Vec<Vec<i32>>> =
        topics.iter().map(|(name, racks)| (*name, racks.split(' ').map(of_one).collect())).collect();
    let counts: Vec<(&str, u32)> =
        replicas.iter().map(|(name, partitions)| (*name, u32::try_from(partitions.len()).unwrap())).collect();
    group(&counts, members).with_racks(&brokers, |topic| replicas.get(topic).map(Vec::as_slice))
}

fn run(group: &Group) -> Vec<String> {
    let (plan, _) = assign(group, false);
    assert_eq!(check(group, &plan, Completeness::Full), Ok(()));
    let named = plan.assignments.iter().map(|assignment| {
        let topics = group.by_name(&assignment.partitions);
        let names = topics.iter().flat_map(|t| t.partitions.iter().map(|p| format!("{}{p}", t.topic)));
        names.collect::<Vec<_>>().join(" ")
    });
    named.collect()
}

#[test]
fn the_example_in_the_documentation() {
    let both = || members(&[(&["t", "u"], Some("1")), (&["t", "u"], Some("2"))]);
    assert_eq!(run(&racked(&[("t", "2 1 1"), ("u", "2 1 1")], both())), ["t1 t2 u1 u2", "t0 u0"]);
}

#[test]
fn one_topic_by_itself_gives_each_member_what_is_in_its_rack_up_to_its_share() {
    let of = |racks: &[Option<&str>], topic: &str| {
        let wanted: Vec<(&[&str], Option<&str>)> = racks.iter().map(|rack| (&["t"][..], *rack)).collect();
        run(&racked(&[("t", topic)], members(&wanted)))
    };
    assert_eq!(of(&[Some("1"), Some("2")], "2 1 2 1"), ["t1 t3", "t0 t2"]);
    // Three in rack 1, of which "a" may have two; "b" is left with one that is not in its rack.
    assert_eq!(of(&[Some("1"), Some("2")], "1 1 2 1"), ["t0 t1", "t2 t3"]);
    // Who has no rack takes the first ones, who is in a rack without brokers what is left.
    assert_eq!(of(&[None, Some("2")], "2 1 1 2"), ["t0 t1", "t2 t3"]);
    assert_eq!(of(&[Some("9"), Some("2")], "2 1 1 2"), ["t1 t2", "t0 t3"]);
    // The one that is more goes to the first that finds it in its rack.
    assert_eq!(of(&[Some("1"), Some("2")], "2 2 1"), ["t2", "t0 t1"]);
}

#[test]
fn racks_do_not_matter_where_all_partitions_are_in_the_same_or_nobody_is_in_any() {
    let racks = |a, b| members(&[(&["t"], a), (&["t"], b)]);
    let plain = ["t0 t1", "t2 t3"];
    assert_eq!(run(&racked(&[("t", "12 12 12 12")], racks(Some("2"), Some("1")))), plain);
    assert_eq!(run(&racked(&[("t", "2 2 1 1")], racks(None, None))), plain);
    assert_eq!(run(&racked(&[("t", "2 2 1 1")], racks(Some("3"), None))), plain);
    assert_eq!(run(&racked(&[("t", "2 2 1 1")], racks(Some(""), None))), plain);
    assert_eq!(run(&racked(&[("t", "2 2 1 1")], racks(Some("1"), None))), ["t2 t3", "t0 t1"]);
}

/// What is matched in one topic only would part co-partitioned topics.
#[test]
fn co_partitioned_topics_stay_so_whatever_their_racks() {
    let both = || members(&[(&["t", "u"], Some("1")), (&["t", "u"], Some("2"))]);
    // Only t0 and u0 are in one rack, that of "b".
    assert_eq!(run(&racked(&[("t", "2 1"), ("u", "2 2")], both())), ["t1 u1", "t0 u0"]);
    // Topics that racks don't matter to take part, too, as soon as they matter to any topic.
    let topics = [("t", "2 2"), ("u", "2 2"), ("x", "1 2 2")];
    let all = members(&[(&["t", "u", "x"], Some("1")), (&["t", "u", "x"], Some("2"))]);
    assert_eq!(run(&racked(&topics, all)), ["t1 u1 x0", "t0 u0 x1 x2"]);
}

/// Topics with other subscribers, or as many partitions as no other topic, are no part of the co-partitioned ones.
#[test]
fn kafka_14891_co_partitioned_subsets_with_racks() {
    let wanted: [(&[&str], Option<&str>); 3] =
        [(&["t", "u", "v", "w"], Some("1")), (&["t", "u", "v", "w"], Some("2")), (&["w"], Some("3"))];
    let topics = [("t", "2 1"), ("u", "2 1"), ("v", "1 2 1"), ("w", "3 2")];
    assert_eq!(run(&racked(&topics, members(&wanted))), ["t1 u1 v0 v2", "t0 u0 v1 w1", "w0"]);
}

#[test]
fn static_members_come_first_with_racks_too() {
    let mut two = members(&[(&["t"], None), (&["t"], None)]);
    two[1].instance_id = Some("i".into());
    two[1].subscription.rack = Some("1".into());
    assert_eq!(run(&racked(&[("t", "2 1 2")], two)), ["t0 t2", "t1"]);
}

/// A topic while it is dealt out, each step gone through as Kafka describes it.
struct Slow {
    topic: u32,
    subscribers: Vec<u32>,
    free: Vec<u32>,
    extra: usize,
    dealt: BTreeMap<u32, usize>,
    needs_racks: bool,
}

impl Slow {
    fn new(group: &Group, topic: u32, prefer_racks: bool) -> Self {
        let wants = |member: &u32| group.members()[*member as usize].topics.contains(&topic);
        let subscribers: Vec<u32> = order::members(group).into_iter().filter(wants).collect();
        let free: Vec<u32> = group.topics()[topic as usize].numbers().collect();
        let racks = |&p: &u32| group.racks().map_or(vec![], |racks| racks.of(p).to_vec());
        let all: std::collections::BTreeSet<u32> = free.iter().flat_map(racks).collect();
        let in_one = |member: &u32| match (group.racks(), &group.members()[*member as usize].rack) {
            (Some(racks), Some(rack)) => racks.number(rack).is_some_and(|rack| all.contains(&rack)),
            _ => false,
        };
        let needs_racks = subscribers.iter().any(in_one)
            && (prefer_racks || free.iter().any(|p| racks(p).len() != all.len()));
        let extra = free.len() % subscribers.len();
        Self { topic, subscribers, free, extra, dealt: BTreeMap::new(), needs_racks }
    }

    fn total(&self) -> usize {
        self.free.len() + self.dealt.values().sum::<usize>()
    }

    fn room(&self, member: u32) -> usize {
        let most = self.total() / self.subscribers.len() + usize::from(self.extra > 0);
        most.saturating_sub(self.dealt.get(&member).copied().unwrap_or(0))
    }

    fn give(&mut self, member: u32, partitions: &[u32], plan: &mut [Vec<u32>]) {
        let quota = self.total() / self.subscribers.len();
        self.free.retain(|p| !partitions.contains(p));
        plan[member as usize].extend(partitions);
        let dealt = self.dealt.entry(member).or_default();
        *dealt += partitions.len();
        self.extra -= usize::from(*dealt > quota);
    }

    fn ranges(&mut self, fits: impl Fn(u32, u32) -> bool, plan: &mut [Vec<u32>]) {
        for member in self.subscribers.clone() {
            let fitting = self.free.iter().copied().filter(|&p| fits(member, p));
            let taken: Vec<u32> = fitting.take(self.room(member)).collect();
            if !taken.is_empty() {
                self.give(member, &taken, plan);
            }
        }
    }
}

fn slow(group: &Group, prefer_racks: bool) -> (Vec<Vec<u32>>, bool) {
    let mut plan = vec![Vec::new(); group.members().len()];
    let topics = 0..u32::try_from(group.topics().len()).unwrap();
    let mut slow: Vec<Slow> = topics.map(|topic| Slow::new(group, topic, prefer_racks)).collect();
    let fits = |member: u32, partition: u32| match &group.members()[member as usize].rack {
        None => true,
        Some(rack) => group
            .racks()
            .is_some_and(|racks| racks.number(rack).is_some_and(|rack| racks.of(partition).contains(&rack))),
    };
    let needed = slow.iter().any(|topic| topic.needs_racks);
    if needed {
        let mut groups: BTreeMap<(Vec<u32>, usize), Vec<usize>> = BTreeMap::new();
        for (index, topic) in slow.iter().enumerate() {
            groups.entry((topic.subscribers.clone(), topic.free.len())).or_default().push(index);
        }
        for ((subscribers, partitions), topics) in groups {
            if subscribers.iter().all(|&m| group.members()[m as usize].rack.is_none()) {
                continue;
            }
            if let [one] = topics[..] {
                if slow[one].needs_racks {
                    slow[one].ranges(fits, &mut plan);
                }
                continue;
            }
            let number = |topic: &Slow, p: usize| {
                group.topics()[topic.topic as usize].first + u32::try_from(p).unwrap()
            };
            for p in 0..partitions {
                let matches =
                    |&&m: &&u32| topics.iter().all(|&t| fits(m, number(&slow[t], p)) && slow[t].room(m) > 0);
                let Some(&member) = subscribers.iter().find(matches) else { continue };
                for &t in &topics {
                    let partition = number(&slow[t], p);
                    slow[t].give(member, &[partition], &mut plan);
                }
            }
        }
    }
    for topic in &mut slow {
        topic.ranges(|_, _| true, &mut plan);
    }
    for partitions in &mut plan {
        partitions.sort_unstable();
    }
    (plan, needed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_group_is_split_as_kafka_describes_it(group in any_racked_group(), prefer_racks in any::<bool>()) {
        let (plan, racks) = assign(&group, prefer_racks);
        prop_assert_eq!(check(&group, &plan, Completeness::Full), Ok(()));
        let partitions: Vec<Vec<u32>> = plan.assignments.into_iter().map(|a| a.partitions).collect();
        let (expected, needed) = slow(&group, prefer_racks);
        prop_assert_eq!((partitions, racks), (expected, needed));
    }
}
