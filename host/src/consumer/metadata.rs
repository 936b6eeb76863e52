//! What the cluster looks like: brokers and topics, asked of any broker that answers.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};
use uuid::Uuid;

use super::clock::Moment;
use super::config::{Address, ConsumerConfig};
use super::connection::{Call, Channel, Settings};
use super::coordinator::text;
use crate::assignor::Node;
use crate::group::{Group, GroupError, MemberSubscription};

/// Brokers and topics as last seen.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    addresses: BTreeMap<i32, Address>,
    /// The racks of brokers, those that are away included: a broker that restarts must not count as a change of racks
    /// (KAFKA-20778).
    racks: BTreeMap<i32, String>,
    /// The topics that exist.
    pub(super) topics: BTreeMap<String, Topic>,
    /// The ids of topics, those included that are gone.
    ids: BTreeMap<String, Uuid>,
    /// How often a topic had another id than before: it was deleted, and created again.
    recreated: u64,
}

/// The brokers of a topic's partitions, by the partition's index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Topic {
    /// The leaders' ids, -1 where there is none.
    pub(super) leaders: Vec<i32>,
    /// The ids of the brokers that hold each partition.
    pub(super) replicas: Vec<Vec<i32>>,
}

/// So many brokers that are away are remembered: a cluster whose brokers come and go under ever new ids must not fill memory.
const REMEMBERED_BROKERS: usize = 10_000;

/// So many topics' ids are remembered, for the same reason. A topic that is created anew just after they were forgotten is not noticed.
const REMEMBERED_TOPICS: usize = 100_000;

impl Cluster {
    /// How often a topic turned out to be another one than that of the same name before.
    pub(super) fn recreated(&self) -> u64 {
        self.recreated
    }

