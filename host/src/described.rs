//! A described group: members, topics and what is known of the cluster, as one JSON document. The input of trying a
//! strategy out without a cluster.
//!
//! ```
//! # use assignor_host::described::DescribedGroup;
//! let text = r#"{
//!     "topics":  {"clicks": {"partitions": 3}, "orders": {"partitions": 2, "lag": {"end": [70, 0]}}},
//!     "members": [{"id": "m1", "topics": ["clicks", "orders"], "config": {"weight": "2"}},
//!                 {"id": "m2", "topics": ["clicks"], "owned": {"clicks": [0, 1]}, "generation": 4}]
//! }"#;
//! let described = DescribedGroup::parse(text.as_bytes())?;
//! assert_eq!(described.group()?.partitions(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Only a topic's `partitions`, a member's `id` and its `topics` must be given. Unknown keys, keys given twice, and
//! numbers that can't be are errors that name their place.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use crate::assignor::{Context, Node, Services, Unavailable};
use crate::group::{Group, GroupError, MAX_PARTITIONS, MemberSubscription, Subscription, TopicPartitions};

/// A group, its topics and its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DescribedGroup {
    /// Of the rebalance.
    pub context: DescribedContext,
    /// The cluster's brokers.
    pub nodes: Vec<DescribedNode>,
    /// The topics, by name.
    #[serde(deserialize_with = "map_without_repetition")]
    pub topics: BTreeMap<String, DescribedTopic>,
    /// The members, in any order.
    pub members: Vec<DescribedMember>,
}

/// Of which group and which rebalance the document tells.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DescribedContext {
    /// `group.id`; "described" if left out, since an empty one tells a strategy that it is only probed.
    pub group_id: String,
    /// The id of the member that leads; if left out, the first one by the bytes of its id.
    pub leader: Option<String>,
    /// The group's generation; -1, before the first one, if left out.
    pub generation: i32,
    /// The clock that the strategy sees, in milliseconds since 1970-01-01 UTC; 0 if left out.
    pub now_ms: u64,
}

