//! The nouns: topics, members, subscriptions, a group. Everything else speaks them and nothing else.
//!
//! Within one rebalance **a partition is one number**. A [`Group`] orders its topics by name and numbers all partitions
//! through: topic `t` holds the numbers `t.first .. t.first + t.partitions`. Assignors, plans and checks work on numbers;
//! names come back at the edges ([`Group::by_name`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most partitions that a group may have in all: a bound on what hostile metadata or a mistyped file can make us
/// allocate, and several times what the largest Kafka clusters hold.
pub const MAX_PARTITIONS: u32 = 10_000_000;

/// Partitions of one topic, by the topic's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartitions {
    /// The topic's name.
    pub topic: String,
    /// Indexes of partitions within the topic.
    pub partitions: Vec<u32>,
}

/// What a member tells the group when it joins (Kafka: `ConsumerPartitionAssignor.Subscription`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Names of the topics that the member wants.
    pub topics: Vec<String>,
    /// Bytes of the member's own strategy.
    pub user_data: Option<Vec<u8>>,
    /// What the member says it owns; a claim, not yet a fact.
    pub owned: Vec<TopicPartitions>,
    /// The generation in which `owned` was assigned (KIP-792); `None` if the member does not say.
    pub generation: Option<i32>,
    /// `client.rack` (KIP-881).
    pub rack: Option<String>,
}

/// One member's subscription, with who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberSubscription {
    /// The member id that the broker gave.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// What it asks for.
    pub subscription: Subscription,
}

/// A topic of a group and the numbers of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: String,
    /// The number of its partition 0.
    pub first: u32,
    /// How many partitions it has; never 0 within a [`Group`].
    pub partitions: u32,
}

impl Topic {
    /// The numbers of the topic's partitions.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first.saturating_add(self.partitions)
    }
}

/// A member of a group, its topics and partitions as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// The member id that the broker gave.
    pub id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// Indexes of the topics it is subscribed to, ascending. Topics that don't exist are left out.
    pub topics: Vec<u32>,
    /// Numbers of all partitions it claims to own, ascending: what it said, unresolved.
    pub claimed: Vec<u32>,
    /// Numbers of the partitions it validly owns, ascending: claimed, of a subscribed topic, and no other claim of the
    /// same or a higher generation. Over all members each number appears at most once.
    pub owned: Vec<u32>,
    /// The generation of its claims.
    pub generation: Option<i32>,
    /// `client.rack`; an empty one counts as absent, as in Kafka.
    pub rack: Option<String>,
    /// Bytes of the member's own strategy.
    pub user_data: Option<Vec<u8>>,
}

impl Member {
    /// The generation that claims are compared by: one that is not told counts as Kafka's -1.
    pub fn claim_generation(&self) -> i32 {
        self.generation.unwrap_or(-1)
    }
}

/// The members and topics of one rebalance: what an assignor works on.
///
/// Topics are ordered by name, members by the bytes of their id. Topics that nobody subscribes to, that have no metadata
/// or no partitions are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    topics: Arc<[Topic]>,
    members: Vec<Member>,
}

/// Why members and topics make no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Two members have the same id.
    #[error("two members have the id {0:?}")]
    DuplicateMember(String),
    /// More partitions in all than [`MAX_PARTITIONS`].
    #[error("the group's topics have more than {MAX_PARTITIONS} partitions in all")]
    TooManyPartitions,
}

impl Group {
    /// Makes a group of the partition count of each topic and of the members' subscriptions.
    ///
    /// # Errors
    /// If two members share an id, or the topics have more than [`MAX_PARTITIONS`] partitions in all.
    pub fn new(
        partition_counts: &BTreeMap<String, u32>,
        mut subscriptions: Vec<MemberSubscription>,
    ) -> Result<Self, GroupError> {
        subscriptions.sort_by(|a, b| a.member_id.as_bytes().cmp(b.member_id.as_bytes()));
        if let Some([a, _]) = subscriptions.array_windows().find(|[a, b]| a.member_id == b.member_id) {
            return Err(GroupError::DuplicateMember(a.member_id.clone()));
        }

        let wanted: BTreeSet<&str> =
            subscriptions.iter().flat_map(|m| m.subscription.topics.iter().map(String::as_str)).collect();
        let mut topics = Vec::new();
        let mut first: u32 = 0;
        for name in wanted {
            let Some(&partitions) = partition_counts.get(name).filter(|&&n| n > 0) else { continue };
            topics.push(Topic { name: name.to_owned(), first, partitions });
            first = first
                .checked_add(partitions)
                .filter(|&all| all <= MAX_PARTITIONS)
                .ok_or(GroupError::TooManyPartitions)?;
        }

        let index: HashMap<String, u32> = (0..).zip(&topics).map(|(i, t)| (t.name.clone(), i)).collect();
        let members = subscriptions.into_iter().map(|m| member(m, &index, &topics)).collect();
        let mut group = Self { topics: topics.into(), members };
        group.resolve_claims();
        Ok(group)
    }

