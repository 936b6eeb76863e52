//! What the consumer offers to its strategies.
//!
//! A strategy asks on its own thread and waits, at most until its deadline; the driver's thread fetches, beside its other work.
//! Nodes, leaders and replicas come from the metadata that the leader has refreshed right before it assigns.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::lag::{Found, Kind};
use super::metadata::{Cluster, Topic};
use super::metrics::Metrics;
use super::shared::Shared;
use crate::assignor::{Node, Services, Unavailable};
use crate::fallback::Event;
use crate::group::TopicPartitions;

/// A question for the driver's thread.
pub(super) struct Ask {
    pub(super) kind: Kind,
    pub(super) wanted: Vec<TopicPartitions>,
    /// Nobody waits any longer.
    pub(super) deadline: Instant,
    pub(super) reply: SyncSender<Found>,
}

/// Questions that may wait for the driver's thread: of one strategy, and of who reads metrics.
const QUEUE: usize = 8;

/// Asks the driver's thread from another one.
#[derive(Debug, Clone)]
pub(super) struct Asker(mpsc::Sender<Ask>);

impl Asker {
    pub(super) fn new() -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(QUEUE);
        (Self(asks), asked)
    }

    /// What is known of these partitions, which ascend within their topic.
    ///
    /// # Errors
    /// If there is no answer by the deadline.
    pub(super) fn ask(
        &self,
        kind: Kind,
        wanted: Vec<TopicPartitions>,
        deadline: Instant,
    ) -> Result<Found, Unavailable> {
        let (reply, answer) = sync_channel(1);
        let ask = Ask { kind, wanted, deadline, reply };
        self.0.try_send(ask).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Unavailable("earlier questions aren't answered yet".into()),
            mpsc::error::TrySendError::Closed(_) => Unavailable("the consumer is closed".into()),
        })?;
        answer.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|e| match e {
            RecvTimeoutError::Timeout => Unavailable("no answer in time".into()),
            RecvTimeoutError::Disconnected => Unavailable("the consumer is closed".into()),
        })
    }
}

/// So many partitions are asked for at once, more only if one topic has more: a strategy asks topic by topic, and a round trip for
/// each of a thousand would take all its time. As many offsets are a request of 100 KB.
const BATCH: usize = 10_000;

/// A topic of more partitions than that is not asked for: its request alone would be megabytes, and no real one has as many.
const MOST_PARTITIONS: u32 = 200_000;

/// See the module's text.
pub(super) struct ConsumerServices {
    cluster: Arc<Mutex<Cluster>>,
    shared: Weak<Shared>,
    asker: Asker,
    metrics: Arc<Metrics>,
    plan: Option<Plan>,
}

/// The decision under way.
struct Plan {
    /// The group's topics and their partition counts, which every answer is for: newer metadata may count otherwise.
    counts: BTreeMap<String, u32>,
    /// What has been fetched for it: one topic's offsets don't change while it is made.
    known: Mutex<Known>,
}

type Known = BTreeMap<(Kind, String), Result<Arc<[i64]>, Unavailable>>;

impl Plan {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic, and those after it by name that aren't known either.
    fn batch(&self, kind: Kind, topic: &str) -> Vec<TopicPartitions> {
        let known = self.known();
        let after =
            self.counts.range::<str, _>((std::ops::Bound::Included(topic), std::ops::Bound::Unbounded));
        let mut partitions = 0;
        let mut batch = Vec::new();
        for (topic, &count) in after.filter(|(topic, _)| !known.contains_key(&(kind, (*topic).clone()))) {
            partitions += count as usize;
            if !batch.is_empty() && partitions > BATCH {
                break;
            }
            batch.push(TopicPartitions { topic: topic.clone(), partitions: (0..count).collect() });
        }
        batch
    }
}

impl ConsumerServices {
    pub(super) fn new(
        cluster: Arc<Mutex<Cluster>>,
        shared: Weak<Shared>,
        asker: Asker,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { cluster, shared, asker, metrics, plan: None }
    }

