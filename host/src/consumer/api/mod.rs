//! The consumer as an application sees it.

mod commit;
mod positions;
mod stream;
mod subscription;
mod typed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::assignor::{Assignor, Engagement};
use crate::consumer::clock::Moment;
use crate::consumer::config::ConsumerConfig;
use crate::consumer::data::{Librdkafka, Record};
use crate::consumer::driver::{self, CLOSE_TIMEOUT, Command};
use crate::consumer::error::{ConsumerError, GroupEvent};
use crate::consumer::fetcher::{Calls, Fetcher, Most};
use crate::consumer::listener::Listening;
use crate::consumer::machine::Membership;
use crate::consumer::metrics::{self, Metrics};
use crate::consumer::services::Asker;
use crate::consumer::shared::{GroupMetadata, Shared};
use crate::consumer::strategist::{self, Strategist};

pub use commit::PendingCommit;
pub use stream::{RecordIter, RecordStream};
pub use typed::TypedConsumer;

/// A member of a classic consumer group, whose partitions any [`Assignor`] splits.
///
/// A thread of its own keeps the membership alive; another one runs the strategies. Records come from [`poll`](Self::poll). As with
/// the Java client, a call of `poll` says that everything returned by earlier calls is done with: only then does a rebalance
/// take partitions away, and only what is done with is committed automatically.
///
/// **What is promised**: a partition has one owner per generation; commits of an earlier generation are refused; nothing is
/// returned after the lease, that is, `session.timeout.ms` after the last heartbeat was sent that is known to have arrived, on a clock
/// that goes on while the machine is suspended. Records may be processed twice (at least once): fence outside effects
/// yourself.
///
/// All methods take `&self`, so that a consumer can be shared and closed from another thread; concurrent calls of `poll` wait
/// for each other. Names and meanings are those of Java's `KafkaConsumer`; `commit` is its `commitSync`.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, Json, Required, Text};
/// use assignor_host::{Catalog, Observer};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     item: String,
///     count: u32,
/// }
///
/// let properties = BTreeMap::from(
///     [
///         ("bootstrap.servers", "localhost:9092"),
///         ("group.id", "orders-service"),
///         ("partition.assignment.strategy", "cooperative-sticky"),
///         ("enable.auto.commit", "false"),
///     ]
///     .map(|(key, value)| (key.to_owned(), value.to_owned())),
/// );
/// let observer: Observer = Arc::new(|event| eprintln!("{event:?}"));
/// let catalog = Catalog::from_properties(&properties, &observer)?;
/// let config = ConsumerConfig::from_properties(properties)?;
/// let consumer = Consumer::new(config, catalog.assignors(), |event| eprintln!("{event:?}"))?;
/// // Every topic whose whole name matches, those to come included.
/// consumer.subscribe_pattern("orders-.*")?;
/// let orders = consumer.typed(Text, Required(Json::<Order>::new()));
/// loop {
///     match orders.poll(Duration::from_secs(1)) {
///         Ok(records) => {
///             for record in &records {
///                 println!("{}: {} x {}", record.topic_partition(), record.value.count, record.value.item);
///             }
///             // Goes on beside the next poll; the next commit covers it, should it fail.
///             drop(consumer.commit_async()?);
///         }
///         Err(ConsumerError::Deserialization(failed)) => {
///             eprintln!("{failed}");
///             consumer.seek(&failed.record.topic_partition(), failed.record.offset + 1)?;
///         }
///         Err(error) if error.is_retriable() => eprintln!("{error}"),
///         Err(error) => return Err(error.into()),
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Records one by one come from a [`stream`](Self::stream) for tasks of any runtime, or an [`iter`](Self::iter) for a thread.
///
/// **What it can't do**: commit offsets within a producer's transaction (`sendOffsetsToTransaction`). rdkafka's producer wants the group
/// metadata of a consumer of rdkafka's that is itself a member, and librdkafka's function that makes them from a member id and a
/// generation is within reach of unsafe code only. Who needs exactly once stores the offsets with the results, and
/// [seeks](Self::seek) to them in the [rebalance listener](super::RebalanceListener).
pub struct Consumer {
    config: Arc<ConsumerConfig>,
    shared: Arc<Shared>,
    commands: UnboundedSender<Command>,
    listener: Listening,
    fetcher: Mutex<Fetcher>,
    metrics: Arc<Metrics>,
    asker: Asker,
    /// The strategies are this consumer's until it is dropped.
    _engagements: Vec<Engagement>,
}

