//! Wakes who waits for the driver: threads inside `poll`, and tasks that wait for a stream.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// A condition variable that wakes tasks as well. Whoever waits looks again when woken, needed or not.
#[derive(Debug, Default)]
pub(in crate::consumer) struct Signal {
    threads: Condvar,
    tasks: Mutex<Vec<Waker>>,
}

impl Signal {
    /// Wakes everybody.
    pub(in crate::consumer) fn notify_all(&self) {
        self.threads.notify_all();
        for task in std::mem::take(&mut *self.tasks()) {
            task.wake();
        }
    }

    /// Wakes this task the next time. To be called before it looks, so that nothing is missed.
    pub(in crate::consumer) fn register(&self, task: &Waker) {
        let mut tasks = self.tasks();
        if !tasks.iter().any(|t| t.will_wake(task)) {
            tasks.push(task.clone());
        }
    }

    /// Whether a task waits.
    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks().is_empty()
    }

    /// Waits until woken, at most so long.
    pub(super) fn wait<T>(&self, guard: MutexGuard<'_, T>, limit: Duration) {
        drop(self.threads.wait_timeout(guard, limit));
    }

    /// Waits while `waits` says so, at most so long.
    pub(super) fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.threads.wait_timeout_while(guard, limit, waits).unwrap_or_else(PoisonError::into_inner).0
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
