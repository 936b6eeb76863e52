//! Keeps a strategy that fails again and again from being asked for a while.

use std::time::Duration;

use crate::cause::Cause;

/// Counts failures in a row. Its clock is the caller's, in milliseconds, so that it can be replayed.
#[derive(Debug)]
pub(super) struct Breaker {
    after: u32,
    first_pause: Duration,
    longest_pause: Duration,
    failures: u32,
    benched: Option<Benched>,
    /// How often it was benched since it last worked.
    times: u32,
    last: String,
}

#[derive(Debug, Clone, Copy)]
struct Benched {
    since_ms: u64,
    pause: Duration,
}

impl Breaker {
    pub(super) fn new(after: u32, first_pause: Duration, longest_pause: Duration) -> Self {
        Self { after, first_pause, longest_pause, failures: 0, benched: None, times: 0, last: String::new() }
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether a pause was begun and the strategy has not worked since.
    pub(super) fn is_benched(&self) -> bool {
        self.benched.is_some()
    }

    /// Whether the strategy may be asked.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), Cause> {
        let Some(Benched { since_ms, pause }) = self.benched else { return Ok(()) };
        // A clock that was set back must not bench it for longer than the pause.
        let Some(elapsed) = now_ms.checked_sub(since_ms).map(Duration::from_millis) else { return Ok(()) };
        match pause.checked_sub(elapsed) {
            Some(remaining) if !remaining.is_zero() => {
                Err(Cause::Benched { remaining, failures: self.failures, last: self.last.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Counts a failure, and gives the pause if this one benches the strategy. After a pause one more failure is enough.
    pub(super) fn failed(&mut self, now_ms: u64, cause: &Cause) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        self.last = cause.to_string();
        if self.failures < self.after {
            return None;
        }
        let pause = self
            .first_pause
            .saturating_mul(1u32.checked_shl(self.times).unwrap_or(u32::MAX))
            .min(self.longest_pause);
        self.times = self.times.saturating_add(1).min(31);
        self.benched = Some(Benched { since_ms: now_ms, pause });
        Some(pause)
    }

    /// It worked: all is forgotten.
    pub(super) fn succeeded(&mut self) {
        if self.failures > 0 {
            self.reset();
        }
    }

    /// Another component took its place.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.benched = None;
        self.times = 0;
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::CallError;

    fn breaker() -> Breaker {
        Breaker::new(3, Duration::from_secs(30), Duration::from_secs(100))
    }

    fn trap() -> Cause {
        CallError::Trap("boom".into()).into()
    }

    #[test]
    fn three_failures_in_a_row_bench_and_each_further_one_for_twice_as_long() {
        let mut breaker = breaker();
        assert_eq!([breaker.failed(0, &trap()), breaker.failed(0, &trap())], [None, None]);
        assert_eq!(breaker.failed(1_000, &trap()), Some(Duration::from_secs(30)));
        let benched = breaker.check(11_000).unwrap_err();
        let Cause::Benched { remaining, failures: 3, last } = benched else { panic!("{benched:?}") };
        assert_eq!((remaining, last.contains("boom")), (Duration::from_secs(20), true));
        assert_eq!(breaker.check(31_000), Ok(()));
        assert_eq!(breaker.failed(31_000, &trap()), Some(Duration::from_secs(60)));
        assert_eq!(breaker.failed(91_000, &trap()), Some(Duration::from_secs(100)));
    }

    #[test]
    fn a_success_forgets_and_a_clock_set_back_does_not_bench_for_longer() {
        let mut breaker = breaker();
        for _ in 0..2 {
            breaker.failed(5_000, &trap());
        }
        breaker.succeeded();
        assert_eq!(breaker.failed(5_000, &trap()), None);
        breaker.failed(5_000, &trap());
        breaker.failed(5_000, &trap());
        assert!(breaker.check(6_000).is_err());
        assert_eq!(breaker.check(4_000), Ok(()));
    }
}
