use assignor_guest_sdk::testing::{self, GroupBuilder, Host, Installed, Unsound};
use assignor_guest_sdk::{Group, Plan};

use super::*;

fn fault(name: &str) -> Installed {
    Host::new().config("fault", name).install()
}

fn group() -> Group {
    GroupBuilder::new()
        .topic("a", 2)
        .topic("b", 3)
        .member("m1", ["a"])
        .member("m2", ["a", "b"])
        .member("m3", ["a", "b"])
        .build()
}

fn assign(group: &Group) -> Result<Vec<Assignment>, String> {
    Hostile::assign(group.raw_topics().to_vec(), group.raw_members().to_vec())
}

fn check(group: &Group) -> Result<(), Unsound> {
    let partitions = assign(group).unwrap().into_iter().map(|assignment| assignment.partitions);
    testing::check(group, &Plan::from(partitions.collect::<Vec<_>>()))
}

#[test]
fn without_a_fault_it_is_a_correct_round_robin() {
    let _host = Host::new().config("name", "rr").install();
    let plan = assign(&group()).unwrap();
    let partitions: Vec<_> = plan.into_iter().map(|assignment| assignment.partitions).collect();
    assert_eq!(partitions, [vec![0], vec![1, 3], vec![2, 4]]);
    assert_eq!(check(&group()), Ok(()));
    assert_eq!(Hostile::name(), "rr");
    assert_eq!(Hostile::supported_protocols(), [Protocol::Eager, Protocol::Cooperative]);
    assert_eq!(Hostile::subscription(vec!["a".into()]), Ok(Interest::all(vec!["a".into()])));
    assert_eq!(Hostile::on_assignment(Vec::new(), None, 1), Ok(()));
}

#[test]
fn each_fault_of_a_plan_is_what_it_is_called() {
    let verdict = |name: &str| {
        let _host = fault(name);
        check(&group()).unwrap_err()
    };
    let same = |first: &String, second: &String| first == second;
    assert!(
        matches!(verdict("partition-twice"), Unsound::Duplicate { first, second, .. } if same(&first, &second))
    );
    assert!(
        matches!(verdict("partition-shared"), Unsound::Duplicate { first, second, .. } if !same(&first, &second))
    );
    assert_eq!(verdict("partition-range"), Unsound::OutOfRange { member: "m1".into(), number: 5 });
    let unsubscribed = Unsound::Unsubscribed { partition: "b-0".into(), member: "m1".into() };
    assert_eq!(verdict("partition-unsubscribed"), unsubscribed);
    assert_eq!(verdict("partition-missing"), Unsound::Missing { partition: "a-0".into() });
    assert_eq!(verdict("partitions-none"), Unsound::Missing { partition: "a-0".into() });
    assert_eq!(verdict("assignments-few"), Unsound::Length { assignments: 2, members: 3 });
    assert_eq!(verdict("assignments-many"), Unsound::Length { assignments: 4, members: 3 });
}

#[test]
fn a_group_without_room_for_the_fault_is_said_in_words() {
    let all = GroupBuilder::new().topic("a", 1).member("m1", ["a"]).build();
    let _host = fault("partition-unsubscribed");
    let words =
        "the fault partition-unsubscribed needs a group with a member that is not subscribed to some topic";
    assert_eq!(assign(&all), Err(words.to_owned()));
}

#[test]
fn huge_answers_are_of_the_configured_size() {
    let bytes = 1 << 16;
    let huge = |name: &str| Host::new().config("fault", name).config("bytes", bytes).install();
    let size = |name: &str| {
        let _host = huge(name);
        assign(&group()).unwrap()
    };
    assert_eq!(size("partitions-huge")[0].partitions.len(), bytes / 4);
    assert_eq!(size("assignment-huge")[0].user_data.as_ref().map(Vec::len), Some(bytes));
    assert_eq!(size("assignments-huge").len(), bytes / size_of::<Assignment>());
    let interest = |name: &str| {
        let _host = huge(name);
        Hostile::subscription(Vec::new()).unwrap()
    };
    assert_eq!(interest("interest-huge").user_data.map(|bytes| bytes.len()), Some(bytes));
    assert_eq!(interest("topics-huge").topics.len(), bytes / 1024);
    {
        let _host = huge("protocols-huge");
        assert_eq!(Hostile::supported_protocols().len(), bytes);
    }
    let _host = huge("name-huge");
    assert_eq!(Hostile::name().len(), bytes);
}

