//! What went wrong in other clients' strategies, replayed: see `docs/incidents.md`.

use std::collections::BTreeMap;

use super::*;
use crate::assignor::{Assignor, Context};
use crate::group::TopicPartitions;
use crate::plan::{assert_safe, withhold};

const BOTH_STICKY: [&str; 2] = [COOPERATIVE_STICKY, STICKY];

/// A member that claims these partitions of any topics.
fn claimant(id: &str, topics: &[&str], generation: i32, owned: &[(&str, &[u32])]) -> MemberSubscription {
    let mut member = member(id, topics, Some(generation), &[]);
    member.subscription.owned = owned
        .iter()
        .map(|(topic, partitions)| TopicPartitions {
            topic: (*topic).to_owned(),
            partitions: partitions.to_vec(),
        })
        .collect();
    member
}

fn in_rack(mut member: MemberSubscription, rack: &str) -> MemberSubscription {
    member.subscription.rack = Some(rack.into());
    member
}

/// The group in a cluster whose broker 0 is in rack `a`, 1 in `b` and so on; the replicas of each partition by topic.
fn racked(
    replicas: &[(&str, &[&[i32]])],
    members: impl IntoIterator<Item = (MemberSubscription, &'static str)>,
) -> Group {
    let brokers: BTreeMap<i32, String> = (0..).zip(["a", "b", "c"].map(str::to_owned)).collect();
    let replicas: BTreeMap<&str, Vec<Vec<i32>>> = replicas
        .iter()
        .map(|(topic, partitions)| (*topic, partitions.iter().map(|p| p.to_vec()).collect()))
        .collect();
    let counts: Vec<(&str, u32)> = replicas.iter().map(|(t, p)| (*t, p.len() as u32)).collect();
    let members = members.into_iter().map(|(member, rack)| in_rack(member, rack)).collect();
    group(&counts, members).with_racks(&brokers, |topic| replicas.get(topic).map(Vec::as_slice))
}

/// The full plan of each name, checked.
#[track_caller]
fn plan(name: &str, group: &Group) -> Plan {
    let plan = Builtin::by_name(name).unwrap().plan(group);
    assert_eq!(check(group, &plan, Completeness::Full), Ok(()), "{name}");
    plan
}

/// What leaves the leader of a cooperative group, and how many partitions are held back.
#[track_caller]
fn adjusted(group: &Group) -> (Vec<String>, usize) {
    let mut plan = plan(COOPERATIVE_STICKY, group);
    let withheld = withhold(group, &mut plan);
    assert_eq!(assert_safe(group, &plan), Ok(()));
    (named(group, &plan), withheld)
}

fn sizes(plan: &Plan) -> Vec<usize> {
    plan.assignments.iter().map(|a| a.partitions.len()).collect()
}

/// What members tell in the next generation: that they own what the plan gave them.
fn next(
    members: &[MemberSubscription],
    generation: i32,
    group: &Group,
    plan: &Plan,
) -> Vec<MemberSubscription> {
    let mut members = members.to_vec();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    for (member, assignment) in members.iter_mut().zip(&plan.assignments) {
        member.subscription.owned = group.by_name(&assignment.partitions);
        member.subscription.generation = Some(generation);
    }
    members
}

/// Plays cooperative rounds until nothing is held back, each of them safe; returns what the group ends with and how many rounds it
/// took.
#[track_caller]
fn settle(
    topics: &[(&str, u32)],
    mut members: Vec<MemberSubscription>,
) -> (Vec<MemberSubscription>, Vec<String>, i32) {
    for round in 1..10 {
        let group = group(topics, members.clone());
        let mut plan = plan(COOPERATIVE_STICKY, &group);
        let withheld = withhold(&group, &mut plan);
        assert_eq!(assert_safe(&group, &plan), Ok(()));
        members = next(&members, 100 + round, &group, &plan);
        if withheld == 0 {
            return (members, named(&group, &plan), round);
        }
    }
    panic!("it does not end: {members:#?}")
}

/// A consumer with a sticky strategy failed when a topic that it was subscribed to had been deleted.
#[test]
fn kafka_7962_a_topic_that_is_gone_is_nobodys() {
    let members = vec![
        claimant("a", &["gone", "t"], 1, &[("gone", &[0, 1]), ("t", &[0])]),
        claimant("b", &["gone"], 1, &[("gone", &[2])]),
        claimant("c", &["gone", "t"], 1, &[("t", &[1])]),
    ];
    for (topics, given) in [(&[("t", 2)][..], ["t0", "", "t1"]), (&[("gone", 0)], ["", "", ""])] {
        let group = group(topics, members.clone());
        for name in NAMES {
            assert_eq!(named(&group, &plan(name, &group)), given, "{name}");
        }
    }
}

/// Members of unlike subscriptions crashed the leader, or gave all partitions of a topic to one of its subscribers.
#[test]
fn librdkafka_2121_roundrobin_of_unlike_subscriptions_goes_round_the_subscribers_of_each_topic() {
    let members = [("m1", &["A"][..]), ("m2", &["A"]), ("m3", &["B"]), ("m4", &["B", "C"])]
        .map(|(id, topics)| member(id, topics, None, &[]));
    let group = group(&[("A", 4), ("B", 3), ("C", 2)], members.to_vec());
    assert_eq!(run(ROUNDROBIN, &group), ["A0 A2", "A1 A3", "B0 B2", "B1 C0 C1"]);
}

/// Each topic began anew with the first member: of many topics with few partitions it got nearly all.
#[test]
fn kafkajs_635_roundrobin_goes_on_with_the_next_member_in_the_next_topic() {
    let topics = ["t0", "t1", "t2", "t3", "t4", "t5"];
    let group =
        group(&topics.map(|t| (t, 1)), ["a", "b", "c"].map(|id| member(id, &topics, None, &[])).to_vec());
    assert_eq!(run(ROUNDROBIN, &group), ["t00 t30", "t10 t40", "t20 t50"]);
}

/// Topics were matched with racks all together, whoever subscribes to them: with two co-partitioned pairs of topics, each read by
/// other members, the leader failed.
#[test]
fn kafka_14891_range_aligns_each_co_partitioned_set_of_topics_with_its_own_subscribers_racks() {
    let by_turns: [&[i32]; 4] = [&[0], &[1], &[0], &[1]];
    let group = racked(
        &[("t1", &by_turns), ("t2", &by_turns), ("u1", &by_turns[..2]), ("u2", &by_turns[..2])],
        [
            (member("m1", &["t1", "t2"], None, &[]), "a"),
            (member("m2", &["t1", "t2"], None, &[]), "b"),
            (member("m3", &["u1", "u2"], None, &[]), "b"),
            (member("m4", &["u1", "u2"], None, &[]), "a"),
        ],
    );
    plan(RANGE, &group);
    assert_eq!(run(RANGE, &group), ["t10 t12 t20 t22", "t11 t13 t21 t23", "u11 u21", "u10 u20"]);
}

/// Two members claimed the same partitions in one generation, and each was given them again.
#[test]
fn kafka_12984_what_two_members_claim_in_one_generation_goes_to_one_of_them_once_both_have_let_go() {
    let topics = [("t", 4)];
    let members =
        vec![claimant("a", &["t"], 5, &[("t", &[0, 1])]), claimant("b", &["t"], 5, &[("t", &[1, 2])])];
    let group = group(&topics, members.clone());
    for name in BOTH_STICKY {
        let plan = plan(name, &group);
        assert_eq!(sizes(&plan), [2, 2], "{name}");
        assert!(plan.assignments[0].partitions.contains(&0) && plan.assignments[1].partitions.contains(&2));
    }
    let (adjusted, withheld) = adjusted(&group);
    assert!(withheld == 1 && !adjusted.join(" ").contains("t1"), "{adjusted:?}");
    let (_, settled, rounds) = settle(&topics, members);
    assert!(rounds == 2 && settled.join(" ").contains("t1"), "{settled:?}");
}

/// Claims of members that had missed a generation were dropped: their partitions went to others at once, while they still read
/// them.
#[test]
fn kafka_14639_what_a_member_of_an_old_generation_alone_claims_is_not_given_away_in_the_same_round() {
    let topics = [("t", 6)];
    let members = vec![
        claimant("a", &["t"], 3, &[("t", &[0, 1, 2, 3])]),
        claimant("b", &["t"], 9, &[("t", &[4])]),
        claimant("c", &["t"], 9, &[]),
    ];
    let group = group(&topics, members.clone());
    for name in BOTH_STICKY {
        let kept = &plan(name, &group).assignments[0].partitions;
        assert!(kept.len() == 2 && kept.iter().all(|p| (0..4).contains(p)), "{name}: {kept:?}");
    }
    let (given, withheld) = adjusted(&group);
    assert_eq!(withheld, 2, "{given:?}");
    assert_eq!(settle(&topics, members).2, 2);
}

/// The check of cooperative plans took a partition that a stale member still claimed for one that it had not given up: the group
/// never settled.
#[test]
fn kafka_13406_a_stale_claim_does_not_keep_a_group_from_settling() {
    let topics = [("t", 4)];
    let members = vec![
        claimant("a", &["t"], 8, &[("t", &[0, 1])]),
        claimant("stale", &["t"], 3, &[("t", &[0, 1, 2, 3])]),
        claimant("z", &["t"], 8, &[("t", &[2, 3])]),
    ];
    let (given, withheld) = adjusted(&group(&topics, members.clone()));
    assert_eq!(withheld, 1, "the newer claimant lets go first: {given:?}");
    let (_, settled, rounds) = settle(&topics, members);
    assert_eq!(rounds, 2);
    assert_eq!(settled.iter().map(|s| s.split_whitespace().count()).sum::<usize>(), 4);
}

/// A partition that its owner lost because it is in another rack was given to the next one in the same round.
#[test]
fn kafka_15170_what_moves_for_the_sake_of_racks_is_held_back_for_a_round() {
    let members = |a: &[u32], b: &[u32]| {
        [(claimant("m1", &["t"], 1, &[("t", a)]), "a"), (claimant("m2", &["t"], 1, &[("t", b)]), "b")]
    };
    let replicas: [&[i32]; 4] = [&[1], &[0], &[0], &[1]];
    let racked = |a, b| racked(&[("t", &replicas)], members(a, b));
    // Each owns one partition of the other's rack.
    let crossed = racked(&[0, 1], &[2, 3]);
    assert_eq!(run(COOPERATIVE_STICKY, &crossed), ["t1 t2", "t0 t3"]);
    assert_eq!(adjusted(&crossed), (vec!["t1".into(), "t3".into()], 2));
    assert_eq!(adjusted(&racked(&[1], &[3])), (vec!["t1 t2".into(), "t0 t3".into()], 0));
}

/// The same change: members at their share went on counting as ones with room, and got more than it.
#[test]
fn kafka_15170_nobody_gets_more_than_its_share_for_the_sake_of_racks() {
    // Five partitions for three members, all in the rack of two of them.
    let replicas: [&[i32]; 5] = [&[0], &[0], &[0], &[0], &[0]];
    let mut elsewhere = replicas;
    elsewhere[4] = &[2];
    let members = || {
        [
            (member("m1", &["t"], None, &[]), "a"),
            (member("m2", &["t"], None, &[]), "a"),
            (member("m3", &["t"], None, &[]), "b"),
        ]
    };
    for replicas in [&replicas[..], &elsewhere] {
        for name in BOTH_STICKY {
            let mut sizes = sizes(&plan(name, &racked(&[("t", replicas)], members())));
            sizes.sort_unstable();
            assert_eq!(sizes, [1, 2, 2], "{name}");
        }
    }
}

/// When all subscriptions changed at once, a plan was sometimes evened out only in a third round, though the second could have.
#[test]
fn kafka_8767_changed_subscriptions_settle_within_two_rounds() {
    let names: Vec<String> = (0..8).map(|i| format!("t{i}")).collect();
    let topics: Vec<(&str, u32)> = names.iter().map(String::as_str).zip([3, 1, 6, 4, 2, 5, 3, 4]).collect();
    let mut random = 7u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    for case in 0..60 {
        let mut some = || -> Vec<String> { names.iter().filter(|_| below(3) > 0).cloned().collect() };
        let mut members: Vec<_> = (0..7).map(|i| member(&format!("m{i}"), &[], None, &[])).collect();
        for member in &mut members {
            member.subscription.topics = some().into();
        }
        let (mut members, ..) = settle(&topics, members);
        for member in &mut members {
            member.subscription.topics = some().into();
            // A member gives up at once what it is no longer subscribed to.
            let topics = &member.subscription.topics;
            member.subscription.owned.retain(|owned| topics.contains(&owned.topic));
        }
        let (_, _, rounds) = settle(&topics, members);
        assert!(rounds <= 2, "case {case}: {rounds} rounds");
    }
}

/// A third member came, and left again: partitions went back and forth between the two that had stayed.
#[test]
fn librdkafka_3306_who_stays_keeps_everything_when_another_comes_and_goes() {
    let topics = [("t", 10)];
    let owned = |members: &[MemberSubscription]| -> Vec<Vec<u32>> {
        let topics = members.iter().map(|m| &m.subscription.owned);
        topics.map(|topics| topics.iter().flat_map(|t| t.partitions.clone()).collect()).collect()
    };
    let lost = |before: &[Vec<u32>], after: &[Vec<u32>]| -> usize {
        before.iter().zip(after).map(|(b, a)| b.iter().filter(|p| !a.contains(p)).count()).sum()
    };
    let (one, ..) = settle(&topics, vec![member("a", &["t"], None, &[])]);
    let join = |members: &[MemberSubscription], id: &str| -> Vec<MemberSubscription> {
        members.iter().cloned().chain([member(id, &["t"], None, &[])]).collect()
    };
    let (two, ..) = settle(&topics, join(&one, "b"));
    assert_eq!(lost(&owned(&one), &owned(&two)), 5);
    let (three, ..) = settle(&topics, join(&two, "c"));
    assert_eq!(lost(&owned(&two), &owned(&three)), 3, "no more than the newcomer's share moves");
    let (two_again, _, rounds) = settle(&topics, three[..2].to_vec());
    assert_eq!((lost(&owned(&three), &owned(&two_again)), rounds), (0, 1));
    assert_eq!(owned(&two_again).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
}

/// Where members of several generations claimed the same partitions, the last one looked at got them.
#[test]
fn librdkafka_4252_of_several_claims_the_one_of_the_highest_generation_stands_in_whatever_order() {
    let claims = [(8, [0, 2, 4]), (10, [0, 1, 3]), (9, [1, 2, 5])];
    let stand: [&[u32]; 3] = [&[4], &[0, 1, 3], &[2, 5]];
    for ids in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["c", "a", "b"]] {
        let members = ids.iter().zip(&claims);
        let members =
            members.map(|(id, (generation, owned))| claimant(id, &["t"], *generation, &[("t", owned)]));
        let group = group(&[("t", 6)], members.collect());
        for name in BOTH_STICKY {
            let plan = plan(name, &group);
            for (id, stand) in ids.iter().zip(stand) {
                let place = group.members().iter().position(|m| m.id == *id).unwrap();
                let partitions = &plan.assignments[place].partitions;
                let kept = partitions.iter().filter(|p| stand.contains(p)).count();
                assert_eq!((partitions.len(), kept), (2, stand.len().min(2)), "{name}, {id}: {plan:?}");
            }
        }
    }
}

/// A leader that took the group for an eager one planned as if all partitions were free, while cooperative members still read
/// theirs.
#[test]
fn franz_go_366_an_eager_leader_takes_nothing_from_members_that_report_what_they_own() {
    for name in [RANGE, ROUNDROBIN, STICKY] {
        let topics = [("t", 6)];
        let mut members =
            vec![claimant("m", &["t"], 1, &[("t", &[0, 1, 2, 3, 4, 5])]), member("a", &["t"], None, &[])];
        let mut withheld = Vec::new();
        for generation in 2..4 {
            let group = group(&topics, members.clone());
            let mut plan = plan(name, &group);
            withheld.push(withhold(&group, &mut plan));
            assert_eq!(assert_safe(&group, &plan), Ok(()));
            members = next(&members, generation, &group, &plan);
        }
        assert_eq!(withheld, [3, 0], "{name}");
        let owned = |m: &MemberSubscription| m.subscription.owned[0].partitions.len();
        assert_eq!(members.iter().map(owned).collect::<Vec<_>>(), [3, 3], "{name}");
    }
}

/// Consumers of an eager sticky strategy, which tell what they had in user data alone.
#[derive(Default)]
struct Eager {
    members: BTreeMap<&'static str, Builtin>,
    generation: i32,
}

impl Eager {
    /// One rebalance of these members, led by the first: what each of them has afterwards.
    fn rebalance(&mut self, members: &[&'static str], partitions: u32) -> Vec<String> {
        let cx = Context::default();
        let joined = members.iter().map(|id| {
            let strategy = self.members.entry(id).or_insert_with(|| Builtin::by_name(STICKY).unwrap());
            let interest = strategy.subscription(&cx, &["t".into()]).unwrap();
            let mut joined = member(id, &["t"], None, &[]);
            joined.subscription.user_data = interest.user_data;
            let blob = crate::wire::subscription::encode(&joined.subscription, 3).unwrap();
            joined.subscription = crate::wire::subscription::decode(&blob).unwrap();
            joined
        });
        let group = group(&[("t", partitions)], joined.collect());
        let plan = self.members.get_mut(members[0]).unwrap().assign(&cx, &group).unwrap();
        assert_eq!(check(&group, &plan, Completeness::Full), Ok(()));
        self.generation += 1;
        for (member, assignment) in group.members().iter().zip(&plan.assignments) {
            let strategy = self.members.get_mut(member.id.as_str()).unwrap();
            strategy
                .on_assignment(&cx, &group.by_name(&assignment.partitions), None, self.generation)
                .unwrap();
        }
        named(&group, &plan)
    }
}

/// What a member had could not be written into its user data: it failed as soon as it joined for the second time.
#[test]
fn kafka_python_2153_a_member_that_has_partitions_can_join_again() {
    let mut group = Eager::default();
    assert_eq!(group.rebalance(&["a"], 4), ["t0 t1 t2 t3"]);
    assert_eq!(group.rebalance(&["a", "b"], 4), ["t0 t1", "t2 t3"]);
    assert_eq!(group.rebalance(&["b", "a"], 4), ["t0 t1", "t2 t3"]);
    // "a" is away and back. It tells what it had before; "b" has had all of it since, in a newer generation.
    assert_eq!(group.rebalance(&["b"], 4), ["t0 t1 t2 t3"]);
    assert_eq!(group.rebalance(&["b", "a"], 4), ["t2 t3", "t0 t1"]);
}
