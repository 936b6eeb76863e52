//! Positions, as the application moves and asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Assignment, Key, Shared, Signal, State};
use crate::consumer::clock::Moment;
use crate::consumer::error::ConsumerError;
use crate::consumer::offsets::Offsets;

impl State {
    /// The assignment, if it has these partitions.
    fn holding<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a Key>,
    ) -> Result<&mut Assignment, ConsumerError> {
        if self.closed && !self.calls.run_here() {
            return Err(ConsumerError::Closed);
        }
        let mut missing = None;
        for key in partitions {
            if !self.assignment.as_ref().is_some_and(|a| a.holds(key)) {
                missing = Some(key);
                break;
            }
        }
        let not_assigned = |(topic, partition): &Key| {
            let text = format!("partition {topic}-{partition} is not assigned to this consumer now");
            ConsumerError::IllegalState(text)
        };
        match (missing, self.assignment.as_mut()) {
            (Some(key), _) => Err(not_assigned(key)),
            (None, Some(assignment)) => Ok(assignment),
            (None, None) => Err(ConsumerError::IllegalState("no partition is assigned now".into())),
        }
    }
}

impl Shared {
    /// Goes on from these offsets.
    pub(in crate::consumer) fn seek(&self, offsets: &Offsets) -> Result<(), ConsumerError> {
        let mut state = self.lock();
        let stamp = state.epoch + 1;
        state.holding(offsets.keys())?.seek(offsets, stamp);
        state.epoch = stamp;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Goes on from where these partitions, or all if none is named, begin or end, which is to be found out. Tells of which, and under
    /// which stamp they wait for it.
    pub(in crate::consumer) fn seek_to_end(
        &self,
        mut partitions: BTreeSet<Key>,
    ) -> Result<(BTreeSet<Key>, u64), ConsumerError> {
        let mut state = self.lock();
        let stamp = state.epoch + 1;
        if partitions.is_empty() {
            let all = |a: &Assignment| super::assignment::keys(&a.partitions).collect();
            partitions = state.assignment.as_ref().map(all).unwrap_or_default();
        }
        if !partitions.is_empty() {
            state.holding(&partitions)?.seek_to_end(&partitions, stamp);
            state.epoch = stamp;
        }
        drop(state);
        self.changed.notify_all();
        Ok((partitions, stamp))
    }

    /// Which of these still wait, under this stamp, for where they begin or end.
    pub(in crate::consumer) fn awaiting_end(&self, partitions: &BTreeSet<Key>, stamp: u64) -> BTreeSet<Key> {
        let state = self.lock();
        state.assignment.as_ref().map(|a| a.awaiting_end(partitions, stamp)).unwrap_or_default()
    }

    /// These begin or end there. What has been sought elsewhere since does not mind.
    pub(in crate::consumer) fn found_end(&self, offsets: &Offsets, stamp: u64) {
        let mut state = self.lock();
        let epoch = state.epoch + 1;
        if let Some(assignment) = &mut state.assignment {
            let awaited = assignment.awaiting_end(&offsets.keys().cloned().collect(), stamp);
            let mut offsets = offsets.clone();
            offsets.retain(|key, _| awaited.contains(key));
            assignment.seek(&offsets, epoch);
        }
        state.epoch = epoch;
        drop(state);
        self.changed.notify_all();
    }

    /// These partitions have no valid offset: `poll` says so until somebody seeks.
    pub(in crate::consumer) fn stick(&self, partitions: &BTreeSet<Key>) {
        let mut state = self.lock();
        state.epoch += 1;
        if let Some(assignment) = &mut state.assignment {
            assignment.stick(partitions);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Pauses or resumes these partitions.
    pub(in crate::consumer) fn pause(
        &self,
        partitions: &BTreeSet<Key>,
        paused: bool,
    ) -> Result<(), ConsumerError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.holding(partitions)?.pause(partitions, paused);
        state.epoch += 1;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub(in crate::consumer) fn paused(&self) -> BTreeSet<Key> {
        self.lock().assignment.as_ref().map(Assignment::paused).unwrap_or_default()
    }

    /// The offset of the next record of a partition, as soon as it is known.
    pub(in crate::consumer) fn position(&self, key: &Key, deadline: Moment) -> Result<i64, ConsumerError> {
        loop {
            let mut state = self.lock();
            if let Some(offset) = state.holding([key])?.position(key) {
                return Ok(offset);
            }
            if let Some(error) = state.take_error() {
                return Err(error);
            }
            let left = deadline.since(Moment::now());
            if left.is_zero() {
                let (topic, partition) = key;
                return Err(ConsumerError::Timeout(format!("the position of {topic}-{partition}")));
            }
            self.changed.wait(state, left.min(Duration::from_secs(1)));
        }
    }

    /// For who wants to be woken when something changes.
    pub(in crate::consumer) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.changed)
    }

    /// Whether a task waits for a stream.
    pub(in crate::consumer) fn has_tasks(&self) -> bool {
        self.changed.has_tasks()
    }

    /// Wakes tasks that wait for a stream if the last poll is so long ago: they poll.
    pub(in crate::consumer) fn remind(&self, now: Moment, after: Duration) {
        let (in_poll, last_poll) = self.application();
        if !in_poll && self.has_tasks() && now >= last_poll + after {
            self.changed.notify_all();
        }
    }

    /// Nothing is subscribed to any more.
    pub(in crate::consumer) fn unsubscribed(&self) -> Result<(), ConsumerError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConsumerError::Closed);
        }
        state.subscribed = false;
        state.subscription.clear();
        Ok(())
    }

    /// Waits until nothing is assigned, or the listener is to be called; says whether nothing is assigned.
    pub(in crate::consumer) fn wait_for_none(&self, limit: Duration) -> bool {
        let state = self.lock();
        let waits = |state: &mut State| state.assignment.is_some() && !state.ended && !state.calls.are_due();
        let state = self.changed.wait_while(state, limit, waits);
        state.assignment.is_none() || state.ended
    }

    /// The topics that are subscribed to: those given, or those that match.
    pub(in crate::consumer) fn subscription(&self) -> Vec<String> {
        self.lock().subscription.clone()
    }

    /// The topics that are subscribed to are these.
    pub(in crate::consumer) fn subscribe_to(&self, topics: Vec<String>) {
        let mut state = self.lock();
        if state.subscribed {
            state.subscription = topics;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::machine::Identity;
    use crate::group::TopicPartitions;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(partition: u32, offset: i64) -> Offsets {
        Offsets::from([(("t".to_owned(), partition), offset)])
    }

    fn keys(partitions: &[u32]) -> BTreeSet<Key> {
        partitions.iter().map(|p| ("t".to_owned(), *p)).collect()
    }

    fn assign(shared: &Shared, generation: i32, partitions: &[u32]) -> BTreeSet<Key> {
        let identity = Identity { member_id: "m".into(), generation };
        let partitions = vec![TopicPartitions { topic: "t".into(), partitions: partitions.to_vec() }];
        shared.assign(Assignment::new(identity, false, "s".into(), partitions), Vec::new())
    }

    /// Owns `t-0`, at offset 10, and `t-1`, whose position is not known yet.
    fn shared() -> Shared {
        let shared = Shared::new(Moment::default());
        shared.subscribed().unwrap();
        assign(&shared, 1, &[0, 1]);
        shared.start(at(0, 10), true);
        shared
    }

    fn position(shared: &Shared, partition: u32) -> Result<i64, ConsumerError> {
        shared.position(&("t".to_owned(), partition), Moment::default())
    }

    fn fetched(shared: &Shared) -> Vec<u32> {
        shared.fetch(0).unwrap().unwrap().starts.keys().map(|(_, p)| *p).collect()
    }

    #[test]
    fn a_seek_stands_though_the_committed_offset_comes_later() {
        let shared = shared();
        shared.seek(&at(1, 77)).unwrap();
        shared.start(at(1, 5), true);
        assert_eq!(position(&shared, 1), Ok(77));
        // It counts as read.
        assert_eq!(shared.to_commit().unwrap().unwrap().1, at(1, 77));
    }

    #[test]
    fn of_two_seeks_to_an_end_the_later_one_counts_and_a_seek_ends_both() {
        let shared = shared();
        let (_, first) = shared.seek_to_end(keys(&[0])).unwrap();
        assert_eq!(position(&shared, 0).unwrap_err().code(), "timeout");
        assert_eq!(fetched(&shared), [0u32; 0]);
        let (all, second) = shared.seek_to_end(BTreeSet::new()).unwrap();
        assert_eq!(all, keys(&[0, 1]));
        shared.found_end(&at(0, 0), first);
        assert_eq!(shared.awaiting_end(&all, first), keys(&[]));
        assert_eq!(shared.awaiting_end(&all, second), all);
        shared.found_end(&at(0, 99), second);
        assert_eq!(position(&shared, 0), Ok(99));
        shared.seek(&at(1, 3)).unwrap();
        shared.found_end(&at(1, 50), second);
        assert_eq!(position(&shared, 1), Ok(3));
    }

    #[test]
    fn what_waits_for_an_end_is_not_located_again_by_a_rebalance() {
        let shared = shared();
        let (_, stamp) = shared.seek_to_end(keys(&[1])).unwrap();
        assert_eq!(assign(&shared, 2, &[0, 1, 2]), keys(&[2]));
        shared.start(at(1, 5), true);
        assert_eq!(shared.awaiting_end(&keys(&[1]), stamp), keys(&[1]));
        // Taken away, it is forgotten.
        assign(&shared, 3, &[0]);
        assert_eq!(shared.awaiting_end(&keys(&[1]), stamp), keys(&[]));
    }

    #[test]
    fn what_is_paused_stays_so_as_long_as_it_is_owned_without_a_break() {
        let shared = shared();
        shared.pause(&keys(&[0, 1]), true).unwrap();
        assert_eq!(fetched(&shared), [0u32; 0]);
        assign(&shared, 2, &[0]);
        assert_eq!(shared.paused(), keys(&[0]));
        shared.unassign();
        assert_eq!(shared.pause(&keys(&[0]), false).unwrap_err().code(), "illegal-state");
        assign(&shared, 3, &[0]);
        assert_eq!(shared.paused(), keys(&[]));
    }

    #[test]
    fn without_a_valid_offset_polls_fail_until_somebody_seeks() {
        let shared = shared();
        shared.stick(&keys(&[1, 7]));
        let none = ConsumerError::NoOffset { topic: "t".into(), partition: 1 };
        for _ in 0..2 {
            assert_eq!(shared.enter_poll(Moment::default()), Err(none.clone()));
            assert_eq!(position(&shared, 1), Err(none.clone()));
        }
        assert_eq!(position(&shared, 0), Ok(10));
        shared.seek(&at(1, 0)).unwrap();
        assert_eq!(shared.enter_poll(Moment::default()), Ok(()));
        assert_eq!(fetched(&shared), [0, 1]);
    }

    #[test]
    fn a_poll_too_short_to_be_seen_lets_a_rebalance_begin_all_the_same() {
        let shared = shared();
        shared.lease(Moment::default() + SECOND);
        let epoch = shared.fetch(0).unwrap().unwrap().epoch;
        let poll = || {
            shared.enter_poll(Moment::default()).unwrap();
            let given = shared.hand_out(epoch, &at(0, 11), Moment::default());
            shared.leave_poll(Moment::default());
            given
        };
        assert_eq!(poll(), super::super::HandOut::Given);
        assert!(!shared.hold_in_poll(), "a record is being processed");
        assert_eq!(poll(), super::super::HandOut::Wait, "nothing more before the driver has looked");
        assert!(shared.hold_in_poll());
        shared.release();
        assert_eq!(poll(), super::super::HandOut::Given);
    }
}
