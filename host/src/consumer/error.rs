//! What a consumer reports: errors to whom calls it, events to whom watches it.

use super::data::Record;
use super::rebalance::Rebalance;
use crate::group::TopicPartitions;

/// Why a call of a consumer failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The configuration is wrong; the text names the key.
    #[error("configuration: {0}")]
    Config(String),
    /// The consumer is closed.
    #[error("the consumer is closed")]
    Closed,
    /// A rebalance listener calls what waits for the end of its own call.
    #[error(
        "a rebalance listener must not poll, unsubscribe or close its consumer: it is called from within"
    )]
    InListener,
    /// No subscription, or none any more.
    #[error("the consumer is not subscribed to any topic: call subscribe first")]
    NotSubscribed,
    /// A broker and this client don't accept each other: certificates, user name or password, or what the listener asks for. As with
    /// Java's `AuthenticationException`, trying again does not help until someone has mended it.
    #[error("authentication with {broker} failed: {reason}; the next poll tries again")]
    Authentication {
        /// The broker's address.
        broker: String,
        /// What is wrong, and which property mends it.
        reason: String,
    },
    /// The principal may not use the group (GROUP_AUTHORIZATION_FAILED).
    #[error("not authorised to use group {group:?}: grant READ on the group; the next poll tries again")]
    GroupAuthorization {
        /// `group.id`.
        group: String,
    },
    /// The principal may not read topics (TOPIC_AUTHORIZATION_FAILED).
    #[error(
        "not authorised to read topic {topic:?}: grant READ and DESCRIBE on it; the next poll tries again"
    )]
    TopicAuthorization {
        /// The topic.
        topic: String,
    },
    /// The group runs none of the strategies that this member lists (INCONSISTENT_GROUP_PROTOCOL).
    #[error(
        "the members of group {group:?} have no strategy in common with this one, which lists {listed}: \
         list one that all members know, or use another group.id"
    )]
    InconsistentProtocol {
        /// `group.id`.
        group: String,
        /// The strategies listed, in order.
        listed: String,
    },
    /// The group has as many members as the broker allows (GROUP_MAX_SIZE_REACHED).
    #[error(
        "group {group:?} has as many members as the broker's group.max.size allows; the next poll tries again"
    )]
    GroupFull {
        /// `group.id`.
        group: String,
    },
    /// Another member uses the same `group.instance.id` (FENCED_INSTANCE_ID).
    #[error(
        "fenced: another consumer has joined with the same group.instance.id and taken this one's place; give each consumer its own"
    )]
    Fenced,
    /// The broker refuses what the group's members must agree on; the text says what.
    #[error("the broker refuses this member: {0}")]
    Refused(String),
    /// The partitions were given to another member before the commit: their records will be read again.
    #[error(
        "the commit failed because the partitions are no longer this member's ({0}): their records will be read again"
    )]
    CommitFailed(String),
    /// The group is rebalancing; the commit can be repeated after the next poll.
    #[error("the commit was refused because the group is rebalancing: poll, then commit again")]
    RebalanceInProgress,
    /// A commit did not get through.
    #[error("the commit failed: {0}")]
    Commit(String),
    /// A partition has no valid committed offset, or its position is outside it, and `auto.offset.reset` is `none`. Every poll says so
    /// until the application seeks.
    #[error(
        "{topic}-{partition} has no valid committed offset, and auto.offset.reset is \"none\": seek to go on"
    )]
    NoOffset {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
    },
    /// A call that has no meaning now (Java: `IllegalStateException`), as a seek in a partition that is not assigned.
    #[error("{0}")]
    IllegalState(String),
    /// A call whose argument has no meaning (Java: `IllegalArgumentException`).
    #[error("{0}")]
    IllegalArgument(String),
    /// No answer within the time (Java: `TimeoutException`).
    #[error("no answer in time: {0}")]
    Timeout(String),
    /// A record can't be deserialized. Every poll says so until the application seeks past it, or otherwise elsewhere: skipping a record
    /// is its decision.
    #[error("{0}")]
    Deserialization(Box<RecordDeserializationError>),
    /// The data path failed.
    #[error("fetching records failed: {0}")]
    Data(String),
    /// The consumer's own thread could not be started or has ended.
    #[error("the consumer's driver failed: {0}")]
    Driver(String),
}

