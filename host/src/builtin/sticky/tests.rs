use std::collections::BTreeMap;

use super::*;
use crate::builtin::{Builtin, COOPERATIVE_STICKY};
use crate::group::{MemberSubscription, TopicPartitions};
use crate::plan::{Completeness, assert_safe, check, withhold};
use crate::test_support::{any_group, group, member};
use proptest::prelude::*;

/// The plan by member, as partition numbers.
fn plan(group: &Group) -> Vec<Vec<u32>> {
    assign(group, false).0.assignments.into_iter().map(|a| a.partitions).collect()
}

fn claims(id: &str, generation: i32, owned: &[u32]) -> MemberSubscription {
    member(id, &["t"], Some(generation), owned)
}

#[test]
fn a_fresh_group_is_dealt_out_in_turn() {
    let fresh = group(
        &[("t", 3), ("u", 2)],
        vec![member("b", &["t", "u"], None, &[]), member("a", &["t", "u"], None, &[])],
    );
    assert_eq!(plan(&fresh), [vec![0, 2, 4], vec![1, 3]]);
}

#[test]
fn owners_keep_their_share_and_the_rest_goes_to_the_new_member() {
    let joined = group(
        &[("t", 7)],
        vec![claims("a", 1, &[0, 2, 4, 6]), claims("b", 1, &[1, 3, 5]), claims("c", 1, &[])],
    );
    assert_eq!(plan(&joined), [vec![0, 2, 4], vec![1, 3], vec![5, 6]]);
}

#[test]
fn the_larger_share_stays_with_those_who_have_it() {
    let left = group(&[("t", 5)], vec![claims("a", 1, &[0]), claims("b", 1, &[1, 2, 3])]);
    assert_eq!(plan(&left), [vec![0, 4], vec![1, 2, 3]]);
}

#[test]
fn of_several_with_a_larger_share_those_keep_it_that_javas_hash_map_has_first() {
    // By their hashes "consumer3" comes before "consumer2" before "consumer1".
    let members =
        vec![claims("consumer1", 1, &[0, 2]), claims("consumer2", 1, &[1, 3]), claims("consumer3", 1, &[])];
    assert_eq!(plan(&group(&[("t", 4)], members)), [vec![0], vec![1, 3], vec![2]]);
}

#[test]
fn unequal_subscriptions_take_the_general_path_and_even_out() {
    let members = vec![member("a", &["t", "u"], Some(1), &[0, 1, 2, 3]), member("b", &["t"], Some(1), &[])];
    let odd = group(&[("t", 4), ("u", 1)], members);
    let (plan, path, racks) = assign(&odd, false);
    assert_eq!((path, racks), (StickyPath::General, false));
    let sizes: Vec<usize> = plan.assignments.iter().map(|a| a.partitions.len()).collect();
    assert_eq!(sizes, [3, 2]);
}

#[test]
fn a_member_that_asks_for_nothing_gets_nothing() {
    let idle = group(&[("t", 3)], vec![member("a", &[], None, &[]), member("b", &["t"], None, &[])]);
    assert_eq!(plan(&idle), [vec![], vec![0, 1, 2]]);
}

#[test]
fn a_partition_goes_back_to_its_owner_of_an_older_generation_if_that_evens_out() {
    // "b" owns all of t; "c" had t0 before. "a" would be the next in order. "x" takes the group off the uniform path.
    let members = vec![
        claims("a", 2, &[]),
        claims("b", 2, &[0, 1, 2, 3, 4, 5]),
        claims("c", 1, &[0]),
        member("x", &["u"], Some(2), &[]),
    ];
    let stale = group(&[("t", 6), ("u", 1)], members);
    assert_eq!(plan(&stale), [vec![1, 2], vec![4, 5], vec![0, 3], vec![6]]);
}

/// Each member asks for one topic more than the one before, and the last one owns all of them. To find the least loaded subscriber by
/// going over all members from the least loaded one on took minutes from some thousand members on.
#[test]
fn many_distinct_subscriptions_even_out_from_one_owner_of_everything() {
    let topics: Vec<String> = (100..160).map(|n| format!("t{n}")).collect();
    let members = (1..=topics.len()).map(|n| {
        let mut member = member(&topics[n - 1], &[], Some(1), &[]);
        member.subscription.topics = topics[..n].into();
        if n == topics.len() {
            member.subscription.owned = topics
                .iter()
                .map(|topic| TopicPartitions { topic: topic.clone(), partitions: (0..20).collect() })
                .collect();
        }
        member
    });
    let sizes: Vec<(&str, u32)> = topics.iter().map(|topic| (topic.as_str(), 20)).collect();
    let ladder = group(&sizes, members.collect());
    assert!(plan(&ladder).iter().all(|partitions| partitions.len() == 20));
}