    /// The partition counts of these topics, as far as they exist.
    pub(super) fn counts<'a>(&self, topics: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u32> {
        let count = |t: &'a String| {
            let topic = self.topics.get(t)?;
            Some((t.clone(), u32::try_from(topic.leaders.len()).ok()?))
        };
        topics.into_iter().filter_map(count).collect()
    }

    /// The broker that leads a partition.
    pub(super) fn leader(&self, topic: &str, partition: u32) -> Option<&Address> {
        let leader = self.topics.get(topic)?.leaders.get(partition as usize)?;
        self.addresses.get(leader)
    }

    /// The addresses of all brokers.
    pub(super) fn brokers(&self) -> Vec<Address> {
        self.addresses.values().cloned().collect()
    }

    /// The group of these members, their topics as far as they exist, and the racks of the topics' replicas.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub(super) fn group(
        &self,
        counts: &BTreeMap<String, u32>,
        members: Vec<MemberSubscription>,
    ) -> Result<Group, GroupError> {
        let replicas = |topic: &str| self.topics.get(topic).map(|topic| topic.replicas.as_slice());
        Ok(Group::new(counts, members)?.with_racks(&self.racks, replicas))
    }

    /// A digest of the racks that each partition of these topics is in, to find out whether they have changed.
    pub(super) fn racks_of<'a>(&self, topics: impl IntoIterator<Item = &'a String>) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in topics {
            let Some(topic) = self.topics.get(name) else { continue };
            name.hash(&mut hasher);
            for replicas in &topic.replicas {
                let racks: BTreeSet<&String> = replicas.iter().filter_map(|id| self.racks.get(id)).collect();
                racks.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Takes over what a broker knows of the cluster and of the topics that it was asked for.
    fn learn(&mut self, answer: MetadataResponse) -> Vec<TopicProblem> {
        self.nodes.clear();
        self.addresses.clear();
        if self.racks.len() > REMEMBERED_BROKERS {
            self.racks.clear();
        }
        for broker in answer.brokers {
            let (id, host) = (broker.node_id.0, broker.host.to_string());
            if let Ok(port) = u16::try_from(broker.port) {
                self.addresses.insert(id, Address { host: host.clone(), port });
            }
            let rack = broker.rack.map(|rack| rack.to_string());
            match &rack {
                Some(rack) => self.racks.insert(id, rack.clone()),
                None => self.racks.remove(&id),
            };
            self.nodes.push(Node { id, host, rack });
        }
        self.nodes.sort_by_key(|n| n.id);
        if self.ids.len() > REMEMBERED_TOPICS {
            self.ids.clear();
        }
        let mut problems = Vec::new();
        for topic in answer.topics {
            let Some(name) = topic.name.map(|n| n.0.to_string()) else { continue };
            match ResponseError::try_from_code(topic.error_code) {
                None => {
                    // Older brokers have no ids.
                    if !topic.topic_id.is_nil() {
                        let before = self.ids.insert(name.clone(), topic.topic_id);
                        self.recreated += u64::from(before.is_some_and(|before| before != topic.topic_id));
                    }
                    let mut partitions = topic.partitions;
                    partitions.sort_by_key(|p| p.partition_index);
                    let leaders = partitions.iter().map(|p| p.leader_id.0).collect();
                    let replicas = |nodes: Vec<BrokerId>| nodes.into_iter().map(|id| id.0).collect();
                    let replicas = partitions.into_iter().map(|p| replicas(p.replica_nodes)).collect();
                    self.topics.insert(name, Topic { leaders, replicas });
                }
                // Not there (any more), or just being created.
                Some(ResponseError::UnknownTopicOrPartition | ResponseError::LeaderNotAvailable) => {
                    self.topics.remove(&name);
                }
                Some(error) => {
                    self.topics.remove(&name);
                    problems.push(TopicProblem { topic: name, error });
                }
            }
        }
        problems
    }
}

/// Asks brokers for it.
pub(super) struct Metadata {
    settings: Rc<Settings>,
    bootstrap: Vec<Address>,
    /// `metadata.recovery.strategy` is `rebootstrap`.
    rebootstrap: bool,
    rebootstrap_trigger: Duration,
    allow_creation: bool,
    cluster: Arc<Mutex<Cluster>>,
    /// The broker that answered last.
    current: RefCell<Option<Rc<Channel>>>,
    /// How many brokers were turned to: the next search begins after the last one.
    tried: Cell<usize>,
    /// Since when metadata have been asked for in vain.
    wanted_since: Cell<Option<Moment>>,
}

/// REBOOTSTRAP_REQUIRED (KIP-1102).
const REBOOTSTRAP_REQUIRED: i16 = 129;

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
            rebootstrap: config.rebootstrap,
            rebootstrap_trigger: config.rebootstrap_trigger,
            allow_creation: config.allow_auto_create_topics,
            cluster: Arc::default(),
            current: RefCell::new(None),
            tried: Cell::new(0),
            wanted_since: Cell::new(None),
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

    /// Sends a request to the broker that answered last, else to the others in turn: those known, and `bootstrap.servers` unless
    /// `metadata.recovery.strategy` is `none` and a broker is known.
    ///
    /// # Errors
    /// If none answers: what each said.
    pub(super) async fn ask<R: Call>(&self, build: impl Fn(i16) -> R) -> Result<R::Answer, String> {
        let in_vain = self.wanted_since.get().map(|since| Moment::now().since(since));
        if in_vain.is_some_and(|time| time >= self.rebootstrap_trigger) {
            self.forget_brokers("no broker has told metadata for metadata.recovery.rebootstrap.trigger.ms");
        }
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
        let mut addresses = self.candidates();
        let first = self.tried.get() % addresses.len().max(1);
        addresses.rotate_left(first);
        addresses.sort_by_key(|address| self.settings.has_failed(address));
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

    fn candidates(&self) -> Vec<Address> {
        let known: BTreeSet<Address> = self.with(|c| c.addresses.values().cloned().collect());
        if !known.is_empty() && !self.rebootstrap {
            return known.into_iter().collect();
        }
        let new = self.bootstrap.iter().filter(|a| !known.contains(a)).cloned().collect::<Vec<_>>();
        known.into_iter().chain(new).collect()
    }

    /// Begins anew with `bootstrap.servers`, if that is allowed.
    fn forget_brokers(&self, cause: &str) {
        if !self.rebootstrap {
            return;
        }
        tracing::info!(cause, "asking bootstrap.servers again");
        self.current.take();
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner).addresses.clear();
        self.wanted_since.set(Some(Moment::now()));
    }

    /// Learns about these topics, and the brokers.
    ///
    /// # Errors
    /// If no broker answers.
    pub(super) async fn refresh(&self, topics: &BTreeSet<String>) -> Result<Vec<TopicProblem>, String> {
        self.wanted_since.set(self.wanted_since.get().or_else(|| Some(Moment::now())));
        let mut answer = self.ask(|_| self.request(topics)).await?;
        if answer.error_code == REBOOTSTRAP_REQUIRED {
            self.forget_brokers("a broker asks for it");
            answer = self.ask(|_| self.request(topics)).await?;
        }
        self.wanted_since.set(None);
        Ok(self.cluster.lock().unwrap_or_else(PoisonError::into_inner).learn(answer))
    }

    fn request(&self, topics: &BTreeSet<String>) -> MetadataRequest {
        let topic = |t: &String| MetadataRequestTopic::default().with_name(Some(text(t).into()));
        MetadataRequest::default()
            .with_topics(Some(topics.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(self.allow_creation)
    }
}

impl Metadata {
    /// The names of all topics that exist and match, told whether each is one of Kafka's own.
    ///
    /// # Errors
    /// If no broker answers.
    pub(super) async fn matching(
        &self,
        matches: impl Fn(&str, bool) -> bool,
    ) -> Result<BTreeSet<String>, String> {
        let all = |_| MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
        let answer = self.ask(all).await?;
        // What a leader's election, or a broker that is away, keeps from being read for a while exists all the same.
        let exists = |code| match ResponseError::try_from_code(code) {
            None => true,
            Some(error) => error.is_retriable() && error != ResponseError::UnknownTopicOrPartition,
        };
        let topics = answer.topics.into_iter().filter(|topic| exists(topic.error_code));
        let names = topics.filter_map(|topic| Some((topic.name?.0, topic.is_internal)));
        Ok(names
            .filter(|(name, internal)| matches(name, *internal))
            .map(|(name, _)| name.to_string())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn only_topics_that_exist_are_counted_and_only_known_leaders_found() {
        let topic = Topic { leaders: vec![1, -1], replicas: vec![vec![1], vec![1]] };
        let cluster = Cluster {
            addresses: [(1, Address { host: "a".into(), port: 1 })].into(),
            topics: [("t".to_owned(), topic)].into(),
            ..Cluster::default()
        };
        let wanted = ["t".to_owned(), "gone".to_owned()];
        assert_eq!(cluster.counts(&wanted), BTreeMap::from([("t".to_owned(), 2)]));
        assert_eq!(cluster.leader("t", 0).map(|a| a.port), Some(1));
        assert_eq!(cluster.leader("t", 1), None);
        assert_eq!(cluster.leader("t", 2), None);
    }

    /// An answer that tells these brokers and their racks, and a topic `t` of partitions on these brokers.
    fn answer(brokers: &[(i32, Option<&str>)], partitions: &[&[i32]]) -> MetadataResponse {
        let brokers = brokers.iter().map(|(id, rack)| {
            let rack = rack.map(text);
            MetadataResponseBroker::default().with_node_id(BrokerId(*id)).with_port(1).with_rack(rack)
        });
        // A broker may tell partitions in any order.
        let partitions = partitions.iter().enumerate().rev().map(|(index, replicas)| {
            let index = i32::try_from(index).unwrap();
            let replicas = replicas.iter().map(|id| BrokerId(*id)).collect();
            MetadataResponsePartition::default().with_partition_index(index).with_replica_nodes(replicas)
        });
        let topic = MetadataResponseTopic::default()
            .with_name(Some(text("t").into()))
            .with_partitions(partitions.collect());
        MetadataResponse::default().with_brokers(brokers.collect()).with_topics(vec![topic])
    }

    #[test]
    fn the_racks_of_partitions_reach_the_group() {
        let mut cluster = Cluster::default();
        cluster.learn(answer(&[(1, Some("a")), (2, Some("b")), (3, None)], &[&[1, 2], &[3], &[2]]));
        let mut member = crate::test_support::member("m", &["t"], None, &[]);
        member.subscription.rack = Some("b".into());
        let counts = cluster.counts(&["t".to_owned()]);
        let group = cluster.group(&counts, vec![member.clone()]).unwrap();
        let racks = group.racks().unwrap();
        assert_eq!([racks.of(0), racks.of(1), racks.of(2)], [&[0, 1][..], &[], &[1]]);
        member.subscription.rack = None;
        assert_eq!(cluster.group(&counts, vec![member]).unwrap().racks(), None, "nobody asks");
    }

    #[test]
    fn kafka_20778_a_broker_that_restarts_changes_no_racks_and_a_moved_partition_does() {
        let topics = ["t".to_owned()];
        let mut cluster = Cluster::default();
        let mut after = |brokers: &[(i32, Option<&str>)], partitions: &[&[i32]]| {
            cluster.learn(answer(brokers, partitions));
            cluster.racks_of(&topics)
        };
        let all = [(1, Some("a")), (2, Some("b")), (4, Some("b"))];
        let before = after(&all, &[&[1, 2], &[2]]);
        assert_eq!(after(&all[..1], &[&[1, 2], &[2]]), before, "2 is away");
        assert_eq!(after(&all, &[&[4, 1], &[4]]), before, "the same racks on other brokers");
        assert_ne!(after(&all, &[&[1, 2], &[1]]), before);
        assert_ne!(after(&[(1, Some("a")), (2, None)], &[&[1, 2], &[2]]), before, "2 has no rack any more");
    }

    #[test]
    fn brokers_that_come_and_go_do_not_fill_memory() {
        let mut cluster = Cluster::default();
        for id in 0..2 * i32::try_from(REMEMBERED_BROKERS).unwrap() {
            cluster.learn(answer(&[(id, Some("a"))], &[]));
            assert!(cluster.racks.len() <= REMEMBERED_BROKERS + 1);
        }
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

    fn metadata(servers: &str, more: &[(&str, &str)]) -> Metadata {
        let properties = [
            ("bootstrap.servers", servers),
            ("group.id", "g"),
            ("assignor.api.max.versions", "ApiVersions:0"),
        ];
        let properties = properties.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let config = ConsumerConfig::from_properties(properties.collect()).unwrap();
        Metadata::new(&config, Settings::new(&config, |_| {}).unwrap())
    }

    async fn find(metadata: &Metadata) -> Result<kafka_protocol::messages::FindCoordinatorResponse, String> {
        metadata.ask(|version| crate::consumer::coordinator::find_request("g", version)).await
    }

    /// Nobody listens there.
    async fn closed() -> Address {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() }
    }

    fn know(metadata: &Metadata, broker: &Address) {
        metadata.cluster().lock().unwrap().addresses.insert(1, broker.clone());
    }

    #[tokio::test]
    async fn kip_899_bootstrap_servers_are_asked_again_where_no_known_broker_answers() {
        let (gone, answers) = (closed().await, broker(Some(15)).await);
        for (strategy, answered) in [("rebootstrap", true), ("none", false)] {
            let metadata = metadata(&answers.to_string(), &[("metadata.recovery.strategy", strategy)]);
            know(&metadata, &gone);
            assert_eq!(find(&metadata).await.is_ok(), answered, "{strategy}");
        }
    }

    #[tokio::test]
    async fn kip_1102_brokers_that_tell_no_metadata_for_long_are_forgotten() {
        let (hangs, answers) = (broker(None).await, broker(Some(15)).await);
        let trigger = ("metadata.recovery.rebootstrap.trigger.ms", "0");
        let metadata = metadata(&answers.to_string(), &[trigger]);
        know(&metadata, &hangs);
        metadata.wanted_since.set(Some(Moment::now()));
        let found = tokio::time::timeout(Duration::from_secs(2), find(&metadata)).await;
        assert_eq!(found.expect("the one that hangs is not asked").unwrap().error_code, 15);
        assert!(metadata.with(|c| c.addresses.is_empty()));
    }

    #[tokio::test]
    async fn a_broker_that_hangs_is_passed_over_though_nobody_waits_for_its_time_out() {
        let (hangs, answers) = (broker(None).await, broker(Some(15)).await);
        let metadata = metadata(&format!("{hangs},{answers}"), &[]);
        let ask = async || tokio::time::timeout(Duration::from_secs(2), find(&metadata)).await;
        assert!(ask().await.is_err(), "the first one hangs");
        for _ in 0..2 {
            assert_eq!(ask().await.expect("the other one is asked").unwrap().error_code, 15);
        }
    }
}
