//! Loading, running and dropping strategies over and over leaves nothing behind: no memory, no threads, no files, no mappings.
//!
//! A test binary of its own with a single test, since it counts what the whole process holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests panic as tests do")]
#![cfg(target_os = "linux")]

#[path = "hostile/wat.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the tests of hostile strategies")]
mod wat;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assignor_host::{
    Context, Event, FallbackPolicy, Group, Limits, MemberSubscription, Outcome, Plugin, Runtime,
    RuntimeOptions, Strategy, Subscription,
};

/// What the process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    threads: usize,
    files: usize,
    mappings: usize,
    resident_kib: u64,
}

impl Held {
    fn now() -> Self {
        let entries = |path: &str| std::fs::read_dir(path).unwrap().count();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            threads: entries("/proc/self/task"),
            files: entries("/proc/self/fd"),
            mappings: std::fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

/// Runs `cycle` often, and then `times` times as often, and compares what is held after each. What is kept once and for all
/// (pools of threads, caches of the allocator) is there after the first run.
fn leaves_nothing(what: &str, warm_up: u32, times: u32, mut cycle: impl FnMut()) {
    (0..warm_up).for_each(|_| cycle());
    let before = Held::now();
    (0..warm_up * times).for_each(|_| cycle());
    // Threads that have nothing left to do take a moment to end.
    let started = Instant::now();
    while Held::now().threads > before.threads && started.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    let after = Held::now();
    println!("{what}: {before:?} -> {after:?} after {} cycles", warm_up * times);
    assert!(after.threads <= before.threads, "{what}: {before:?} -> {after:?}");
    assert!(after.files <= before.files, "{what}: {before:?} -> {after:?}");
    // glibc gives threads up to eight arenas a core, each of one or two mappings, and makes them when threads happen to meet:
    // that many may come late. What leaks comes with every cycle.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = 2 * 8 * cores;
    assert!(after.mappings <= before.mappings + arenas, "{what}: {before:?} -> {after:?}");
    // Less than a KiB and a half in each: the allocator's own ups and downs.
    let cycles = u64::from(warm_up * times);
    assert!(
        after.resident_kib <= before.resident_kib + 4096 + cycles * 3 / 2,
        "{what}: {before:?} -> {after:?}"
    );
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    // A busy machine must not make an innocent strategy late.
    limits.assign_time = Duration::from_secs(10);
    limits.call_time = Duration::from_secs(10);
    limits
}

fn group() -> Group {
    let member = MemberSubscription {
        member_id: "m1".into(),
        subscription: Subscription { topics: ["clicks".into()].into(), ..Subscription::default() },
        ..MemberSubscription::default()
    };
    Group::new(&[("clicks".to_owned(), 5)].into(), vec![member]).unwrap()
}

fn decide(plugin: Plugin) -> Outcome {
    let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), Arc::new(|_: &Event| {}));
    strategy.decide(&Context::default(), &group()).outcome
}

#[test]
fn cycles_leave_nothing_behind() {
    let good = wat::component("");
    let traps = wat::component(wat::fields!("shadow-stack"));
    let grows = wat::component(wat::fields!("memory-grows"));
    let malformed = &good[..good.len() - 100];

    leaves_nothing("runtimes", 30, 10, || {
        let runtime = Runtime::new(RuntimeOptions { limits: limits(), cache: None }).unwrap();
        let plugin = Plugin::new(&runtime.compile(&good).unwrap(), BTreeMap::new()).unwrap();
        assert_eq!(decide(plugin), Outcome::Plugin);
    });

    let runtime = Runtime::new(RuntimeOptions { limits: limits(), cache: None }).unwrap();
    leaves_nothing("loads", 30, 10, || {
        let plugin = Plugin::new(&runtime.compile(&good).unwrap(), BTreeMap::new()).unwrap();
        assert_eq!(decide(plugin), Outcome::Plugin);
        assert!(runtime.compile(malformed).is_err());
    });

    let component = runtime.compile(&good).unwrap();
    leaves_nothing("instances", 200, 10, || {
        assert_eq!(decide(Plugin::new(&component, BTreeMap::new()).unwrap()), Outcome::Plugin);
    });

    let traps = runtime.compile(&traps).unwrap();
    let grows = runtime.compile(&grows).unwrap();
    leaves_nothing("failures", 100, 10, || {
        for component in [&traps, &grows] {
            assert_eq!(decide(Plugin::new(component, BTreeMap::new()).unwrap()), Outcome::Fallback);
        }
    });

    let strategy = Strategy::plugin(
        Plugin::new(&component, BTreeMap::new()).unwrap(),
        FallbackPolicy::default(),
        Arc::new(|_: &Event| {}),
    );
    leaves_nothing("replacements", 30, 10, || {
        strategy.replace(&good).unwrap();
        assert_eq!(strategy.decide(&Context::default(), &group()).outcome, Outcome::Plugin);
    });
}
