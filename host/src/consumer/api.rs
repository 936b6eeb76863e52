//! The consumer as an application sees it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::clock::Moment;
use super::committing::Committing;
use super::config::{ConsumerConfig, is_legal_name};
use super::data::{Librdkafka, Record};
use super::driver::{self, CLOSE_TIMEOUT, Command};
use super::error::{ConsumerError, GroupEvent};
use super::fetcher::Fetcher;
use super::listener::{Listening, RebalanceListener};
use super::machine::Membership;
use super::shared::{GroupMetadata, Shared};
use super::strategist::{self, Strategist};
use crate::assignor::{Assignor, Engagement};
use crate::group::TopicPartitions;

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
/// for each other.
pub struct Consumer {
    config: Arc<ConsumerConfig>,
    shared: Arc<Shared>,
    commands: UnboundedSender<Command>,
    committing: Committing,
    listener: Listening,
    fetcher: Mutex<Fetcher>,
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
        let fetcher = Fetcher::new(Box::new(Librdkafka::new(&config)?));
        let strategist = Strategist::start(assignors)?;
        let config = Arc::new(config);
        let shared = Arc::new(Shared::new(Moment::now()));
        let (commands, received) = unbounded_channel();
        let parts = driver::Parts {
            config: Arc::clone(&config),
            strategies,
            protocol,
            strategist,
            shared: Arc::clone(&shared),
            observer: Arc::new(observer),
            commands: received,
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
        let committing = Committing {
            config: Arc::clone(&config),
            shared: Arc::clone(&shared),
            commands: commands.clone(),
        };
        let (listener, fetcher) = (Listening::default(), Mutex::new(fetcher));
        Ok(Self { config, shared, commands, committing, listener, fetcher, _engagements: engagements })
    }

    /// Subscribes to these topics instead of the current ones, without a rebalance listener. The group hears of it at the next `poll`.
    ///
    /// # Errors
    /// If no topic is given, a name is not legal in Kafka, or the consumer is closed.
    pub fn subscribe<T: AsRef<str>>(&self, topics: &[T]) -> Result<(), ConsumerError> {
        self.subscribe_as(topics, None)
    }

    /// The same, with a rebalance listener, which takes the place of an earlier one.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_with<T: AsRef<str>>(
        &self,
        topics: &[T],
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), ConsumerError> {
        self.subscribe_as(topics, Some(Box::new(listener)))
    }

    fn subscribe_as<T: AsRef<str>>(
        &self,
        topics: &[T],
        listener: Option<Box<dyn RebalanceListener>>,
    ) -> Result<(), ConsumerError> {
        let topics: Vec<String> = topics.iter().map(|t| t.as_ref().to_owned()).collect();
        if topics.is_empty() {
            return Err(ConsumerError::Config(
                "subscribe to at least one topic; close leaves the group".into(),
            ));
        }
        if let Some(illegal) = topics.iter().find(|t| !is_legal_name(t)) {
            return Err(ConsumerError::Config(format!("{illegal:?} is no legal topic name")));
        }
        self.shared.subscribed()?;
        self.shared.listen(listener.is_some());
        self.listener.replace(listener);
        self.send(Command::Subscribe(topics))
    }

    /// The next records, at most `max.poll.records`: as soon as there are any, or none when the time is over. A zero time-out
    /// returns at once with what is there.
    ///
    /// To be called at least every `max.poll.interval.ms`, or the consumer leaves the group until the next call.
    ///
    /// # Errors
    /// What has gone wrong since the last call. If [`ConsumerError::is_retriable`], calling again goes on; else every call
    /// returns it.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<Record>, ConsumerError> {
        if self.shared.in_listener() {
            return Err(ConsumerError::InListener);
        }
        let mut fetcher = self.fetcher.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter_poll(Moment::now())?;
        let out_of_range = || {
            // Nobody receives once the driver has ended, and then there is nothing to correct.
            let _ = self.commands.send(Command::OutOfRange);
        };
        let listener = || self.listener.call(&self.shared, &self.committing);
        let most = self.config.max_poll_records;
        let records = fetcher.poll(&self.shared, most, timeout, Moment::now, out_of_range, listener);
        self.shared.leave_poll(Moment::now());
        records
    }

    /// Commits the offsets of everything that `poll` has returned so far, and waits for the answer, at most
    /// `request.timeout.ms`.
    ///
    /// # Errors
    /// [`ConsumerError::RebalanceInProgress`]: poll, then commit again. [`ConsumerError::CommitFailed`]: the partitions are another
    /// member's. Others say what the broker said.
    pub fn commit(&self) -> Result<(), ConsumerError> {
        self.committing.commit()
    }

    /// The partitions that are assigned now.
    pub fn assignment(&self) -> Vec<TopicPartitions> {
        self.shared.partitions()
    }

    /// Asks for a rebalance, soon. Only the leader's request starts one, and not more often than once per heartbeat interval.
    pub fn request_rebalance(&self, reason: &str) {
        self.shared.request_rebalance(Duration::ZERO, reason.to_owned());
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
            self.listener.call(&self.shared, &self.committing);
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
