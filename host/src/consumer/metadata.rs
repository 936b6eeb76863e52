//! What the cluster looks like: brokers and topics, asked of any broker that answers.

use std::cell::{Cell, RefCell};
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
    /// How many brokers were turned to: the next search begins after the last one.
    tried: Cell<usize>,
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
            tried: Cell::new(0),
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
        // Who asks may give up before `request.timeout.ms`: a broker that hangs must not be the first to be asked the next time,
        // too. So each is only kept when it has answered, and the search goes on where it was given up.
        if let Some(channel) = self.current.take() {
            match channel.call(&build).await {
                Ok(answer) => {
                    self.current.replace(Some(channel));
                    return Ok(answer);
                }
                Err(e) => tracing::debug!(error = %e, "trying another broker"),
            }
        }
        let known: BTreeSet<Address> = self.with(|c| c.addresses.values().cloned().collect());
        let others = known.into_iter().filter(|a| !self.bootstrap.contains(a));
        let mut addresses: Vec<Address> = self.bootstrap.iter().cloned().chain(others).collect();
        let first = self.tried.get() % addresses.len().max(1);
        addresses.rotate_left(first);
        let mut failures = Vec::new();
        for address in addresses {
            self.tried.set(self.tried.get().wrapping_add(1));
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
                Some(error) => {
                    cluster.topics.remove(&name);
                    problems.push(TopicProblem { topic: name, error });
                }
            }
        }
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

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

    /// A broker that takes connections and answers the request for versions; then it hangs, or answers FindCoordinator with this
    /// code.
    async fn broker(code: Option<u8>) -> Address {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // FindCoordinator in version 1 only.
                    let mut answer = vec![0, 0, 0, 0, 0, 1, 0, 10, 0, 1, 0, 1];
                    while let Ok(size) = stream.read_i32().await {
                        let mut request = vec![0; usize::try_from(size).unwrap()];
                        stream.read_exact(&mut request).await.unwrap();
                        stream.write_all(&[0, 0, 0, 4 + u8::try_from(answer.len()).unwrap()]).await.unwrap();
                        stream.write_all(&request[4..8]).await.unwrap();
                        stream.write_all(&answer).await.unwrap();
                        // No throttling, the code, no message, no coordinator.
                        let Some(code) = code else { break };
                        answer = vec![0, 0, 0, 0, 0, code, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0];
                    }
                    // Open until the client hangs up.
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                });
            }
        });
        Address { host: "127.0.0.1".into(), port }
    }

    #[tokio::test]
    async fn a_broker_that_hangs_is_passed_over_though_nobody_waits_for_its_time_out() {
        let (hangs, answers) = (broker(None).await, broker(Some(15)).await);
        let properties = [
            ("bootstrap.servers", format!("{hangs},{answers}")),
            ("group.id", "g".into()),
            ("assignor.api.max.versions", "ApiVersions:0".into()),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value)).into();
        let config = ConsumerConfig::from_properties(properties).unwrap();
        let metadata = Metadata::new(&config, Settings::new(&config));
        let ask = async || {
            let answer = metadata.ask(|version| crate::consumer::coordinator::find_request("g", version));
            tokio::time::timeout(Duration::from_secs(2), answer).await
        };
        assert!(ask().await.is_err(), "the first one hangs");
        for _ in 0..2 {
            assert_eq!(ask().await.expect("the other one is asked").unwrap().error_code, 15);
        }
    }
}
