//! Tests of the doubles, and through them of the wrappers around the imports.

use std::time::Duration;

use super::*;
use crate::log::Level;
use crate::{Plan, built_in, cluster, config, context, control, lag};

fn group() -> crate::Group {
    GroupBuilder::new().topic("t", 3).member("a", ["t"]).member("b", Vec::<String>::new()).build()
}

#[test]
fn a_host_that_knows_nothing_answers_so() {
    let group = group();
    let topic = group.topic("t").unwrap();
    assert_eq!((context::group_id(), context::member_id(), context::generation()), (None, None, None));
    assert_eq!((config::text("k"), config::keys()), (None, vec![]));
    assert!(config::require::<u32>("k").unwrap_err().to_string().contains("\"k\" is not set"));
    assert!(cluster::nodes().unwrap_err().to_string().starts_with("unavailable"));
    assert!(cluster::leaders(topic).is_err() && cluster::replicas(topic).is_err());
    assert!(lag::of(topic).unwrap_err().to_string().starts_with("unavailable"));
    assert!(built_in::assign("range", &group).is_err());
}

#[test]
fn what_a_test_describes_is_what_the_imports_answer() {
    let group = group();
    let topic = group.topic("t").unwrap();
    let host = Host::new()
        .group_id("g")
        .member_id("a")
        .instance_id("i")
        .rack("r")
        .generation(0)
        .now_ms(5)
        .seed(7)
        .config("k", 2)
        .config("bad", "x")
        .node(1, "h", Some("r"))
        .leaders(0, [1, -1, 1])
        .replicas(0, [vec![1], vec![], vec![1, 2]])
        .offsets(0, [0, 1, 2], [9, 9, 9], [4, -1, 10])
        .built_in(|name, members, without| {
            assert_eq!((name, without), ("range", [].as_slice()));
            Ok(vec![vec![0, 1, 2]; 1].into_iter().chain(vec![vec![]; members.len() - 1]).collect())
        })
        .install();
    assert_eq!((context::group_id().as_deref(), context::member_id().as_deref()), (Some("g"), Some("a")));
    assert_eq!((context::instance_id().as_deref(), context::rack().as_deref()), (Some("i"), Some("r")));
    assert_eq!((context::generation(), context::now_ms(), context::seed()), (Some(0), 5, 7));
    assert_eq!(
        (config::get_or("k", 1), config::get_or("absent", 1), config::keys()),
        (Ok(2), Ok(1), vec!["bad".into(), "k".into()])
    );
    assert!(
        matches!(config::get::<u8>("bad"), Err(config::ConfigError::Invalid { value, .. }) if value == "x")
    );
    assert_eq!(cluster::nodes().unwrap()[0].rack.as_deref(), Some("r"));
    assert_eq!(cluster::leaders(topic), Ok(vec![Some(1), None, Some(1)]));
    assert_eq!(cluster::replicas(topic), Ok(vec![vec![1], vec![], vec![1, 2]]));
    assert_eq!(lag::begin_offsets(topic), Ok(vec![Some(0), Some(1), Some(2)]));
    assert_eq!(lag::committed_offsets(topic), Ok(vec![Some(4), None, Some(10)]));
    assert_eq!(lag::of(topic), Ok(vec![Some(5), None, Some(0)]));
    assert_eq!(built_in::assign("range", &group), Ok(Plan::from(vec![vec![0, 1, 2], vec![]])));
    control::request_rebalance(Duration::from_secs(1));
    crate::warn!("{} left", 2);
    crate::info!("done");
    assert_eq!(host.rebalance_requests(), [Duration::from_secs(1)]);
    assert_eq!(host.log_lines(), [(Level::Warn, "2 left".into()), (Level::Info, "done".into())]);
}

#[test]
fn the_host_before_answers_again_when_one_is_dropped() {
    let _outer = Host::new().seed(1).install();
    let inner = Host::new().seed(2).install();
    assert_eq!(context::seed(), 2);
    drop(inner);
    assert_eq!(context::seed(), 1);
}

