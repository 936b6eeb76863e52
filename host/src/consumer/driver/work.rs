//! The driver's longer tasks: each asks, waits, tries again, and ends in one event.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use kafka_protocol::ResponseError as E;
use tokio::time::sleep;

use super::{CommitError, Common, Event};
use crate::assignor::Context;
use crate::builtin::{Builtin, KEEP};
use crate::cause::{CallError, Cause};
use crate::consumer::config::ConsumerConfig;
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::{Identity, Planned};
use crate::consumer::metadata::{Cluster, TopicProblem};
use crate::consumer::offsets::{self, At, Commits, End, OffsetError, Offsets};
use crate::consumer::partition::OffsetAndTimestamp;
use crate::consumer::reset::OffsetReset;
use crate::consumer::shared::Key;
use crate::group::{Group, MemberSubscription};
use crate::plan::{Completeness, Plan, assert_safe, check, withhold};
use crate::wire;

/// Assignment user data of a leader with `assignor.block-upgrade` where its strategy gives none. A broker turns no group with such
/// user data into one of the new protocol (KAFKA-18134: it might be a custom assignor's, and would be lost). Kafka's own strategies, and
/// those of the other clients, don't look at it; our members don't pass it on to theirs.
pub(super) const NO_UPGRADE: &[u8] = b"\0assignor.block-upgrade";

/// So many topics that can't be used are told of in one rebalance.
const TOLD_PROBLEMS: usize = 5;
/// Kafka: `Topic.MAX_NAME_LENGTH`.
const LONGEST_TOPIC: usize = 249;

/// What a leader asks a strategy, by the strategy's place in the list and its name.
pub(super) struct Question {
    pub(super) strategy: usize,
    pub(super) name: String,
    pub(super) cx: Context,
    pub(super) members: Vec<MemberSubscription>,
    /// Whether its user data goes out to the members.
    pub(super) user_data: bool,
}

/// The leader's part: partition counts, the strategy's plan, everybody's assignment as bytes.
pub(super) async fn plan(common: Rc<Common>, round: u64, question: Question) -> Event {
    let mut troubles = Vec::new();
    let planned = make_plan(&common, question, &mut troubles).await;
    Event::Planned { round, planned, troubles }
}

async fn make_plan(
    common: &Common,
    question: Question,
    troubles: &mut Vec<String>,
) -> Result<Planned, String> {
    let Question { strategy, name, mut cx, members, user_data: with_user_data } = question;
    let config = &common.config;
    // Members that have not synced within the rebalance time-out are removed, and the leader with them.
    let limit = config.session_timeout.min(config.max_poll_interval) / 2;
    let deadline = Instant::now() + limit;
    let topics: BTreeSet<&String> = members.iter().flat_map(|m| m.subscription.topics.iter()).collect();
    let topics: BTreeSet<String> = topics.into_iter().cloned().collect();
    let problems = tokio::time::timeout(limit, refreshed(common, &topics))
        .await
        .map_err(|_| format!("no broker tells the topics' partitions within {limit:?}"))?;
    for (told, problem) in problems.into_iter().enumerate() {
        let TopicProblem { topic, error } = problem;
        // Names come from other members: as many as they like, of up to 32 KB each.
        if told < TOLD_PROBLEMS {
            let name: String = topic.chars().take(LONGEST_TOPIC).collect();
            troubles.push(format!("topic {name:?} is not usable ({error:?}): nobody gets its partitions"));
        }
        if error == E::TopicAuthorizationFailed {
            // The driver has ended if nobody receives.
            let _ = common.events.send(Event::Failed(ConsumerError::TopicAuthorization { topic }));
        }
    }
    let (existing, racks, group) = common.metadata.with(|cluster| {
        let existing = cluster.counts(&topics);
        let racks = watched_racks(config, cluster, &topics);
        let group = cluster.group(&existing, members);
        (existing, racks, group)
    });
    let group = Arc::new(group.map_err(|e| e.to_string())?);
    cx.services = Arc::new(common.services.for_plan(&existing));
    let asked = Instant::now();
    let left = deadline.saturating_duration_since(asked);
    let plan = common.strategist.assign(strategy, cx, Arc::clone(&group), left).await;
    common.metrics.decided(&name, asked.elapsed());
    let plan = sound(&group, plan).unwrap_or_else(|cause| {
        troubles.push(format!("strategy {name:?} has no plan ({cause}): \"{KEEP}\" decides"));
        let mut plan = Builtin::keep().plan(&group);
        withhold(&group, &mut plan);
        plan
    });
    // Mostly everything is somebody's, and claims needn't be looked at.
    let owners = plan.owners(&group);
    let held_back = owners.contains(&None)
        && owners.iter().zip(group.claims()).any(|(owner, claim)| owner.is_none() && claim.is_some());
    let blob = |(member, assignment): (&crate::group::Member, &crate::plan::Assignment)| {
        let user_data = assignment.user_data.as_deref().filter(|_| with_user_data);
        let user_data = user_data.filter(|bytes| !bytes.is_empty() || !config.block_upgrade);
        let user_data = user_data.or(config.block_upgrade.then_some(NO_UPGRADE));
        let bytes = wire::assignment::encode_numbers(&group, &assignment.partitions, user_data);
        bytes.map(|b| (member.id.clone(), Bytes::from(b))).map_err(|e| e.to_string())
    };
    let blobs = group.members().iter().zip(&plan.assignments).map(blob).collect::<Result<Vec<_>, _>>()?;
    // Topics that don't exist yet are watched as well.
    let counts = topics.into_iter().map(|t| (t.clone(), existing.get(&t).copied().unwrap_or(0))).collect();
    Ok(Planned { blobs, counts, held_back, racks })
}

