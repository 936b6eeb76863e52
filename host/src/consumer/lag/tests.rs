use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_protocol::messages::ApiKey;
use tokio::task::LocalSet;

use super::*;
use crate::consumer::scripted::{self, Request};

const LIMIT: Duration = Duration::from_secs(5);

fn wanted(topics: &[(&str, &[u32])]) -> Vec<TopicPartitions> {
    let one = |(topic, partitions): &(&str, &[u32])| TopicPartitions {
        topic: (*topic).to_owned(),
        partitions: partitions.to_vec(),
    };
    topics.iter().map(one).collect()
}

/// Leader 1 of `t-0` and `u-0` answers: what begins at 3 ends at 103. Leader 2 of `t-1` is as `second` says. `t-2` has no leader.
async fn cluster(
    second: impl Fn(&mut Request) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Metadata, Brokers) {
    let ((first, one), (other, two)) = (scripted::listen().await, scripted::listen().await);
    let brokers = [(1, one.clone()), (2, two)];
    scripted::serve(
        first,
        Arc::new(move |r: &mut Request| {
            if r.is(ApiKey::Metadata) {
                return scripted::metadata(&brokers, &[("t", &[1, 2, -1]), ("u", &[1])]);
            }
            let (first, topics) = r.list_offsets();
            let offset = if first { 3 } else { 103 };
            let told = |(topic, partitions): (String, Vec<i32>)| {
                // And some that nobody asked for.
                let all = partitions.into_iter().chain([77]);
                (topic, all.map(|p| (p, 0, offset)).collect())
            };
            let mut topics: Vec<_> = topics.into_iter().map(told).collect();
            topics.push(("alien".into(), vec![(0, 0, 1)]));
            scripted::offsets(&topics)
        }),
    );
    scripted::serve(other, Arc::new(second));
    let config = scripted::config(&[&one], &[]);
    let settings = Settings::new(&config, |_| {}).unwrap();
    let metadata = Metadata::new(&config, Rc::clone(&settings));
    metadata.refresh(&BTreeSet::from(["t".to_owned(), "u".to_owned()])).await.unwrap();
    (metadata, Brokers::new(settings))
}

fn known(offsets: &[Option<i64>]) -> TopicOffsets {
    TopicOffsets { offsets: offsets.to_vec(), problem: None }
}

#[tokio::test]
async fn each_leader_is_asked_and_what_has_none_is_not_known() {
    let second = |r: &mut Request| {
        let (_, topics) = r.list_offsets();
        assert_eq!(topics, [("t".to_owned(), vec![1])]);
        scripted::offsets(&[("t".into(), vec![(1, 0, 50)])])
    };
    LocalSet::new()
        .run_until(async move {
            let (metadata, brokers) = cluster(second).await;
            let wanted = wanted(&[("t", &[0, 1, 2]), ("u", &[0]), ("gone", &[0])]);
            let Found(found) = ends(&metadata, &brokers, false, &wanted, End::Last, LIMIT).await;
            assert_eq!(found[0].offsets, [Some(103), Some(50), None]);
            assert_eq!(found[0].problem.as_deref(), Some("t-2 has no leader"));
            assert_eq!(found[1], known(&[Some(103)]));
            assert_eq!(found[2].problem.as_deref(), Some("gone-0 has no leader"));
            let Found(found) = ends(&metadata, &brokers, false, &wanted[1..2], End::First, LIMIT).await;
            assert_eq!(found, [known(&[Some(3)])]);
        })
        .await;
}

#[tokio::test]
async fn a_leader_that_is_silent_costs_its_partitions_once_and_no_other_ones() {
    LocalSet::new()
        .run_until(async {
            let (metadata, brokers) = cluster(|_| None).await;
            let wanted = wanted(&[("t", &[0, 1]), ("u", &[0])]);
            let limit = Duration::from_millis(200);
            let Found(found) = ends(&metadata, &brokers, false, &wanted, End::Last, limit).await;
            assert_eq!(found[0].offsets, [Some(103), None]);
            assert!(found[0].problem.as_deref().is_some_and(|p| p.contains("did not answer ListOffsets")));
            assert_eq!(found[1], known(&[Some(103)]));
            // The next question does not wait for it.
            let begun = Instant::now();
            let Found(found) = ends(&metadata, &brokers, false, &wanted, End::First, LIMIT).await;
            assert!(begun.elapsed() < LIMIT / 2);
            assert_eq!(found[0].offsets, [Some(3), None]);
            assert!(found[0].problem.as_deref().is_some_and(|p| p.contains("a moment ago")));
        })
        .await;
}

#[tokio::test]
async fn a_partition_that_its_leader_refuses_is_not_known() {
    // NOT_LEADER_OR_FOLLOWER, with an offset that means nothing.
    let second = |_: &mut Request| scripted::offsets(&[("t".into(), vec![(1, 6, 0)])]);
    LocalSet::new()
        .run_until(async move {
            let (metadata, brokers) = cluster(second).await;
            let Found(found) =
                ends(&metadata, &brokers, false, &wanted(&[("t", &[0, 1])]), End::Last, LIMIT).await;
            assert_eq!(found[0].offsets, [Some(103), None]);
            assert!(
                found[0].problem.as_deref().is_some_and(|p| p.contains("NotLeaderOrFollower")),
                "{found:?}"
            );
        })
        .await;
}

/// What is committed, by a coordinator that gives this answer.
async fn committed_by(
    answer: impl Fn(&mut Request) -> Option<Vec<u8>> + Send + Sync + 'static,
    wanted: &[TopicPartitions],
) -> Vec<TopicOffsets> {
    let (listener, address) = scripted::listen().await;
    scripted::serve(listener, Arc::new(answer));
    let settings = Settings::new(&scripted::config(&[&address], &[]), |_| {}).unwrap();
    let channel = Channel::new(address, settings);
    committed(&channel, "g", wanted, Duration::from_millis(500)).await.0
}

#[tokio::test]
async fn what_nobody_committed_is_told_apart_from_what_could_not_be_told() {
    let wanted = wanted(&[("t", &[0, 1]), ("secret", &[0])]);
    let answer = |r: &mut Request| {
        assert_eq!(r.offset_fetch(), [("t".to_owned(), vec![0, 1]), ("secret".to_owned(), vec![0])]);
        // TOPIC_AUTHORIZATION_FAILED
        let secret = ("secret".to_owned(), vec![(0, -1, 29)]);
        scripted::committed(&[("t".into(), vec![(0, 42, 0), (1, -1, 0)]), secret], 0)
    };
    let found = committed_by(answer, &wanted).await;
    assert_eq!(found[0], known(&[Some(42), None]));
    assert_eq!(found[1].offsets, [None]);
    assert!(found[1].problem.as_deref().is_some_and(|p| p.contains("TopicAuthorizationFailed")));
}

#[tokio::test]
async fn a_coordinator_that_refuses_or_is_silent_tells_nothing() {
    let wanted = wanted(&[("t", &[0])]);
    // GROUP_AUTHORIZATION_FAILED
    let refused = committed_by(|_| scripted::committed(&[], 30), &wanted).await;
    assert_eq!(refused[0].problem.as_deref(), Some("GroupAuthorizationFailed"));
    let silent = committed_by(|_| None, &wanted).await;
    assert!(silent[0].problem.as_deref().is_some_and(|p| p.contains("did not answer OffsetFetch")));
    assert_eq!(silent[0].offsets, [None]);
}
