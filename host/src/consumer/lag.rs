//! Offsets that somebody wants to know, though not to read on from there: a strategy that splits by lag, metrics, whoever describes a
//! group.
//!
//! An answer is partial by nature: what a broker does not tell in time is not known, and everything else is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsResponse;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, OffsetFetchRequest, OffsetFetchResponse};
use tokio::task::JoinSet;

use super::config::Address;
use super::connection::{Channel, RequestError, Settings};
use super::coordinator::text;
use super::metadata::Metadata;
use super::offsets::End;
use crate::group::TopicPartitions;

/// Which offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The first one.
    Begin,
    /// The one after the last record; with `isolation.level=read_committed`, of the last stable offset.
    End,
    /// The group's committed one.
    Committed,
}

/// What is known of a topic's partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TopicOffsets {
    /// For each partition that was asked for, in that order; `None` where the offset isn't known, or nothing is committed.
    pub(super) offsets: Vec<Option<i64>>,
    /// Why some aren't known.
    pub(super) problem: Option<String>,
}

/// The answer to a question for some topics, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found(pub(super) Vec<TopicOffsets>);

impl Found {
    fn nothing(wanted: &[TopicPartitions]) -> Self {
        let unknown =
            |t: &TopicPartitions| TopicOffsets { offsets: vec![None; t.partitions.len()], problem: None };
        Self(wanted.iter().map(unknown).collect())
    }

    /// The first problem of a topic is kept.
    fn problem(&mut self, topic: usize, problem: impl FnOnce() -> String) {
        if let Some(topic) = self.0.get_mut(topic) {
            topic.problem.get_or_insert_with(problem);
        }
    }

    /// Nothing of these topics is known.
    pub(super) fn failed(wanted: &[TopicPartitions], problem: &str) -> Self {
        let mut found = Self::nothing(wanted);
        for topic in &mut found.0 {
            topic.problem = Some(problem.to_owned());
        }
        found
    }
}

/// Where an answer's topics and partitions belong: a broker may tell them in any order, and some that nobody asked for.
struct Places<'a> {
    wanted: &'a [TopicPartitions],
    topics: BTreeMap<&'a str, usize>,
}

impl<'a> Places<'a> {
    fn of(wanted: &'a [TopicPartitions]) -> Self {
        Self {
            wanted,
            topics: wanted.iter().enumerate().map(|(place, t)| (t.topic.as_str(), place)).collect(),
        }
    }

    fn take(&self, found: &mut Found, topic: &str, partition: i32, offset: i64, error: i16) {
        let Some(&place) = self.topics.get(topic) else { return };
        if let Some(error) = ResponseError::try_from_code(error) {
            return found.problem(place, || format!("{topic}-{partition}: {error:?}"));
        }
        let (Some(asked), Ok(partition)) = (self.wanted.get(place), u32::try_from(partition)) else { return };
        let Ok(index) = asked.partitions.binary_search(&partition) else { return };
        if let Some(slot) = found.0.get_mut(place).and_then(|t| t.offsets.get_mut(index)) {
            *slot = (offset >= 0).then_some(offset);
        }
    }
}

/// How long a connection is used again: far shorter than brokers keep idle ones (`connections.max.idle.ms`, 10 minutes).
const KEPT: Duration = Duration::from_secs(30);

/// How long a broker that did not answer is not asked again: time for the other questions of the same decision.
const SILENT: Duration = Duration::from_secs(5);

/// Connections for these questions alone. A broker answers the requests of one connection in turn: on the coordinator's, a question
/// that takes long would hold up heartbeats.
pub(super) struct Brokers {
    settings: Rc<Settings>,
    channels: RefCell<BTreeMap<Address, (Instant, Rc<Channel>)>>,
    silent: RefCell<BTreeMap<Address, Instant>>,
}

impl Brokers {
    pub(super) fn new(settings: Rc<Settings>) -> Self {
        Self { settings, channels: RefCell::default(), silent: RefCell::default() }
    }

    /// A connection to this broker; none if it has just failed to answer.
    pub(super) fn channel(&self, address: &Address) -> Option<Rc<Channel>> {
        let now = Instant::now();
        self.silent.borrow_mut().retain(|_, since| now.duration_since(*since) < SILENT);
        if self.silent.borrow().contains_key(address) {
            return None;
        }
        let mut channels = self.channels.borrow_mut();
        channels.retain(|_, (since, _)| now.duration_since(*since) < KEPT);
        let new = || (now, Rc::new(Channel::new(address.clone(), Rc::clone(&self.settings))));
        Some(Rc::clone(&channels.entry(address.clone()).or_insert_with(new).1))
    }

    /// The broker did not answer.
    fn failed(&self, address: &Address) {
        self.channels.borrow_mut().remove(address);
        self.silent.borrow_mut().insert(address.clone(), Instant::now());
    }
}

/// The first or last offsets of partitions, each asked of its leader, all at once. Partitions ascend within their topic.
pub(super) async fn ends(
    metadata: &Metadata,
    brokers: &Brokers,
    read_committed: bool,
    wanted: &[TopicPartitions],
    end: End,
    limit: Duration,
) -> Found {
    let mut found = Found::nothing(wanted);
    let places = Places::of(wanted);
    let mut requests = JoinSet::new();
    for (leader, topics) in by_leader(metadata, wanted, end, &mut found) {
        let asked: Vec<usize> = topics.iter().map(|(place, _)| *place).collect();
        let Some(channel) = brokers.channel(&leader) else {
            unanswered(&mut found, &asked, &format!("{leader} did not answer a moment ago"));
            continue;
        };
        let topics = topics.into_iter().map(|(_, topic)| topic).collect();
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(i8::from(read_committed))
            .with_topics(topics);
        requests.spawn_local(async move {
            let answer: Result<ListOffsetsResponse, RequestError> =
                channel.call_within(limit, |_| request).await;
            (leader, asked, answer)
        });
    }
    while let Some(answered) = requests.join_next().await {
        let Ok((leader, asked, answer)) = answered else { continue };
        match answer {
            Ok(answer) => {
                for topic in &answer.topics {
                    for p in &topic.partitions {
                        places.take(&mut found, &topic.name, p.partition_index, p.offset, p.error_code);
                    }
                }
            }
            Err(e) => {
                brokers.failed(&leader);
                unanswered(&mut found, &asked, &e.to_string());
            }
        }
    }
    found
}