    /// For one decision, about topics of these partition counts.
    pub(super) fn for_plan(&self, counts: &BTreeMap<String, u32>) -> Self {
        Self {
            cluster: Arc::clone(&self.cluster),
            shared: Weak::clone(&self.shared),
            asker: self.asker.clone(),
            metrics: Arc::clone(&self.metrics),
            plan: Some(Plan { counts: counts.clone(), known: Mutex::default() }),
        }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fact of each partition of a topic, as many as the decision counts.
    fn topic<T: Clone>(
        &self,
        topic: &str,
        unknown: T,
        of: impl Fn(&Topic) -> &Vec<T>,
    ) -> Result<Vec<T>, Unavailable> {
        let cluster = self.cluster();
        let found = cluster.topics.get(topic).map(|topic| of(topic).clone());
        let mut found = found.ok_or_else(|| Unavailable(format!("topic {topic:?} is not known")))?;
        if let Some(&count) = self.plan.as_ref().and_then(|plan| plan.counts.get(topic)) {
            found.resize(count as usize, unknown);
        }
        Ok(found)
    }

    fn offsets(&self, kind: Kind, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        let outside = || Unavailable("offsets are told while a strategy assigns".into());
        let plan = self.plan.as_ref().ok_or_else(outside)?;
        match plan.counts.get(topic) {
            Some(0..=MOST_PARTITIONS) => {}
            Some(count) => return Err(Unavailable(format!("{count} partitions are too many to ask for"))),
            None => return Err(Unavailable(format!("topic {topic:?} is not the group's"))),
        }
        let key = (kind, topic.to_owned());
        if let Some(known) = plan.known().get(&key) {
            return known.as_ref().map(|offsets| offsets.to_vec()).map_err(Clone::clone);
        }
        let batch = plan.batch(kind, topic);
        let topics: Vec<String> = batch.iter().map(|t| t.topic.clone()).collect();
        let Found(found) = self.asker.ask(kind, batch, deadline)?;
        let mut known = plan.known();
        for (topic, found) in topics.into_iter().zip(found) {
            let told = match found.problem {
                Some(problem) if found.offsets.iter().all(Option::is_none) => Err(Unavailable(problem)),
                _ => Ok(found.offsets.into_iter().map(|offset| offset.unwrap_or(-1)).collect()),
            };
            known.insert((kind, topic), told);
        }
        let told = known.get(&key).ok_or_else(|| Unavailable("the answer lacks the topic".into()))?;
        told.as_ref().map(|offsets| offsets.to_vec()).map_err(Clone::clone)
    }
}

impl Services for ConsumerServices {
    fn nodes(&self, _: Instant) -> Result<Vec<Node>, Unavailable> {
        let nodes = self.cluster().nodes.clone();
        if nodes.is_empty() { Err(Unavailable("no broker has been asked yet".into())) } else { Ok(nodes) }
    }

    fn leaders(&self, topic: &str, _: Instant) -> Result<Vec<i32>, Unavailable> {
        self.topic(topic, -1, |t| &t.leaders)
    }

    fn replicas(&self, topic: &str, _: Instant) -> Result<Vec<Vec<i32>>, Unavailable> {
        self.topic(topic, Vec::new(), |t| &t.replicas)
    }

    fn begin_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        self.offsets(Kind::Begin, topic, deadline)
    }

