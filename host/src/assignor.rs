//! The one trait that built-ins, plugins and the fallback wrapper implement, and what surrounds a call.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::cause::CallError;
use crate::fallback::Event;
use crate::group::{Group, TopicPartitions};
use crate::plan::Plan;

/// How members give up partitions in a rebalance (KIP-429; Kafka: `RebalanceProtocol`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Every member gives up everything before it rejoins.
    Eager,
    /// Members keep what they own; only what changes its owner is given up.
    Cooperative,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eager => "eager",
            Self::Cooperative => "cooperative",
        })
    }
}

/// What a member tells the leader for one strategy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// The topics to take partitions of: all that the consumer subscribed to, or a subset.
    pub topics: Vec<String>,
    /// Bytes for the leader's `assign`.
    pub user_data: Option<Vec<u8>>,
}

impl Interest {
    /// All topics and no user data.
    pub fn all(topics: &[String]) -> Self {
        Self { topics: topics.to_vec(), user_data: None }
    }
}

/// A partition assignment strategy (Kafka: `ConsumerPartitionAssignor`).
///
/// The consumer calls, per rebalance: [`subscription`](Self::subscription) on every member, once;
/// [`assign`](Self::assign) on the leader; [`on_assignment`](Self::on_assignment) on every member.
pub trait Assignor: Send {
    /// The name under which the group agrees on it.
    fn name(&self) -> &str;

    /// The protocols it works under.
    fn protocols(&self) -> &[Protocol];

    /// Whether it can't work at all, as a plugin whose file is broken, and so falls back in each call. Such a leader leaves its
    /// group once, so that another member leads.
    fn is_degraded(&self) -> bool {
        false
    }

    /// A consumer takes the strategy, for as long as it keeps what is returned; `None` if another one has it. What remembers its
    /// last assignment serves one consumer at a time: two would tell their groups what the other has (aiokafka 1175).
    fn engage(&mut self) -> Option<Engagement> {
        Some(Engagement::default())
    }

    /// What this member tells the leader, given the topics that the consumer subscribed to.
    ///
    /// # Errors
    /// If the strategy fails; the member then joins with [`Interest::all`].
    fn subscription(&mut self, cx: &Context, topics: &[String]) -> Result<Interest, CallError> {
        let _ = cx;
        Ok(Interest::all(topics))
    }

    /// Splits the group's partitions. The plan is the full target: the caller checks it and withholds what must be given up
    /// first.
    ///
    /// # Errors
    /// If the strategy fails or declines.
    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError>;

    /// Tells what this member owns now. May be told again, to an instance that is made anew; not after
    /// [`on_lost`](Self::on_lost).
    ///
    /// # Errors
    /// If the strategy fails; the assignment stands all the same.
    fn on_assignment(
        &mut self,
        cx: &Context,
        partitions: &[TopicPartitions],
        user_data: Option<&[u8]>,
        generation: i32,
    ) -> Result<(), CallError> {
        let _ = (cx, partitions, user_data, generation);
        Ok(())
    }

    /// This member has lost its partitions: what it was told it owns, it owns no more (Kafka: `onPartitionsLost`).
    fn on_lost(&mut self) {}

    /// How it is doing, for those who watch its consumer. Asked after each of the other calls: it must be quick.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// How a strategy is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// Bytes of memory that its instance holds; `None` for native code, and while there is no instance.
    pub memory: Option<u64>,
    /// It has failed again and again, and is not asked for a while.
    pub benched: bool,
}

/// Kept by the consumer that a strategy serves.
#[derive(Debug, Clone, Default)]
pub struct Engagement(Arc<()>);

impl Engagement {
    /// Tells for how long it is kept: while there is something to [`upgrade`](Weak::upgrade) to.
    pub fn watch(&self) -> Weak<()> {
        Arc::downgrade(&self.0)
    }
}

/// For whom and when a call is made.
#[derive(Clone)]
pub struct Context {
    /// `group.id`; empty while a component is probed.
    pub group_id: String,
    /// This member's id; empty before the broker gave one.
    pub member_id: String,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// The group's generation; -1 before the first.
    pub generation: i32,
    /// The clock, in milliseconds since 1970-01-01 UTC: an input, so that a call can be replayed.
    pub now_ms: u64,
    /// For a strategy's random generator; the same when the call is replayed.
    pub seed: u64,
    /// What a strategy may ask of its consumer.
    pub services: Arc<dyn Services>,
    /// Ends a running call.
    pub cancellation: Cancellation,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            member_id: String::new(),
            instance_id: None,
            rack: None,
            generation: -1,
            now_ms: 0,
            seed: 0,
            services: Arc::new(NoServices),
            cancellation: Cancellation::default(),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("group_id", &self.group_id)
            .field("member_id", &self.member_id)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// A flag, shared by its clones, that ends a running call with [`CallError::Cancelled`].
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Ends the calls made with this flag, running and future ones.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The broker's id.
    pub id: i32,
    /// Its host name.
    pub host: String,
    /// `broker.rack`.
    pub rack: Option<String>,
}

/// Why a service has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unavailable: {0}")]
pub struct Unavailable(pub String);

/// What a consumer offers to strategies: everything they may know of the cluster. Each answer is wanted before `deadline`; an
/// implementation that has none by then returns [`Unavailable`]. Lists have one entry per partition of the topic.
pub trait Services: Send + Sync {
    /// The cluster's brokers.
    ///
    /// # Errors
    /// If they aren't known.
    fn nodes(&self, deadline: Instant) -> Result<Vec<Node>, Unavailable> {
        let _ = deadline;
        Err(Unavailable("this consumer has no cluster metadata".into()))
    }
    /// The id of each partition's leader, -1 where there is none.
    ///
    /// # Errors
    /// If they aren't known.
    fn leaders(&self, topic: &str, deadline: Instant) -> Result<Vec<i32>, Unavailable> {
        let _ = (topic, deadline);
        Err(Unavailable("this consumer has no cluster metadata".into()))
    }
    /// The ids of the brokers that hold each partition.
    ///
    /// # Errors
    /// If they aren't known.
    fn replicas(&self, topic: &str, deadline: Instant) -> Result<Vec<Vec<i32>>, Unavailable> {
        let _ = (topic, deadline);
        Err(Unavailable("this consumer has no cluster metadata".into()))
    }
    /// The first offset of each partition, -1 where it isn't known.
    ///
    /// # Errors
    /// If none is known.
    fn begin_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        let _ = (topic, deadline);
        Err(Unavailable("this consumer does not fetch offsets for strategies".into()))
    }
    /// The end offset of each partition, -1 where it isn't known.
    ///
    /// # Errors
    /// If none is known.
    fn end_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        let _ = (topic, deadline);
        Err(Unavailable("this consumer does not fetch offsets for strategies".into()))
    }
    /// The group's committed offset of each partition, -1 where there is none.
    ///
    /// # Errors
    /// If none is known.
    fn committed_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        let _ = (topic, deadline);
        Err(Unavailable("this consumer does not fetch offsets for strategies".into()))
    }
    /// Asks for a rebalance after a time, and says why. Only the leader's request starts one. Must return at once.
    fn request_rebalance(&self, after: Duration, cause: &str) {
        let _ = (after, cause);
    }
    /// Is told what happens to a strategy that this consumer uses, for its counters. Must return at once.
    fn happened(&self, event: &Event) {
        let _ = event;
    }
}

/// No consumer behind: every answer is [`Unavailable`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl Services for NoServices {}