#[test]
fn names_protocols_and_topics_can_be_wrong() {
    for (name, wrong) in
        [("name-empty", ""), ("name-reserved", "range"), ("name-illegal", "no name\nwith \u{fc}")]
    {
        let _host = fault(name);
        assert_eq!(Hostile::name(), wrong);
    }
    {
        let _host = fault("name-long");
        assert_eq!(Hostile::name().len(), 65);
    }
    {
        let _host = fault("protocols-none");
        assert!(Hostile::supported_protocols().is_empty());
    }
    {
        let _host = fault("protocols-cooperative");
        assert_eq!(Hostile::supported_protocols(), [Protocol::Cooperative]);
    }
    let _host = fault("topic-unknown");
    assert_eq!(Hostile::subscription(Vec::new()).unwrap().topics, ["a-topic-that-nobody-gave"]);
}

#[test]
fn a_fault_strikes_in_the_function_that_is_named() {
    let host = |at: &str| Host::new().config("fault", "error").config("at", at).install();
    {
        let _host = host("on-assignment");
        assert!(assign(&group()).is_ok() && Hostile::subscription(Vec::new()).is_ok());
        assert!(Hostile::on_assignment(Vec::new(), None, 1).is_err());
    }
    {
        let _host = host("subscription");
        assert!(assign(&group()).is_ok() && Hostile::subscription(Vec::new()).is_err());
    }
    let _host = fault("error");
    assert!(assign(&group()).is_err() && Hostile::subscription(Vec::new()).is_ok());
}

#[test]
fn a_probe_can_be_spared() {
    for name in ["error", "topic-unknown"] {
        let host = || Host::new().config("fault", name).config("at", "subscription").config("probe", "spare");
        let correct = Ok(Interest::all(Vec::new()));
        {
            let _probing = host().install();
            assert_eq!(Hostile::subscription(Vec::new()), correct);
        }
        let _in_a_group = host().group_id("g").install();
        assert_ne!(Hostile::subscription(Vec::new()), correct);
    }
}

#[test]
fn floods_end_after_the_configured_count_and_the_plan_is_correct() {
    for name in ["host-call-flood", "log-flood", "rebalance-flood", "lag-flood"] {
        let host = Host::new().config("fault", name).config("count", 3).lag(0, [1]).install();
        assert_eq!(check(&group()), Ok(()));
        assert_eq!(host.log_lines().len(), if name == "log-flood" { 3 } else { 0 });
        assert_eq!(host.rebalance_requests().len(), if name == "rebalance-flood" { 3 } else { 0 });
    }
    for (name, key) in [("busy", "ms"), ("leak", "bytes"), ("log-huge", "bytes")] {
        let _host = Host::new().config("fault", name).config(key, 10).install();
        assert_eq!(check(&group()), Ok(()));
    }
}

#[test]
#[should_panic(expected = "there is no fault \"lop\"")]
fn a_fault_that_does_not_exist_is_no_silent_pass() {
    let _host = fault("lop");
    let _ = assign(&group());
}

#[test]
#[should_panic(expected = "there is no function \"asign\"")]
fn a_function_that_does_not_exist_is_no_silent_pass() {
    let _host = Host::new().config("fault", "loop").config("at", "asign").install();
    let _ = assign(&group());
}

#[test]
fn every_fault_is_documented() {
    let documented = include_str!("lib.rs");
    for name in answer::FAULTS {
        assert!(documented.contains(&format!("`{name}`")), "{name}");
    }
}
