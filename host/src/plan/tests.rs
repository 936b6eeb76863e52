use proptest::prelude::*;

use super::*;
use crate::builtin::{Builtin, NAMES};
use crate::test_support::{any_group, group, member};

fn two(topics: &[(&str, u32)]) -> Group {
    group(topics, vec![member("a", &["t"], None, &[]), member("b", &["t", "u"], None, &[])])
}

fn violation(plan: Vec<Vec<u32>>) -> String {
    check(&two(&[("t", 2), ("u", 1)]), &Plan::of(plan), Completeness::Full).unwrap_err().to_string()
}

#[test]
fn each_violation_names_members_and_partitions() {
    assert_eq!(violation(vec![vec![0, 1, 2]]), "the plan has 1 assignments for 2 members");
    assert_eq!(violation(vec![vec![0, 1], vec![1, 2]]), "t-1 is assigned to both \"a\" and \"b\"");
    assert_eq!(violation(vec![vec![0, 0], vec![1, 2]]), "t-0 is assigned to both \"a\" and \"a\"");
    assert_eq!(
        violation(vec![vec![0, 1], vec![3]]),
        "\"b\" is assigned the number 3, but the group has 3 partitions"
    );
    assert_eq!(
        violation(vec![vec![0, 2], vec![1]]),
        "\"a\" is assigned u-0 but is not subscribed to that topic"
    );
    assert_eq!(violation(vec![vec![0], vec![]]), "2 partitions are assigned to nobody, the first is t-1");
}

#[test]
fn a_partial_plan_may_leave_partitions_out() {
    let group = two(&[("t", 2), ("u", 1)]);
    assert_eq!(check(&group, &Plan::of(vec![vec![1], vec![]]), Completeness::Partial), Ok(()));
}

fn withheld(members: Vec<crate::MemberSubscription>, plan: Vec<Vec<u32>>) -> (usize, Vec<Vec<u32>>) {
    let group = group(&[("t", 2)], members);
    let mut plan = Plan::of(plan);
    let withheld = withhold(&group, &mut plan);
    assert_eq!(assert_safe(&group, &plan), Ok(()));
    (withheld, plan.assignments.into_iter().map(|a| a.partitions).collect())
}

#[test]
fn a_partition_that_changes_its_owner_is_withheld_until_it_is_given_up() {
    let members = vec![member("a", &["t"], Some(1), &[0, 1]), member("b", &["t"], Some(1), &[])];
    assert_eq!(withheld(members, vec![vec![0], vec![1]]), (1, vec![vec![0], vec![]]));
    // What nobody claims any more may go anywhere.
    let members = vec![member("a", &["t"], Some(2), &[0]), member("b", &["t"], Some(2), &[])];
    assert_eq!(withheld(members, vec![vec![0], vec![1]]), (0, vec![vec![0], vec![1]]));
}

#[test]
fn kafka_13406_a_stale_claim_of_an_older_generation_gives_way_to_the_newer_claimant_only() {
    let members = || vec![member("a", &["t"], Some(3), &[0]), member("b", &["t"], Some(4), &[0])];
    assert_eq!(withheld(members(), vec![vec![1], vec![0]]), (0, vec![vec![1], vec![0]]));
    assert_eq!(withheld(members(), vec![vec![0, 1], vec![]]), (1, vec![vec![1], vec![]]));
}

#[test]
fn kafka_12984_a_partition_claimed_twice_at_one_generation_goes_to_nobody_yet() {
    let members = vec![member("a", &["t"], Some(3), &[0]), member("b", &["t"], Some(3), &[0])];
    assert_eq!(withheld(members, vec![vec![0, 1], vec![]]), (1, vec![vec![1], vec![]]));
}

#[test]
fn assert_safe_names_what_withhold_would_have_taken_out() {
    let members = vec![member("a", &["t"], Some(1), &[0]), member("b", &["t"], Some(1), &[])];
    let group = group(&[("t", 1)], members);
    let unsafe_plan = Plan::of(vec![vec![], vec![0]]);
    let violation = assert_safe(&group, &unsafe_plan).unwrap_err();
    assert_eq!(violation.to_string(), "t-0 would go to \"b\" while another member still owns it");
}

proptest! {
    #[test]
    fn whatever_is_withheld_the_rest_is_safe_and_nothing_else_is_touched(group in any_group()) {
        for builtin in NAMES {
            let full = Builtin::by_name(builtin).unwrap().plan(&group);
            let mut plan = full.clone();
            let withheld = withhold(&group, &mut plan);
            prop_assert_eq!(assert_safe(&group, &plan), Ok(()));
            let count = |plan: &Plan| plan.assignments.iter().map(|a| a.partitions.len()).sum::<usize>();
            prop_assert_eq!(count(&full), count(&plan) + withheld);
        }
    }
}
