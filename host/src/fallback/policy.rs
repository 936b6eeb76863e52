//! What decides when a strategy fails, and when it is not asked for a while.

use std::time::Duration;

use crate::builtin;

/// What decides when a strategy fails (`assignor.fallback`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// Everyone keeps what they validly own, the rest goes to the least loaded; from the third fallback in a row on
    /// cooperative-sticky, or range under a strategy that is eager only.
    #[default]
    Keep,
    /// Range, at once.
    Range,
    /// Cooperative-sticky, at once: evens out, and moves little.
    CooperativeSticky,
    /// Everyone keeps what they validly own, the rest is left unassigned, loudly: for those who must not process a
    /// partition in the wrong place.
    Hold,
}

impl Fallback {
    /// The fallback of that name, as configured.
    pub fn by_name(name: &str) -> Option<Self> {
        let all = [Self::Keep, Self::Range, Self::CooperativeSticky, Self::Hold];
        all.into_iter().find(|fallback| fallback.name() == name)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => builtin::KEEP,
            Self::Range => builtin::RANGE,
            Self::CooperativeSticky => builtin::COOPERATIVE_STICKY,
            Self::Hold => "hold",
        }
    }
}

/// What happens when a strategy fails, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackPolicy {
    /// Which native strategy decides.
    pub fallback: Fallback,
    /// After how many failures in a row the strategy is not asked for a while. 3.
    pub bench_after: u32,
    /// For how long at first; each further time twice as long. 30 s.
    pub bench_pause: Duration,
    /// For how long at most. 10 min.
    pub bench_pause_max: Duration,
}

impl Default for FallbackPolicy {
    fn default() -> Self {
        Self {
            fallback: Fallback::Keep,
            bench_after: 3,
            bench_pause: Duration::from_secs(30),
            bench_pause_max: Duration::from_secs(600),
        }
    }
}
