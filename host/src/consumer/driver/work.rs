//! The driver's longer tasks: each asks, waits, tries again, and ends in one event.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kafka_protocol::ResponseError as E;
use tokio::time::sleep;

use super::{CommitError, Common, Event, Link};
use crate::assignor::Context;
use crate::builtin::{Builtin, KEEP};
use crate::consumer::config::OffsetReset;
use crate::consumer::connection::Channel;
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::{Identity, Planned};
use crate::consumer::metadata::TopicProblem;
use crate::consumer::offsets::{self, End, OffsetError, Offsets};
use crate::group::{Group, MemberSubscription, TopicPartitions};
use crate::plan::withhold;
use crate::wire;

/// The leader's part: partition counts, the strategy's plan, everybody's assignment as bytes.
pub(super) async fn plan(
    common: Rc<Common>,
    round: u64,
    strategy: usize,
    name: String,
    cx: Context,
    members: Vec<MemberSubscription>,
) -> Event {
    let mut troubles = Vec::new();
    let planned = make_plan(&common, strategy, &name, cx, members, &mut troubles).await;
    Event::Planned { round, planned, troubles }
}

async fn make_plan(
    common: &Common,
    strategy: usize,
    name: &str,
    cx: Context,
    members: Vec<MemberSubscription>,
    troubles: &mut Vec<String>,
) -> Result<Planned, String> {
    let config = &common.config;
    // Members that have not synced within the rebalance time-out are removed, and the leader with them.
    let limit = config.session_timeout.min(config.max_poll_interval) / 2;
    let topics: BTreeSet<String> = members.iter().flat_map(|m| m.subscription.topics.clone()).collect();
    let problems = tokio::time::timeout(limit, refreshed(common, &topics))
        .await
        .map_err(|_| format!("no broker tells the topics' partitions within {limit:?}"))?;
    for problem in problems {
        let TopicProblem { topic, error } = problem;
        troubles.push(format!("topic {topic:?} is not usable ({error:?}): nobody gets its partitions"));
        if error == E::TopicAuthorizationFailed {
            // The driver has ended if nobody receives.
            let _ = common.events.send(Event::Failed(ConsumerError::TopicAuthorization { topic }));
        }
    }
    let existing = common.metadata.with(|cluster| cluster.counts(&topics));
    let group = Arc::new(Group::new(&existing, members).map_err(|e| e.to_string())?);
    let plan = match common.strategist.assign(strategy, cx, Arc::clone(&group), limit).await {
        Ok(plan) => plan,
        Err(e) => {
            // Strategies from a catalog fall back by themselves; this is for those that don't.
            troubles.push(format!("strategy {name:?} has no plan ({e}): \"{KEEP}\" decides"));
            let mut plan = Builtin::keep().plan(&group);
            withhold(&group, &mut plan);
            plan
        }
    };
    let blob = |(member, assignment): (&crate::group::Member, &crate::plan::Assignment)| {
        let partitions = group.by_name(&assignment.partitions);
        let bytes = wire::assignment::encode(&partitions, assignment.user_data.as_deref());
        bytes.map(|b| (member.id.clone(), Bytes::from(b))).map_err(|e| e.to_string())
    };
    let blobs = group.members().iter().zip(&plan.assignments).map(blob).collect::<Result<Vec<_>, _>>()?;
    // Topics that don't exist yet are watched as well.
    let counts = topics.into_iter().map(|t| (t.clone(), existing.get(&t).copied().unwrap_or(0))).collect();
    Ok(Planned { blobs, counts })
}

async fn refreshed(common: &Common, topics: &BTreeSet<String>) -> Vec<TopicProblem> {
    loop {
        match common.metadata.refresh(topics).await {
            Ok(problems) => return problems,
            Err(e) => tracing::warn!(error = %e, "metadata for the plan; trying again"),
        }
        sleep(common.config.retry_backoff).await;
    }
}

/// Where to begin in each partition, and what of that is committed. Tries until it succeeds or is aborted.
pub(super) async fn locate(
    common: &Common,
    link: &Link,
    assigned: &[TopicPartitions],
) -> Result<(Offsets, Offsets), ConsumerError> {
    let partitions: BTreeSet<(String, u32)> =
        assigned.iter().flat_map(|t| t.partitions.iter().map(|p| (t.topic.clone(), *p))).collect();
    if partitions.is_empty() {
        return Ok(<_>::default());
    }
    let committed =
        again(common, async || offsets::committed(&link.rest, &common.config.group_id, &partitions).await)
            .await?;
    let missing: BTreeSet<_> = partitions.into_iter().filter(|p| !committed.contains_key(p)).collect();
    let mut start = committed.clone();
    start.extend(reset(common, missing).await?);
    Ok((start, committed))
}

