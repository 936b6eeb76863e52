//! Where to read on: committed offsets of the group, the ends of partitions, commits.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::ResponseError as E;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::StrBytes;

use super::config::{Address, ConsumerConfig};
use super::connection::{Channel, Settings};
use super::coordinator::{instance_id, text};
use super::machine::Identity;
use super::metadata::Metadata;
use super::partition::{OffsetAndMetadata, OffsetAndTimestamp};
use super::shared::Key;

/// An offset for each of some partitions.
pub(super) type Offsets = BTreeMap<Key, i64>;

/// What is committed, of each of some partitions.
pub(super) type Commits = BTreeMap<Key, OffsetAndMetadata>;

/// Offsets alone, to be committed.
pub(super) fn plain(offsets: Offsets) -> Commits {
    offsets.into_iter().map(|(key, offset)| (key, offset.into())).collect()
}

/// The offsets alone, of what is committed.
pub(super) fn bare(commits: &Commits) -> Offsets {
    commits.iter().map(|(key, committed)| (key.clone(), committed.offset)).collect()
}

/// A place in a partition that its leader is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    End(End),
    /// The first record of this time, in milliseconds since 1970, or a later one.
    Time(i64),
}

impl At {
    fn timestamp(self) -> i64 {
        match self {
            Self::End(End::First) => -2,
            Self::End(End::Last) => -1,
            Self::Time(milliseconds) => milliseconds,
        }
    }
}

/// Which end of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// Why offsets are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OffsetError {
    /// Trying again can help.
    #[error("{0}")]
    NotNow(String),
    /// TOPIC_AUTHORIZATION_FAILED.
    #[error("not authorised to read topic {0:?}")]
    TopicAuthorization(String),
    /// GROUP_AUTHORIZATION_FAILED.
    #[error("not authorised to read the group's offsets")]
    GroupAuthorization,
}

/// The group's committed offsets; partitions without one are not in the answer. Offsets of transactions that are still open
/// are waited for (KIP-447).
pub(super) async fn committed(
    channel: &Channel,
    group: &str,
    partitions: &BTreeSet<Key>,
) -> Result<Commits, OffsetError> {
    let by_topic = by_topic(partitions.iter().map(|(t, p)| ((t, *p), ())));
    let indexes = |list: &[(i32, ())]| list.iter().map(|(p, ())| *p).collect::<Vec<i32>>();
    let answer = channel
        .call(|version| {
            let request = OffsetFetchRequest::default();
            let request = if version >= 7 { request.with_require_stable(true) } else { request };
            if version < 8 {
                let topic = |(t, list): (&&String, &Vec<(i32, ())>)| {
                    OffsetFetchRequestTopic::default()
                        .with_name(text(t).into())
                        .with_partition_indexes(indexes(list))
                };
                return request
                    .with_group_id(text(group).into())
                    .with_topics(Some(by_topic.iter().map(topic).collect()));
            }
            let topic = |(t, list): (&&String, &Vec<(i32, ())>)| {
                OffsetFetchRequestTopics::default()
                    .with_name(text(t).into())
                    .with_partition_indexes(indexes(list))
            };
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(text(group).into())
                .with_topics(Some(by_topic.iter().map(topic).collect()));
            request.with_topics(Some(Vec::new())).with_groups(vec![group])
        })
        .await
        .map_err(|e| OffsetError::NotNow(e.to_string()))?;

    let mut offsets = Commits::new();
    let mut take = |topic: &str, partition: i32, offset, epoch: i32, metadata: Option<StrBytes>, error| {
        refused(topic, error)?;
        if let (Ok(partition), 0..) = (u32::try_from(partition), offset) {
            let leader_epoch = Some(epoch).filter(|epoch| *epoch >= 0);
            let metadata = metadata.map(|m| m.to_string()).unwrap_or_default();
            let committed = OffsetAndMetadata { offset, leader_epoch, metadata };
            offsets.insert((topic.to_owned(), partition), committed);
        }
        Ok(())
    };
    refused("", answer.error_code)?;
    for topic in answer.topics {
        for p in topic.partitions {
            let (index, epoch) = (p.partition_index, p.committed_leader_epoch);
            take(&topic.name, index, p.committed_offset, epoch, p.metadata, p.error_code)?;
        }
    }
    for group in answer.groups {
        refused("", group.error_code)?;
        for topic in group.topics {
            for p in topic.partitions {
                let (index, epoch) = (p.partition_index, p.committed_leader_epoch);
                take(&topic.name, index, p.committed_offset, epoch, p.metadata, p.error_code)?;
            }
        }
    }
    Ok(offsets)
}

fn refused(topic: &str, error: i16) -> Result<(), OffsetError> {
    match E::try_from_code(error) {
        None => Ok(()),
        Some(E::GroupAuthorizationFailed) => Err(OffsetError::GroupAuthorization),
        Some(E::TopicAuthorizationFailed) => Err(OffsetError::TopicAuthorization(topic.to_owned())),
        Some(error) => Err(OffsetError::NotNow(format!("{error:?}"))),
    }
}

