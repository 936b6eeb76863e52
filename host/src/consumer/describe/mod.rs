//! Looks at groups from outside, as an operator does: who is in one, what each member wants, told and got, and how far it has read.
//!
//! What members wrote is decoded by [`crate::wire`], which believes no length; what can't be read is told as such, and the rest is
//! shown.

mod requests;
#[cfg(test)]
mod tests;
mod user_data;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::Serialize;

pub use self::user_data::UserData;
use super::config::{Address, ConsumerConfig};
use super::connection::{Channel, Settings};
use super::lag::{self, Brokers, Found};
use super::metadata::Metadata;
use super::offsets::End;
use crate::group::{Subscription, TopicPartitions};
use crate::wire;

/// Why a group can't be described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// The configuration can't be used, such as its certificates.
    #[error("{0}")]
    Config(String),
    /// No broker answers, or the coordinator does not.
    #[error("{0}")]
    Unreachable(String),
    /// There is no such group.
    #[error("there is no group {0:?}")]
    NotFound(String),
    /// A group of another protocol.
    #[error("group {group:?} is of the type {kind:?}, whose members have no strategies of their own: {}", why(.kind))]
    OtherType {
        /// The group.
        group: String,
        /// Its type, as Kafka names it.
        kind: String,
    },
    /// The principal may not look at the group (GROUP_AUTHORIZATION_FAILED).
    #[error("not authorised to describe group {0:?}: grant DESCRIBE on the group")]
    Authorization(String),
    /// The coordinator refuses for another reason.
    #[error("the coordinator of group {group:?} refuses: {reason}")]
    Refused {
        /// The group.
        group: String,
        /// Its reason.
        reason: String,
    },
    /// This machine can't: no runtime for the connections.
    #[error("no runtime for the connections: {0}")]
    Runtime(String),
}

fn why(kind: &str) -> &'static str {
    if kind.eq_ignore_ascii_case("consumer") {
        "the broker assigns its partitions (KIP-848); kafka-consumer-groups.sh describes it"
    } else {
        "it is no classic group of consumers"
    }
}

impl DescribeError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) => "config",
            Self::Unreachable(_) => "unreachable",
            Self::NotFound(_) => "group-not-found",
            Self::OtherType { .. } => "group-type",
            Self::Authorization(_) => "group-authorization",
            Self::Refused { .. } => "refused",
            Self::Runtime(_) => "runtime",
        }
    }
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct GroupListing {
    /// `group.id`.
    pub group_id: String,
    /// What its members speak inside: `consumer` for consumers; empty for a group that only has offsets.
    pub protocol_type: String,
    /// Its state, where the broker tells (Kafka 2.6 and later).
    pub state: Option<String>,
    /// `classic`, `consumer` (KIP-848), `share` or `streams`, where the broker tells (Kafka 3.8 and later).
    pub kind: Option<String>,
    /// The broker that coordinates it.
    pub coordinator: String,
}

/// All groups of a cluster, and which brokers did not tell theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupList {
    /// Ordered by name.
    pub groups: Vec<GroupListing>,
    /// Why some may be missing: one text for each broker that did not answer.
    pub problems: Vec<String>,
}

/// A group as it is now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupDescription {
    /// `group.id`.
    pub group_id: String,
    /// `Stable`, `PreparingRebalance`, `CompletingRebalance` or `Empty`.
    pub state: String,
    /// The broker that coordinates it.
    pub coordinator: String,
    /// What its members speak inside: `consumer` for consumers.
    pub protocol_type: String,
    /// The strategy that it runs; empty while it has none.
    pub strategy: String,
    /// Its members, ordered by id.
    pub members: Vec<MemberDescription>,
    /// The partitions that somebody owns or that something is committed for, ordered by topic.
    pub partitions: Vec<PartitionDescription>,
    /// How evenly the partitions are spread; none without members.
    pub balance: Option<Balance>,
    /// What could not be found out.
    pub problems: Vec<String>,
}

/// A member of a described group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemberDescription {
    /// The member id that the broker gave.
    pub id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from, as the broker sees it.
    pub host: String,
    /// The topics it asks for, under the strategy that the group runs.
    pub topics: Vec<String>,
    /// What it told that it owned when it joined.
    pub owned: BTreeMap<String, Vec<u32>>,
    /// The generation in which it got that.
    pub generation: Option<i32>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// What its strategy told the leader.
    pub user_data: Option<UserData>,
    /// What it has.
    pub assigned: BTreeMap<String, Vec<u32>>,
    /// What the leader's strategy told it.
    pub assigned_user_data: Option<UserData>,
    /// What of its own bytes can't be read.
    pub problems: Vec<String>,
}

