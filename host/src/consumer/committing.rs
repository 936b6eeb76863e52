//! Commits as the application asks for them.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use tokio::sync::mpsc::UnboundedSender;

use super::clock::Moment;
use super::config::ConsumerConfig;
use super::driver::{Command, CommitError};
use super::error::ConsumerError;
use super::shared::Shared;

/// What is needed to commit.
#[derive(Clone)]
pub(super) struct Committing {
    pub(super) config: Arc<ConsumerConfig>,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: UnboundedSender<Command>,
}

impl std::fmt::Debug for Committing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committing").field("group", &self.config.group_id).finish_non_exhaustive()
    }
}

impl Committing {
    /// See [`Consumer::commit`](super::Consumer::commit).
    pub(super) fn commit(&self) -> Result<(), ConsumerError> {
        let deadline = Moment::now() + self.config.request_timeout;
        loop {
            let Some((identity, offsets)) = self.shared.to_commit()? else { return Ok(()) };
            let (reply, answer) = sync_channel(1);
            let command = Command::Commit { identity, offsets, reply };
            self.commands.send(command).map_err(|_| ConsumerError::Closed)?;
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
}
