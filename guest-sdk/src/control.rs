//! What a strategy may ask of its consumer.

use std::time::Duration;

use crate::imports::{Host, Imports};

/// Asks for a rebalance when `after` has passed. A request, not an order: the host bounds how often it follows, and only the
/// leader's counts. A later request replaces an earlier one.
pub fn request_rebalance(after: Duration) {
    Host::request_rebalance(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
}
