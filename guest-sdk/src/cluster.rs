//! The Kafka cluster, as far as the host knows it. Answers come only while [`assign`](crate::Strategy::assign) runs.

pub use crate::bindings::assignor::strategy::cluster::Node;
use crate::group::Topic;
use crate::imports::{Host, Imports};

/// The host has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub(crate) String);

/// The cluster's brokers, by ascending id.
///
/// # Errors
/// If the host does not know them.
pub fn nodes() -> Result<Vec<Node>, Unavailable> {
    Host::nodes().map_err(Unavailable)
}

/// For each partition of the topic the id of the broker that leads it; `None` where there is none.
///
/// # Errors
/// If the host does not know them.
pub fn leaders(topic: Topic<'_>) -> Result<Vec<Option<i32>>, Unavailable> {
    let leaders = Host::leaders(topic.number()).map_err(Unavailable)?;
    Ok(leaders.into_iter().map(|id| Some(id).filter(|&id| id >= 0)).collect())
}

/// For each partition of the topic the ids of the brokers that hold it, offline and out-of-sync ones included.
///
/// # Errors
/// If the host does not know them.
pub fn replicas(topic: Topic<'_>) -> Result<Vec<Vec<i32>>, Unavailable> {
    Host::replicas(topic.number()).map_err(Unavailable)
}