    fn end_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        self.offsets(Kind::End, topic, deadline)
    }

    fn committed_offsets(&self, topic: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        self.offsets(Kind::Committed, topic, deadline)
    }

    fn request_rebalance(&self, after: Duration, cause: &str) {
        if let Some(shared) = self.shared.upgrade() {
            shared.request_rebalance(after, cause.to_owned());
        }
    }

    fn happened(&self, event: &Event) {
        self.metrics.happened(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::lag::TopicOffsets;

    /// Services for a decision about topics of these counts, and the driver's end of the questions.
    fn services(counts: &[(&str, u32)]) -> (ConsumerServices, mpsc::Receiver<Ask>) {
        let (asker, asked) = Asker::new();
        let metrics = Arc::new(Metrics::new("g", "c"));
        let base = ConsumerServices::new(Arc::default(), Weak::new(), asker, metrics);
        (base.for_plan(&counts.iter().map(|(t, n)| ((*t).to_owned(), *n)).collect()), asked)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// Answers each question with what `answer` makes of it; gives what was asked.
    fn driver(
        mut asked: mpsc::Receiver<Ask>,
        answer: impl Fn(&TopicPartitions) -> TopicOffsets + Send + 'static,
    ) -> std::thread::JoinHandle<Vec<(Kind, Vec<String>)>> {
        std::thread::spawn(move || {
            let mut questions = Vec::new();
            while let Some(ask) = asked.blocking_recv() {
                let found = Found(ask.wanted.iter().map(&answer).collect());
                questions.push((ask.kind, ask.wanted.into_iter().map(|t| t.topic).collect()));
                let _ = ask.reply.send(found);
            }
            questions
        })
    }

    #[test]
    fn a_strategy_that_asks_topic_by_topic_costs_a_question_per_ten_thousand_partitions() {
        let names: Vec<String> = (0..1_000).map(|n| format!("t{n:04}")).collect();
        let counts: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 100)).collect();
        let (services, asked) = services(&counts);
        let driver = driver(asked, |t| TopicOffsets {
            offsets: t.partitions.iter().map(|p| Some(i64::from(*p))).collect(),
            problem: None,
        });
        for name in &names {
            assert_eq!(services.end_offsets(name, soon()).unwrap(), (0..100).collect::<Vec<i64>>());
        }
        assert_eq!(services.begin_offsets("t0999", soon()).unwrap().len(), 100);
        drop(services);
        let questions = driver.join().unwrap();
        assert_eq!(questions.len(), 11);
        assert!(questions[..10].iter().all(|(kind, topics)| *kind == Kind::End && topics.len() == 100));
        assert_eq!(questions[10], (Kind::Begin, vec!["t0999".to_owned()]));
    }

    #[test]
    fn a_topic_larger_than_a_batch_is_asked_for_alone() {
        let (services, asked) =
            services(&[("a", 1), ("big", 50_000), ("c", 1), ("huge", MOST_PARTITIONS + 1)]);
        let driver =
            driver(asked, |t| TopicOffsets { offsets: vec![Some(1); t.partitions.len()], problem: None });
        for topic in ["big", "a", "c"] {
            services.committed_offsets(topic, soon()).unwrap();
        }
        assert!(services.committed_offsets("huge", soon()).unwrap_err().0.contains("too many"));
        drop(services);
        let asked: Vec<_> = driver.join().unwrap().into_iter().map(|(_, topics)| topics).collect();
        assert_eq!(asked, [vec!["big"], vec!["a", "c"]]);
    }

    #[test]
    fn what_is_not_known_is_absent_and_what_is_known_stays() {
        let (services, asked) = services(&[("gone", 2), ("part", 2), ("whole", 1)]);
        let driver = driver(asked, |t| match t.topic.as_str() {
            "gone" => TopicOffsets { offsets: vec![None, None], problem: Some("no leader".into()) },
            "part" => TopicOffsets { offsets: vec![None, Some(7)], problem: Some("no leader".into()) },
            _ => TopicOffsets { offsets: vec![None], problem: None },
        });
        let gone = Err(Unavailable("no leader".into()));
        assert_eq!(services.end_offsets("gone", soon()), gone);
        assert_eq!(services.end_offsets("gone", soon()), gone, "and nobody is asked again");
        assert_eq!(services.end_offsets("part", soon()), Ok(vec![-1, 7]));
        // Nothing is committed: that is known.
        assert_eq!(services.end_offsets("whole", soon()), Ok(vec![-1]));
        assert!(services.end_offsets("alien", soon()).is_err());
        drop(services);
        assert_eq!(driver.join().unwrap().len(), 1);
    }

    #[test]
    fn nobody_waits_longer_than_the_deadline_and_questions_do_not_pile_up() {
        let (services, asked) = services(&[("t", 1)]);
        for _ in 0..QUEUE {
            let late = services.end_offsets("t", Instant::now()).unwrap_err();
            assert!(late.0.contains("in time"), "{late}");
        }
        let full = services.end_offsets("t", soon()).unwrap_err();
        assert!(full.0.contains("earlier questions"), "{full}");
        drop(asked);
        let closed = services.end_offsets("t", soon()).unwrap_err();
        assert!(closed.0.contains("closed"), "{closed}");
    }

    #[test]
    fn outside_a_decision_no_offsets_are_told() {
        let (asker, _asked) = Asker::new();
        let metrics = Arc::new(Metrics::new("g", "c"));
        let services = ConsumerServices::new(Arc::default(), Weak::new(), asker, metrics);
        assert!(services.end_offsets("t", soon()).unwrap_err().0.contains("while a strategy assigns"));
    }

    #[test]
    fn facts_are_told_for_as_many_partitions_as_the_decision_counts() {
        let (services, _asked) = services(&[("more", 3), ("fewer", 1)]);
        let topic = || Topic { leaders: vec![1, 2], replicas: vec![vec![1], vec![2]] };
        services.cluster().topics = [("more".to_owned(), topic()), ("fewer".to_owned(), topic())].into();
        assert_eq!(services.leaders("more", soon()).unwrap(), [1, 2, -1]);
        assert_eq!(services.leaders("fewer", soon()).unwrap(), [1]);
        assert_eq!(services.replicas("more", soon()).unwrap(), [vec![1], vec![2], vec![]]);
        assert!(services.leaders("gone", soon()).is_err());
    }
}
