//! Where Kafka is wrong: for each way a small group, and what is right there.
//!
//! Groups are as `assignor assign` takes them, save that members may claim partitions that don't exist; with `sticky`, what they own
//! is in their user data.

use std::time::Duration;

use assignor_host::described::DescribedGroup;
use assignor_host::{Completeness, check};

use super::claims::StickyData;
use super::judge::Departure;
use super::oracle::{NO_END, Oracle};
use super::rename::Renamed;
use super::{Strategy, generate, judge_again, numbered};

/// The group of the document, as its members tell of it under the strategy.
fn told(strategy: Strategy, json: &str) -> DescribedGroup {
    let mut group: DescribedGroup = serde_json::from_str(json).unwrap();
    if strategy == Strategy::Sticky {
        for member in group.members.iter_mut().filter(|member| member.user_data.is_none()) {
            let owned = std::mem::take(&mut member.owned).into_iter();
            let owned = owned.map(|(topic, list)| (topic, list.into_iter().map(u32::cast_signed).collect()));
            let data = StickyData {
                owned: owned.collect(),
                generation: Some(member.generation.take().unwrap_or(-1)),
            };
            member.user_data = Some(data.encode());
        }
    }
    group
}

/// Kafka is wrong in this way, and ours is this, for each member in order of ids.
#[track_caller]
fn departs(strategy: Strategy, departure: Departure, json: &str, right: &[&str]) {
    let group = told(strategy, json);
    let judgement = judge_again(strategy, &group, &mut Oracle::start());
    let judgement = judgement.unwrap_or_else(|fault| panic!("{fault:?}"));
    assert!(judgement.verdict.departure() == Some(departure), "{strategy:?}: {judgement:?}");
    let numbered = numbered(&group);
    let plan = strategy.plan(&numbered);
    let ours = plan.assignments.iter().map(|assignment| {
        let named = numbered.by_name(&assignment.partitions);
        named.iter().map(|t| format!("{} {:?}", t.topic, t.partitions)).collect::<Vec<_>>().join(", ")
    });
    assert_eq!(ours.collect::<Vec<_>>(), right, "{strategy:?}");
}

const BOTH: [Strategy; 2] = [Strategy::Sticky, Strategy::CooperativeSticky];

/// A topic was deleted and made again with fewer partitions.
#[test]
fn a_partition_of_a_shrunk_topic_is_given_out_by_kafka() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::Ghosts,
            r#"{"topics": {"t": {"partitions": 2}},
                "members": [{"id": "m1", "topics": ["t"], "owned": {"t": [5]}, "generation": 1},
                            {"id": "m2", "topics": ["t", "u"]}]}"#,
            &["t [0]", "t [1]"],
        );
    }
}

/// What it keeps of them leaves fewer places than there are partitions: the group waits, rebalance after rebalance.
#[test]
fn a_partition_of_a_shrunk_topic_makes_kafka_throw() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::NoRoom,
            r#"{"topics": {"t": {"partitions": 1}},
                "members": [{"id": "m1", "topics": ["t"], "owned": {"t": [5]}, "generation": 1}]}"#,
            &["t [0]"],
        );
    }
}

/// Kafka meets m1 first and takes its wishes for everybody's, until the next member has some.
#[test]
fn a_member_that_wants_nothing_gets_a_partition_from_kafka() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::EmptySubscription,
            r#"{"topics": {"t": {"partitions": 1}},
                "members": [{"id": "m1", "topics": []}, {"id": "m2", "topics": ["t"]}]}"#,
            &["", "t [0]"],
        );
    }
}

/// m2 had t-0 and wants u now. In the newest generation nobody has it, so Kafka moves it "back" when it evens out.
#[test]
fn kafka_gives_a_partition_back_to_a_member_that_no_longer_wants_its_topic() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::BackToUnsubscribed,
            r#"{"topics": {"t": {"partitions": 3}, "u": {"partitions": 2}, "v": {"partitions": 2}},
                "members": [{"id": "m1", "topics": ["t", "v"], "generation": 3},
                            {"id": "m2", "topics": ["t", "u", "v"], "generation": 3},
                            {"id": "m3", "topics": ["u"], "owned": {"t": [2]}, "generation": 1}]}"#,
            &["t [0, 2], v [0]", "t [1], v [1]", "u [0, 1]"],
        );
    }
}

/// The same, but Kafka has already set that member aside, because it can't get anything at all.
#[test]
fn kafka_throws_on_its_way_to_give_a_partition_back() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::BackToNobody,
            r#"{"topics": {"t": {"partitions": 5}, "u": {"partitions": 5}},
                "members": [{"id": "m1", "topics": [], "owned": {"t": [1]}, "generation": 0},
                            {"id": "m2", "topics": ["t", "u"], "owned": {"t": [4]}, "generation": 0},
                            {"id": "m3", "topics": ["t"], "generation": 1}]}"#,
            &["", "u [0, 1, 2, 3, 4]", "t [0, 1, 2, 3, 4]"],
        );
    }
}

