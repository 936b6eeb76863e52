//! Commits as the application asks for them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park, sleep};

use tokio::sync::oneshot;

use super::Consumer;
use crate::consumer::clock::Moment;
use crate::consumer::driver::{Command, CommitError};
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::Identity;
use crate::consumer::offsets::{Commits, plain};
use crate::consumer::partition::{OffsetAndMetadata, TopicPartition};

impl Consumer {
    /// Commits the offsets of everything that `poll` has returned so far, and waits for the answer, at most
    /// `default.api.timeout.ms` (Kafka: `commitSync`). What can pass is tried again until then.
    ///
    /// # Errors
    /// [`ConsumerError::RebalanceInProgress`]: poll, then commit again. [`ConsumerError::CommitFailed`]: the partitions are another
    /// member's. Others say what the broker said.
    pub fn commit(&self) -> Result<(), ConsumerError> {
        self.commit_until_done(|| Ok(self.shared.to_commit()?.map(|(who, offsets)| (who, plain(offsets)))))
    }

    /// Commits these offsets, each that of the next record to read, and waits as [`commit`](Self::commit) does. Neither the positions
    /// change, nor need the partitions be assigned.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); [`ConsumerError::CommitFailed`] also while this consumer is no member of its group;
    /// [`ConsumerError::IllegalArgument`] for a negative offset.
    pub fn commit_offsets(
        &self,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), ConsumerError> {
        let commits = checked(offsets)?;
        self.commit_until_done(|| Ok(Some((self.shared.to_commit_as()?, commits.clone()))))
    }

    fn commit_until_done(
        &self,
        what: impl Fn() -> Result<Option<(Identity, Commits)>, ConsumerError>,
    ) -> Result<(), ConsumerError> {
        let deadline = Moment::now() + self.config.default_api_timeout;
        let mut pause = self.config.retry_backoff;
        loop {
            let Some((identity, offsets)) = what()? else { return Ok(()) };
            let (reply, answer) = sync_channel(1);
            // Who asked may have given up waiting.
            let reply = Box::new(move |told| drop(reply.send(told)));
            self.send(Command::Commit { identity, offsets, reply })?;
            let reason = match answer.recv_timeout(deadline.since(Moment::now())) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(CommitError::Final(error))) => return Err(error),
                Ok(Err(CommitError::NotNow(reason))) => reason,
                Err(RecvTimeoutError::Timeout) => "no answer".into(),
                Err(RecvTimeoutError::Disconnected) => LOST.into(),
            };
            let left = deadline.since(Moment::now());
            if left.is_zero() {
                return Err(ConsumerError::Timeout(format!("commit: {reason}")));
            }
            sleep(pause.min(left));
            pause = (pause * 2).min(self.config.retry_backoff_max);
        }
    }

    /// Begins to commit the offsets of everything that `poll` has returned so far, and does not wait (Kafka: `commitAsync`). It is not
    /// tried again: a later commit would be overtaken. Commits reach the coordinator in the order in which they begin.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), as far as they are known now.
    pub fn commit_async(&self) -> Result<PendingCommit, ConsumerError> {
        match self.shared.to_commit()? {
            Some((identity, offsets)) => self.begin_commit(identity, plain(offsets)),
            None => Ok(PendingCommit::nothing()),
        }
    }

    /// Begins to commit these offsets: [`commit_offsets`](Self::commit_offsets) without waiting.
    ///
    /// # Errors
    /// As there, as far as they are known now.
    pub fn commit_offsets_async(
        &self,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<PendingCommit, ConsumerError> {
        let commits = checked(offsets)?;
        self.begin_commit(self.shared.to_commit_as()?, commits)
    }

    fn begin_commit(&self, identity: Identity, offsets: Commits) -> Result<PendingCommit, ConsumerError> {
        let (reply, answer) = oneshot::channel();
        // Who asked may not wait.
        let reply = Box::new(move |told| drop(reply.send(told)));
        self.send(Command::Commit { identity, offsets, reply })?;
        Ok(PendingCommit { answer: Some(answer) })
    }
}

fn checked(offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>) -> Result<Commits, ConsumerError> {
    if let Some((partition, wrong)) = offsets.iter().find(|(_, committed)| committed.offset < 0) {
        return Err(ConsumerError::IllegalArgument(format!(
            "the offset {} of {partition} is negative",
            wrong.offset
        )));
    }
    Ok(offsets.iter().map(|(partition, committed)| (partition.key(), committed.clone())).collect())
}

/// A commit that is under way. It goes on if this is dropped. Whatever runs futures can await it, and who has no runtime
/// [waits](Self::wait).
#[derive(Debug)]
#[must_use = "says whether the commit has succeeded; drop it where that does not matter"]
pub struct PendingCommit {
    /// `None`: there was nothing to commit, or the answer has been told.
    answer: Option<oneshot::Receiver<Result<(), CommitError>>>,
}

impl PendingCommit {
    fn nothing() -> Self {
        Self { answer: None }
    }

    /// Waits for the answer, which comes within `request.timeout.ms`, unless the coordinator is lost. Not for tasks: they await it.
    ///
    /// # Errors
    /// As [`Consumer::commit`], and [`ConsumerError::Commit`] for what may pass.
    pub fn wait(mut self) -> Result<(), ConsumerError> {
        let waker = Waker::from(Arc::new(Unpark(current())));
        loop {
            match Pin::new(&mut self).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(told) => return told,
                Poll::Pending => park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

const LOST: &str = "the connection was made anew";

fn told(answer: Result<Result<(), CommitError>, oneshot::error::RecvError>) -> Result<(), ConsumerError> {
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(CommitError::Final(error))) => Err(error),
        Ok(Err(CommitError::NotNow(reason))) => Err(ConsumerError::Commit(reason)),
        Err(_) => Err(ConsumerError::Commit(LOST.into())),
    }
}

impl Future for PendingCommit {
    type Output = Result<(), ConsumerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(Ok(())) };
        let polled = Pin::new(answer).poll(cx);
        if polled.is_ready() {
            self.answer = None;
        }
        polled.map(told)
    }
}