/// The racks that a leader watches: as in Kafka none, if it has none itself (`ConsumerCoordinator.PartitionRackInfo`).
pub(super) fn watched_racks<'a>(
    config: &ConsumerConfig,
    cluster: &Cluster,
    topics: impl IntoIterator<Item = &'a String>,
) -> Option<u64> {
    config.client_rack.is_some().then(|| cluster.racks_of(topics))
}

/// Strategies of a catalog check their plans and fall back by themselves; any other may do neither, and no unsound plan leaves the
/// leader.
fn sound(group: &Group, plan: Result<Plan, CallError>) -> Result<Plan, Cause> {
    let mut plan = plan?;
    check(group, &plan, Completeness::Partial)?;
    withhold(group, &mut plan);
    assert_safe(group, &plan)?;
    Ok(plan)
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

/// Finds out where partitions start, until all are found or it is aborted. Partitions that can't be located yet, for want of a
/// leader, don't hold up the others.
pub(super) async fn locate(common: Rc<Common>, delivery: u64, mut missing: BTreeSet<Key>) {
    // The driver has ended if nobody receives.
    let tell = |event| drop(common.events.send(event));
    let found = |offsets, committed| {
        common.shared.recreated(common.metadata.with(Cluster::recreated));
        tell(Event::Located { delivery, offsets, committed });
    };
    let (_, answer) = tokio::join!(see(&common, &missing), committed(&common, &missing));
    let mut answer = Some(answer);
    let mut pause = Pause::new(&common);
    while !missing.is_empty() {
        let answer = match answer.take() {
            Some(answer) => answer,
            None => committed(&common, &missing).await,
        };
        match answer {
            Ok(offsets) => {
                missing.retain(|p| !offsets.contains_key(p));
                found(offsets::bare(&offsets), true);
                break;
            }
            Err(problem) => pause.after(problem).await,
        }
    }
    let mut pause = Pause::new(&common);
    while !missing.is_empty() {
        let (offsets, problem) = match reset(&common, &missing).await {
            Ok(answer) => answer,
            Err(ConsumerError::NoOffset { .. }) => {
                return tell(Event::Stuck { delivery, partitions: missing });
            }
            Err(error) => return tell(Event::Failed(error)),
        };
        missing.retain(|p| !offsets.contains_key(p));
        if !offsets.is_empty() {
            found(offsets, false);
        }
        if !missing.is_empty() {
            let lacks = || OffsetError::NotNow("the answer lacks partitions".into());
            pause.after(problem.unwrap_or_else(lacks)).await;
        }
    }
}

/// Looks at topics again: of one that was deleted and created again, only its id tells. If no broker answers soon, that is all that is
/// missed.
async fn see(common: &Common, partitions: &BTreeSet<Key>) {
    let topics: BTreeSet<String> = partitions.iter().map(|(topic, _)| topic.clone()).collect();
    if topics.is_empty() {
        return;
    }
    let seen = tokio::time::timeout(common.config.retry_backoff_max, common.metadata.refresh(&topics)).await;
    if !matches!(seen, Ok(Ok(_))) {
        tracing::debug!(?topics, "no broker tells what these are");
    }
}

async fn committed(common: &Common, partitions: &BTreeSet<Key>) -> Result<Commits, OffsetError> {
    // The coordinator may move meanwhile.
    let link = common.link().ok_or_else(|| OffsetError::NotNow("the coordinator is not known".into()))?;
    offsets::committed(&link.rest, &common.config.group_id, partitions).await
}

/// `auto.offset.reset` for these partitions, as far as it can be had.
async fn reset(
    common: &Common,
    partitions: &BTreeSet<(String, u32)>,
) -> Result<(Offsets, Option<OffsetError>), ConsumerError> {
    let Some((topic, partition)) = partitions.first().cloned() else { return Ok((Offsets::new(), None)) };
    let end = match common.config.auto_offset_reset {
        OffsetReset::Earliest => End::First,
        OffsetReset::Latest => End::Last,
        OffsetReset::ByDuration(age) => return Ok(no_older_than(common, partitions, age).await),
        OffsetReset::None => return Err(ConsumerError::NoOffset { topic, partition }),
    };
    Ok(ends(common, partitions, end).await)
}

/// The first record that is no older, or where there is none, the end (KIP-1106).
async fn no_older_than(
    common: &Common,
    partitions: &BTreeSet<Key>,
    age: Duration,
) -> (Offsets, Option<OffsetError>) {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let since = i64::try_from(now_ms().saturating_sub(age)).unwrap_or(0);
    let wanted = partitions.iter().map(|key| (key.clone(), At::Time(since))).collect();
    let (found, problem) = places(common, &wanted).await;
    let newer = found.iter().filter(|(_, place)| place.is_none()).map(|(key, _)| key.clone()).collect();
    let mut offsets: Offsets =
        found.into_iter().filter_map(|(key, place)| Some((key, place?.offset))).collect();
    let (last, later) = ends(common, &newer, End::Last).await;
    offsets.extend(last);
    (offsets, problem.or(later))
}

/// [`offsets::places`], by fresh metadata.
pub(super) async fn places(
    common: &Common,
    wanted: &BTreeMap<Key, At>,
) -> (BTreeMap<Key, Option<OffsetAndTimestamp>>, Option<OffsetError>) {
    let topics: BTreeSet<String> = wanted.keys().map(|(t, _)| t.clone()).collect();
    if let Err(e) = common.metadata.refresh(&topics).await {
        return (BTreeMap::new(), Some(OffsetError::NotNow(e)));
    }
    offsets::places(&common.metadata, &common.settings, &common.config, wanted).await
}

/// Finds out where partitions begin or end, whose application has asked to go on from there, until none of them waits for that any
/// more.
pub(super) async fn seek_to(common: &Common, mut partitions: BTreeSet<Key>, end: End, stamp: u64) {
    let mut pause = Pause::new(common);
    loop {
        partitions = common.shared.awaiting_end(&partitions, stamp);
        if partitions.is_empty() {
            return;
        }
        let (offsets, problem) = ends(common, &partitions, end).await;
        partitions.retain(|key| !offsets.contains_key(key));
        common.shared.found_end(&offsets, stamp);
        if !partitions.is_empty() {
            let lacks = || OffsetError::NotNow("the answer lacks partitions".into());
            pause.after(problem.unwrap_or_else(lacks)).await;
        }
    }
}

/// The first or last offsets of partitions: those that could be had, and why others could not.
async fn ends(
    common: &Common,
    partitions: &BTreeSet<(String, u32)>,
    end: End,
) -> (Offsets, Option<OffsetError>) {
    if partitions.is_empty() {
        return (Offsets::new(), None);
    }
    let wanted = partitions.iter().map(|key| (key.clone(), At::End(end))).collect();
    let (found, problem) = places(common, &wanted).await;
    let offsets = found.into_iter().filter_map(|(key, place)| Some((key, place?.offset)));
    (offsets.collect(), problem)
}

/// Which of these positions are outside their partitions, and where to go on instead. What can't be found out now is found
/// out when the data path stumbles over it again.
pub(super) async fn correct(common: &Common, positions: Offsets) -> Result<Offsets, ConsumerError> {
    // Should broker and data path disagree, they don't do so in a tight loop.
    sleep(common.config.retry_backoff).await;
    let partitions: BTreeSet<_> = positions.keys().cloned().collect();
    let (first, _) = ends(common, &partitions, End::First).await;
    let (last, _) = ends(common, &partitions, End::Last).await;
    let outside = |(key, position): &(&(String, u32), &i64)| {
        first.get(*key).is_some_and(|f| *position < f) || last.get(*key).is_some_and(|l| *position > l)
    };
    let outside: BTreeSet<_> = positions.iter().filter(outside).map(|(key, _)| key.clone()).collect();
    for (topic, partition) in &outside {
        tracing::warn!(topic, partition, "the position is outside the partition: auto.offset.reset decides");
    }
    reset(common, &outside).await.map(|(offsets, _)| offsets)
}

/// Pauses between tries, longer each time.
pub(super) struct Pause<'a> {
    common: &'a Common,
    next: Duration,
}