impl ConsumerError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) => "config",
            Self::Closed => "closed",
            Self::InListener => "in-listener",
            Self::NotSubscribed => "not-subscribed",
            Self::Authentication { .. } => "authentication",
            Self::GroupAuthorization { .. } => "group-authorization",
            Self::TopicAuthorization { .. } => "topic-authorization",
            Self::InconsistentProtocol { .. } => "inconsistent-protocol",
            Self::GroupFull { .. } => "group-full",
            Self::Fenced => "fenced",
            Self::Refused(_) => "refused",
            Self::CommitFailed(_) => "commit-failed",
            Self::RebalanceInProgress => "rebalance-in-progress",
            Self::Commit(_) => "commit",
            Self::NoOffset { .. } => "no-offset",
            Self::IllegalState(_) => "illegal-state",
            Self::IllegalArgument(_) => "illegal-argument",
            Self::Timeout(_) => "timeout",
            Self::Deserialization(_) => "deserialization",
            Self::Data(_) => "data",
            Self::Driver(_) => "driver",
        }
    }

    /// Whether polling on can help: the next `poll` tries again what failed.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Authentication { .. }
                | Self::GroupAuthorization { .. }
                | Self::TopicAuthorization { .. }
                | Self::GroupFull { .. }
                | Self::RebalanceInProgress
                | Self::Commit(_)
                | Self::CommitFailed(_)
                | Self::Timeout(_)
                | Self::Data(_)
        )
    }

    /// Whether `poll` goes on once the application has sought ([`Consumer::seek`](super::Consumer::seek)) where this error says.
    pub fn needs_seek(&self) -> bool {
        matches!(self, Self::NoOffset { .. } | Self::Deserialization(_))
    }
}

/// What of a record can't be deserialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Its key.
    Key,
    /// Its value.
    Value,
}

/// A record that can't be deserialized (Kafka: `RecordDeserializationException`, KIP-334 and KIP-1036).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {} of {}-{} at offset {} can't be deserialized ({reason}): seek past the record to go on",
    match field { FieldKind::Key => "key", FieldKind::Value => "value" },
    record.topic, record.partition, record.offset
)]
pub struct RecordDeserializationError {
    /// The record as it is, for whom keeps such records elsewhere.
    pub record: Record,
    /// What of it.
    pub field: FieldKind,
    /// What the deserializer says.
    pub reason: String,
}

/// What happens to a consumer's membership of its group, told to its observer as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// It joins, for the first time or again.
    Joining {
        /// Why.
        cause: String,
    },
    /// It has got an assignment, whose records come as soon as is known where they start.
    Assigned {
        /// The group's generation.
        generation: i32,
        /// All of its partitions: under the cooperative protocol also those that it had before.
        partitions: Vec<TopicPartitions>,
        /// Whether it is the leader, whose strategy decided.
        leader: bool,
        /// The strategy that the group runs.
        strategy: String,
    },
    /// It gives partitions back in good order: all of them, or, under the cooperative protocol, some.
    Revoked {
        /// The partitions.
        partitions: Vec<TopicPartitions>,
    },
    /// Its partitions are another member's already, or may be.
    Lost {
        /// The partitions.
        partitions: Vec<TopicPartitions>,
        /// Why.
        cause: String,
    },
    /// It has left the group.
    Left {
        /// Why.
        cause: String,
    },
    /// A rebalance is over: how it went, and how long each part of it took. What it led to is told by itself.
    Rebalanced(Rebalance),
    /// The group does not run the strategy that this member lists first, since not all members know it or prefer it.
    FirstChoiceNotChosen {
        /// What this member lists first.
        wanted: String,
        /// What the group runs.
        chosen: String,
    },
    /// The broker assigns the partitions of this group: a member of the new protocol (KIP-848, `group.protocol=consumer`) has joined it,
    /// and the broker has turned it into a group of that protocol (`group.consumer.migration.policy`). No strategy of its members is
    /// asked any more. `assignor.block-upgrade=true` on all members that can lead prevents it.
    BrokerAssigns {
        /// The strategy of this member that is not asked.
        strategy: String,
    },
    /// Something failed that the consumer copes with: it will try again, or has gone on without.
    Trouble {
        /// What, and what the consumer does about it.
        message: String,
    },
    /// Something failed that the next `poll` will report.
    Failed {
        /// What.
        error: ConsumerError,
    },
}
