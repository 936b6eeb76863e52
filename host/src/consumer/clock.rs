//! A clock that counts the time a machine is suspended.
//!
//! `std::time::Instant` stands still while a Linux or macOS machine sleeps, and a consumer that wakes up would think that
//! its session still holds. The lease on partitions ([`super::shared`]) must not be fooled, so time here is read from
//! `CLOCK_BOOTTIME` (Linux, Android) or `CLOCK_MONOTONIC` (macOS, where that clock goes on in sleep). Elsewhere it is std's
//! clock, which on Windows goes on in sleep, too.

use std::ops::Add;
use std::time::Duration;

/// A moment, comparable to other moments of the same boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// The current moment.
    pub(crate) fn now() -> Self {
        Self(since_boot())
    }

    /// The time from `earlier` to here; zero if that is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

#[cfg(unix)]
fn since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    clock_gettime(CLOCK).map_or_else(|_| since_start(), Duration::from)
}

#[cfg(not(unix))]
fn since_boot() -> Duration {
    since_start()
}

fn since_start() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_and_never_below_zero() {
        let earlier = Moment::now();
        let later = earlier + Duration::from_secs(5);
        assert_eq!(later.since(earlier), Duration::from_secs(5));
        assert_eq!(earlier.since(later), Duration::ZERO);
        assert!(Moment::now() >= earlier);
    }
}