impl Default for DescribedContext {
    fn default() -> Self {
        Self { group_id: "described".into(), leader: None, generation: -1, now_ms: 0 }
    }
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedNode {
    /// Its id.
    pub id: i32,
    /// Its host name; empty if left out.
    #[serde(default)]
    pub host: String,
    /// `broker.rack`.
    #[serde(default)]
    pub rack: Option<String>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedTopic {
    /// How many partitions it has.
    pub partitions: u32,
    /// For each partition the ids of the brokers that hold it, the leader first.
    #[serde(default)]
    pub replicas: Option<Vec<Vec<i32>>>,
    /// Its offsets.
    #[serde(default)]
    pub lag: DescribedLag,
}

/// A topic's offsets: one for each partition, -1 where it isn't known.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DescribedLag {
    /// The first offsets.
    pub begin: Option<Vec<i64>>,
    /// The offsets after the last record.
    pub end: Option<Vec<i64>>,
    /// What the group has committed.
    pub committed: Option<Vec<i64>>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedMember {
    /// The member id.
    pub id: String,
    /// `group.instance.id` of a static member.
    #[serde(default)]
    pub instance_id: Option<String>,
    /// What it subscribes to. A topic that isn't described doesn't exist, as happens in a real group.
    pub topics: Vec<String>,
    /// What it claims to own: indexes of partitions by topic.
    #[serde(default, deserialize_with = "map_without_repetition")]
    pub owned: BTreeMap<String, Vec<u32>>,
    /// The generation of that claim.
    #[serde(default)]
    pub generation: Option<i32>,
    /// `client.rack`.
    #[serde(default)]
    pub rack: Option<String>,
    /// What its strategy sent along, in base64.
    #[serde(default, deserialize_with = "base64_bytes")]
    pub user_data: Option<Vec<u8>>,
    /// Configuration of this member's strategy.
    #[serde(default, deserialize_with = "map_without_repetition")]
    pub config: BTreeMap<String, String>,
}

/// Why a document describes no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DescribedError {
    /// Where, as in `members[2].owned.clicks[0]`.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

impl DescribedError {
    fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

impl DescribedGroup {
    /// Reads and checks a document.
    ///
    /// # Errors
    /// If it is no JSON, has another shape, or contradicts itself; names the place.
    pub fn parse(json: &[u8]) -> Result<Self, DescribedError> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let described: Self = serde_path_to_error::deserialize(&mut deserializer).map_err(|e| {
            let place = match e.path().to_string() {
                // What no key or index was read of yet.
                root if root == "." || root == "?" => "the document".to_owned(),
                place => place,
            };
            DescribedError::new(place, e.inner().to_string())
        })?;
        deserializer.end().map_err(|e| DescribedError::new("after the document", e.to_string()))?;
        only_objects(json)?;
        described.check()?;
        Ok(described)
    }

    /// The group as assignors take it.
    ///
    /// # Errors
    /// None for a document that [`parse`](Self::parse) accepted.
    pub fn group(&self) -> Result<Group, GroupError> {
        self.group_of(self.members.iter().map(DescribedMember::subscription).collect())
    }

    /// The group of this document's topics and racks and of subscriptions that may differ from the document's: narrowed, or with user
    /// data that the document doesn't give.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub fn group_of(&self, subscriptions: Vec<MemberSubscription>) -> Result<Group, GroupError> {
        let counts = self.topics.iter().map(|(name, topic)| (name.clone(), topic.partitions)).collect();
        let racks = self.nodes.iter().filter_map(|node| Some((node.id, node.rack.clone()?))).collect();
        let group = Group::new(&counts, subscriptions)?;
        Ok(group.with_racks(&racks, |topic| self.topics.get(topic)?.replicas.as_deref()))
    }

    /// The member that leads; absent only in a group without members.
    pub fn leader(&self) -> Option<&DescribedMember> {
        match &self.context.leader {
            Some(id) => self.members.iter().find(|m| m.id == *id),
            None => self.members.iter().min_by(|a, b| a.id.as_bytes().cmp(b.id.as_bytes())),
        }
    }

    /// In what context a member's strategy is called.
    pub fn context_of(&self, member: &DescribedMember, services: &Arc<DescribedServices>) -> Context {
        Context {
            group_id: self.context.group_id.clone(),
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            rack: member.rack.clone(),
            generation: self.context.generation,
            now_ms: self.context.now_ms,
            services: Arc::clone(services) as Arc<dyn Services>,
            ..Context::default()
        }
    }

    /// What the document tells of the cluster and of offsets.
    pub fn services(&self) -> Arc<DescribedServices> {
        let nodes = self.nodes.iter().map(DescribedNode::node).collect();
        Arc::new(DescribedServices { nodes, topics: self.topics.clone() })
    }

    /// What the types alone don't say.
    fn check(&self) -> Result<(), DescribedError> {
        let mut all: u32 = 0;
        for (name, topic) in &self.topics {
            let place = format!("topics.{name}");
            if name.is_empty() {
                return Err(DescribedError::new("topics", "a topic's name is empty"));
            }
            topic.check(&place)?;
            all =
                all.checked_add(topic.partitions).filter(|&all| all <= MAX_PARTITIONS).ok_or_else(|| {
                    let reason = format!("the topics have more than {MAX_PARTITIONS} partitions in all");
                    DescribedError::new(format!("{place}.partitions"), reason)
                })?;
        }
        unique("nodes", ".id", self.nodes.iter().map(|node| node.id))?;
        unique("members", ".id", self.members.iter().map(|member| &member.id))?;
        for (index, member) in self.members.iter().enumerate() {
            self.check_member(member, &format!("members[{index}]"))?;
        }
        check_generation("context.generation", self.context.generation)?;
        match &self.context.leader {
            Some(id) if self.leader().is_none() => {
                Err(DescribedError::new("context.leader", format!("no member has the id {id:?}")))
            }
            _ => Ok(()),
        }
    }

    fn check_member(&self, member: &DescribedMember, place: &str) -> Result<(), DescribedError> {
        if member.id.is_empty() {
            return Err(DescribedError::new(format!("{place}.id"), "a member's id is empty"));
        }
        if let Some(generation) = member.generation {
            check_generation(&format!("{place}.generation"), generation)?;
        }
        unique(&format!("{place}.topics"), "", &member.topics)?;
        for (topic, partitions) in &member.owned {
            let place = format!("{place}.owned.{topic}");
            let Some(described) = self.topics.get(topic) else {
                return Err(DescribedError::new(place, "the topic is not described under `topics`"));
            };
            if let Some((index, partition)) =
                partitions.iter().enumerate().find(|(_, p)| **p >= described.partitions)
            {
                let reason = format!(
                    "there is no partition {partition}: the topic has {} partitions",
                    described.partitions
                );
                return Err(DescribedError::new(format!("{place}[{index}]"), reason));
            }
            unique(&place, "", partitions)?;
        }
        Ok(())
    }
}

impl DescribedMember {
    /// What it tells the group, as far as the document says.
    pub fn subscription(&self) -> MemberSubscription {
        let owned = self.owned.iter().map(|(topic, partitions)| TopicPartitions {
            topic: topic.clone(),
            partitions: partitions.clone(),
        });
        MemberSubscription {
            member_id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            subscription: Subscription {
                topics: self.topics.clone().into(),
                user_data: self.user_data.clone(),
                owned: owned.collect(),
                generation: self.generation,
                rack: self.rack.clone(),
            },
        }
    }
}

impl DescribedNode {
    fn node(&self) -> Node {
        Node { id: self.id, host: self.host.clone(), rack: self.rack.clone() }
    }
}

impl DescribedTopic {
    fn check(&self, place: &str) -> Result<(), DescribedError> {
        let one_each = |key: &str, found: usize| {
            if found == self.partitions as usize {
                return Ok(());
            }
            let reason = format!("{found} entries for {} partitions", self.partitions);
            Err(DescribedError::new(format!("{place}.{key}"), reason))
        };
        if let Some(replicas) = &self.replicas {
            one_each("replicas", replicas.len())?;
        }
        let DescribedLag { begin, end, committed } = &self.lag;
        for (key, offsets) in [("lag.begin", begin), ("lag.end", end), ("lag.committed", committed)] {
            let Some(offsets) = offsets else { continue };
            one_each(key, offsets.len())?;
            if let Some((index, offset)) = offsets.iter().enumerate().find(|(_, offset)| **offset < -1) {
                let reason = format!("{offset} is no offset; -1 stands for an unknown one");
                return Err(DescribedError::new(format!("{place}.{key}[{index}]"), reason));
            }
        }
        Ok(())
    }
}

fn check_generation(place: &str, generation: i32) -> Result<(), DescribedError> {
    if generation < -1 {
        return Err(DescribedError::new(place, format!("{generation} is no generation; -1 stands for none")));
    }
    Ok(())
}

/// An error that names the place of the first value that stood earlier in the list already.
fn unique<T: Ord + fmt::Debug>(
    place: &str,
    key: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<(), DescribedError> {
    let mut seen = BTreeMap::new();
    for (index, value) in values.into_iter().enumerate() {
        if let Some(first) = seen.get(&value) {
            let reason = format!("{value:?} is the same as {place}[{first}]{key}");
            return Err(DescribedError::new(format!("{place}[{index}]{key}"), reason));
        }
        seen.insert(value, index);
    }
    Ok(())
}

/// The cluster and the offsets, as far as a document tells them.
#[derive(Debug)]
pub struct DescribedServices {
    nodes: Vec<Node>,
    topics: BTreeMap<String, DescribedTopic>,
}

impl DescribedServices {
    /// What `of` finds for the topic, or an error that names what the document lacks.
    fn told<T: Clone>(
        &self,
        topic: &str,
        key: &str,
        of: impl Fn(&DescribedTopic) -> Option<&T>,
    ) -> Result<T, Unavailable> {
        let told = self.topics.get(topic).and_then(of);
        told.cloned()
            .ok_or_else(|| Unavailable(format!("the group's description has no topics.{topic}.{key}")))
    }
}

impl Services for DescribedServices {
    fn nodes(&self, _: Instant) -> Result<Vec<Node>, Unavailable> {
        if self.nodes.is_empty() {
            return Err(Unavailable("the group's description has no nodes".into()));
        }
        let mut nodes = self.nodes.clone();
        nodes.sort_by_key(|node| node.id);
        Ok(nodes)
    }

    fn leaders(&self, topic: &str, deadline: Instant) -> Result<Vec<i32>, Unavailable> {
        let replicas = self.replicas(topic, deadline)?;
        Ok(replicas.iter().map(|ids| ids.first().copied().unwrap_or(-1)).collect())
    }

    fn replicas(&self, topic: &str, _: Instant) -> Result<Vec<Vec<i32>>, Unavailable> {
        self.told(topic, "replicas", |t| t.replicas.as_ref())
    }

    fn begin_offsets(&self, topic: &str, _: Instant) -> Result<Vec<i64>, Unavailable> {
        self.told(topic, "lag.begin", |t| t.lag.begin.as_ref())
    }

    fn end_offsets(&self, topic: &str, _: Instant) -> Result<Vec<i64>, Unavailable> {
        self.told(topic, "lag.end", |t| t.lag.end.as_ref())
    }

    fn committed_offsets(&self, topic: &str, _: Instant) -> Result<Vec<i64>, Unavailable> {
        self.told(topic, "lag.committed", |t| t.lag.committed.as_ref())
    }
}

/// serde takes an array for a struct, its fields in order. Here only an object is one.
fn only_objects(json: &[u8]) -> Result<(), DescribedError> {
    let unreadable = |e: serde_json::Error| DescribedError::new("the document", e.to_string());
    let document: Value = serde_json::from_slice(json).map_err(unreadable)?;
    let mut objects = vec![("the document".to_owned(), &document)];
    objects.extend(document.get("context").map(|context| ("context".to_owned(), context)));
    for list in ["nodes", "members"] {
        let items = document.get(list).and_then(Value::as_array).into_iter().flatten();
        objects.extend(items.enumerate().map(|(index, item)| (format!("{list}[{index}]"), item)));
    }
    for (name, topic) in document.get("topics").and_then(Value::as_object).into_iter().flatten() {
        objects.push((format!("topics.{name}"), topic));
        objects.extend(topic.get("lag").map(|lag| (format!("topics.{name}.lag"), lag)));
    }
    match objects.into_iter().find(|(_, value)| value.is_array()) {
        Some((place, _)) => Err(DescribedError::new(place, "invalid type: sequence, expected an object")),
        None => Ok(()),
    }
}

/// A map whose repeated keys are errors. serde's own maps silently keep the last, so a described topic would vanish.
fn map_without_repetition<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Unique<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(key) = access.next_key::<String>()? {
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("the key {key:?} is given twice")));
                }
                map.insert(key, access.next_value()?);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Unique(PhantomData))
}

fn base64_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    bytes.map(Some).map_err(|e| D::Error::custom(format_args!("not base64: {e}")))
}

#[cfg(test)]
mod tests;