/// Neighbours in a row share a topic, and the last member owns nothing: load seeps through the row, a little in each of many rounds.
#[test]
fn load_seeps_through_a_row_of_members_until_no_neighbour_has_two_less() {
    let topics: Vec<String> = (100..140).map(|n| format!("t{n}")).collect();
    let members = (0..=topics.len()).map(|n| {
        let mut member = member(&format!("m{n:02}"), &[], Some(1), &[]);
        member.subscription.topics = topics[n.saturating_sub(1)..topics.len().min(n + 1)].into();
        if let Some(topic) = topics.get(n) {
            member.subscription.owned =
                vec![TopicPartitions { topic: topic.clone(), partitions: (0..300).collect() }];
        }
        member
    });
    let sizes: Vec<(&str, u32)> = topics.iter().map(|topic| (topic.as_str(), 300)).collect();
    let row = plan(&group(&sizes, members.collect()));
    assert!(row.array_windows().all(|[a, b]| a.len().abs_diff(b.len()) <= 1));
    assert!(row.last().is_some_and(|last| last.len() > 270));
}

#[test]
fn of_those_with_too_much_that_one_gives_up_a_partition_which_another_member_has_in_its_rack() {
    // "a" and "b" own one too many, and only one of them may keep it. Of all that they own t1 alone is in the rack of "c".
    let mut third = claims("c", 1, &[]);
    third.subscription.rack = Some("r".into());
    let joined = group(&[("t", 4)], vec![claims("a", 1, &[0, 1]), claims("b", 1, &[2, 3]), third]);
    let replicas: Vec<Vec<i32>> = vec![vec![], vec![7], vec![], vec![]];
    let joined = joined.with_racks(&BTreeMap::from([(7, "r".to_owned())]), |_| Some(replicas.as_slice()));
    assert_eq!(plan(&joined), [vec![0], vec![2, 3], vec![1]]);
}

/// The group with these partitions in rack "r", the others in "s"; its members are in rack "r".
fn in_racks(group: Group, here: &[u32]) -> Group {
    let replicas: Vec<Vec<i32>> =
        (0..group.partitions()).map(|p| vec![if here.contains(&p) { 1 } else { 2 }]).collect();
    let racks = BTreeMap::from([(1, "r".to_owned()), (2, "s".to_owned())]);
    group.with_racks(&racks, |_| Some(replicas.as_slice()))
}

#[test]
fn what_is_in_no_members_rack_stays_where_it_is_and_goes_first_where_there_is_too_much() {
    let mut members = vec![claims("a", 1, &[0, 3]), claims("b", 1, &[1, 2])];
    members.iter_mut().for_each(|m| m.subscription.rack = Some("r".into()));
    let settled = in_racks(group(&[("t", 4)], members.clone()), &[0, 1]);
    assert_eq!(plan(&settled), [vec![0, 3], vec![1, 2]]);

    let owned =
        |partitions: &[u32]| vec![TopicPartitions { topic: "t".into(), partitions: partitions.into() }];
    members[0].subscription.owned = owned(&[0, 2, 3]);
    members[1].subscription.owned = owned(&[1]);
    let uneven = in_racks(group(&[("t", 4)], members), &[0, 1, 3]);
    assert_eq!(plan(&uneven), [vec![0, 3], vec![1, 2]], "not by number: t2 is the one in no rack of a");
}

proptest! {
    #[test]
    fn plans_are_valid_safe_balanced_and_stable(group in any_group()) {
        let plan = Builtin::by_name(COOPERATIVE_STICKY).unwrap().plan(&group);
        check(&group, &plan, Completeness::Full).unwrap();
        let mut withheld = plan.clone();
        withhold(&group, &mut withheld);
        assert_safe(&group, &withheld).unwrap();

        let load = |m: usize| plan.assignments[m].partitions.len();
        for (owner, assignment) in plan.assignments.iter().enumerate() {
            for &partition in &assignment.partitions {
                let topic = group.topic_of(partition).unwrap();
                for (other, member) in group.members().iter().enumerate() {
                    prop_assert!(!member.topics.contains(&topic) || load(owner) <= load(other) + 1);
                }
            }
        }

        let settled = group.with_owned(&plan.owners(&group));
        let again = assign(&settled, false).0;
        prop_assert_eq!(&again, &assign(&settled, false).0);
        for (member, assignment) in settled.members().iter().zip(&again.assignments) {
            prop_assert_eq!(&member.owned, &assignment.partitions);
        }
    }
}

#[test]
fn two_members_among_many_others_even_out_between_themselves() {
    let others: Vec<String> = (0..100).map(|n| format!("own-{n:02}")).collect();
    let mut members: Vec<MemberSubscription> =
        others.iter().map(|own| member(own, &[own], None, &[])).collect();
    members.push(claims("x", 1, &[0, 1, 2, 3, 4, 5, 6]));
    members.push(member("y", &["t", "u"], None, &[]));
    let mut topics: Vec<(&str, u32)> = others.iter().map(|own| (own.as_str(), 1)).collect();
    topics.extend([("t", 7), ("u", 1)]);
    let plan = plan(&group(&topics, members));
    // t has the numbers 100 to 106, u is 107.
    assert_eq!(plan[100..], [[103, 104, 105, 106], [100, 101, 102, 107]]);
}
