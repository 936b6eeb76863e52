//! The hostile strategy in Rust, `tests/hostile`: faults that real strategies have, in what a real compiler makes of them.

use assignor_host::builtin::NAMES;
use assignor_host::{
    Assignor, Builtin, Context, FallbackPolicy, Group, LoadError, MemberSubscription, Outcome, Plan, Plugin,
    Strategy, Subscription, TopicPartitions,
};

use super::support::{
    Events, RUST_GUEST, beside_a_good_one, cannot_decide, cannot_load, config, failed_calls, group, nobody,
};

fn guest(pairs: &[(&str, &str)]) -> Result<Plugin, LoadError> {
    Plugin::new(&RUST_GUEST, config(pairs))
}

/// `test: fault => code` for the faults of `assign`.
macro_rules! in_assign {
    ($($test:ident: $fault:literal => $code:literal;)*) => {
        $(#[test]
        fn $test() {
            cannot_decide(|| guest(&[("fault", $fault)]), $code);
        })*
    };
}

in_assign! {
    a_loop: "loop" => "deadline";
    filling_memory_for_ever: "memory-fill" => "deadline";
    copying_memory_for_ever: "memory-copy" => "deadline";
    a_panic: "trap" => "trap";
    an_abort: "abort" => "trap";
    a_memory_bomb: "memory-bomb" => "memory";
    a_stack_overflow_of_the_shadow_stack: "stack-overflow-shadow" => "trap";
    a_stack_overflow_of_the_real_stack: "stack-overflow-wasm" => "stack";
    a_flood_of_questions_for_the_time: "host-call-flood" => "host-calls";
    a_flood_of_log_lines: "log-flood" => "host-calls";
    a_flood_of_requests_for_a_rebalance: "rebalance-flood" => "host-calls";
    a_flood_of_questions_for_the_lag: "lag-flood" => "host-calls";
    an_error: "error" => "declined";
    a_huge_error_text: "error-huge" => "host-bytes";
    a_partition_twice_for_one_member: "partition-twice" => "plan-duplicate";
    a_partition_for_two_members: "partition-shared" => "plan-duplicate";
    a_partition_that_does_not_exist: "partition-range" => "plan-out-of-range";
    a_partition_of_an_unsubscribed_topic: "partition-unsubscribed" => "plan-unsubscribed";
    a_partition_for_nobody: "partition-missing" => "plan-incomplete";
    nothing_for_anybody: "partitions-none" => "plan-incomplete";
    too_few_assignments: "assignments-few" => "plan-length";
    too_many_assignments: "assignments-many" => "plan-length";
    a_huge_assignment: "partitions-huge" => "host-bytes";
    a_huge_number_of_assignments: "assignments-huge" => "host-bytes";
    large_user_data_of_an_assignment: "assignment-huge" => "result-too-large";
}

/// `test: function, fault => code` for faults that the probe finds.
macro_rules! in_the_probe {
    ($($test:ident: $function:literal, $fault:literal => $code:literal;)*) => {
        $(#[test]
        fn $test() {
            cannot_load(|| guest(&[("at", $function), ("fault", $fault)]), $code);
        })*
    };
}

in_the_probe! {
    a_name_that_loops: "name", "loop" => "deadline";
    a_name_that_traps: "name", "trap" => "trap";
    a_name_that_takes_all_memory: "name", "memory-bomb" => "memory";
    an_empty_name: "name", "name-empty" => "bad-name";
    an_illegal_name: "name", "name-illegal" => "bad-name";
    a_long_name: "name", "name-long" => "bad-name";
    a_huge_name: "name", "name-huge" => "host-bytes";
    a_reserved_name: "name", "name-reserved" => "reserved-name";
    protocols_that_loop: "supported-protocols", "loop" => "deadline";
    no_protocols: "supported-protocols", "protocols-none" => "no-protocols";
    the_cooperative_protocol_only: "supported-protocols", "protocols-cooperative" => "cooperative-only";
    a_huge_number_of_protocols: "supported-protocols", "protocols-huge" => "host-bytes";
    a_subscription_that_loops: "subscription", "loop" => "deadline";
    a_subscription_that_traps: "subscription", "trap" => "trap";
    a_subscription_that_overflows_the_stack: "subscription", "stack-overflow-wasm" => "stack";
    a_subscription_to_an_unknown_topic: "subscription", "topic-unknown" => "unknown-topic";
    a_subscription_to_a_huge_number_of_topics: "subscription", "topics-huge" => "host-bytes";
    a_subscription_with_large_user_data: "subscription", "interest-huge" => "result-too-large";
}

