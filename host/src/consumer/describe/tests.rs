use std::sync::Arc;

use kafka_protocol::messages::ApiKey;

use super::*;
use crate::consumer::scripted::{self, Body, Request};
use crate::wire::sticky_user_data;

/// A group of DescribeGroups' answer.
fn group(
    error: i16,
    state: &str,
    protocol: (&str, &str),
    members: &[(&str, &[u8], &[u8])],
) -> Option<Vec<u8>> {
    let member = |b: Body, (id, metadata, assignment): &(&str, &[u8], &[u8])| {
        b.text(id).null().text("client").text("/127.0.0.1").bytes(metadata).bytes(assignment)
    };
    let group = |b: Body, _: &()| {
        b.i16(error)
            .text("g")
            .text(state)
            .text(protocol.0)
            .text(protocol.1)
            .list(members, member)
            .i32(i32::MIN)
    };
    Body::default().i32(0).list(&[()], group).done()
}

type Describe = Option<Vec<u8>>;

/// Describes the group `g` of a cluster of one broker that gives this answer. Of topic `t` two partitions end at 110, and
/// the third has no leader.
async fn described(answer: Describe) -> Result<GroupDescription, DescribeError> {
    let (listener, address) = scripted::listen().await;
    let own = address.clone();
    scripted::serve(
        listener,
        Arc::new(move |r: &mut Request| match r.api {
            api if api == ApiKey::FindCoordinator as i16 => scripted::coordinator(0, &own),
            api if api == ApiKey::DescribeGroups as i16 => answer.clone(),
            api if api == ApiKey::ListGroups as i16 => {
                Body::default().i32(0).i16(0).list(&["g", "a"], |b, g| b.text(g).text("consumer")).done()
            }
            api if api == ApiKey::Metadata as i16 => {
                scripted::metadata(&[(1, own.clone())], &[("t", &[1, 1, -1])])
            }
            api if api == ApiKey::OffsetFetch as i16 => {
                scripted::committed(&[("t".into(), vec![(0, 100, 0), (2, 5, 0)])], 0)
            }
            api if api == ApiKey::ListOffsets as i16 => {
                let (_, topics) = r.list_offsets();
                let all = |list: Vec<i32>| list.into_iter().map(|p| (p, 0, 110)).collect();
                let told: Vec<_> = topics.into_iter().map(|(t, list)| (t, all(list))).collect();
                scripted::offsets(&told)
            }
            api => panic!("unexpected request {api}"),
        }),
    );
    let config =
        scripted::config(&[&address], &[("retry.backoff.max.ms", "100"), ("request.timeout.ms", "2000")]);
    tokio::task::spawn_blocking(move || describe_group(&config, "g")).await.unwrap()
}

fn subscription(topics: &[&str], user_data: Option<Vec<u8>>) -> Vec<u8> {
    let topics = topics.iter().map(|t| (*t).to_owned()).collect();
    let owned = vec![TopicPartitions { topic: "t".into(), partitions: vec![1] }];
    let subscription = Subscription { topics, user_data, owned, generation: Some(4), rack: Some("r".into()) };
    wire::subscription::encode(&subscription, wire::HIGHEST_VERSION).unwrap()
}

fn assignment(partitions: &[u32]) -> Vec<u8> {
    let topic = TopicPartitions { topic: "t".into(), partitions: partitions.to_vec() };
    wire::assignment::encode(&[topic], None).unwrap()
}