#[test]
fn each_kind_of_unsound_plan_is_told_apart() {
    let group = group();
    let check =
        |plan: &[&[u32]]| check(&group, &Plan::from(plan.iter().map(|p| p.to_vec()).collect::<Vec<_>>()));
    assert_eq!(check(&[&[2, 0, 1], &[]]), Ok(()));
    assert_eq!(check(&[&[0, 1, 2]]), Err(Unsound::Length { assignments: 1, members: 2 }));
    assert_eq!(check(&[&[0, 1, 2, 3], &[]]), Err(Unsound::OutOfRange { member: "a".into(), number: 3 }));
    assert_eq!(check(&[&[0, 1], &[]]), Err(Unsound::Missing { partition: "t-2".into() }));
    let unsubscribed = Unsound::Unsubscribed { partition: "t-2".into(), member: "b".into() };
    assert_eq!(check(&[&[0, 1], &[2]]), Err(unsubscribed));
    let (first, second) = ("a".into(), "a".into());
    assert_eq!(check(&[&[0, 0], &[]]), Err(Unsound::Duplicate { partition: "t-0".into(), first, second }));
}

#[test]
fn after_a_plan_everyone_owns_what_it_gave() {
    let group = group();
    let next = after(&group, &Plan::from(vec![vec![2, 0], vec![]]));
    let a = next.member("a").unwrap();
    assert_eq!((a.owned_numbers(), a.generation()), ([0, 2].as_slice(), Some(1)));
    assert_eq!(after(&next, &next.plan()).member("a").unwrap().generation(), Some(2));
}

#[test]
#[should_panic(expected = "t-0 is owned by both a and b")]
fn a_group_that_cannot_be_is_not_built() {
    let _ = GroupBuilder::new()
        .topic("t", 1)
        .member("a", ["t"])
        .owned("a", 1, [("t", [0])])
        .member("b", ["t"])
        .owned("b", 1, [("t", [0])])
        .build();
}

/// Each partition, most lag first, to the member with the least lag so far; of members with as much, to the one with the fewest
/// partitions.
fn by_lag(group: &crate::Group) -> Result<Plan, crate::cluster::Unavailable> {
    let mut lags = Vec::new();
    for topic in group.topics() {
        // What isn't known counts as nothing to read: the leader can't wait for it.
        lags.extend(topic.partitions().zip(lag::of(topic)?).map(|(p, lag)| (topic, p, lag.unwrap_or(0))));
    }
    lags.sort_by_key(|&(.., lag)| std::cmp::Reverse(lag));
    let mut plan = group.plan();
    let mut total = vec![0; group.members().len()];
    for (topic, partition, lag) in lags {
        let subscribers = group.members().filter(|m| m.is_subscribed(topic));
        if let Some(member) = subscribers.min_by_key(|m| (total[m.index()], plan.load(*m))) {
            total[member.index()] += lag;
            plan.give(member, partition);
        }
    }
    Ok(plan)
}

/// Partitions without lag made no member's sum grow, so that the first one got all of them.
#[test]
fn lag_based_assignor_1_partitions_without_lag_are_spread_by_count() {
    let mut group = GroupBuilder::new().topic("t", 7);
    for member in ["a", "b", "c"] {
        group = group.member(member, ["t"]);
    }
    let group = group.build();
    let loads = |lags: [i64; 7]| -> Vec<usize> {
        let _host = Host::new().lag(0, lags).install();
        let plan = by_lag(&group).unwrap();
        assert_eq!(check(&group, &plan), Ok(()));
        group.members().map(|m| plan.load(m)).collect()
    };
    assert_eq!(loads([0; 7]), [3, 2, 2]);
    // One is busy with the only lag there is; the others share the rest.
    assert_eq!(loads([0, 0, 9, 0, 0, 0, 0]), [1, 3, 3]);
}
