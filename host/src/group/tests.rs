use super::*;

fn counts(topics: &[(&str, u32)]) -> BTreeMap<String, u32> {
    topics.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

fn claimant(id: &str, topics: &[&str], generation: Option<i32>, owned: &[u32]) -> MemberSubscription {
    let subscription = Subscription {
        topics: topics.iter().map(|t| (*t).to_owned()).collect(),
        owned: vec![TopicPartitions { topic: "t".into(), partitions: owned.to_vec() }],
        generation,
        ..Subscription::default()
    };
    MemberSubscription { member_id: id.into(), instance_id: None, subscription }
}

#[test]
fn topics_are_numbered_through_in_order_of_their_names() {
    let members = vec![claimant("m", &["b", "t", "gone", "empty"], None, &[])];
    let group = Group::new(&counts(&[("t", 2), ("b", 3), ("unwanted", 9), ("empty", 0)]), members).unwrap();
    let topics: Vec<_> = group.topics().iter().map(|t| (t.name.as_str(), t.first, t.partitions)).collect();
    assert_eq!(topics, [("b", 0, 3), ("t", 3, 2)]);
    assert_eq!(group.partitions(), 5);
    assert_eq!((group.topic_of(2), group.topic_of(3), group.topic_of(5)), (Some(0), Some(1), None));
    let named = group.by_name(&[4, 0, 99]);
    assert_eq!(named[0], TopicPartitions { topic: "b".into(), partitions: vec![0] });
    assert_eq!(named[1], TopicPartitions { topic: "t".into(), partitions: vec![1] });
}

#[test]
fn kafka_12984_of_two_claims_of_one_generation_neither_stands() {
    let members = vec![claimant("a", &["t"], Some(5), &[0, 1]), claimant("b", &["t"], Some(5), &[1, 2])];
    let group = Group::new(&counts(&[("t", 3)]), members).unwrap();
    assert_eq!(group.members()[0].owned, [0]);
    assert_eq!(group.members()[1].owned, [2]);
    assert_eq!(group.members()[1].claimed, [1, 2]);
}

#[test]
fn kafka_14639_a_lone_claim_of_an_old_generation_stands_and_a_newer_claim_beats_it() {
    let members = vec![claimant("a", &["t"], Some(3), &[0, 1]), claimant("b", &["t"], Some(5), &[1])];
    let group = Group::new(&counts(&[("t", 2)]), members).unwrap();
    assert_eq!(group.members()[0].owned, [0]);
    assert_eq!(group.members()[1].owned, [1]);
}

#[test]
fn claims_on_topics_gone_shrunk_or_no_longer_subscribed_are_no_ownership() {
    let members = vec![claimant("a", &["u"], Some(3), &[0, 7]), claimant("b", &["t"], None, &[])];
    let group = Group::new(&counts(&[("t", 2), ("u", 1)]), members).unwrap();
    assert_eq!(group.members()[0].claimed, [0]);
    assert!(group.members()[0].owned.is_empty());
}

#[test]
fn duplicate_members_and_absurd_partition_counts_are_errors() {
    let twice = vec![claimant("a", &["t"], None, &[]), claimant("a", &["t"], None, &[])];
    assert_eq!(Group::new(&counts(&[("t", 1)]), twice), Err(GroupError::DuplicateMember("a".into())));
    let one = vec![claimant("a", &["t", "u"], None, &[])];
    assert_eq!(
        Group::new(&counts(&[("t", u32::MAX), ("u", u32::MAX)]), one),
        Err(GroupError::TooManyPartitions)
    );
}

#[test]
fn racks_are_those_of_all_replicas_and_kept_only_where_a_member_has_one() {
    let brokers: BTreeMap<i32, String> =
        [(1, "b".to_owned()), (2, "a".to_owned()), (3, "b".to_owned())].into();
    let replicas = [vec![1, 2, 3], vec![3, 9], vec![]];
    let with_racks = |rack: &str| {
        let mut member = claimant("m", &["t", "u"], None, &[]);
        member.subscription.rack = Some(rack.to_owned());
        let group = Group::new(&counts(&[("t", 4), ("u", 1)]), vec![member]).unwrap();
        group.with_racks(&brokers, |topic| (topic == "t").then_some(replicas.as_slice()))
    };
    let group = with_racks("a");
    let racks = group.racks().unwrap();
    assert_eq!(racks.names(), ["a", "b"]);
    assert_eq!((racks.number("b"), racks.number("c")), (Some(1), None));
    let of: Vec<&[u32]> = (0..5).map(|p| racks.of(p)).collect();
    assert_eq!(of, [&[0, 1][..], &[1], &[], &[], &[]]);
    assert_eq!(racks.set_of(2), 0);
    assert!(with_racks("").racks().is_none(), "an empty rack is none");
}

#[test]
fn subscriptions_are_the_same_whatever_their_order_and_only_if_absent_topics_are_too() {
    let same = |topics: &[&[&str]]| {
        let members = topics.iter().enumerate();
        let members = members.map(|(i, topics)| claimant(&format!("m{i}"), topics, None, &[])).collect();
        Group::new(&counts(&[("t", 2), ("u", 2)]), members).unwrap().same_subscription()
    };
    assert!(same(&[&["t", "u"], &["u", "t"], &["t", "u"]]));
    assert!(same(&[&["t", "gone"], &["gone", "t"]]));
    assert!(!same(&[&["t", "gone"], &["t"]]));
    assert!(!same(&[&[], &["t"]]));
    assert!(!same(&[&["t"], &["t"], &["u"]]));
}
