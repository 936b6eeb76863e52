//! What the consumer offers to its strategies.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::metadata::{Cluster, Topic};
use super::shared::Shared;
use crate::assignor::{Node, Services, Unavailable};

/// Answers from the metadata that the leader has refreshed right before it assigns; nothing is fetched on request. Offsets
/// stay unavailable in this version.
pub(super) struct ConsumerServices {
    pub(super) cluster: Arc<Mutex<Cluster>>,
    pub(super) shared: Weak<Shared>,
}

impl ConsumerServices {
    fn topic<T>(&self, topic: &str, of: impl Fn(&Topic) -> T) -> Result<T, Unavailable> {
        let cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.topics.get(topic).map(of).ok_or_else(|| Unavailable(format!("topic {topic:?} is not known")))
    }
}

impl Services for ConsumerServices {
    fn nodes(&self, _: Instant) -> Result<Vec<Node>, Unavailable> {
        let nodes = self.cluster.lock().unwrap_or_else(PoisonError::into_inner).nodes.clone();
        if nodes.is_empty() { Err(Unavailable("no broker has been asked yet".into())) } else { Ok(nodes) }
    }

    fn leaders(&self, topic: &str, _: Instant) -> Result<Vec<i32>, Unavailable> {
        self.topic(topic, |t| t.leaders.clone())
    }

    fn replicas(&self, topic: &str, _: Instant) -> Result<Vec<Vec<i32>>, Unavailable> {
        self.topic(topic, |t| t.replicas.clone())
    }

    fn request_rebalance(&self, after: Duration, cause: &str) {
        if let Some(shared) = self.shared.upgrade() {
            shared.request_rebalance(after, cause.to_owned());
        }
    }
}
