mod incidents;

use proptest::prelude::*;

use super::*;
use crate::group::MemberSubscription;
use crate::plan::{Completeness, check};
use crate::test_support::{any_group, group, member};

/// The plan in names: for each member, in the order of their ids, its partitions.
fn named(group: &Group, plan: &Plan) -> Vec<String> {
    plan.assignments
        .iter()
        .map(|assignment| {
            let topics = group.by_name(&assignment.partitions);
            let names = topics.iter().flat_map(|t| t.partitions.iter().map(|p| format!("{}{p}", t.topic)));
            names.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn run(builtin: &str, group: &Group) -> Vec<String> {
    named(group, &Builtin::by_name(builtin).unwrap().plan(group))
}

fn fixed(id: &str, instance: &str, topics: &[&str]) -> MemberSubscription {
    MemberSubscription { instance_id: Some(instance.into()), ..member(id, topics, None, &[]) }
}

#[test]
fn range_gives_contiguous_ranges_of_each_topic() {
    let both = ["t", "u"];
    let group =
        group(&[("t", 3), ("u", 3)], vec![member("a", &both, None, &[]), member("b", &both, None, &[])]);
    assert_eq!(run(RANGE, &group), ["t0 t1 u0 u1", "t2 u2"]);
}

#[test]
fn roundrobin_goes_on_across_topics() {
    let both = ["t", "u"];
    let group =
        group(&[("t", 3), ("u", 3)], vec![member("a", &both, None, &[]), member("b", &both, None, &[])]);
    assert_eq!(run(ROUNDROBIN, &group), ["t0 t2 u1", "t1 u0 u2"]);
}

/// The worked example in the documentation of Kafka's RoundRobinAssignor.
#[test]
fn roundrobin_skips_members_that_are_not_subscribed() {
    let members = vec![
        member("C0", &["t0"], None, &[]),
        member("C1", &["t0", "t1"], None, &[]),
        member("C2", &["t0", "t1", "t2"], None, &[]),
    ];
    let group = group(&[("t0", 1), ("t1", 2), ("t2", 3)], members);
    assert_eq!(run(ROUNDROBIN, &group), ["t00", "t10", "t11 t20 t21 t22"]);
}

#[test]
fn static_members_come_first_in_the_order_of_their_instance_ids() {
    let members = vec![member("a", &["t"], None, &[]), fixed("b", "z", &["t"]), fixed("c", "y", &["t"])];
    let group = group(&[("t", 4)], members);
    assert_eq!(run(RANGE, &group), ["t3", "t2", "t0 t1"]);
    assert_eq!(run(ROUNDROBIN, &group), ["t2", "t1", "t0 t3"]);
}

#[test]
fn keep_moves_nothing_and_fills_up_the_least_loaded() {
    let members = vec![
        member("a", &["t"], Some(1), &[0, 1, 2]),
        member("b", &["t"], Some(1), &[]),
        member("c", &["t"], None, &[]),
    ];
    let group = group(&[("t", 6)], members);
    assert_eq!(run(KEEP, &group), ["t0 t1 t2", "t3 t5", "t4"]);
}

#[test]
fn no_members_or_no_topics_is_an_empty_plan() {
    for builtin in NAMES {
        assert!(run(builtin, &group(&[("t", 3)], vec![])).is_empty());
        assert_eq!(run(builtin, &group(&[], vec![member("a", &["t"], None, &[])])), [""]);
    }
}

proptest! {
    #[test]
    fn every_built_in_gives_a_valid_and_complete_plan_for_any_group(group in any_group()) {
        for builtin in NAMES {
            let plan = Builtin::by_name(builtin).unwrap().plan(&group);
            prop_assert_eq!(check(&group, &plan, Completeness::Full), Ok(()), "{}", builtin);
        }
        prop_assert_eq!(check(&group, &Builtin::hold(&group), Completeness::Partial), Ok(()));
    }

    #[test]
    fn keep_takes_nothing_from_anyone(group in any_group()) {
        let plan = Builtin::keep().plan(&group);
        for (member, assignment) in group.members().iter().zip(&plan.assignments) {
            prop_assert!(member.owned.iter().all(|p| assignment.partitions.contains(p)));
        }
    }
}
