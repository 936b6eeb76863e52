//! What is measured: groups of three families.

use std::collections::BTreeMap;

use assignor_host::{Subscription, TopicPartitions};
use serde::{Deserialize, Serialize};

use crate::input::Input;
use crate::ours;
use crate::side::{Side, Span};

/// The generation that members with partitions own them since.
const GENERATION: i32 = 7;

/// Racks, and brokers: one in each.
const RACKS: usize = 3;

/// Into how many parts topics and members fall where subscriptions differ.
const BUCKETS: usize = 5;

pub(crate) const RANGE: &str = "range";
pub(crate) const STICKY: &str = "sticky";
pub(crate) const COOPERATIVE: &str = "cooperative-sticky";

/// Which table it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// The shapes of Kafka's `ClientSideAssignorBenchmark` as they are meant: racks that matter, a member that joins members
    /// with partitions.
    Kafka,
    /// The same shapes as that benchmark makes them: a replica in every rack, which turns rack-awareness off, and in place of a
    /// member that joins, a first assignment without it.
    KafkaAsWritten,
    /// The sizes of franz-go's own benchmark.
    FranzGo,
    /// From a thousand partitions to a million.
    Growth,
}

/// Who subscribes to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subscriptions {
    /// Everybody to everything.
    Equal,
    /// Five buckets of members, each subscribed to its own bucket of topics.
    Buckets,
    /// Everybody to everything, and one more member to the first topic only.
    OneOdd,
}

/// What the group rebalances for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    /// Nobody owns anything.
    First,
    /// The last member joins; the others own what they were given without it.
    OneJoins,
    /// The last three quarters of the members leave; the others own what they were given.
    MostLeave,
}

/// A group, and who plans for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) family: Family,
    pub(crate) strategy: String,
    pub(crate) members: usize,
    pub(crate) topics: usize,
    /// Of each topic.
    pub(crate) partitions: usize,
    pub(crate) subscriptions: Subscriptions,
    /// Whether members say in which rack they are.
    pub(crate) racks: bool,
    pub(crate) cause: Cause,
    pub(crate) sides: Vec<Side>,
    pub(crate) spans: Vec<Span>,
}

impl Cell {
    /// As `--filter` matches it and progress shows it.
    pub(crate) fn name(&self) -> String {
        let family = match self.family {
            Family::Kafka => "kafka",
            Family::KafkaAsWritten => "kafka as written",
            Family::FranzGo => "franz-go",
            Family::Growth => "growth",
        };
        let size = format!("{} members x {} topics x {}", self.members, self.topics, self.partitions);
        let subscriptions = self.subscriptions.shown();
        let racks = if self.racks { "racks" } else { "no racks" };
        format!("{family}: {}, {size}, {subscriptions}, {racks}, {}", self.strategy, self.cause.shown())
    }

    /// How many partitions there are in all.
    pub(crate) fn all_partitions(&self) -> usize {
        self.topics * self.partitions
    }

    /// The group.
    pub(crate) fn input(&self) -> anyhow::Result<Input> {
        let names: Vec<String> = (0..self.topics).map(|topic| format!("topic{topic}")).collect();
        let replicas = if self.family == Family::KafkaAsWritten { RACKS } else { RACKS - 1 };
        let brokers = |partition: usize| (partition..partition + replicas).map(|b| (b % RACKS) as i32);
        let partitions: Vec<Vec<i32>> = (0..self.partitions).map(|p| brokers(p).collect()).collect();
        let mut input = Input {
            strategy: self.strategy.clone(),
            brokers: (0..RACKS).map(|rack| (rack as i32, format!("rack{rack}"))).collect(),
            topics: names.iter().map(|name| (name.clone(), partitions.clone())).collect(),
            members: Vec::new(),
        };
        let as_written = self.family == Family::KafkaAsWritten;
        let left_out = usize::from(self.cause == Cause::OneJoins);
        let before = self.members - left_out;
        for index in 0..before {
            input.join(format!("member{index}"), &self.subscription(&names, index, before))?;
        }
        if self.subscriptions == Subscriptions::OneOdd {
            let topics = names.first().cloned().into_iter().collect();
            input
                .join("odd".into(), &Subscription { topics, ..self.subscription(&names, before, before) })?;
        }
        if self.cause == Cause::First || as_written {
            return Ok(input);
        }
        input.members = owning(&input)?;
        if self.cause == Cause::OneJoins {
            // A joiner subscribes to what the last one does.
            let last = self.subscription(&names, before.saturating_sub(1), before);
            input.join("newMember".into(), &Subscription { rack: self.rack(before), ..last })?;
        } else {
            input.members.truncate(self.members / 4);
        }
        Ok(input)
    }

    fn subscription(&self, names: &[String], index: usize, members: usize) -> Subscription {
        let topics = match self.subscriptions {
            Subscriptions::Equal | Subscriptions::OneOdd => names.into(),
            Subscriptions::Buckets => {
                let bucket = index / members.div_ceil(BUCKETS);
                let size = names.len().div_ceil(BUCKETS);
                names.iter().skip(bucket * size).take(size).cloned().collect()
            }
        };
        Subscription { topics, rack: self.rack(index), ..Subscription::default() }
    }

    fn rack(&self, index: usize) -> Option<String> {
        self.racks.then(|| format!("rack{}", index % RACKS))
    }
}

/// The members of a group with what its strategy gives them.
fn owning(input: &Input) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut assignment: BTreeMap<String, Vec<TopicPartitions>> = ours::assignment_of(input)?;
    let mut group = Input::default();
    for member in input.decoded()? {
        let owned = assignment.remove(&member.member_id).unwrap_or_default();
        let subscription = Subscription { owned, generation: Some(GENERATION), ..member.subscription };
        group.join(member.member_id, &subscription)?;
    }
    Ok(group.members)
}

impl Subscriptions {
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Buckets => "5 buckets",
            Self::OneOdd => "one odd",
        }
    }
}

impl Cause {
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::OneJoins => "one joins",
            Self::MostLeave => "3/4 leave",
        }
    }
}
