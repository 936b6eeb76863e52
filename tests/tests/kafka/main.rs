//! Consumers on Apache Kafka itself: a real broker, processes that are killed and frozen, connections that break.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests panic as tests do"
)]

mod admin;
mod asking;
mod blobs;
mod broker;
mod cluster;
mod disturbances;
mod disturbed;
mod hostile;
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
mod raw_member;
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