impl MemberDescription {
    /// How many partitions it has.
    pub fn partitions(&self) -> usize {
        self.assigned.values().map(Vec::len).sum()
    }
}

/// A partition of a described group. What isn't known is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartitionDescription {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The id of the member that has it. Of two, which a sound leader never plans, the one whose id comes last.
    pub owner: Option<String>,
    /// The group's committed offset.
    pub committed: Option<i64>,
    /// The offset after the last record.
    pub end: Option<i64>,
    /// Records between the two.
    pub lag: Option<i64>,
}

/// How evenly partitions are spread over members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Balance {
    /// The partitions of the member that has fewest.
    pub fewest: usize,
    /// The partitions of the member that has most.
    pub most: usize,
    /// The difference: 0 or 1 is as even as can be where all members ask for the same topics.
    pub imbalance: usize,
    /// The lag of the member that is furthest behind, as far as it is known.
    pub most_lag: Option<i64>,
}

/// All groups that the cluster's brokers coordinate.
///
/// # Errors
/// If no broker tells which others there are. Brokers that don't answer afterwards are named in the list.
pub fn list_groups(config: &ConsumerConfig) -> Result<GroupList, DescribeError> {
    run(config, async |_, settings, metadata| requests::list(&settings, &metadata).await)
}

/// Describes a classic group.
///
/// # Errors
/// See [`DescribeError`]. What is missing of an answer is told in the description's problems.
pub fn describe_group(config: &ConsumerConfig, group: &str) -> Result<GroupDescription, DescribeError> {
    run(config, async |config, settings, metadata| {
        let (coordinator, told) = requests::describe(config, &settings, &metadata, group).await?;
        let mut described = members_of(group, &coordinator, told);
        offsets_of(&mut described, config, &settings, &metadata, coordinator).await;
        Ok(described)
    })
}

/// Runs requests on a thread's own runtime, and creates no topics by asking for them.
fn run<T>(
    config: &ConsumerConfig,
    ask: impl AsyncFnOnce(&ConsumerConfig, Rc<Settings>, Metadata) -> Result<T, DescribeError>,
) -> Result<T, DescribeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| DescribeError::Runtime(e.to_string()))?;
    let config = ConsumerConfig { allow_auto_create_topics: false, ..config.clone() };
    // A login that is refused is in the request's own error.
    let settings = Settings::new(&config, |_| {}).map_err(|e| DescribeError::Config(e.to_string()))?;
    let metadata = Metadata::new(&config, Rc::clone(&settings));
    tokio::task::LocalSet::new().block_on(&runtime, ask(&config, settings, metadata))
}

/// What the coordinator tells, decoded.
fn members_of(group: &str, coordinator: &Address, told: requests::Told) -> GroupDescription {
    let consumers = told.protocol_type == requests::CONSUMER;
    let mut members: Vec<MemberDescription> =
        told.members.into_iter().map(|m| member(m, consumers, &told.strategy)).collect();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    let mut problems = Vec::new();
    if !consumers && !told.protocol_type.is_empty() {
        problems.push(format!(
            "its members speak {:?}, not {:?}: what they wrote is not read",
            told.protocol_type,
            requests::CONSUMER
        ));
    }
    GroupDescription {
        group_id: group.to_owned(),
        state: told.state,
        coordinator: coordinator.to_string(),
        protocol_type: told.protocol_type,
        strategy: told.strategy,
        members,
        partitions: Vec::new(),
        balance: None,
        problems,
    }
}

fn member(told: requests::ToldMember, consumers: bool, strategy: &str) -> MemberDescription {
    let mut problems = Vec::new();
    let mut subscription = Subscription::default();
    let mut assigned = (Vec::new(), None);
    // No bytes: the group is rebalancing.
    if consumers && !told.metadata.is_empty() {
        match wire::subscription::decode(&told.metadata) {
            Ok(read) => subscription = read,
            Err(e) => problems.push(format!("its subscription can't be read: {e}")),
        }
    }
    if consumers && !told.assignment.is_empty() {
        match wire::assignment::decode(&told.assignment) {
            Ok(read) => assigned = read,
            Err(e) => problems.push(format!("its assignment can't be read: {e}")),
        }
    }
    let user_data = |bytes: Option<Vec<u8>>| bytes.map(|bytes| UserData::read(strategy, &bytes));
    MemberDescription {
        id: told.id,
        instance_id: told.instance_id,
        client_id: told.client_id,
        host: told.host,
        topics: subscription.topics.to_vec(),
        owned: by_topic(subscription.owned),
        generation: subscription.generation,
        rack: subscription.rack,
        user_data: user_data(subscription.user_data),
        assigned: by_topic(assigned.0),
        assigned_user_data: user_data(assigned.1),
        problems,
    }
}

