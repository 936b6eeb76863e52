use assignor_guest_sdk::log::Level;
use assignor_guest_sdk::testing::{self, GroupBuilder, Host};
use assignor_guest_sdk::{Strategy as _, user_data};
use proptest::prelude::*;

use super::{Capacity, Group, Plan, Weighted, plan};

/// Members `m00`, `m01`, … of these weights, all subscribed to topics `t00`, `t01`, … of these sizes.
fn group(weights: &[f64], topics: &[u32]) -> Group {
    subscribed(weights, topics, |_, _| true)
}

fn subscribed(weights: &[f64], topics: &[u32], subscribed: impl Fn(usize, usize) -> bool) -> Group {
    let name = |topic: usize| format!("t{topic:02}");
    let group = topics
        .iter()
        .enumerate()
        .fold(GroupBuilder::new(), |group, (topic, &count)| group.topic(&name(topic), count));
    let members = weights.iter().enumerate().fold(group, |group, (member, &weight)| {
        let id = format!("m{member:02}");
        let topics = (0..topics.len()).filter(|&topic| subscribed(member, topic)).map(name);
        group.member(&id, topics).user_data(&id, &Capacity::V1 { weight })
    });
    members.build()
}

/// The members and topics of `group`, with what they own there, for those members and topics that both have.
fn carry_over(from: &Group, to: &Group) -> Group {
    let mut members = to.raw_members().to_vec();
    for member in &mut members {
        let Some(before) = from.member(&member.id) else { continue };
        member.generation = before.generation();
        member.owned = before
            .owned()
            .filter_map(|owned| {
                let topic = to.topic(owned.topic)?;
                let subscribed = member.topics.contains(&topic.number());
                topic.numbers().nth(owned.partition as usize).filter(|_| subscribed)
            })
            .collect();
    }
    Group::new(to.raw_topics().to_vec(), members)
}

fn loads(group: &Group, plan: &Plan) -> Vec<usize> {
    group.members().map(|member| plan.load(member)).collect()
}

/// For each member how many partitions of each topic it gets.
fn spread(group: &Group, plan: &Plan) -> Vec<Vec<usize>> {
    let of = |member| {
        move |topic: assignor_guest_sdk::Topic<'_>| {
            plan.numbers(member).iter().filter(|number| topic.numbers().contains(number)).count()
        }
    };
    group.members().map(|member| group.topics().map(of(member)).collect()).collect()
}

/// How many partitions changed from one member that is still there to another.
fn moved(before: &Group, plan: &Plan) -> usize {
    let keeps = |member: assignor_guest_sdk::Member<'_>| {
        plan.numbers(member).iter().filter(|number| member.owned_numbers().contains(number)).count()
    };
    before.members().map(|member| member.owned_numbers().len() - keeps(member)).sum()
}

/// The largest distance of a member's part of a topic from its proportion.
fn unevenness(group: &Group, plan: &Plan, weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    let mut worst = 0.0f64;
    for (of_member, weight) in spread(group, plan).iter().zip(weights) {
        for (&has, topic) in of_member.iter().zip(group.topics()) {
            worst = worst.max((has as f64 - f64::from(topic.partition_count()) * weight / sum).abs());
        }
    }
    worst
}

#[test]
fn the_example_of_the_documentation() {
    let group = GroupBuilder::new()
        .topic("clicks", 6)
        .topic("orders", 3)
        .member("m1", ["clicks", "orders"])
        .member("m2", ["clicks", "orders"])
        .user_data("m2", &Capacity::V1 { weight: 2.0 })
        .member("m3", ["clicks", "orders"])
        .user_data("m3", &Capacity::V1 { weight: 1.5 })
        .build();
    let plan = plan(&group);
    testing::check(&group, &plan).unwrap();
    assert_eq!(spread(&group, &plan), [[1, 1], [3, 1], [2, 1]]);
}

#[test]
fn whole_shares_are_exact_in_total_and_in_every_topic() {
    let group = group(&[1.0, 2.0, 3.0], &[12, 6, 60]);
    let plan = plan(&group);
    testing::check(&group, &plan).unwrap();
    assert_eq!(spread(&group, &plan), [[2, 1, 10], [4, 2, 20], [6, 3, 30]]);
}

#[test]
fn a_heavy_member_gets_no_long_runs() {
    let weights: Vec<f64> = std::iter::once(100.0).chain([1.0; 99]).collect();
    let group = group(&weights, &[20; 50]);
    let plan = plan(&group);
    testing::check(&group, &plan).unwrap();
    assert!(unevenness(&group, &plan, &weights) < 2.0, "{:?}", spread(&group, &plan)[0]);
}

