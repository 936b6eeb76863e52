//! Pauses between tries.

use std::time::Duration;

/// Doubles from `retry.backoff.ms` to `retry.backoff.max.ms`, spread by a fifth both ways (KIP-580), so that a group does not come
/// back in step.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
    random: u64,
}

impl Backoff {
    pub(super) fn new(first: Duration, most: Duration, seed: u64) -> Self {
        Self { first, most, failures: 0, random: seed | 1 }
    }

    /// Something failed again: the pause before the next try.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        // xorshift64: spread is all that is asked of it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let percent = u32::try_from(self.random % 41).unwrap_or(0) + 80;
        doubled.min(self.most) * percent / 100
    }

    /// So much has failed in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// At least so much has failed in a row, whatever succeeded in between.
    pub(super) fn at_least(&mut self, failures: u32) {
        self.failures = self.failures.max(failures);
    }

    /// It works again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