impl<'a> Pause<'a> {
    pub(super) fn new(common: &'a Common) -> Self {
        Self { common, next: common.config.retry_backoff }
    }

    /// What an operator must heal is reported to the application each time.
    async fn after(&mut self, problem: OffsetError) {
        let error = match problem {
            OffsetError::NotNow(e) => {
                tracing::info!(error = %e, "offsets; trying again");
                None
            }
            OffsetError::TopicAuthorization(topic) => Some(ConsumerError::TopicAuthorization { topic }),
            OffsetError::GroupAuthorization => {
                Some(ConsumerError::GroupAuthorization { group: self.common.config.group_id.clone() })
            }
        };
        if let Some(error) = error {
            // The driver has ended if nobody receives.
            let _ = self.common.events.send(Event::Failed(error));
        }
        sleep(self.next).await;
        self.next = (self.next * 2).min(self.common.config.retry_backoff_max);
    }
}

/// Tries to commit until it succeeds, can't succeed any more, or the time is over.
pub(super) async fn commit_within(
    common: &Common,
    limit: Duration,
    identity: Identity,
    offsets: Offsets,
) -> Result<(), CommitError> {
    let end = Instant::now() + limit;
    let offsets = offsets::plain(offsets);
    let mut pause = common.config.retry_backoff;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let tried = tokio::time::timeout(left, commit(common, identity.clone(), offsets.clone())).await;
        let late = || Err(CommitError::NotNow(format!("no answer within {limit:?}")));
        match tried.unwrap_or_else(|_| late()) {
            Err(CommitError::NotNow(_)) if Instant::now() + pause < end => sleep(pause).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(common.config.retry_backoff_max);
    }
}

