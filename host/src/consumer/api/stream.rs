//! Records one by one: as a stream for tasks, as an iterator for threads.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::Consumer;
use crate::consumer::data::Record;
use crate::consumer::error::ConsumerError;

/// How long an iterator waits in one poll.
const TURN: Duration = Duration::from_secs(1);

/// Gives the next record, if there is one within a time.
type Next<'a, K, V> = Box<dyn FnMut(Duration) -> Result<Option<Record<K, V>>, ConsumerError> + Send + 'a>;

impl Consumer {
    /// The records as a stream, one by one, for any runtime.
    ///
    /// - **Asking for a record is a poll**, and says that the one before is done with: from then on it is committed automatically, and
    ///   its partition can be taken away. While the stream waits, the consumer wakes its task now and then to ask again. A task that is
    ///   not back `max.poll.interval.ms` after it last asked has its consumer leave the group.
    /// - Nothing is read ahead but what is fetched with a record, at most `max.poll.records`: who doesn't ask is not sent anything.
    /// - The rebalance listener is called in the task that asks.
    /// - An error is an item. After one that no later call can mend the stream ends, as it does when the consumer is closed. After one
    ///   that [needs a seek](ConsumerError::needs_seek) it comes again until somebody seeks.
    pub fn stream(&self) -> RecordStream<'_> {
        RecordStream::new(self, Box::new(|limit| self.poll_one(limit)))
    }

    /// The records one by one, for a thread: `next` waits for one, and ends as [`stream`](Self::stream) does. What is said there
    /// about polls and errors holds here, too.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter { next: Box::new(|limit| self.poll_one(limit)), ended: false }
    }
}

/// See [`Consumer::stream`].
#[must_use = "a stream does nothing unless it is asked"]
pub struct RecordStream<'a, K = Option<Vec<u8>>, V = Option<Vec<u8>>> {
    consumer: &'a Consumer,
    next: Next<'a, K, V>,
    ended: bool,
}

impl<'a, K, V> RecordStream<'a, K, V> {
    pub(super) fn new(consumer: &'a Consumer, next: Next<'a, K, V>) -> Self {
        Self { consumer, next, ended: false }
    }
}

impl<K, V> std::fmt::Debug for RecordStream<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<K, V> Stream for RecordStream<'_, K, V> {
    type Item = Result<Record<K, V>, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // First: what comes while it looks must wake it.
        self.consumer.shared.signal().register(cx.waker());
        let found = (self.next)(Duration::ZERO);
        match item(found, &mut self.ended) {
            None if !self.ended => Poll::Pending,
            item => Poll::Ready(item),
        }
    }
}

/// See [`Consumer::iter`].
#[must_use = "an iterator does nothing unless it is asked"]
pub struct RecordIter<'a, K = Option<Vec<u8>>, V = Option<Vec<u8>>> {
    next: Next<'a, K, V>,
    ended: bool,
}

impl<'a, K, V> RecordIter<'a, K, V> {
    pub(super) fn new(next: Next<'a, K, V>) -> Self {
        Self { next, ended: false }
    }
}

impl<K, V> std::fmt::Debug for RecordIter<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordIter").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<K, V> Iterator for RecordIter<'_, K, V> {
    type Item = Result<Record<K, V>, ConsumerError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let found = (self.next)(TURN);
            if let Some(item) = item(found, &mut self.ended) {
                return Some(item);
            }
        }
        None
    }
}

fn item<T>(found: Result<Option<T>, ConsumerError>, ended: &mut bool) -> Option<Result<T, ConsumerError>> {
    match found {
        Ok(record) => record.map(Ok),
        Err(ConsumerError::Closed) => {
            *ended = true;
            None
        }
        Err(error) => {
            // A listener or a missing subscription is the application's own affair.
            let own = matches!(error, ConsumerError::InListener | ConsumerError::NotSubscribed);
            *ended = !(own || error.is_retriable() || error.needs_seek());
            Some(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_after_errors_that_can_pass_or_be_mended_and_ends_after_others() {
        let ends = |error: ConsumerError| {
            let mut ended = false;
            let item = item::<()>(Err(error), &mut ended);
            (item.is_some(), ended)
        };
        assert_eq!(ends(ConsumerError::Data("away".into())), (true, false));
        assert_eq!(ends(ConsumerError::NoOffset { topic: "t".into(), partition: 0 }), (true, false));
        assert_eq!(ends(ConsumerError::NotSubscribed), (true, false));
        assert_eq!(ends(ConsumerError::Fenced), (true, true));
        assert_eq!(ends(ConsumerError::Closed), (false, true));
    }
}
