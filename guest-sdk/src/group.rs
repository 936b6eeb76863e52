//! The group that [`assign`](crate::Strategy::assign) splits: its topics and members, by name.
//!
//! Inside one call the contract numbers all partitions through: partition `i` of a topic is `first + i`. The views here show
//! names and keep the number beside them, so that nothing is looked up or copied per partition. Who wants speed works with
//! the numbers: [`Topic::numbers`], [`Member::owned_numbers`], [`Member::topic_numbers`].

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::bindings::assignor::strategy::types::{Member as RawMember, Topic as RawTopic};
use crate::plan::Plan;
use crate::user_data::{self, DecodeError};

/// The topics and members of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    topics: Vec<RawTopic>,
    members: Vec<RawMember>,
}

impl Group {
    /// A group as the contract passes it: topics by name, numbered through from 0; members by the bytes of their id. Nothing is
    /// copied. In tests [`GroupBuilder`](crate::testing::GroupBuilder) is easier.
    pub fn new(topics: Vec<RawTopic>, members: Vec<RawMember>) -> Self {
        Self { topics, members }
    }

    /// The topics that exist and that somebody subscribed to, ordered by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = Topic<'_>> + Clone {
        // The contract counts topics in u32, so the index fits.
        self.topics.iter().enumerate().map(|(number, raw)| Topic { raw, number: number as u32 })
    }

    /// The members, ordered by the bytes of their id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member<'_>> + Clone {
        self.members.iter().enumerate().map(|(index, raw)| Member { group: self, raw, index })
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<Topic<'_>> {
        let number = self.topics.binary_search_by(|topic| topic.name.as_str().cmp(name)).ok()?;
        self.topic_numbered(u32::try_from(number).ok()?)
    }

    /// The topic of this [number](Topic::number).
    pub fn topic_numbered(&self, number: u32) -> Option<Topic<'_>> {
        self.topics.get(number as usize).map(|raw| Topic { raw, number })
    }

    /// The member of this id.
    pub fn member(&self, id: &str) -> Option<Member<'_>> {
        let index = self.members.binary_search_by(|member| member.id.as_str().cmp(id)).ok()?;
        self.members.get(index).map(|raw| Member { group: self, raw, index })
    }

    /// All partitions, ordered by topic and partition.
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition<'_>> + Clone {
        self.topics().flat_map(Topic::partitions)
    }

    /// How many partitions there are. Their numbers are `0 .. partition_count()`.
    pub fn partition_count(&self) -> u32 {
        self.topics.last().map_or(0, |topic| topic.first.saturating_add(topic.count))
    }

    /// The partition of this [number](TopicPartition::number).
    pub fn partition(&self, number: u32) -> Option<TopicPartition<'_>> {
        let topic = self.topic_of(number)?;
        Some(TopicPartition { topic: &topic.name, partition: number - topic.first, number })
    }

    /// The partitions of these numbers. Numbers that are no partition's are left out.
    pub fn named<'g>(&'g self, numbers: &'g [u32]) -> Partitions<'g> {
        Partitions { group: self, numbers: numbers.iter(), topic: None }
    }

    /// A plan that gives nobody anything yet.
    pub fn plan(&self) -> Plan {
        Plan::empty(self.members.len())
    }

    /// The topics as the contract passes them.
    pub fn raw_topics(&self) -> &[RawTopic] {
        &self.topics
    }

    /// The members as the contract passes them.
    pub fn raw_members(&self) -> &[RawMember] {
        &self.members
    }

    fn topic_of(&self, number: u32) -> Option<&RawTopic> {
        let behind = self.topics.partition_point(|topic| topic.first <= number);
        self.topics.get(behind.checked_sub(1)?).filter(|topic| number - topic.first < topic.count)
    }
}

/// A topic of the group.
#[derive(Clone, Copy)]
pub struct Topic<'g> {
    raw: &'g RawTopic,
    number: u32,
}

impl<'g> Topic<'g> {
    /// Its name.
    pub fn name(self) -> &'g str {
        &self.raw.name
    }

    /// Its index among the group's topics.
    pub fn number(self) -> u32 {
        self.number
    }

    /// How many partitions it has, at least one.
    pub fn partition_count(self) -> u32 {
        self.raw.count
    }

    /// Its partitions, in order.
    pub fn partitions(self) -> impl Iterator<Item = TopicPartition<'g>> + Clone {
        let topic = self.raw.name.as_str();
        (0..self.raw.count).map(move |partition| TopicPartition {
            topic,
            partition,
            number: self.raw.first.saturating_add(partition),
        })
    }

    /// The [numbers](TopicPartition::number) of its partitions.
    pub fn numbers(self) -> Range<u32> {
        self.raw.first..self.raw.first.saturating_add(self.raw.count)
    }
}

impl fmt::Debug for Topic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// A member of the group.
#[derive(Clone, Copy)]
pub struct Member<'g> {
    group: &'g Group,
    raw: &'g RawMember,
    index: usize,
}