/// `auto.offset.reset` for these partitions.
async fn reset(common: &Common, partitions: BTreeSet<(String, u32)>) -> Result<Offsets, ConsumerError> {
    let Some((topic, partition)) = partitions.first().cloned() else { return Ok(Offsets::new()) };
    let end = match common.config.auto_offset_reset {
        OffsetReset::Earliest => End::First,
        OffsetReset::Latest => End::Last,
        OffsetReset::None => return Err(ConsumerError::NoOffset { topic, partition }),
    };
    ends(common, &partitions, end).await
}

async fn ends(
    common: &Common,
    partitions: &BTreeSet<(String, u32)>,
    end: End,
) -> Result<Offsets, ConsumerError> {
    let topics: BTreeSet<String> = partitions.iter().map(|(t, _)| t.clone()).collect();
    again(common, async || {
        common.metadata.refresh(&topics).await.map_err(OffsetError::NotNow)?;
        offsets::ends(&common.metadata, &common.settings, &common.config, partitions, end).await
    })
    .await
}

/// Which of these positions are outside their partitions, and where to go on instead.
pub(super) async fn correct(common: &Common, positions: Offsets) -> Result<Offsets, ConsumerError> {
    let partitions: BTreeSet<_> = positions.keys().cloned().collect();
    let first = ends(common, &partitions, End::First).await?;
    let last = ends(common, &partitions, End::Last).await?;
    let outside = |(key, position): &(&(String, u32), &i64)| {
        first.get(*key).is_some_and(|f| *position < f) || last.get(*key).is_some_and(|l| *position > l)
    };
    let outside: BTreeSet<_> = positions.iter().filter(outside).map(|(key, _)| key.clone()).collect();
    for (topic, partition) in &outside {
        tracing::warn!(topic, partition, "the position is outside the partition: auto.offset.reset decides");
    }
    reset(common, outside).await
}

/// Tries until trying again is of no use.
async fn again(
    common: &Common,
    mut attempt: impl AsyncFnMut() -> Result<Offsets, OffsetError>,
) -> Result<Offsets, ConsumerError> {
    let mut pause = common.config.retry_backoff;
    loop {
        match attempt().await {
            Ok(offsets) => return Ok(offsets),
            Err(OffsetError::TopicAuthorization(topic)) => {
                return Err(ConsumerError::TopicAuthorization { topic });
            }
            Err(OffsetError::GroupAuthorization) => {
                return Err(ConsumerError::GroupAuthorization { group: common.config.group_id.clone() });
            }
            Err(OffsetError::NotNow(e)) => tracing::info!(error = %e, "offsets; trying again"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(common.config.retry_backoff_max);
    }
}

/// One try to commit.
pub(super) async fn commit(
    common: &Common,
    channel: &Channel,
    identity: Identity,
    offsets: Offsets,
) -> Result<(), CommitError> {
    let answer = offsets::commit(channel, &common.config.group_id, &identity, &offsets).await;
    let (code, topic) = answer.map_err(CommitError::NotNow)?;
    // The driver has ended if nobody receives.
    let _ = common.events.send(Event::Committed { identity, offsets, code });
    match E::try_from_code(code) {
        None => Ok(()),
        Some(E::RebalanceInProgress) => Err(CommitError::Final(ConsumerError::RebalanceInProgress)),
        Some(e @ (E::UnknownMemberId | E::IllegalGeneration | E::FencedInstanceId)) => {
            Err(CommitError::Final(ConsumerError::CommitFailed(format!("{e:?}"))))
        }
        Some(E::GroupAuthorizationFailed) => {
            let group = common.config.group_id.clone();
            Err(CommitError::Final(ConsumerError::GroupAuthorization { group }))
        }
        Some(E::TopicAuthorizationFailed) => {
            Err(CommitError::Final(ConsumerError::TopicAuthorization { topic }))
        }
        Some(e) if e.is_retriable() => Err(CommitError::NotNow(format!("{e:?}"))),
        Some(e) => Err(CommitError::Final(ConsumerError::Commit(format!("{e:?}")))),
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The same for the same call, and different between members and generations.
pub(super) fn seed(group: &str, member: &str, generation: i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, member, generation).hash(&mut hasher);
    hasher.finish()
}