fn unanswered(found: &mut Found, topics: &[usize], problem: &str) {
    for topic in topics {
        found.problem(*topic, || problem.to_owned());
    }
}

/// What is asked of each leader: topics with their places in the question.
fn by_leader(
    metadata: &Metadata,
    wanted: &[TopicPartitions],
    end: End,
    found: &mut Found,
) -> BTreeMap<Address, Vec<(usize, ListOffsetsTopic)>> {
    let timestamp = if end == End::First { -2 } else { -1 };
    let mut leaders: BTreeMap<Address, Vec<(usize, ListOffsetsTopic)>> = BTreeMap::new();
    metadata.with(|cluster| {
        for (place, TopicPartitions { topic, partitions }) in wanted.iter().enumerate() {
            let mut of_topic: BTreeMap<&Address, Vec<ListOffsetsPartition>> = BTreeMap::new();
            for partition in partitions {
                // Kafka's partition numbers are 31 bits wide.
                let Ok(index) = i32::try_from(*partition) else { continue };
                match cluster.leader(topic, *partition) {
                    Some(leader) => of_topic.entry(leader).or_default().push(
                        ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp),
                    ),
                    None => found.problem(place, || format!("{topic}-{partition} has no leader")),
                }
            }
            for (leader, partitions) in of_topic {
                let topic =
                    ListOffsetsTopic::default().with_name(text(topic).into()).with_partitions(partitions);
                leaders.entry(leader.clone()).or_default().push((place, topic));
            }
        }
    });
    leaders
}

/// The group's committed offsets. Unlike a member that begins to read there, nobody waits for open transactions here.
pub(super) async fn committed(
    channel: &Channel,
    group: &str,
    wanted: &[TopicPartitions],
    limit: Duration,
) -> Found {
    let answer = match channel.call_within(limit, |version| fetch_request(group, Some(wanted), version)).await
    {
        Ok(answer) => answer,
        Err(e) => return Found::failed(wanted, &e.to_string()),
    };
    let mut found = Found::nothing(wanted);
    let places = Places::of(wanted);
    let take = |topic: &str, partition, offset, error| {
        places.take(&mut found, topic, partition, offset, error);
    };
    match each_committed(&answer, take) {
        Ok(()) => found,
        Err(e) => Found::failed(wanted, &e),
    }
}

/// All that the group has committed.
///
/// # Errors
/// If the coordinator does not answer or refuses.
pub(super) async fn all_committed(
    channel: &Channel,
    group: &str,
) -> Result<BTreeMap<(String, u32), i64>, String> {
    let answer =
        channel.call(|version| fetch_request(group, None, version)).await.map_err(|e| e.to_string())?;
    let mut offsets = BTreeMap::new();
    each_committed(&answer, |topic, partition, offset, error| {
        if let (Ok(partition), true, 0) = (u32::try_from(partition), offset >= 0, error) {
            offsets.insert((topic.to_owned(), partition), offset);
        }
    })?;
    Ok(offsets)
}

/// OffsetFetch for these partitions, or for all.
fn fetch_request(group: &str, wanted: Option<&[TopicPartitions]>, version: i16) -> OffsetFetchRequest {
    // Kafka's partition numbers are 31 bits wide.
    let indexes = |t: &TopicPartitions| t.partitions.iter().filter_map(|p| i32::try_from(*p).ok()).collect();
    if version < 8 {
        let topic = |t: &TopicPartitions| {
            OffsetFetchRequestTopic::default()
                .with_name(text(&t.topic).into())
                .with_partition_indexes(indexes(t))
        };
        return OffsetFetchRequest::default()
            .with_group_id(text(group).into())
            .with_topics(wanted.map(|wanted| wanted.iter().map(topic).collect()));
    }
    let topic = |t: &TopicPartitions| {
        OffsetFetchRequestTopics::default()
            .with_name(text(&t.topic).into())
            .with_partition_indexes(indexes(t))
    };
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(text(group).into())
        .with_topics(wanted.map(|wanted| wanted.iter().map(topic).collect()));
    OffsetFetchRequest::default().with_topics(Some(Vec::new())).with_groups(vec![group])
}

/// Goes through both shapes of an answer: topic, partition, offset, error code.
fn each_committed(
    answer: &OffsetFetchResponse,
    mut take: impl FnMut(&str, i32, i64, i16),
) -> Result<(), String> {
    let refused = |code| ResponseError::try_from_code(code).map_or(Ok(()), |e| Err(format!("{e:?}")));
    refused(answer.error_code)?;
    for topic in &answer.topics {
        for p in &topic.partitions {
            take(&topic.name, p.partition_index, p.committed_offset, p.error_code);
        }
    }
    for group in &answer.groups {
        refused(group.error_code)?;
        for topic in &group.topics {
            for p in &topic.partitions {
                take(&topic.name, p.partition_index, p.committed_offset, p.error_code);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