    /// The topics, ordered by name.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// The topics, to hold on to.
    pub(crate) fn shared_topics(&self) -> Arc<[Topic]> {
        Arc::clone(&self.topics)
    }

    /// A group of these topics and of members that are already numbered; the caller vouches for the nouns' promises.
    pub(crate) fn of_parts(topics: Arc<[Topic]>, members: Vec<Member>) -> Self {
        Self { topics, members }
    }

    /// The members, ordered by the bytes of their id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many partitions there are: their numbers are `0 .. partitions()`.
    pub fn partitions(&self) -> u32 {
        self.topics.last().map_or(0, |t| t.numbers().end)
    }

    /// The index of the topic that a partition's number belongs to.
    pub fn topic_of(&self, partition: u32) -> Option<u32> {
        let after = self.topics.partition_point(|t| t.first <= partition);
        let index = after.checked_sub(1)?;
        self.topics.get(index).filter(|t| t.numbers().contains(&partition))?;
        u32::try_from(index).ok()
    }

    /// Partitions by topic name and index instead of number, topics ascending; a number of no partition is left out.
    pub fn by_name(&self, partitions: &[u32]) -> Vec<TopicPartitions> {
        let mut sorted = partitions.to_vec();
        sorted.sort_unstable();
        let mut rest = sorted.as_slice();
        let mut named = Vec::new();
        for topic in self.topics.iter() {
            let (mine, after) = rest.split_at(rest.partition_point(|&p| p < topic.numbers().end));
            rest = after;
            if !mine.is_empty() {
                let partitions = mine.iter().map(|p| p - topic.first).collect();
                named.push(TopicPartitions { topic: topic.name.clone(), partitions });
            }
        }
        named
    }

    /// A copy whose members carry no user data. User data belongs to the strategy that wrote it: the native fallback must
    /// not read a plugin's bytes as its own.
    pub fn without_user_data(&self) -> Self {
        let mut group = self.clone();
        for member in &mut group.members {
            member.user_data = None;
        }
        group
    }

    /// A copy in which members own what `owner` says (an index into the members, or none, for each partition's number),
    /// as far as they are subscribed to its topic. For rebalances under the eager protocol, where no member reports what
    /// it owned, on behalf of a strategy that keeps partitions in place.
    pub fn with_owned(&self, owner: &[Option<u32>]) -> Self {
        let mut group = self.clone();
        for member in &mut group.members {
            member.owned.clear();
        }
        for (index, topic) in (0u32..).zip(self.topics.iter()) {
            for partition in topic.numbers() {
                let Some(&Some(owner)) = owner.get(partition as usize) else { continue };
                let Some(member) = group.members.get_mut(owner as usize) else { continue };
                if member.topics.binary_search(&index).is_ok() {
                    member.owned.push(partition);
                }
            }
        }
        group
    }

    /// For each partition the strongest claim on it, if any.
    fn claims(&self) -> Vec<Option<Claim>> {
        let mut claims: Vec<Option<Claim>> = vec![None; self.partitions() as usize];
        for (index, member) in (0u32..).zip(&self.members) {
            let generation = member.claim_generation();
            for &partition in &member.claimed {
                let Some(slot) = claims.get_mut(partition as usize) else { continue };
                match slot {
                    Some(claim) if claim.generation > generation => {}
                    Some(claim) if claim.generation == generation => claim.tied = true,
                    _ => *slot = Some(Claim { member: index, generation, tied: false }),
                }
            }
        }
        claims
    }

    /// The highest generation wins, a tie is nobody's (KAFKA-12984), a lone claim stands at any generation (KAFKA-14639),
    /// and only subscribed topics count.
    fn resolve_claims(&mut self) {
        if self.members.iter().all(|m| m.claimed.is_empty()) {
            return;
        }
        let claims = self.claims();
        for (topic_index, topic) in (0u32..).zip(self.topics.iter()) {
            for partition in topic.numbers() {
                let Some(&Some(claim)) = claims.get(partition as usize) else { continue };
                let Some(member) = self.members.get_mut(claim.member as usize) else { continue };
                if !claim.tied && member.topics.binary_search(&topic_index).is_ok() {
                    member.owned.push(partition);
                }
            }
        }
    }
}

/// The strongest claim on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    /// Index of the member whose claim has the highest generation (the first such, where `tied`).
    member: u32,
    /// That generation.
    generation: i32,
    /// Another member claims at the same generation.
    tied: bool,
}