fn by_topic(list: Vec<TopicPartitions>) -> BTreeMap<String, Vec<u32>> {
    let mut topics: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for TopicPartitions { topic, partitions } in list {
        topics.entry(topic).or_default().extend(partitions);
    }
    for partitions in topics.values_mut() {
        partitions.sort_unstable();
        partitions.dedup();
    }
    topics
}

/// So many partitions are looked up: members may claim any number.
const MOST_PARTITIONS: usize = 200_000;

/// Fills in the partitions: who has them, what is committed, where they end.
async fn offsets_of(
    described: &mut GroupDescription,
    config: &ConsumerConfig,
    settings: &Rc<Settings>,
    metadata: &Metadata,
    coordinator: Address,
) {
    let mut owners: BTreeMap<(String, u32), Option<String>> = BTreeMap::new();
    let channel = Channel::new(coordinator, Rc::clone(settings));
    let committed = lag::all_committed(&channel, &described.group_id).await.unwrap_or_else(|e| {
        described.problems.push(format!("what is committed can't be told: {e}"));
        BTreeMap::new()
    });
    owners.extend(committed.keys().map(|partition| (partition.clone(), None)));
    for member in &described.members {
        for (topic, partitions) in &member.assigned {
            for partition in partitions {
                if owners.len() < MOST_PARTITIONS {
                    owners.insert((topic.clone(), *partition), Some(member.id.clone()));
                }
            }
        }
    }
    if owners.len() >= MOST_PARTITIONS {
        described.problems.push(format!("only {MOST_PARTITIONS} partitions are shown"));
    }
    let ends = ends_of(owners.keys(), described, config, settings, metadata).await;
    described.partitions = owners
        .into_iter()
        .map(|((topic, partition), owner)| {
            let key = (topic, partition);
            let (committed, end) = (committed.get(&key).copied(), ends.get(&key).copied());
            let lag = committed.zip(end).map(|(committed, end)| end.saturating_sub(committed).max(0));
            let (topic, partition) = key;
            PartitionDescription { topic, partition, owner, committed, end, lag }
        })
        .collect();
    described.balance = balance(described);
}

async fn ends_of(
    partitions: impl Iterator<Item = &(String, u32)>,
    described: &mut GroupDescription,
    config: &ConsumerConfig,
    settings: &Rc<Settings>,
    metadata: &Metadata,
) -> BTreeMap<(String, u32), i64> {
    let mut topics: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic.clone()).or_default().push(*partition);
    }
    if topics.is_empty() {
        return BTreeMap::new();
    }
    let names: BTreeSet<String> = topics.keys().cloned().collect();
    let mut problems: BTreeSet<String> = BTreeSet::new();
    match metadata.refresh(&names).await {
        Ok(unusable) => {
            problems.extend(unusable.into_iter().map(|p| format!("topic {:?}: {:?}", p.topic, p.error)));
        }
        Err(e) => {
            problems.insert(format!("no broker tells the partitions' leaders: {e}"));
        }
    }
    let wanted: Vec<TopicPartitions> =
        topics.into_iter().map(|(topic, partitions)| TopicPartitions { topic, partitions }).collect();
    let brokers = Brokers::new(Rc::clone(settings));
    let limit = config.request_timeout;
    let Found(found) = lag::ends(metadata, &brokers, config.read_committed, &wanted, End::Last, limit).await;
    let mut ends = BTreeMap::new();
    for (TopicPartitions { topic, partitions }, found) in wanted.into_iter().zip(found) {
        problems.extend(found.problem);
        for (partition, end) in partitions.into_iter().zip(found.offsets) {
            if let Some(end) = end {
                ends.insert((topic.clone(), partition), end);
            }
        }
    }
    described.problems.extend(problems);
    ends
}

fn balance(described: &GroupDescription) -> Option<Balance> {
    let counts = described.members.iter().map(MemberDescription::partitions);
    let (fewest, most) = (counts.clone().min()?, counts.max()?);
    let mut lags: BTreeMap<&str, i64> = BTreeMap::new();
    for partition in &described.partitions {
        if let (Some(owner), Some(lag)) = (&partition.owner, partition.lag) {
            let sum = lags.entry(owner).or_default();
            *sum = sum.saturating_add(lag);
        }
    }
    Some(Balance { fewest, most, imbalance: most - fewest, most_lag: lags.into_values().max() })
}
