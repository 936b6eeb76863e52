//! How soon a broker is connected to again: `reconnect.backoff.ms` and its kin.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::consumer::clock::Moment;
use crate::consumer::config::{Address, ConsumerConfig};

/// So many brokers that fail are remembered: a cluster whose brokers come and go under ever new names must not fill memory.
const REMEMBERED: usize = 1_000;

/// Brokers that can't be connected to, and since when.
pub(super) struct Reconnect {
    backoff: Growing,
    setup: Growing,
    failing: RefCell<HashMap<Address, Failing>>,
}

/// A time that doubles with each failure, up to a limit, and is spread by a fifth both ways (KIP-580, KIP-601).
struct Growing {
    first: Duration,
    most: Duration,
}

struct Failing {
    failures: u32,
    until: Moment,
}

impl Growing {
    fn after(&self, failures: u32) -> Duration {
        let percent = RandomState::new().hash_one(failures) % 41 + 80;
        let time = self.first.saturating_mul(1 << failures.min(16)).min(self.most);
        time * u32::try_from(percent).unwrap_or(100) / 100
    }
}

impl Reconnect {
    pub(super) fn new(config: &ConsumerConfig) -> Self {
        Self {
            backoff: Growing { first: config.reconnect_backoff, most: config.reconnect_backoff_max },
            setup: Growing { first: config.connect_timeout, most: config.connect_timeout_max },
            failing: RefCell::default(),
        }
    }

    /// How long to wait before this broker is connected to.
    pub(super) fn pause(&self, address: &Address, now: Moment) -> Duration {
        self.failing.borrow().get(address).map_or(Duration::ZERO, |f| f.until.since(now))
    }

    /// Begins to connect. It counts as failed unless [`Attempt::succeeded`] is called.
    pub(super) fn begin(&self, address: &Address) -> Attempt<'_> {
        Attempt { reconnect: self, address: address.clone(), succeeded: false }
    }

    /// How long setting up a connection may take.
    pub(super) fn setup_timeout(&self, address: &Address) -> Duration {
        match self.failing.borrow().get(address) {
            // As configured, to the millisecond.
            None => self.setup.first,
            Some(f) => self.setup.after(f.failures),
        }
    }

    fn failed(&self, address: &Address, now: Moment) {
        let mut failing = self.failing.borrow_mut();
        if failing.len() >= REMEMBERED {
            failing.retain(|_, f| f.until > now);
        }
        if failing.len() >= REMEMBERED {
            failing.clear();
        }
        let entry = failing.entry(address.clone()).or_insert(Failing { failures: 0, until: now });
        entry.until = now + self.backoff.after(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
    }
}

/// Connecting to a broker.
pub(super) struct Attempt<'a> {
    reconnect: &'a Reconnect,
    address: Address,
    succeeded: bool,
}

impl Attempt<'_> {
    pub(super) fn succeeded(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Attempt<'_> {
    /// Also when whoever waits for it gives up.
    fn drop(&mut self) {
        if self.succeeded {
            self.reconnect.failing.borrow_mut().remove(&self.address);
        } else {
            self.reconnect.failed(&self.address, Moment::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconnect() -> Reconnect {
        let ms = Duration::from_millis;
        Reconnect {
            backoff: Growing { first: ms(50), most: ms(1_000) },
            setup: Growing { first: ms(10_000), most: ms(30_000) },
            failing: RefCell::default(),
        }
    }

    fn address(port: u16) -> Address {
        Address { host: "a".into(), port }
    }

    #[test]
    fn pauses_double_up_to_the_most_and_end_with_success() {
        let reconnect = reconnect();
        let (a, now) = (address(1), Moment::default());
        assert_eq!(reconnect.pause(&a, now), Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            reconnect.failed(&a, now);
            pauses.push(reconnect.pause(&a, now).as_millis());
        }
        for (pause, expected) in pauses.iter().zip([50, 100, 200, 400, 800, 1_000, 1_000, 1_000]) {
            assert!((expected * 8 / 10..=expected * 12 / 10).contains(pause), "{pauses:?}");
        }
        assert_eq!(reconnect.pause(&address(2), now), Duration::ZERO, "each broker has its own");
        reconnect.begin(&a).succeeded();
        assert_eq!(reconnect.pause(&a, now), Duration::ZERO);
    }

    #[test]
    fn an_attempt_that_is_given_up_counts_and_leaves_the_next_one_more_time() {
        let reconnect = reconnect();
        let a = address(1);
        assert_eq!(reconnect.setup_timeout(&a), Duration::from_secs(10));
        drop(reconnect.begin(&a));
        assert!(reconnect.pause(&a, Moment::now()) > Duration::ZERO);
        assert!((16_000..=24_000).contains(&reconnect.setup_timeout(&a).as_millis()));
    }

    #[test]
    fn brokers_that_come_and_go_do_not_fill_memory() {
        let reconnect = reconnect();
        for port in 0..3_000 {
            reconnect.failed(&address(port), Moment::default());
            assert!(reconnect.failing.borrow().len() <= REMEMBERED);
        }
    }
}
