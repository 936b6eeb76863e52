//! Consumers on Apache Kafka itself: a real broker, processes that are killed and frozen, connections that break.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests panic as tests do"
)]
#![allow(dead_code, reason = "disturbances and hostile members come next")]

mod admin;
mod asking;
mod broker;
mod cluster;
mod ledger;
mod librdkafka;
mod lines;
mod member;
mod membership;
mod mixed;
mod ours;
mod process;
mod producer;
mod program;
mod proxy;
mod refusals;
mod security;
mod seeing;
mod slow_plugins;
mod stage;
mod tellings;
mod troupe;
mod watched;
mod wire;

#[path = "../../../host/src/consumer/test_certificates.rs"]
mod test_certificates;