#[test]
fn more_members_than_partitions_leave_the_lightest_without() {
    let group = group(&[1.0, 5.0, 1.0, 5.0], &[2]);
    assert_eq!(loads(&group, &plan(&group)), [0, 1, 0, 1]);
}

#[test]
fn when_a_member_joins_only_its_own_share_moves() {
    let weights = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0];
    let topics = [12, 7, 30, 64];
    let six = group(&weights[..6], &topics);
    let before = testing::after(&six, &plan(&six));
    let joined = carry_over(&before, &group(&weights, &topics));
    let after = plan(&joined);
    testing::check(&joined, &after).unwrap();
    assert_eq!(moved(&joined, &after), plan_load(&joined, &after, "m06"));
    assert!(unevenness(&joined, &after, &weights) < 2.0);
}

#[test]
fn when_a_member_leaves_only_what_it_had_moves() {
    let weights = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0];
    let topics = [12, 7, 30, 64];
    let seven = group(&weights, &topics);
    let before = testing::after(&seven, &plan(&seven));
    let left = carry_over(&before, &group(&weights[..6], &topics));
    let after = plan(&left);
    testing::check(&left, &after).unwrap();
    assert_eq!(moved(&left, &after), 0);
}

fn plan_load(group: &Group, plan: &Plan, member: &str) -> usize {
    plan.load(group.member(member).unwrap())
}

#[test]
fn churn_keeps_topics_evenly_spread() {
    let topics = [24, 12, 36, 24, 6, 48, 24, 24, 24, 30];
    let names: Vec<String> = (0..topics.len()).map(|topic| format!("t{topic:02}")).collect();
    let mut now = group(&[1.0; 8], &topics);
    now = testing::after(&now, &plan(&now));
    let mut there = 0b1111_1111_1111u32;
    let mut worst = 0.0f64;
    for round in 0u32..200 {
        // One or two of the first eleven members come or go; the twelfth stays.
        there ^= 1 << ((round.wrapping_mul(0x9E37_79B9) >> 16) % 11);
        there ^= (round % 3 / 2) << ((round.wrapping_mul(0x85EB_CA6B) >> 16) % 11);
        let members: Vec<u32> = (0..12).filter(|member| there >> member & 1 == 1).collect();
        let weights: Vec<f64> = members.iter().map(|member| f64::from(1 + member % 3)).collect();
        let mut next = GroupBuilder::new();
        for (name, &count) in names.iter().zip(&topics) {
            next = next.topic(name, count);
        }
        for (member, &weight) in members.iter().zip(&weights) {
            let id = format!("m{member:02}");
            next = next.member(&id, names.clone()).user_data(&id, &Capacity::V1 { weight });
        }
        now = carry_over(&now, &next.build());
        let plan = plan(&now);
        testing::check(&now, &plan).unwrap();
        worst = worst.max(unevenness(&now, &plan, &weights));
        now = testing::after(&now, &plan);
    }
    assert!(worst < 5.0, "{worst}");
}

#[test]
fn unequal_subscriptions_are_levelled_through_chains() {
    // Ten partitions each; only what m02 alone does not need to take from t02 is free for m01, and so on down to m00.
    let chain = |member: usize, topic: usize| match member {
        0 => topic == 0 || topic == 1,
        1 => topic == 1 || topic == 2,
        _ => topic == 2,
    };
    let group = subscribed(&[1.0; 3], &[10; 3], chain);
    let even = plan(&group);
    testing::check(&group, &even).unwrap();
    assert_eq!(loads(&group, &even), [10, 10, 10]);

    let weighted = subscribed(&[1.0, 1.0, 4.0], &[10; 3], chain);
    let plan = plan(&weighted);
    testing::check(&weighted, &plan).unwrap();
    assert_eq!(loads(&weighted, &plan), [10, 10, 10]);
}

#[test]
fn many_small_rounding_errors_between_classes_do_not_add_up() {
    // One class reads everything, the other every second topic.
    let group =
        subscribed(&[1.0, 1.0, 1.0, 1.0, 1.0], &[3; 50], |member, topic| member < 3 || topic % 2 == 0);
    let plan = plan(&group);
    testing::check(&group, &plan).unwrap();
    assert!(loads(&group, &plan).iter().all(|load| (29..=31).contains(load)), "{:?}", loads(&group, &plan));
}

