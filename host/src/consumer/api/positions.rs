//! Where a consumer reads, and what brokers know of the places.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::Consumer;
use crate::consumer::clock::Moment;
use crate::consumer::driver::{Command, Query};
use crate::consumer::error::ConsumerError;
use crate::consumer::offsets::{At, End, Offsets};
use crate::consumer::partition::{OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, keys};
use crate::consumer::shared::Key;

/// What moves and pauses works on assigned partitions only ([`ConsumerError::IllegalState`] else) and holds as long as a partition is
/// assigned without a break: an eager rebalance forgets it, as with the Java client.
impl Consumer {
    /// Reads nothing more of these partitions until they are [resumed](Self::resume): nothing of them is returned after this call, and
    /// what has been fetched ahead is dropped. Membership and assignment don't change.
    ///
    /// # Errors
    /// [`ConsumerError::IllegalState`] if one is not assigned; then none is paused. [`ConsumerError::Closed`].
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.shared.pause(&keys(partitions), true)
    }

    /// Reads these partitions again, from their positions on. One that was not paused goes on as it is.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.shared.pause(&keys(partitions), false)
    }

    /// The partitions that are paused.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.shared.paused().into_iter().map(TopicPartition::from).collect()
    }

    /// Goes on from this offset: the next record of the partition that is returned is that one, or the first after it. Nothing that was
    /// fetched before is returned. An offset outside the partition is noticed when it is fetched; `auto.offset.reset` then decides.
    ///
    /// What was skipped counts as read: the next commit without offsets of its own, an automatic one too, commits the new position.
    ///
    /// # Errors
    /// [`ConsumerError::IllegalState`] if the partition is not assigned; [`ConsumerError::IllegalArgument`] for a negative offset;
    /// [`ConsumerError::Closed`].
    pub fn seek(&self, partition: &TopicPartition, offset: i64) -> Result<(), ConsumerError> {
        if offset < 0 {
            let text = format!("{partition}: the offset {offset} is negative");
            return Err(ConsumerError::IllegalArgument(text));
        }
        self.shared.seek(&Offsets::from([(partition.key(), offset)]))
    }

    /// Goes on from the first offset of each of these partitions, or of all that are assigned, if none is named. Does not wait: the offset
    /// is looked up meanwhile, and [`position`](Self::position) waits for it.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn seek_to_beginning(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.seek_to(partitions, End::First)
    }

    /// Goes on from the end: as [`seek_to_beginning`](Self::seek_to_beginning). With `isolation.level=read_committed` that is where the
    /// first open transaction begins.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn seek_to_end(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.seek_to(partitions, End::Last)
    }

    fn seek_to(&self, partitions: &[TopicPartition], end: End) -> Result<(), ConsumerError> {
        let (partitions, stamp) = self.shared.seek_to_end(keys(partitions))?;
        self.send(Command::Reset { partitions, end, stamp })
    }

    /// The offset of the next record of this partition that `poll` will return. Waits for it, at most `default.api.timeout.ms`, where it
    /// is not known yet.
    ///
    /// # Errors
    /// [`ConsumerError::IllegalState`] if the partition is not assigned, also if it is taken away meanwhile;
    /// [`ConsumerError::Timeout`]; what else would be reported by `poll`.
    pub fn position(&self, partition: &TopicPartition) -> Result<i64, ConsumerError> {
        self.position_within(partition, self.config.default_api_timeout)
    }

    /// [`position`](Self::position), with a time-out of its own.
    ///
    /// # Errors
    /// As there.
    pub fn position_within(
        &self,
        partition: &TopicPartition,
        timeout: Duration,
    ) -> Result<i64, ConsumerError> {
        self.shared.position(&partition.key(), Moment::now() + timeout)
    }

    /// What the group has committed for these partitions, assigned or not. One without a commit is left out.
    ///
    /// # Errors
    /// [`ConsumerError::Timeout`] after `default.api.timeout.ms`; [`ConsumerError::GroupAuthorization`] and
    /// [`ConsumerError::TopicAuthorization`]; [`ConsumerError::Closed`].
    pub fn committed(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, ConsumerError> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (reply, answer) = sync_channel(1);
        let deadline = self.api_deadline();
        self.send(Command::Query(Query::Committed { partitions: keys(partitions), deadline, reply }))?;
        let found = wait(&answer, deadline)?;
        Ok(found.into_iter().map(|(key, committed)| (key.into(), committed)).collect())
    }

    /// The first offset of each of these partitions, assigned or not.
    ///
    /// # Errors
    /// [`ConsumerError::Timeout`] after `default.api.timeout.ms`, also where a partition does not exist;
    /// [`ConsumerError::TopicAuthorization`]; [`ConsumerError::Closed`].
    pub fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, ConsumerError> {
        self.ends(partitions, End::First)
    }

    /// The offset after the last record of each of these partitions; with `isolation.level=read_committed`, where the first open
    /// transaction begins.
    ///
    /// # Errors
    /// As [`beginning_offsets`](Self::beginning_offsets).
    pub fn end_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, ConsumerError> {
        self.ends(partitions, End::Last)
    }

    fn ends(
        &self,
        partitions: &[TopicPartition],
        end: End,
    ) -> Result<BTreeMap<TopicPartition, i64>, ConsumerError> {
        let wanted = keys(partitions).into_iter().map(|key| (key, At::End(end))).collect();
        let found = self.places(wanted)?.into_iter();
        Ok(found.filter_map(|(key, place)| Some((key.into(), place?.offset))).collect())
    }

    /// For each partition the first record whose time is that or later, in milliseconds since 1970. A partition without one is left
    /// out.
    ///
    /// # Errors
    /// As [`beginning_offsets`](Self::beginning_offsets); [`ConsumerError::IllegalArgument`] for a negative time.
    pub fn offsets_for_times(
        &self,
        times: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, ConsumerError> {
        if let Some((partition, time)) = times.iter().find(|(_, time)| **time < 0) {
            return Err(ConsumerError::IllegalArgument(format!("{partition}: the time {time} is negative")));
        }
        let wanted = times.iter().map(|(partition, time)| (partition.key(), At::Time(*time))).collect();
        let found = self.places(wanted)?.into_iter();
        Ok(found.filter_map(|(key, place)| Some((key.into(), place?))).collect())
    }

    /// How many offsets lie between this partition's position and its [end](Self::end_offsets). Other than with the Java client, which
    /// tells what it has seen with the last fetch, the partition's leader is asked.
    ///
    /// # Errors
    /// As [`position`](Self::position) and [`end_offsets`](Self::end_offsets).
    pub fn current_lag(&self, partition: &TopicPartition) -> Result<u64, ConsumerError> {
        let position = self.position(partition)?;
        let ends = self.end_offsets(std::slice::from_ref(partition))?;
        let end = ends.get(partition).copied().unwrap_or(position);
        Ok(u64::try_from(end.saturating_sub(position)).unwrap_or(0))
    }

    fn places(
        &self,
        wanted: BTreeMap<Key, At>,
    ) -> Result<BTreeMap<Key, Option<OffsetAndTimestamp>>, ConsumerError> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (reply, answer) = sync_channel(1);
        let deadline = self.api_deadline();
        self.send(Command::Query(Query::Places { wanted, deadline, reply }))?;
        wait(&answer, deadline)
    }

    fn api_deadline(&self) -> Moment {
        Moment::now() + self.config.default_api_timeout
    }
}

/// The driver answers by then, with an error if it must: it is given a moment more.
fn wait<T>(answer: &Receiver<Result<T, ConsumerError>>, deadline: Moment) -> Result<T, ConsumerError> {
    let limit = deadline.since(Moment::now()) + Duration::from_secs(1);
    answer.recv_timeout(limit).unwrap_or_else(|e| {
        Err(match e {
            RecvTimeoutError::Timeout => ConsumerError::Timeout("the consumer's driver".into()),
            RecvTimeoutError::Disconnected => ConsumerError::Closed,
        })
    })
}