/// Places in partitions, each asked of its leader: those that could be had, and why others could not. A time after the last record
/// is no place.
pub(super) async fn places(
    metadata: &Metadata,
    settings: &Rc<Settings>,
    config: &ConsumerConfig,
    wanted: &BTreeMap<Key, At>,
) -> (BTreeMap<Key, Option<OffsetAndTimestamp>>, Option<OffsetError>) {
    let mut problem = None;
    let mut leaders: BTreeMap<Address, BTreeMap<(&String, u32), At>> = BTreeMap::new();
    for ((topic, partition), at) in wanted {
        match metadata.with(|c| c.leader(topic, *partition).cloned()) {
            Some(leader) => drop(leaders.entry(leader).or_default().insert((topic, *partition), *at)),
            None => problem = Some(OffsetError::NotNow(format!("{topic}-{partition} has no leader"))),
        }
    }
    let mut found = BTreeMap::new();
    for (leader, wanted) in leaders {
        let channel = Channel::new(leader, Rc::clone(settings));
        let topics = by_topic(wanted.into_iter()).into_iter().map(|(topic, list)| {
            let partition = |(p, at): (i32, At)| {
                ListOffsetsPartition::default().with_partition_index(p).with_timestamp(at.timestamp())
            };
            ListOffsetsTopic::default()
                .with_name(text(topic).into())
                .with_partitions(list.into_iter().map(partition).collect())
        });
        let topics = topics.collect();
        let answer = channel
            .call(|_| {
                ListOffsetsRequest::default()
                    .with_replica_id(BrokerId(-1))
                    .with_isolation_level(i8::from(config.read_committed))
                    .with_topics(topics)
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(e) => {
                problem = Some(OffsetError::NotNow(e.to_string()));
                continue;
            }
        };
        for topic in answer.topics {
            for p in topic.partitions {
                match (refused(&topic.name, p.error_code), u32::try_from(p.partition_index)) {
                    (Ok(()), Ok(partition)) => {
                        let place = OffsetAndTimestamp {
                            offset: p.offset,
                            timestamp_ms: p.timestamp,
                            leader_epoch: Some(p.leader_epoch).filter(|epoch| *epoch >= 0),
                        };
                        let place = Some(place).filter(|place| place.offset >= 0);
                        found.insert((topic.name.to_string(), partition), place);
                    }
                    (Err(e), _) => problem = Some(e),
                    _ => {}
                }
            }
        }
    }
    (found, problem)
}

/// Commits, as the member that `identity` says. The answer is the first error code of a partition, 0 if there is none.
pub(super) async fn commit(
    channel: &Channel,
    config: &ConsumerConfig,
    identity: &Identity,
    offsets: &Commits,
) -> Result<(i16, String), String> {
    let topics = by_topic(offsets.iter().map(|((t, p), committed)| ((t, *p), committed)));
    let answer = channel
        .call(|version| {
            let partition = |(p, committed): &(i32, &OffsetAndMetadata)| {
                let partition = OffsetCommitRequestPartition::default()
                    .with_partition_index(*p)
                    .with_committed_offset(committed.offset)
                    .with_committed_metadata(Some(text(&committed.metadata)));
                match committed.leader_epoch {
                    Some(epoch) if version >= 6 => partition.with_committed_leader_epoch(epoch),
                    _ => partition,
                }
            };
            let topics = topics
                .iter()
                .map(|(t, list)| {
                    OffsetCommitRequestTopic::default()
                        .with_name(text(t).into())
                        .with_partitions(list.iter().map(partition).collect())
                })
                .collect();
            OffsetCommitRequest::default()
                .with_group_id(text(&config.group_id).into())
                .with_group_instance_id(instance_id(config))
                .with_generation_id_or_member_epoch(identity.generation)
                .with_member_id(text(&identity.member_id))
                .with_topics(topics)
        })
        .await
        .map_err(|e| e.to_string())?;
    let codes = answer
        .topics
        .into_iter()
        .flat_map(|t| t.partitions.into_iter().map(move |p| (p.error_code, t.name.to_string())));
    Ok(codes.into_iter().find(|(code, _)| *code != 0).unwrap_or_default())
}

fn by_topic<'a, T>(
    partitions: impl Iterator<Item = ((&'a String, u32), T)>,
) -> BTreeMap<&'a String, Vec<(i32, T)>> {
    let mut topics: BTreeMap<&String, Vec<(i32, T)>> = BTreeMap::new();
    for ((topic, partition), value) in partitions {
        // Kafka's partition numbers are 31 bits wide.
        let Ok(partition) = i32::try_from(partition) else { continue };
        topics.entry(topic).or_default().push((partition, value));
    }
    topics
}
