//! What the cluster looks like: brokers and topics, asked of any broker that answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::config::{Address, ConsumerConfig};
use super::connection::{Call, Channel, Settings};
use super::coordinator::text;
use crate::assignor::Node;

/// Brokers and topics as last seen.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    addresses: BTreeMap<i32, Address>,
    /// For each topic that exists its partitions, by index.
    pub(super) topics: BTreeMap<String, Vec<Partition>>,
}

/// A partition's brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    /// The leader's id, -1 where there is none.
    pub(super) leader: i32,
    pub(super) replicas: Vec<i32>,
}

impl Cluster {
    /// The partition counts of these topics, as far as they exist.
    pub(super) fn counts<'a>(&self, topics: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u32> {
        let count = |t: &'a String| {
            let partitions = self.topics.get(t)?;
            Some((t.clone(), u32::try_from(partitions.len()).ok()?))
        };
        topics.into_iter().filter_map(count).collect()
    }

    /// The broker that leads a partition.
    pub(super) fn leader(&self, topic: &str, partition: u32) -> Option<&Address> {
        let partition = self.topics.get(topic)?.get(partition as usize)?;
        self.addresses.get(&partition.leader)
    }
}

/// Asks brokers for it.
pub(super) struct Metadata {
    settings: Rc<Settings>,
    bootstrap: Vec<Address>,
    allow_creation: bool,
    cluster: Arc<Mutex<Cluster>>,
    /// The broker that answered last.
    current: RefCell<Option<Rc<Channel>>>,
}

/// Why a topic is not usable, other than that it does not exist (yet).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicProblem {
    pub(super) topic: String,
    pub(super) error: ResponseError,
}

impl Metadata {
    pub(super) fn new(config: &ConsumerConfig, settings: Rc<Settings>) -> Self {
        Self {
            settings,
            bootstrap: config.bootstrap_servers.clone(),
            allow_creation: config.allow_auto_create_topics,
            cluster: Arc::default(),
            current: RefCell::new(None),
        }
    }

    /// What is known, shared with strategies.
    pub(super) fn cluster(&self) -> Arc<Mutex<Cluster>> {
        Arc::clone(&self.cluster)
    }

    /// Looks at what is known.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request to the broker that answered last, else to the others in turn.
    ///
    /// # Errors
    /// If none answers: what each said.
    pub(super) async fn ask<R: Call>(&self, build: impl Fn(i16) -> R) -> Result<R::Answer, String> {
        let current = self.current.borrow().clone();
        if let Some(channel) = current {
            match channel.call(&build).await {
                Ok(answer) => return Ok(answer),
                Err(e) => tracing::debug!(error = %e, "trying another broker"),
            }
        }
        self.current.replace(None);
        let known: BTreeSet<Address> = self.with(|c| c.addresses.values().cloned().collect());
        let others = known.into_iter().filter(|a| !self.bootstrap.contains(a));
        let mut failures = Vec::new();
        for address in self.bootstrap.iter().cloned().chain(others) {
            let channel = Rc::new(Channel::new(address, Rc::clone(&self.settings)));
            match channel.call(&build).await {
                Ok(answer) => {
                    self.current.replace(Some(channel));
                    return Ok(answer);
                }
                Err(e) => failures.push(e.to_string()),
            }
        }
        Err(failures.join("; "))
    }

    /// Learns about these topics, and the brokers.
    ///
    /// # Errors
    /// If no broker answers.
    pub(super) async fn refresh(&self, topics: &BTreeSet<String>) -> Result<Vec<TopicProblem>, String> {
        let answer = self
            .ask(|_| {
                let topics = topics
                    .iter()
                    .map(|t| MetadataRequestTopic::default().with_name(Some(text(t).into())))
                    .collect();
                MetadataRequest::default()
                    .with_topics(Some(topics))
                    .with_allow_auto_topic_creation(self.allow_creation)
            })
            .await?;
        let mut problems = Vec::new();
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.nodes.clear();
        cluster.addresses.clear();
        for broker in answer.brokers {
            let (id, host) = (broker.node_id.0, broker.host.to_string());
            if let Ok(port) = u16::try_from(broker.port) {
                cluster.addresses.insert(id, Address { host: host.clone(), port });
            }
            cluster.nodes.push(Node { id, host, rack: broker.rack.map(|r| r.to_string()) });
        }
        cluster.nodes.sort_by_key(|n| n.id);
        for topic in answer.topics {
            let Some(name) = topic.name.map(|n| n.0.to_string()) else { continue };
            match ResponseError::try_from_code(topic.error_code) {
                None => {
                    let mut partitions = topic.partitions;
                    partitions.sort_by_key(|p| p.partition_index);
                    let partitions = partitions
                        .into_iter()
                        .map(|p| Partition {
                            leader: p.leader_id.0,
                            replicas: p.replica_nodes.into_iter().map(|b| b.0).collect(),
                        })
                        .collect();
                    cluster.topics.insert(name, partitions);
                }
                // Not there (any more), or just being created.
                Some(ResponseError::UnknownTopicOrPartition | ResponseError::LeaderNotAvailable) => {
                    cluster.topics.remove(&name);
                }
                Some(error) => problems.push(TopicProblem { topic: name, error }),
            }
        }
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_topics_that_exist_are_counted_and_only_known_leaders_found() {
        let partition = |leader| Partition { leader, replicas: vec![leader] };
        let cluster = Cluster {
            nodes: Vec::new(),
            addresses: [(1, Address { host: "a".into(), port: 1 })].into(),
            topics: [("t".to_owned(), vec![partition(1), partition(-1)])].into(),
        };
        let wanted = ["t".to_owned(), "gone".to_owned()];
        assert_eq!(cluster.counts(&wanted), BTreeMap::from([("t".to_owned(), 2)]));
        assert_eq!(cluster.leader("t", 0).map(|a| a.port), Some(1));
        assert_eq!(cluster.leader("t", 1), None);
        assert_eq!(cluster.leader("t", 2), None);
    }
}
