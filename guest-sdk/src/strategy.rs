//! The trait that a strategy implements.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::assignor::strategy::types::{Interest, Protocol, TopicPartitions};
use crate::error::Error;
use crate::group::Group;
use crate::plan::Plan;
use crate::user_data::{self, DecodeError, EncodeError};

/// A partition assignment strategy (Kafka: `ConsumerPartitionAssignor`). [`export!`](crate::export) makes a component of it.
///
/// The host calls, once when it loads the component, [`name`](Self::name) and
/// [`supported_protocols`](Self::supported_protocols); then per rebalance [`subscription`](Self::subscription) on every member,
/// [`assign`](Self::assign) on one member, the leader, and [`on_assignment`](Self::on_assignment) on every member.
///
/// A panic throws the instance away, and with it whatever the strategy remembers; the host then decides by a native strategy.
pub trait Strategy: Default {
    /// The name under which the members of a group agree on this strategy: 1 to 64 of the characters `A-Z a-z 0-9 . _ -`.
    /// Names of Kafka's own assignors, such as `range`, are reserved.
    fn name(&self) -> &str;

    /// The rebalance protocols that the strategy works under.
    ///
    /// Both by default: under the cooperative protocol too [`assign`](Self::assign) returns the full target, and the host holds
    /// back what changes its owner, so a strategy need not know which one runs.
    fn supported_protocols(&self) -> Vec<Protocol> {
        vec![Protocol::Eager, Protocol::Cooperative]
    }

    /// What this member tells the leader, given the topics that the consumer subscribed to: by default all of them and no
    /// user data.
    ///
    /// # Errors
    /// The member then joins with all topics and no user data, and the text is reported.
    fn subscription(&mut self, topics: Vec<String>) -> Result<Interest, Error> {
        Ok(Interest::all(topics))
    }

    /// Splits the group's partitions.
    ///
    /// A function of the group, the configuration and what the imports answer: it may run in a fresh instance that never saw
    /// an earlier call, and so can't change the strategy. What must be remembered travels: [`on_assignment`](Self::on_assignment)
    /// keeps it, [`subscription`](Self::subscription) sends it, and the next `assign` finds it in
    /// [`Member::user_data`](crate::Member::user_data).
    ///
    /// # Errors
    /// Declines: the host's native fallback decides this once, and the text is reported.
    fn assign(&self, group: &Group) -> Result<Plan, Error>;

    /// Learns what this member owns now; by default it does not care. May be told the same again, after the instance was made
    /// anew: be idempotent. Not told when partitions are lost.
    ///
    /// # Errors
    /// The text is reported; the assignment stands.
    fn on_assignment(&mut self, assigned: Assigned) -> Result<(), Error> {
        let _ = assigned;
        Ok(())
    }
}

impl Interest {
    /// All topics that the consumer subscribed to, and no user data.
    pub fn all(topics: Vec<String>) -> Self {
        Self { topics, user_data: None }
    }

    /// With user data for the leader, which finds it in [`Member::user_data`](crate::Member::user_data).
    ///
    /// # Errors
    /// If it can't be encoded.
    pub fn with_user_data<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, EncodeError> {
        self.user_data = Some(user_data::encode(value)?);
        Ok(self)
    }
}

/// What a member owns after a rebalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Its partitions, by topic.
    pub partitions: Vec<TopicPartitions>,
    /// The bytes that the leader sent by [`Plan::send`]; `None` if it sent none or had fallen back.
    pub user_data_bytes: Option<Vec<u8>>,
    /// The group's generation.
    pub generation: i32,
}

impl Assigned {
    /// What the leader sent by [`Plan::send`], decoded; `None` if it sent none or had fallen back.
    ///
    /// # Errors
    /// If it is something else: another version of the strategy may have sent it.
    pub fn user_data<T: DeserializeOwned>(&self) -> Result<Option<T>, DecodeError> {
        self.user_data_bytes.as_deref().map(user_data::decode).transpose()
    }
}