#[test]
fn a_member_without_a_weight_or_with_garbage_counts_as_one() {
    let bad = |weight: f64| user_data::encode(&Capacity::V1 { weight }).unwrap();
    for bytes in [vec![], vec![7; 40], bad(0.0), bad(-1.0), bad(f64::NAN), bad(f64::INFINITY), bad(2e6)] {
        let host = Host::new().install();
        let group = GroupBuilder::new()
            .topic("t", 8)
            .member("m1", ["t"])
            .member("m2", ["t"])
            .user_data("m2", &Capacity::V1 { weight: 2.0 })
            .member("m3", ["t"])
            .user_data_bytes("m3", bytes)
            .build();
        assert_eq!(loads(&group, &plan(&group)), [2, 4, 2]);
        let warned = "1 members sent something that is no weight and count as 1; the first is m3";
        assert_eq!(host.log_lines(), [(Level::Warn, warned.to_owned())]);
    }
}

#[test]
fn the_weight_is_sent_as_typed_user_data() {
    let _host = Host::new().config("weight", " 2.5 ").install();
    let interest = Weighted.subscription(vec!["t".into()]).unwrap();
    assert_eq!(interest.topics, ["t"]);
    assert_eq!(user_data::decode(&interest.user_data.unwrap()), Ok(Capacity::V1 { weight: 2.5 }));
}

#[test]
fn without_configuration_the_weight_is_one() {
    let _host = Host::new().install();
    let interest = Weighted.subscription(Vec::new()).unwrap();
    assert_eq!(user_data::decode(&interest.user_data.unwrap()), Ok(Capacity::V1 { weight: 1.0 }));
}

#[test]
fn a_weight_that_is_none_is_refused_in_words() {
    for weight in ["0", "-1", "NaN", "inf", "1000001"] {
        let _host = Host::new().config("weight", weight).install();
        let error = Weighted.subscription(Vec::new()).unwrap_err().to_string();
        let words = format!(
            "the configuration key \"weight\" has the value {weight:?}: a weight is a number greater than 0, at most 1000000"
        );
        assert_eq!(error, words);
    }
    let _host = Host::new().config("weight", "heavy").install();
    let error = Weighted.subscription(Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "the configuration key \"weight\" has the value \"heavy\": invalid float literal");
}

fn weights(members: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![Just(1.0), (1u32..20).prop_map(f64::from), 1e-3..1e3f64], members)
}

proptest! {
    #[test]
    fn equal_subscriptions(
        weights in weights(1..30),
        topics in prop::collection::vec(1u32..40, 1..12),
        joining in weights(0..6),
        leaving in 0usize..30,
    ) {
        let first = group(&weights, &topics);
        let plan1 = plan(&first);
        prop_assert_eq!(testing::check(&first, &plan1), Ok(()));
        prop_assert_eq!(&plan(&first), &plan1);
        let (sum, total) = (weights.iter().sum::<f64>(), f64::from(first.partition_count()));
        for (load, weight) in loads(&first, &plan1).iter().zip(&weights) {
            prop_assert!((*load as f64 - total * weight / sum).abs() < 1.0 + 1e-6);
        }

        let settled = testing::after(&first, &plan1);
        prop_assert_eq!(moved(&settled, &plan(&settled)), 0);

        // Whoever joins or leaves, a member gives up only what is above its new quota.
        let mut changed_weights: Vec<f64> = weights.iter().chain(&joining).copied().collect();
        changed_weights.truncate(changed_weights.len().saturating_sub(leaving).max(1));
        let changed = carry_over(&settled, &group(&changed_weights, &topics));
        let plan2 = plan(&changed);
        prop_assert_eq!(testing::check(&changed, &plan2), Ok(()));
        let above: usize =
            changed.members().map(|m| m.owned_numbers().len().saturating_sub(plan2.load(m))).sum();
        prop_assert_eq!(moved(&changed, &plan2), above);
    }

    #[test]
    fn unequal_subscriptions(
        weights in weights(1..12),
        topics in prop::collection::vec(1u32..30, 1..8),
        seeds in prop::collection::vec(any::<u8>(), 12),
        fewer in 0usize..4,
    ) {
        let chosen = |member: usize, topic: usize| seeds[member] >> topic & 1 == 1;
        let first = subscribed(&weights, &topics, chosen);
        let plan1 = plan(&first);
        prop_assert_eq!(testing::check(&first, &plan1), Ok(()));
        let settled = testing::after(&first, &plan1);
        prop_assert_eq!(moved(&settled, &plan(&settled)), 0);

        let left = subscribed(&weights[fewer.min(weights.len() - 1)..], &topics, chosen);
        let changed = carry_over(&settled, &left);
        prop_assert_eq!(testing::check(&changed, &plan(&changed)), Ok(()));
    }
}