impl<'g> Member<'g> {
    /// The member id that the broker gave it. It changes when a member restarts.
    pub fn id(self) -> &'g str {
        &self.raw.id
    }

    /// `group.instance.id`; `None` for a dynamic member.
    pub fn instance_id(self) -> Option<&'g str> {
        self.raw.instance_id.as_deref()
    }

    /// Its index among the group's members, and so in the plan.
    pub fn index(self) -> usize {
        self.index
    }

    /// The topics that it is subscribed to, ordered by name. It may be given partitions of these only.
    pub fn topics(self) -> impl Iterator<Item = Topic<'g>> + Clone {
        self.raw.topics.iter().filter_map(move |&number| self.group.topic_numbered(number))
    }

    /// The [numbers](Topic::number) of the topics that it is subscribed to, ascending.
    pub fn topic_numbers(self) -> &'g [u32] {
        &self.raw.topics
    }

    /// Whether it is subscribed to a topic.
    pub fn is_subscribed(self, topic: Topic<'_>) -> bool {
        self.raw.topics.binary_search(&topic.number).is_ok()
    }

    /// The partitions that it owns, in order. Each partition has at most one owner; nobody owns anything under the eager
    /// protocol.
    pub fn owned(self) -> Partitions<'g> {
        self.group.named(&self.raw.owned)
    }

    /// The [numbers](TopicPartition::number) of the partitions that it owns, ascending.
    pub fn owned_numbers(self) -> &'g [u32] {
        &self.raw.owned
    }

    /// The generation in which it got what it owns; `None` if it is new or does not say.
    pub fn generation(self) -> Option<i32> {
        self.raw.generation
    }

    /// `client.rack`.
    pub fn rack(self) -> Option<&'g str> {
        self.raw.rack.as_deref()
    }

    /// What its own strategy returned from [`subscription`](crate::Strategy::subscription), decoded; `None` if it sent none.
    ///
    /// # Errors
    /// If it is something else: another version of the strategy may have sent it. Cope rather than fail.
    pub fn user_data<T: DeserializeOwned>(self) -> Result<Option<T>, DecodeError> {
        self.raw.user_data.as_deref().map(user_data::decode).transpose()
    }

    /// The user data's bytes.
    pub fn user_data_bytes(self) -> Option<&'g [u8]> {
        self.raw.user_data.as_deref()
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// A partition of the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition<'g> {
    /// The topic's name.
    pub topic: &'g str,
    /// The partition's index in the topic, as in Kafka.
    pub partition: u32,
    number: u32,
}

impl TopicPartition<'_> {
    /// Its number in this call of `assign`.
    pub fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for TopicPartition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Partitions by name. See [`Group::named`].
#[derive(Debug, Clone)]
pub struct Partitions<'g> {
    group: &'g Group,
    numbers: std::slice::Iter<'g, u32>,
    /// The topic of the partition before: neighbours mostly share it.
    topic: Option<&'g RawTopic>,
}

impl<'g> Iterator for Partitions<'g> {
    type Item = TopicPartition<'g>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let &number = self.numbers.next()?;
            let same = self.topic.filter(|t| number.checked_sub(t.first).is_some_and(|i| i < t.count));
            if let Some(topic) = same.or_else(|| self.group.topic_of(number)) {
                self.topic = Some(topic);
                return Some(TopicPartition { topic: &topic.name, partition: number - topic.first, number });
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.numbers.len()))
    }
}

impl FusedIterator for Partitions<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::GroupBuilder;

    fn group() -> Group {
        GroupBuilder::new()
            .topic("a", 2)
            .topic("empty", 0)
            .topic("z", 3)
            .member("m1", ["z", "a", "empty"])
            .owned("m1", 3, [("z", vec![0, 2]), ("a", vec![1])])
            .member("m2", ["z"])
            .user_data_bytes("m2", [255])
            .instance_id("m2", "i2")
            .rack("m2", "r")
            .build()
    }

    fn show<'g>(partitions: impl Iterator<Item = TopicPartition<'g>>) -> Vec<String> {
        partitions.map(|partition| partition.to_string()).collect()
    }

    #[test]
    fn partitions_have_names_and_numbers() {
        let group = group();
        assert_eq!(show(group.partitions()), ["a-0", "a-1", "z-0", "z-1", "z-2"]);
        assert!(group.partitions().map(TopicPartition::number).eq(0..group.partition_count()));
        assert!(group.partitions().all(|partition| group.partition(partition.number()) == Some(partition)));
        assert_eq!(group.partition(5), None);
        assert_eq!(show(group.named(&[4, 9, 0, u32::MAX, 1])), ["z-2", "a-0", "a-1"]);
        let z = group.topic("z").unwrap();
        assert_eq!((z.number(), z.numbers(), z.partition_count()), (1, 2..5, 3));
        assert!(group.topic("empty").is_none());
    }

    #[test]
    fn members_are_seen_as_they_subscribed() {
        let group = group();
        let (m1, m2) = (group.member("m1").unwrap(), group.member("m2").unwrap());
        assert_eq!(m1.topics().map(Topic::name).collect::<Vec<_>>(), ["a", "z"]);
        assert_eq!(
            (show(m1.owned()), m1.generation()),
            (vec!["a-1".into(), "z-0".into(), "z-2".into()], Some(3))
        );
        assert!(m1.is_subscribed(group.topic("a").unwrap()) && !m2.is_subscribed(group.topic("a").unwrap()));
        assert_eq!(
            (m2.index(), m2.rack(), m2.instance_id(), m2.generation()),
            (1, Some("r"), Some("i2"), None)
        );
        assert!(m2.user_data::<u64>().is_err() && m1.user_data::<u64>() == Ok(None));
        assert!(group.member("m3").is_none());
    }
}
