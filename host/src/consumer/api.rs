//! The consumer as an application sees it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::clock::Moment;
use super::config::ConsumerConfig;
use super::data::{Librdkafka, Record};
use super::driver::{self, CLOSE_TIMEOUT, Command, CommitError};
use super::error::{ConsumerError, GroupEvent};
use super::fetcher::Fetcher;
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
    fetcher: Mutex<Fetcher>,
    /// The strategies are this consumer's until it is dropped.
    _engagements: Vec<Engagement>,
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
    /// [`ConsumerError::Config`] if there is no strategy, two share a name, one can't run eager rebalances or is another consumer's, or
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
        let engagements = strategist::engage(&mut assignors)?;
        let fetcher = Fetcher::new(Box::new(Librdkafka::new(&config)?));
        let strategist = Strategist::start(assignors)?;
        let config = Arc::new(config);
        let shared = Arc::new(Shared::new(Moment::now()));
        let (commands, received) = unbounded_channel();
        let parts = driver::Parts {
            config: Arc::clone(&config),
            strategies,
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
        Ok(Self { config, shared, commands, fetcher: Mutex::new(fetcher), _engagements: engagements })
    }

    /// Subscribes to these topics instead of the current ones. The group hears of it at the next `poll`.
    ///
    /// # Errors
    /// If no topic is given, a name is not legal in Kafka, or the consumer is closed.
    pub fn subscribe<T: AsRef<str>>(&self, topics: &[T]) -> Result<(), ConsumerError> {
        let topics: Vec<String> = topics.iter().map(|t| t.as_ref().to_owned()).collect();
        if topics.is_empty() {
            return Err(ConsumerError::Config(
                "subscribe to at least one topic; close leaves the group".into(),
            ));
        }
        if let Some(illegal) = topics.iter().find(|t| !is_legal(t)) {
            return Err(ConsumerError::Config(format!("{illegal:?} is no legal topic name")));
        }
        self.shared.subscribed()?;
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
        let mut fetcher = self.fetcher.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.enter_poll(Moment::now())?;
        let out_of_range = || {
            // Nobody receives once the driver has ended, and then there is nothing to correct.
            let _ = self.commands.send(Command::OutOfRange);
        };
        let records =
            fetcher.poll(&self.shared, self.config.max_poll_records, timeout, Moment::now, out_of_range);
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
        let deadline = Moment::now() + self.config.request_timeout;
        loop {
            let Some((identity, offsets)) = self.shared.to_commit()? else { return Ok(()) };
            let (reply, answer) = sync_channel(1);
            self.send(Command::Commit { identity, offsets, reply })?;
            let reason = match answer.recv_timeout(deadline.since(Moment::now())) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(CommitError::Final(error))) => return Err(error),
                Ok(Err(CommitError::NotNow(reason))) => reason,
                Err(RecvTimeoutError::Timeout) => "no answer within request.timeout.ms".into(),
                Err(RecvTimeoutError::Disconnected) => "the connection was made anew".into(),
            };
            let pause = self.config.retry_backoff.min(deadline.since(Moment::now()));
            if pause.is_zero() {
                return Err(ConsumerError::Commit(reason));
            }
            std::thread::sleep(pause);
        }
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

    /// Commits what `poll` has returned, if `enable.auto.commit`, and leaves the group at once. Takes at most 6 seconds; a second
    /// call does nothing. A dropped consumer is closed as well.
    ///
    /// # Errors
    /// If the broker did not answer in time: the group then waits for the session time-out.
    pub fn close(&self) -> Result<(), ConsumerError> {
        self.shut(self.config.auto_commit_interval.is_some())
    }

    fn shut(&self, commit: bool) -> Result<(), ConsumerError> {
        if self.shared.close() {
            // Nobody receives if the driver has ended already.
            let _ = self.commands.send(Command::Close { commit });
        }
        if self.shared.wait_for_end(CLOSE_TIMEOUT + Duration::from_secs(1)) {
            Ok(())
        } else {
            Err(ConsumerError::Driver("it did not end in time".into()))
        }
    }

    fn send(&self, command: Command) -> Result<(), ConsumerError> {
        self.commands.send(command).map_err(|_| ConsumerError::Closed)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // While a panic unwinds, what was returned can't count as processed.
        let commit = self.config.auto_commit_interval.is_some() && !std::thread::panicking();
        if let Err(error) = self.shut(commit) {
            tracing::warn!(%error, "closing");
        }
    }
}

/// Kafka: `Topic.validate`.
fn is_legal(topic: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !matches!(topic, "" | "." | "..") && topic.len() <= 249 && topic.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_legal_as_in_kafka() {
        for legal in ["a", "A.b_c-1", &"x".repeat(249)] {
            assert!(is_legal(legal), "{legal}");
        }
        for illegal in ["", ".", "..", "a b", "a/b", "ä", &"x".repeat(250)] {
            assert!(!is_legal(illegal), "{illegal}");
        }
    }
}