/// One try to commit.
pub(super) async fn commit(common: &Common, identity: Identity, offsets: Commits) -> Result<(), CommitError> {
    if offsets.is_empty() {
        return Ok(());
    }
    let link = common.link().ok_or_else(|| CommitError::NotNow("the coordinator is not known".into()))?;
    let answer = offsets::commit(&link.rest, &common.config, &identity, &offsets).await;
    common.metrics.commit(answer.as_ref().ok().map(|(code, _)| *code));
    let (code, topic) = answer.map_err(CommitError::NotNow)?;
    let current = common.shared.is_current(&identity);
    // The driver has ended if nobody receives.
    let _ = common.events.send(Event::Committed { identity, offsets: offsets::bare(&offsets), code });
    match E::try_from_code(code) {
        None => Ok(()),
        // The group has gone on, and this member with it (Kafka: `OffsetCommitResponseHandler`).
        Some(E::UnknownMemberId | E::IllegalGeneration | E::FencedInstanceId) if !current => {
            Err(CommitError::Final(ConsumerError::RebalanceInProgress))
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{group, member};

    #[test]
    fn no_unsound_plan_leaves_the_leader_whoever_made_it() {
        let members = vec![member("a", &["t"], Some(1), &[0]), member("b", &["t"], Some(1), &[])];
        let group = group(&[("t", 2)], members);
        let everything_to_everyone = Plan::of(vec![vec![0, 1], vec![0, 1]]);
        assert_eq!(sound(&group, Ok(everything_to_everyone)).unwrap_err().code(), "plan-duplicate");
        let failed = Err(CallError::Declined("no".into()));
        assert_eq!(sound(&group, failed).unwrap_err().code(), "declined");
        // What "a" must give up first is held back.
        let swapped = sound(&group, Ok(Plan::of(vec![vec![1], vec![0]]))).unwrap();
        assert_eq!(swapped, Plan::of(vec![vec![1], vec![]]));
    }
}
