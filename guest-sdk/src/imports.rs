//! The one place where imports are called: the component's on WebAssembly, doubles everywhere else.
//!
//! Dispatch is static, by [`Host`]: a trait object would pull every import into every component, and a component shall
//! import only what it uses.

use crate::bindings::assignor::strategy::types::Member;
use crate::cluster::Node;
use crate::log::Level;

/// What the host answers, as the contract has it.
pub(crate) trait Imports {
    fn group_id() -> String;
    fn member_id() -> String;
    fn instance_id() -> Option<String>;
    fn rack() -> Option<String>;
    fn generation() -> i32;
    fn now_ms() -> u64;
    fn seed() -> u64;
    fn get(key: &str) -> Option<String>;
    fn keys() -> Vec<String>;
    fn log(level: Level, text: &str);
    fn nodes() -> Result<Vec<Node>, String>;
    fn leaders(topic: u32) -> Result<Vec<i32>, String>;
    fn replicas(topic: u32) -> Result<Vec<Vec<i32>>, String>;
    fn begin_offsets(topic: u32) -> Result<Vec<i64>, String>;
    fn end_offsets(topic: u32) -> Result<Vec<i64>, String>;
    fn committed_offsets(topic: u32) -> Result<Vec<i64>, String>;
    fn built_in(strategy: &str, members: &[Member], without: &[u32]) -> Result<Vec<Vec<u32>>, String>;
    fn request_rebalance(after_ms: u64);
}

/// The host that this build talks to.
#[cfg(target_arch = "wasm32")]
pub(crate) type Host = Component;

/// The host that this build talks to.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Host = crate::testing::Double;

/// The imports of a component.
#[cfg(target_arch = "wasm32")]
pub(crate) struct Component;

#[cfg(target_arch = "wasm32")]
mod component {
    use super::{Component, Imports, Level, Member, Node};
    use crate::bindings::assignor::strategy::{built_in, cluster, context, control, lag, log};

    impl Imports for Component {
        fn group_id() -> String {
            context::group_id()
        }
        fn member_id() -> String {
            context::member_id()
        }
        fn instance_id() -> Option<String> {
            context::instance_id()
        }
        fn rack() -> Option<String> {
            context::rack()
        }
        fn generation() -> i32 {
            context::generation()
        }
        fn now_ms() -> u64 {
            context::now_ms()
        }
        fn seed() -> u64 {
            context::seed()
        }
        fn get(key: &str) -> Option<String> {
            context::get(key)
        }
        fn keys() -> Vec<String> {
            context::keys()
        }
        fn log(level: Level, text: &str) {
            log::log(level, text);
        }
        fn nodes() -> Result<Vec<Node>, String> {
            cluster::nodes()
        }
        fn leaders(topic: u32) -> Result<Vec<i32>, String> {
            cluster::leaders(topic)
        }
        fn replicas(topic: u32) -> Result<Vec<Vec<i32>>, String> {
            cluster::replicas(topic)
        }
        fn begin_offsets(topic: u32) -> Result<Vec<i64>, String> {
            lag::begin_offsets(topic)
        }
        fn end_offsets(topic: u32) -> Result<Vec<i64>, String> {
            lag::end_offsets(topic)
        }
        fn committed_offsets(topic: u32) -> Result<Vec<i64>, String> {
            lag::committed_offsets(topic)
        }
        fn built_in(strategy: &str, members: &[Member], without: &[u32]) -> Result<Vec<Vec<u32>>, String> {
            built_in::assign(strategy, members, without)
        }
        fn request_rebalance(after_ms: u64) {
            control::request_rebalance(after_ms);
        }
    }
}