/// A fault that shows only in a live group: the call has a substitute, and the strategy goes on deciding.
fn fails_in_passing(pairs: &'static [(&'static str, &'static str)], function: &str, code: &str) {
    let calls = beside_a_good_one(move || {
        let events = Events::default();
        let mut strategy = Strategy::plugin(
            guest(&[pairs, &[("probe", "spare")]].concat()).unwrap(),
            FallbackPolicy::default(),
            events.observer(),
        );
        let cx = Context { group_id: "g".into(), member_id: "m1".into(), ..Context::default() };
        let topics = vec!["clicks".to_owned(), "orders".to_owned()];
        let interest = strategy.subscription(&cx, &topics).unwrap();
        assert_eq!((&interest.topics, interest.user_data), (&topics, None));
        let mine = [TopicPartitions { topic: "clicks".into(), partitions: vec![0, 1] }];
        strategy.on_assignment(&cx, &mine, None, 1).unwrap();
        let calls = failed_calls(&events);
        assert_eq!(strategy.decide(&cx, &group()).outcome, Outcome::Plugin);
        calls
    });
    assert_eq!(calls, [(function, code)]);
}

#[test]
fn faults_in_passing() {
    fails_in_passing(&[("at", "subscription"), ("fault", "loop")], "subscription", "deadline");
    fails_in_passing(&[("at", "subscription"), ("fault", "memory-bomb")], "subscription", "memory");
    fails_in_passing(&[("fault", "topic-unknown")], "subscription", "unknown-topic");
    fails_in_passing(&[("at", "on-assignment"), ("fault", "loop")], "on-assignment", "deadline");
    fails_in_passing(&[("at", "on-assignment"), ("fault", "trap")], "on-assignment", "trap");
    fails_in_passing(&[("at", "on-assignment"), ("fault", "error")], "on-assignment", "declined");
}

#[test]
fn without_a_fault_it_decides() {
    let decision = Strategy::plugin(guest(&[]).unwrap(), FallbackPolicy::default(), nobody())
        .decide(&Context::default(), &group());
    assert_eq!((decision.outcome, decision.cause), (Outcome::Plugin, None));
}

/// What a plugin refines is what the host would have decided by itself, racks and ownership included, and the full target: whatever must
/// be given up first is withheld from the plugin's own plan only.
#[test]
fn built_ins_give_a_guest_their_unadjusted_plan() {
    let member = |id: &str, owned: &[u32], rack: &str| MemberSubscription {
        member_id: id.into(),
        instance_id: None,
        subscription: Subscription {
            topics: ["t".into()].into(),
            owned: vec![TopicPartitions { topic: "t".into(), partitions: owned.to_vec() }],
            generation: Some(3),
            rack: Some(rack.into()),
            user_data: Some(b"a plugin's, which no built-in reads".to_vec()),
        },
    };
    let members =
        vec![member("m1", &[1, 2, 3, 4, 5], "r1"), member("m2", &[0], "r2"), member("m3", &[], "r1")];
    let replicas: Vec<Vec<i32>> = [2, 1, 2, 1, 1, 1].map(|broker| vec![broker]).to_vec();
    let racks = [(1, "r1".to_owned()), (2, "r2".to_owned())].into();
    let group = Group::new(&[("t".to_owned(), 6)].into(), members)
        .unwrap()
        .with_racks(&racks, |_| Some(replicas.as_slice()));

    let plan = |strategy: &str| {
        let mut plugin = guest(&[("fault", "built-in"), ("strategy", strategy)]).unwrap();
        plugin.assign(&Context::default(), &group)
    };
    for name in NAMES {
        assert_eq!(plan(name), Ok(Builtin::by_name(name).unwrap().plan(&group)), "{name}");
    }
    // m1 keeps two in its rack and gives m3 what it owns of it; the partition in the rack of m2 goes there.
    for name in ["sticky", "cooperative-sticky"] {
        assert_eq!(plan(name), Ok(Plan::of(vec![vec![1, 3], vec![0, 2], vec![4, 5]])), "{name}");
    }
    assert_eq!(plan("nosuch").unwrap_err().code(), "declined");
}

#[test]
fn memory_that_leaks_slowly_is_given_back_by_a_fresh_instance() {
    let events = beside_a_good_one(|| {
        let events = Events::default();
        let plugin = guest(&[("fault", "leak"), ("bytes", "10485760")]).unwrap();
        let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), events.observer());
        // 10 MiB stay with each call, and 64 MiB are allowed.
        for _ in 0..30 {
            assert_eq!(strategy.decide(&Context::default(), &group()).outcome, Outcome::Plugin);
        }
        events
    });
    assert_eq!(events.all(), []);
}

#[test]
fn a_large_line_of_log_is_cut_and_harms_nothing() {
    let plugin = guest(&[("fault", "log-huge")]).unwrap();
    let decision =
        Strategy::plugin(plugin, FallbackPolicy::default(), nobody()).decide(&Context::default(), &group());
    assert_eq!((decision.outcome, decision.cause), (Outcome::Plugin, None));
}

#[test]
fn a_panic_is_told_with_its_message_before_the_backtrace_that_names_functions() {
    let cause = cannot_decide(|| guest(&[("fault", "trap")]), "trap").cause.unwrap().to_string();
    let said = cause.find("the configuration asks for a trap").unwrap_or_else(|| panic!("{cause}"));
    let backtrace = cause.find("hostile::fault::commit").or_else(|| cause.find("strategy@0.1.0#assign"));
    assert!(said < backtrace.unwrap_or_else(|| panic!("{cause}")), "{cause}");
}