/// m2 missed a rebalance and still believes that it owns t-0, which is m1's now. Kafka moves it to m2 and withholds nothing, since
/// m2 said that it has it: both read it until m1 hears of it.
#[test]
fn kafka_makes_two_owners_where_a_claim_is_stale() {
    departs(
        Strategy::CooperativeSticky,
        Departure::Unsafe,
        r#"{"topics": {"t": {"partitions": 4}},
            "members": [{"id": "m1", "topics": ["t"], "owned": {"t": [0, 1, 2, 3]}, "generation": 5},
                        {"id": "m2", "topics": ["t", "u"], "owned": {"t": [0]}, "generation": 3}]}"#,
        &["t [2, 3]", "t [0, 1]"],
    );
}

/// m1's claim is newer. But Kafka meets m2's later, and compares its generation, which is in user data, with the one in m1's
/// subscription, where there is none.
#[test]
fn of_two_claims_in_user_data_kafka_takes_the_one_that_it_meets_last() {
    departs(
        Strategy::Sticky,
        Departure::AmbiguousClaims,
        r#"{"topics": {"t": {"partitions": 2}},
            "members": [{"id": "m1", "topics": ["t"], "owned": {"t": [1]}, "generation": 4},
                        {"id": "m2", "topics": ["t"], "owned": {"t": [1]}, "generation": 1}]}"#,
        &["t [1]", "t [0]"],
    );
}

/// librdkafka's m1 tells its generation, 1, in user data of the form that sticky has. Kafka takes the first number in it for the
/// generation: that of its topics, 2. So m4's claim, in truth as new as m1's, counts as one of old.
#[test]
fn the_number_of_librdkafkas_topics_is_a_generation_to_kafka() {
    departs(
        Strategy::CooperativeSticky,
        Departure::MisreadGeneration,
        r#"{"topics": {"t": {"partitions": 14, "replicas": [[], [], [], [], [0], [], [0], [], [0], [], [0], [], [0], []]}},
            "nodes": [{"id": 0, "rack": "r"}],
            "members": [{"id": "m1", "topics": ["u"], "user_data": "AAAAAgABdAAAAAAAAXUAAAAAAAAAAQ=="},
                        {"id": "m2", "topics": ["t"], "rack": "r"},
                        {"id": "m3", "topics": ["t"]},
                        {"id": "m4", "topics": ["t"], "rack": "r", "owned": {"t": [3]}, "generation": 1}]}"#,
        &["", "t [0, 2, 4, 6, 10]", "t [5, 7, 9, 11, 13]", "t [1, 3, 8, 12]"],
    );
}

/// m2's user data says that it owns t-3 and t--1, which no client writes. Kafka believes the former; ours believes nothing of it.
#[test]
fn partitions_below_0_are_believed_by_kafka() {
    departs(
        Strategy::Sticky,
        Departure::GhostsCount,
        r#"{"topics": {"t": {"partitions": 4, "replicas": [[], [0], [0], [0]]}}, "nodes": [{"id": 0, "rack": "r"}],
            "members": [{"id": "m1", "topics": ["t"]},
                        {"id": "m2", "topics": ["t"], "rack": "r", "user_data": "AAAAAQABdAAAAAIAAAAD/////wAAAAE="}]}"#,
        &["t [0, 3]", "t [1, 2]"],
    );
}

/// t-2 and t-3 are in no member's rack. Kafka takes them from their owners and deals them out anew, and so they change places.
#[test]
fn kafka_moves_what_fits_no_better_elsewhere() {
    for strategy in BOTH {
        departs(
            strategy,
            Departure::Restless,
            r#"{"topics": {"t": {"partitions": 4, "replicas": [[0], [0], [1], [1]]}},
                "nodes": [{"id": 0, "rack": "r"}, {"id": 1, "rack": "s"}],
                "members": [{"id": "m1", "topics": ["t"], "rack": "r", "owned": {"t": [0, 3]}, "generation": 1},
                            {"id": "m2", "topics": ["t"], "rack": "r", "owned": {"t": [1, 2]}, "generation": 1}]}"#,
            &["t [0, 3]", "t [1, 2]"],
        );
    }
}

/// Racks, unequal subscriptions, two members that own a partition each. Kafka moves a partition from a first member to a second, and
/// the one that it moved before from a third back to the first, without end; the leader never answers.
#[test]
fn kafka_has_no_end() {
    let group: DescribedGroup = serde_json::from_str(include_str!("no-end.json")).unwrap();
    let mut oracle = Oracle::waited_for(Duration::from_secs(5));
    assert_eq!(oracle.ask_one("cooperative-sticky", &group), Err(NO_END.to_owned()));
    let numbered = numbered(&group);
    let plan = Strategy::CooperativeSticky.plan(&numbered);
    check(&numbered, &plan, Completeness::Full).unwrap();
}

/// Other names change nothing where order counts and nothing else: the names for trying hash orders are sound.
#[test]
fn under_other_names_range_is_the_same() {
    let mut oracle = Oracle::start();
    for number in 0..50 {
        let mut rng = generate::rng(7, number);
        let group = generate::told(&generate::group(8, number), Strategy::Range, &mut rng);
        let renamed = Renamed::at_random(&group, &mut rng);
        let sorted = |mut plan: super::oracle::Named| {
            plan.sort();
            plan
        };
        let plan = oracle.ask_one("range", &group).unwrap();
        let back = renamed.back(oracle.ask_one("range", &renamed.group).unwrap());
        assert_eq!(sorted(plan), sorted(back));
    }
}