#[tokio::test]
async fn members_tell_what_they_want_have_and_told_and_partitions_their_lag() {
    let told = sticky_user_data::encode(&[TopicPartitions { topic: "t".into(), partitions: vec![0, 2] }], 3);
    let (b, a) = (subscription(&["t"], Some(told.unwrap())), subscription(&["t"], None));
    let (two, one) = (assignment(&[0, 2]), assignment(&[1]));
    let members: [(&str, &[u8], &[u8]); 2] = [("b", &b, &two), ("a", &a, &one)];
    let group = described(group(0, "Stable", ("consumer", "sticky"), &members)).await.unwrap();

    assert_eq!((group.state.as_str(), group.strategy.as_str()), ("Stable", "sticky"));
    let ids: Vec<&str> = group.members.iter().map(|m| m.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let b = &group.members[1];
    assert_eq!((b.client_id.as_str(), b.host.as_str(), b.generation), ("client", "/127.0.0.1", Some(4)));
    assert_eq!((b.topics.clone(), b.rack.as_deref()), (vec!["t".to_owned()], Some("r")));
    let owned = BTreeMap::from([("t".to_owned(), vec![0, 2])]);
    assert_eq!(b.assigned, owned);
    assert_eq!(b.user_data, Some(UserData::Sticky { owned, generation: Some(3) }));

    let partition = |partition, owner: &str, committed, end, lag| PartitionDescription {
        topic: "t".into(),
        partition,
        owner: Some(owner.into()),
        committed,
        end,
        lag,
    };
    // Nothing is committed of one, another has no leader: what isn't known is absent.
    let expected = [
        partition(0, "b", Some(100), Some(110), Some(10)),
        partition(1, "a", None, Some(110), None),
        partition(2, "b", Some(5), None, None),
    ];
    assert_eq!(group.partitions, expected);
    let balance = Balance { fewest: 1, most: 2, imbalance: 1, most_lag: Some(10) };
    assert_eq!(group.balance, Some(balance));
    assert_eq!(group.problems, ["t-2 has no leader"]);
}

#[tokio::test]
async fn what_a_member_wrote_and_nobody_can_read_is_told_and_the_others_are_shown() {
    let (good, one) = (subscription(&["t"], Some(vec![1, 2, 3])), assignment(&[0]));
    let bomb: &[u8] = b"\0\x03\x7f\xff\xff\xff";
    let members: [(&str, &[u8], &[u8]); 3] = [("bomb", bomb, bomb), ("good", &good, &one), ("new", b"", b"")];
    let group = described(group(0, "Stable", ("consumer", "weighted"), &members)).await.unwrap();
    let problems: Vec<usize> = group.members.iter().map(|m| m.problems.len()).collect();
    assert_eq!(problems, [2, 0, 0]);
    assert!(group.members[0].problems[0].contains("claims 2147483647 elements"), "{:?}", group.members[0]);
    let bytes = UserData::Bytes { length: 3, begins: "010203".into() };
    assert_eq!(group.members[1].user_data, Some(bytes));
    assert_eq!(group.balance.map(|b| (b.fewest, b.most)), Some((0, 1)));
}

#[tokio::test]
async fn a_group_without_members_has_offsets_only() {
    let group = described(group(0, "Empty", ("consumer", ""), &[])).await.unwrap();
    assert_eq!((group.members.len(), group.balance), (0, None));
    let told: Vec<_> = group.partitions.iter().map(|p| (p.partition, p.owner.clone(), p.lag)).collect();
    assert_eq!(told, [(0, None, Some(10)), (2, None, None)]);
}

#[tokio::test]
async fn members_of_another_protocol_are_not_read() {
    let members: [(&str, &[u8], &[u8]); 1] = [("w", b"\0\0", b"\0\0")];
    let group = described(group(0, "Stable", ("connect", "sessioned"), &members)).await.unwrap();
    assert!(group.members[0].problems.is_empty());
    assert!(group.problems.iter().any(|p| p.contains("\"connect\"")), "{:?}", group.problems);
}

#[tokio::test]
async fn refusals_are_told_by_their_kind() {
    let refused = async |answer| described(answer).await.unwrap_err().code();
    assert_eq!(refused(group(0, "Dead", ("", ""), &[])).await, "group-not-found");
    assert_eq!(refused(group(69, "", ("", ""), &[])).await, "group-not-found");
    assert_eq!(refused(group(30, "", ("", ""), &[])).await, "group-authorization");
    assert_eq!(refused(group(24, "", ("", ""), &[])).await, "refused");
    // It goes on loading until nobody waits any longer.
    let loading = described(group(14, "", ("", ""), &[])).await.unwrap_err();
    assert!(loading.to_string().contains("CoordinatorLoadInProgress"), "{loading}");
}

#[tokio::test]
async fn groups_are_listed_by_name_and_brokers_that_are_silent_are_named() {
    let ((listener, address), (silent, mute)) = (scripted::listen().await, scripted::listen().await);
    scripted::serve(silent, Arc::new(|_: &mut Request| None));
    let brokers = [(1, address.clone()), (2, mute.clone())];
    scripted::serve(
        listener,
        Arc::new(move |r: &mut Request| {
            if r.is(ApiKey::Metadata) {
                return scripted::metadata(&brokers, &[]);
            }
            Body::default().i32(0).i16(0).list(&["g", "a"], |b, g| b.text(g).text("consumer")).done()
        }),
    );
    let config = scripted::config(&[&address], &[("request.timeout.ms", "500")]);
    let list = tokio::task::spawn_blocking(move || list_groups(&config)).await.unwrap().unwrap();
    let names: Vec<&str> = list.groups.iter().map(|g| g.group_id.as_str()).collect();
    assert_eq!(names, ["a", "g"]);
    assert_eq!(
        (list.groups[0].kind.as_deref(), list.groups[0].coordinator.clone()),
        (None, address.to_string())
    );
    assert_eq!(list.problems.len(), 1);
    assert!(list.problems[0].contains(&mute.to_string()), "{:?}", list.problems);
}

#[test]
fn user_data_of_cooperative_sticky_is_a_generation_or_what_librdkafka_writes() {
    let read = |bytes: &[u8]| UserData::read("cooperative-sticky", bytes);
    assert_eq!(read(&[0, 0, 0, 9]), UserData::Generation(9));
    let told = sticky_user_data::encode(&[], 5).unwrap();
    assert_eq!(read(&told), UserData::Sticky { owned: BTreeMap::new(), generation: Some(5) });
    assert_eq!(read(&[9]).to_string(), "1 bytes: 09");
    let long = UserData::read("mine", &[0xab; 40]).to_string();
    assert_eq!(long, format!("40 bytes: {}…", "ab".repeat(32)));
}
