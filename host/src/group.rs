//! The nouns: topics, members, subscriptions, a group. Everything else speaks them and nothing else.
//!
//! Within one rebalance **a partition is one number**. A [`Group`] orders its topics by name and numbers all partitions
//! through: topic `t` holds the numbers `t.first .. t.first + t.partitions`. Assignors, plans and checks work on numbers;
//! names come back at the edges ([`Group::by_name`]).

mod numbering;
mod racks;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use numbering::{Lists, Numbering};
pub use racks::Racks;

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
    /// Names of the topics that the member wants. Shared, since most members of a group want the same:
    /// [`wire::subscription::Decoder`](crate::wire::subscription::Decoder) keeps lists that are equal once.
    pub topics: Arc<[String]>,
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
    same_subscription: bool,
    racks: Option<Arc<Racks>>,
}

/// What a group's members share: its topics, and the racks of their partitions.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Ordered by name.
    pub(crate) topics: Arc<[Topic]>,
    /// If known and of any use.
    pub(crate) racks: Option<Arc<Racks>>,
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

        let lists = Lists::of(&subscriptions);
        // Thousands of members may each ask for other topics: one set at a time, and a name is looked at once for each.
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut sets = lists.distinct.iter().map(|list| {
            let mut set = Vec::with_capacity(list.len());
            for name in list.iter() {
                let next = names.len();
                set.push(*names.entry(name).or_insert(next));
            }
            set.sort_unstable();
            set.dedup();
            set
        });
        let of_first = sets.next().unwrap_or_default();
        // All sets are gone through, so that all names are known afterwards.
        let mut same_subscription = true;
        for set in sets {
            same_subscription &= set == of_first;
        }
        let mut wanted: Vec<&str> = names.into_keys().collect();
        wanted.sort_unstable();
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

        let numbering = Numbering::of(&topics);
        let numbers: Vec<Vec<u32>> = lists.distinct.iter().map(|list| numbering.topics(list)).collect();
        let members = subscriptions.into_iter().zip(lists.of_member).map(|(member, list)| {
            let topics = numbers.get(list).cloned().unwrap_or_default();
            numbering.member(member, topics)
        });
        let members = members.collect();
        let mut group = Self { topics: topics.into(), members, same_subscription, racks: None };
        group.resolve_claims();
        Ok(group)
    }

    /// The same group, with the racks that its partitions' replicas are in: of the racks by broker id (Kafka: `Node.rack`) and
    /// the ids of the brokers that hold each partition of a topic, by its name (Kafka: `PartitionInfo.replicas`). Kept only if
    /// some member has a rack: nobody asks otherwise.
    #[must_use]
    pub fn with_racks<'a>(
        mut self,
        broker_racks: &BTreeMap<i32, String>,
        replicas: impl Fn(&str) -> Option<&'a [Vec<i32>]>,
    ) -> Self {
        let used = !broker_racks.is_empty() && self.members.iter().any(|m| m.rack.is_some());
        self.racks = used.then(|| Arc::new(Racks::new(&self.topics, broker_racks, replicas)));
        self
    }

    /// The racks of the partitions' replicas, if known and of any use.
    pub fn racks(&self) -> Option<&Racks> {
        self.racks.as_deref()
    }

    /// Whether all members ask for the same topics, ones that don't exist included: where Kafka's sticky assignors take their
    /// uniform path (`AbstractStickyAssignor.allSubscriptionsEqual`).
    pub fn same_subscription(&self) -> bool {
        self.same_subscription
    }

    /// The topics, ordered by name.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// The topics and racks, to hold on to.
    pub(crate) fn layout(&self) -> Layout {
        Layout { topics: Arc::clone(&self.topics), racks: self.racks.clone() }
    }

    /// A group of members that are already numbered; the caller vouches for the nouns' promises.
    pub(crate) fn of_parts(layout: Layout, members: Vec<Member>) -> Self {
        let same_subscription = members.array_windows().all(|[a, b]| a.topics == b.topics);
        Self { topics: layout.topics, racks: layout.racks, members, same_subscription }
    }

    /// A copy in which members claim what `claims` says for each of them, partitions by name and their generation; `None` leaves
    /// a member's claims as they are. For strategies whose members tell in user data what they own.
    pub(crate) fn with_claims<F>(&self, mut claims: F) -> Self
    where
        F: FnMut(&Member) -> Option<(Vec<TopicPartitions>, Option<i32>)>,
    {
        let mut group = self.clone();
        let numbering = Numbering::of(&self.topics);
        for member in &mut group.members {
            let Some((owned, generation)) = claims(member) else { continue };
            member.claimed = numbering.partitions(&owned);
            member.generation = generation;
        }
        group.resolve_claims();
        group
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
        let sorted = ascending(partitions);
        let mut named = Vec::with_capacity(self.by_topic(&sorted).count());
        named.extend(self.by_topic(&sorted).map(|(topic, numbers)| TopicPartitions {
            topic: topic.name.clone(),
            partitions: numbers.iter().map(|p| p - topic.first).collect(),
        }));
        named
    }

    /// The topics that ascending numbers belong to, ascending, and the numbers of each: [`by_name`](Self::by_name) without
    /// copies. Ends at the first number that is of no partition or doesn't ascend.
    pub fn by_topic<'a>(&'a self, sorted: &'a [u32]) -> impl Iterator<Item = (&'a Topic, &'a [u32])> {
        let mut topics: &[Topic] = &self.topics;
        let mut rest = sorted;
        std::iter::from_fn(move || {
            let &number = rest.first()?;
            // The next topic is near if a member has partitions of many topics, and far if it has few: look twice as far ahead
            // each time.
            let before = |topic: &Topic| topic.numbers().end <= number;
            let mut ahead = 1;
            while topics.get(ahead - 1).is_some_and(before) {
                topics = topics.get(ahead..)?;
                ahead *= 2;
            }
            let near = topics.get(..ahead).unwrap_or(topics);
            topics = topics.get(near.partition_point(before)..)?;
            let (topic, later) = topics.split_first()?;
            topics = later;
            let (mine, others) =
                rest.split_at(rest.iter().take_while(|p| topic.numbers().contains(p)).count());
            rest = others;
            (!mine.is_empty()).then_some((topic, mine))
        })
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
    pub(crate) fn claims(&self) -> Vec<Option<Claim>> {
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
        let claimed = self.members.iter().any(|m| !m.claimed.is_empty());
        let claims = if claimed { self.claims() } else { Vec::new() };
        for (index, member) in (0u32..).zip(&mut self.members) {
            let stands = |partition: &u32| match claims.get(*partition as usize) {
                Some(Some(claim)) => claim.member == index && !claim.tied,
                _ => false,
            };
            // Claims ascend, and so do topics: one walk over both.
            let mut topics =
                member.topics.iter().filter_map(|&topic| self.topics.get(topic as usize)).peekable();
            let mut subscribed = |partition: &u32| {
                while topics.next_if(|topic| topic.numbers().end <= *partition).is_some() {}
                topics.peek().is_some_and(|topic| topic.first <= *partition)
            };
            member.owned.clear();
            member.owned.reserve_exact(member.claimed.len());
            let claimed = member.claimed.iter().copied();
            member.owned.extend(claimed.filter(|p| stands(p) && subscribed(p)));
        }
    }
}

/// Numbers in their order, copied only if they have another.
pub(crate) fn ascending(numbers: &[u32]) -> Cow<'_, [u32]> {
    let mut ascending = Cow::Borrowed(numbers);
    if !ascending.is_sorted() {
        ascending.to_mut().sort_unstable();
    }
    ascending
}

/// The strongest claim on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Index of the member whose claim has the highest generation (the first such, where `tied`).
    pub(crate) member: u32,
    /// That generation.
    pub(crate) generation: i32,
    /// Another member claims at the same generation.
    pub(crate) tied: bool,
}
