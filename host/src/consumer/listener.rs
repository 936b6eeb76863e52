//! The rebalance listener: an application's own work when partitions come and go.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use super::api::Consumer;
use super::clock::Moment;
use super::shared::{Call, Shared, Told};
use crate::group::TopicPartitions;

/// Is told when partitions come and go (Kafka: `ConsumerRebalanceListener`).
///
/// It is called on the thread that calls the consumer, inside [`Consumer::poll`](super::Consumer::poll) or
/// [`close`](super::Consumer::close), one call at a time. Its time counts against `max.poll.interval.ms`: one that takes longer costs
/// the partitions. If it panics, `poll` does, and the rebalance goes on.
///
/// In one rebalance, in order:
/// 1. what was processed is committed, if `enable.auto.commit`;
/// 2. [`revoked`](Self::revoked), if there is something to give up. The partitions are still this member's: it may commit for
///    them, or store what it has kept in memory;
/// 3. the group decides;
/// 4. [`assigned`](Self::assigned), always, before the first record of the new partitions is returned.
///
/// Under the eager protocol everything is given up in each rebalance. Under the cooperative one only what another member shall have,
/// which is known after the group has decided: `revoked` then comes between 3 and 4, and another rebalance follows.
pub trait RebalanceListener: Send {
    /// These partitions are assigned, and were not before.
    fn assigned(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        let _ = (consumer, partitions);
    }

    /// These partitions are about to be given up.
    fn revoked(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]);

    /// These partitions are another member's already, or may be: what was read of them and not committed will be read again, and a
    /// commit fails. Does what [`revoked`](Self::revoked) does, unless told otherwise.
    fn lost(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        self.revoked(consumer, partitions);
    }
}

/// The consumer, as its listener sees it: in [`assigned`](RebalanceListener::assigned) it may seek to offsets that the application
/// keeps elsewhere; in [`revoked`](RebalanceListener::revoked) [`commit`](Consumer::commit) commits everything that `poll` has returned,
/// also of the partitions that are being given up. Polling, unsubscribing and closing answer with
/// [`ConsumerError::InListener`](super::ConsumerError::InListener).
#[derive(Debug)]
pub struct ListenerContext<'a> {
    consumer: &'a Consumer,
}

impl Deref for ListenerContext<'_> {
    type Target = Consumer;

    fn deref(&self) -> &Consumer {
        self.consumer
    }
}

/// A consumer's listener, if it has one.
#[derive(Default)]
pub(super) struct Listening(Mutex<Option<Box<dyn RebalanceListener>>>);

impl Listening {
    /// Takes the place of the one before.
    pub(super) fn replace(&self, listener: Option<Box<dyn RebalanceListener>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listener;
    }

    /// Makes the calls that are due.
    ///
    /// # Panics
    /// If the listener does. The call counts as made.
    pub(super) fn call(&self, consumer: &Consumer, shared: &Shared) {
        while let Some(Call { told, partitions }) = shared.begin_call(Moment::now()) {
            let called = catch_unwind(AssertUnwindSafe(|| self.one(told, &partitions, consumer)));
            shared.finish_call(Moment::now());
            if let Err(panic) = called {
                shared.leave_poll(Moment::now());
                resume_unwind(panic);
            }
        }
    }

    fn one(&self, told: Told, partitions: &[TopicPartitions], consumer: &Consumer) {
        // Taken out while it runs, so that it may replace itself.
        let slot = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut listener) = slot().take() else { return };
        let consumer = ListenerContext { consumer };
        let called = catch_unwind(AssertUnwindSafe(|| match told {
            Told::Assigned => listener.assigned(&consumer, partitions),
            Told::Revoked(_) => listener.revoked(&consumer, partitions),
            Told::Lost => listener.lost(&consumer, partitions),
        }));
        slot().get_or_insert(listener);
        if let Err(panic) = called {
            resume_unwind(panic);
        }
    }
}