fn member(m: MemberSubscription, index: &HashMap<String, u32>, topics: &[Topic]) -> Member {
    let MemberSubscription { member_id, instance_id, subscription } = m;
    let mut subscribed: Vec<u32> =
        subscription.topics.iter().filter_map(|name| index.get(name).copied()).collect();
    subscribed.sort_unstable();
    subscribed.dedup();

    let mut claimed: Vec<u32> = Vec::new();
    for owned in &subscription.owned {
        let Some(topic) = index.get(&owned.topic).and_then(|&i| topics.get(i as usize)) else { continue };
        claimed.extend(owned.partitions.iter().filter(|&&p| p < topic.partitions).map(|p| topic.first + p));
    }
    claimed.sort_unstable();
    claimed.dedup();

    Member {
        id: member_id,
        instance_id,
        topics: subscribed,
        claimed,
        owned: Vec::new(),
        generation: subscription.generation,
        rack: subscription.rack.filter(|rack| !rack.is_empty()),
        user_data: subscription.user_data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(topics: &[(&str, u32)]) -> BTreeMap<String, u32> {
        topics.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
    }

    fn claimant(id: &str, topics: &[&str], generation: Option<i32>, owned: &[u32]) -> MemberSubscription {
        let subscription = Subscription {
            topics: topics.iter().map(|t| (*t).to_owned()).collect(),
            owned: vec![TopicPartitions { topic: "t".into(), partitions: owned.to_vec() }],
            generation,
            ..Subscription::default()
        };
        MemberSubscription { member_id: id.into(), instance_id: None, subscription }
    }

    #[test]
    fn topics_are_numbered_through_in_order_of_their_names() {
        let members = vec![claimant("m", &["b", "t", "gone", "empty"], None, &[])];
        let group =
            Group::new(&counts(&[("t", 2), ("b", 3), ("unwanted", 9), ("empty", 0)]), members).unwrap();
        let topics: Vec<_> =
            group.topics().iter().map(|t| (t.name.as_str(), t.first, t.partitions)).collect();
        assert_eq!(topics, [("b", 0, 3), ("t", 3, 2)]);
        assert_eq!(group.partitions(), 5);
        assert_eq!((group.topic_of(2), group.topic_of(3), group.topic_of(5)), (Some(0), Some(1), None));
        let named = group.by_name(&[4, 0, 99]);
        assert_eq!(named[0], TopicPartitions { topic: "b".into(), partitions: vec![0] });
        assert_eq!(named[1], TopicPartitions { topic: "t".into(), partitions: vec![1] });
    }

    #[test]
    fn kafka_12984_of_two_claims_of_one_generation_neither_stands() {
        let members = vec![claimant("a", &["t"], Some(5), &[0, 1]), claimant("b", &["t"], Some(5), &[1, 2])];
        let group = Group::new(&counts(&[("t", 3)]), members).unwrap();
        assert_eq!(group.members()[0].owned, [0]);
        assert_eq!(group.members()[1].owned, [2]);
        assert_eq!(group.members()[1].claimed, [1, 2]);
    }

    #[test]
    fn kafka_14639_a_lone_claim_of_an_old_generation_stands_and_a_newer_claim_beats_it() {
        let members = vec![claimant("a", &["t"], Some(3), &[0, 1]), claimant("b", &["t"], Some(5), &[1])];
        let group = Group::new(&counts(&[("t", 2)]), members).unwrap();
        assert_eq!(group.members()[0].owned, [0]);
        assert_eq!(group.members()[1].owned, [1]);
    }

    #[test]
    fn claims_on_topics_gone_shrunk_or_no_longer_subscribed_are_no_ownership() {
        let members = vec![claimant("a", &["u"], Some(3), &[0, 7]), claimant("b", &["t"], None, &[])];
        let group = Group::new(&counts(&[("t", 2), ("u", 1)]), members).unwrap();
        assert_eq!(group.members()[0].claimed, [0]);
        assert!(group.members()[0].owned.is_empty());
    }

    #[test]
    fn duplicate_members_and_absurd_partition_counts_are_errors() {
        let twice = vec![claimant("a", &["t"], None, &[]), claimant("a", &["t"], None, &[])];
        assert_eq!(Group::new(&counts(&[("t", 1)]), twice), Err(GroupError::DuplicateMember("a".into())));
        let one = vec![claimant("a", &["t", "u"], None, &[])];
        assert_eq!(
            Group::new(&counts(&[("t", u32::MAX), ("u", u32::MAX)]), one),
            Err(GroupError::TooManyPartitions)
        );
    }
}
