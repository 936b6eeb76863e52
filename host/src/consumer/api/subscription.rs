//! What a consumer reads: topics, a pattern, or nothing any more.

use std::sync::mpsc::sync_channel;

use super::Consumer;
use crate::consumer::clock::Moment;
use crate::consumer::config::is_legal_name;
use crate::consumer::driver::{Command, Pattern};
use crate::consumer::error::ConsumerError;
use crate::consumer::listener::RebalanceListener;
use crate::group::TopicPartitions;

impl Consumer {
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
        let mut topics: Vec<String> = topics.iter().map(|t| t.as_ref().to_owned()).collect();
        topics.sort();
        topics.dedup();
        if topics.is_empty() {
            return Err(ConsumerError::Config(
                "subscribe to at least one topic; unsubscribe and close leave the group".into(),
            ));
        }
        if let Some(illegal) = topics.iter().find(|t| !is_legal_name(t)) {
            return Err(ConsumerError::Config(format!("{illegal:?} is no legal topic name")));
        }
        self.begin(topics.clone(), listener)?;
        self.send(Command::Subscribe(topics))
    }

    /// Subscribes to all topics, now and later, whose names match this regular expression, as a whole name (Kafka:
    /// `subscribe(Pattern)`). New ones are noticed within `metadata.max.age.ms`. Kafka's own topics are left out, unless
    /// `exclude.internal.topics` is `false`. As long as no topic matches, and none did before, the group is not joined.
    ///
    /// The syntax is that of the `regex` crate: Java's but for look-around and back-references, in linear time. Compiled it may take
    /// 1 MiB.
    ///
    /// # Errors
    /// [`ConsumerError::IllegalArgument`] if this is no regular expression, or too large a one; [`ConsumerError::Closed`].
    pub fn subscribe_pattern(&self, pattern: &str) -> Result<(), ConsumerError> {
        self.subscribe_pattern_as(pattern, None)
    }

    /// The same, with a rebalance listener, which takes the place of an earlier one.
    ///
    /// # Errors
    /// As [`subscribe_pattern`](Self::subscribe_pattern).
    pub fn subscribe_pattern_with(
        &self,
        pattern: &str,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), ConsumerError> {
        self.subscribe_pattern_as(pattern, Some(Box::new(listener)))
    }

    fn subscribe_pattern_as(
        &self,
        pattern: &str,
        listener: Option<Box<dyn RebalanceListener>>,
    ) -> Result<(), ConsumerError> {
        let pattern = Pattern::new(pattern)?;
        self.begin(Vec::new(), listener)?;
        self.send(Command::SubscribePattern(pattern))
    }

    fn begin(
        &self,
        topics: Vec<String>,
        listener: Option<Box<dyn RebalanceListener>>,
    ) -> Result<(), ConsumerError> {
        self.shared.subscribed()?;
        self.shared.subscribe_to(topics);
        self.shared.listen(listener.is_some());
        self.listener.replace(listener);
        Ok(())
    }

    /// Gives up all partitions, leaves the group, and reads nothing until it subscribes again. As with the Java client, nothing is
    /// committed; the rebalance listener hears of it before, and may. Returns when the partitions are given up.
    ///
    /// # Errors
    /// [`ConsumerError::Closed`]; [`ConsumerError::InListener`] if it is called by a rebalance listener;
    /// [`ConsumerError::Timeout`] after `default.api.timeout.ms`.
    pub fn unsubscribe(&self) -> Result<(), ConsumerError> {
        if self.shared.in_listener() {
            return Err(ConsumerError::InListener);
        }
        let deadline = Moment::now() + self.config.default_api_timeout;
        self.shared.unsubscribed()?;
        let late = || ConsumerError::Timeout("the partitions are not given up yet".into());
        let (reply, begun) = sync_channel(1);
        self.send(Command::Unsubscribe(reply))?;
        begun.recv_timeout(deadline.since(Moment::now())).map_err(|_| late())?;
        while !self.shared.wait_for_none(deadline.since(Moment::now())) {
            self.listener.call(self, &self.shared);
            if Moment::now() >= deadline {
                return Err(late());
            }
        }
        Ok(())
    }

    /// The topics that are subscribed to: those given, or those that match the pattern, as far as they are known.
    pub fn subscription(&self) -> Vec<String> {
        self.shared.subscription()
    }

    /// The partitions that are assigned now.
    pub fn assignment(&self) -> Vec<TopicPartitions> {
        self.shared.partitions()
    }
}
