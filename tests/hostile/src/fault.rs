//! Which fault, in which function, and the faults that every function can have.

use std::hint::black_box;
use std::time::Duration;

use assignor_guest_sdk::bindings::assignor::strategy::types::Topic;
use assignor_guest_sdk::log::{self, Level};
use assignor_guest_sdk::{Group, config, context, control, lag};

use crate::{answer, burn};

const MIB: usize = 1 << 20;

/// A function of the contract.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Name,
    SupportedProtocols,
    Subscription,
    Assign,
    OnAssignment,
}

impl Function {
    fn named(name: &str) -> Self {
        match name {
            "name" => Self::Name,
            "supported-protocols" => Self::SupportedProtocols,
            "subscription" => Self::Subscription,
            "assign" => Self::Assign,
            "on-assignment" => Self::OnAssignment,
            other => wrong(&format!("there is no function {other:?}")),
        }
    }
}

/// The configured fault; empty if there is none.
pub(crate) fn name() -> String {
    config::text("fault").unwrap_or_default()
}

/// The configured fault of an answer; empty if there is none.
pub(crate) fn of_answer() -> String {
    if spared() { String::new() } else { name() }
}

/// Whether the host only probes, which has no group, and shall find nothing.
fn spared() -> bool {
    match config::text("probe").as_deref() {
        None => false,
        Some("spare") => context::group_id().is_none(),
        Some(other) => wrong(&format!("the key probe can't be {other:?}")),
    }
}

/// A number of the configuration.
pub(crate) fn number(key: &str, default: usize) -> usize {
    config::get_or(key, default).unwrap_or_else(|error| wrong(&error.to_string()))
}

/// Does the configured fault if it is this function's turn; for functions that can't return an error.
pub(crate) fn commit_or_trap(function: Function) {
    if let Err(error) = commit(function) {
        wrong(error.get(..80).unwrap_or(&error));
    }
}

/// Does the configured fault if it is this function's turn, and is one that every function can have.
pub(crate) fn commit(function: Function) -> Result<(), String> {
    log::report_panics();
    let at = config::text("at").map_or(Function::Assign, |at| Function::named(&at));
    let fault = name();
    if answer::FAULTS.contains(&fault.as_str()) || at != function || spared() {
        return Ok(());
    }
    match fault.as_str() {
        "" => {}
        "loop" => burn::steps(u64::MAX),
        "busy" => burn::steps(number("ms", 1000) as u64 * burn::STEPS_PER_MS),
        "memory-fill" => burn::fill(number("bytes", 16 * MIB)),
        "memory-copy" => burn::copy(number("bytes", 16 * MIB)),
        "trap" => wrong("the configuration asks for a trap"),
        "abort" => std::process::abort(),
        "memory-bomb" => loop {
            burn::leak(MIB);
        },
        "leak" => burn::leak(number("bytes", MIB)),
        "stack-overflow-shadow" => {
            black_box(burn::deep_with_locals(u32::MAX));
        }
        "stack-overflow-wasm" => {
            black_box(burn::deep(black_box(u32::MAX)));
        }
        "host-call-flood" => times(|| {
            black_box(context::now_ms());
        }),
        "log-flood" => times(|| log::log(Level::Info, "one of many lines")),
        "log-huge" => log::log(Level::Info, &"x".repeat(number("bytes", 2 * MIB))),
        "rebalance-flood" => times(|| control::request_rebalance(Duration::ZERO)),
        "lag-flood" => {
            let first = Topic { name: String::new(), first: 0, count: 1 };
            let group = Group::new(vec![first], Vec::new());
            if let Some(topic) = group.topic_numbered(0) {
                times(|| {
                    let _ = black_box(lag::end_offsets(topic));
                });
            }
        }
        "error" => return Err("the configuration asks for an error".to_owned()),
        "error-huge" => return Err("x".repeat(number("bytes", 20 * MIB))),
        other => wrong(&format!("there is no fault {other:?}")),
    }
    Ok(())
}

fn times(mut act: impl FnMut()) {
    for _ in 0..number("count", usize::MAX) {
        act();
    }
}

#[expect(clippy::panic, reason = "a trap is what is asked for")]
fn wrong(what: &str) -> ! {
    panic!("{what}")
}