/// How a consumer closes (KIP-1092; Kafka: `CloseOptions`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseOptions {
    /// What becomes of its membership.
    pub membership: Membership,
    /// How long a last commit and LeaveGroup may take.
    pub timeout: Duration,
}

impl Default for CloseOptions {
    fn default() -> Self {
        Self { membership: Membership::Default, timeout: CLOSE_TIMEOUT }
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("group", &self.group_metadata()).finish_non_exhaustive()
    }
}

impl Consumer {
    /// Makes a consumer that offers these strategies to its group, the preferred one first. It joins with the first `poll`
    /// after [`subscribe`](Self::subscribe).
    ///
    /// `observer` is told what happens to the membership, on the consumer's own thread: it must return soon, and must not
    /// call the consumer.
    ///
    /// # Errors
    /// [`ConsumerError::Config`] if there is no strategy, two share a name, they have no rebalance protocol in common, one is another consumer's, or
    /// the data path refuses a property; [`ConsumerError::Driver`] if no thread can be started.
    pub fn new(
        mut config: ConsumerConfig,
        mut assignors: Vec<Box<dyn Assignor>>,
        observer: impl Fn(&GroupEvent) + Send + Sync + 'static,
    ) -> Result<Self, ConsumerError> {
        if config.client_id.is_empty() {
            // As the Java client does: it begins the member id that the broker gives, which operators read.
            static MADE: AtomicU32 = AtomicU32::new(1);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            config.client_id = format!("consumer-{}-{number}", config.group_id);
        }
        let strategies = strategist::names(&assignors)?;
        let protocol = strategist::protocol(&assignors)?;
        let engagements = strategist::engage(&mut assignors)?;
        let mut fetcher = Fetcher::new(Box::new(Librdkafka::new(&config)?));
        let metrics = Arc::new(Metrics::new(&config.group_id, &config.client_id));
        let strategist = Strategist::start(assignors, metrics::watch_strategies(Arc::clone(&metrics)))?;
        let (asker, asked) = Asker::new();
        let config = Arc::new(config);
        let shared = Arc::new(Shared::new(Moment::now()));
        let signal = shared.signal();
        fetcher.wake_by(Arc::new(move || signal.notify_all()));
        let (commands, received) = unbounded_channel();
        let parts = driver::Parts {
            config: Arc::clone(&config),
            strategies,
            protocol,
            strategist,
            shared: Arc::clone(&shared),
            observer: Arc::new(observer),
            commands: received,
            metrics: Arc::clone(&metrics),
            asked,
            asker: asker.clone(),
        };
        let ending = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("assignor-consumer".into())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| driver::run(parts)));
                match outcome {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => ending.report(error),
                    Err(_) => ending.report(ConsumerError::Driver("it panicked; see the log".into())),
                }
                ending.end();
            })
            .map_err(|e| ConsumerError::Driver(format!("no thread for the consumer: {e}")))?;
        let (listener, fetcher) = (Listening::default(), Mutex::new(fetcher));
        Ok(Self { config, shared, commands, listener, fetcher, metrics, asker, _engagements: engagements })
    }

    /// The next records, at most `max.poll.records`: as soon as there are any, or none when the time is over. A zero time-out
    /// returns at once with what is there.
    ///
    /// To be called at least every `max.poll.interval.ms`, or the consumer leaves the group until the next call.
    ///
    /// # Errors
    /// What has gone wrong since the last call. If [`ConsumerError::is_retriable`], calling again goes on; if
    /// [`ConsumerError::needs_seek`], calling after a seek does; else every call returns it.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<Record>, ConsumerError> {
        let all = self.config.max_poll_records;
        self.fetch(timeout, all, |records| Ok(records.len()))
    }

    /// The next record, fetched together with those after it.
    fn poll_one(&self, timeout: Duration) -> Result<Option<Record>, ConsumerError> {
        Ok(self.fetch(timeout, 1, |records| Ok(records.len()))?.into_iter().next())
    }

    /// The next records, at most so many, of which `fit` says how many from the first one on may be given. Where it fails the records
    /// stay, and so do the positions.
    fn fetch(
        &self,
        timeout: Duration,
        given: usize,
        fit: impl FnMut(&[Record]) -> Result<usize, ConsumerError>,
    ) -> Result<Vec<Record>, ConsumerError> {
        if self.shared.in_listener() {
            return Err(ConsumerError::InListener);
        }
        let mut fetcher = self.fetcher.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter_poll(Moment::now())?;
        let most = Most { fetched: self.config.max_poll_records, given };
        let records = fetcher.poll(&self.shared, most, timeout, Moment::now, Polling { consumer: self, fit });
        self.shared.leave_poll(Moment::now());
        if let Ok(records) = &records {
            self.metrics.handed_out(records.len());
        }
        records
    }

    /// Asks for a rebalance, soon. Only the leader's request starts one, and not more often than once per heartbeat interval.
    pub fn request_rebalance(&self, reason: &str) {
        self.shared.request_rebalance(Duration::ZERO, reason.to_owned());
    }

    /// What this consumer counts, as Prometheus reads it. Waits for the ends of its partitions, to tell the lag: half a second at
    /// most.
    ///
    #[doc = include_str!("../../../docs/metrics.md")]
    pub fn metrics(&self) -> String {
        self.metrics.text(&self.shared, &self.asker)
    }

    /// Who this consumer is within its group.
    pub fn group_metadata(&self) -> GroupMetadata {
        self.shared.metadata(&self.config.group_id)
    }

    /// Commits what `poll` has returned, if `enable.auto.commit`, and leaves the group at once, unless this is a static member. Takes
    /// at most 6 seconds, besides what a rebalance listener takes; a second call does nothing. A dropped consumer is closed as well.
    ///
    /// # Errors
    /// If the broker did not answer in time: the group then waits for the session time-out. [`ConsumerError::InListener`] if it is
    /// called by a rebalance listener.
    pub fn close(&self) -> Result<(), ConsumerError> {
        self.close_with(CloseOptions::default())
    }

    /// [`close`](Self::close), with a say in what becomes of the membership, and in how long it may take.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_with(&self, options: CloseOptions) -> Result<(), ConsumerError> {
        self.shut(self.config.auto_commit_interval.is_some(), options)
    }

    fn shut(&self, commit: bool, options: CloseOptions) -> Result<(), ConsumerError> {
        if self.shared.in_listener() {
            return Err(ConsumerError::InListener);
        }
        let deadline = Moment::now() + options.timeout;
        if self.shared.close() {
            let CloseOptions { membership, .. } = options;
            // Nobody receives if the driver has ended already.
            let _ = self.commands.send(Command::Close { commit, membership, deadline });
        }
        // What the driver can't do in time it goes without; that it does soon.
        let end = deadline + Duration::from_secs(1);
        while !self.shared.wait_for_end(end.since(Moment::now())) {
            self.listener.call(self, &self.shared);
            if Moment::now() >= end {
                return Err(ConsumerError::Driver("it did not end in time".into()));
            }
        }
        Ok(())
    }

    fn send(&self, command: Command) -> Result<(), ConsumerError> {
        self.commands.send(command).map_err(|_| ConsumerError::Closed)
    }
}

/// What a poll calls.
struct Polling<'a, F> {
    consumer: &'a Consumer,
    fit: F,
}

impl<F: FnMut(&[Record]) -> Result<usize, ConsumerError>> Calls for Polling<'_, F> {
    fn listener(&mut self) {
        self.consumer.listener.call(self.consumer, &self.consumer.shared);
    }

    fn out_of_range(&mut self) {
        // Nobody receives once the driver has ended, and then there is nothing to correct.
        let _ = self.consumer.commands.send(Command::OutOfRange);
    }

    fn fit(&mut self, records: &[Record]) -> Result<usize, ConsumerError> {
        (self.fit)(records)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // While a panic unwinds, what was returned can't count as processed.
        let panicking = std::thread::panicking();
        if panicking {
            self.shared.listen(false);
        }
        let commit = self.config.auto_commit_interval.is_some() && !panicking;
        if let Err(error) = self.shut(commit, CloseOptions::default()) {
            tracing::warn!(%error, "closing");
        }
    }
}
