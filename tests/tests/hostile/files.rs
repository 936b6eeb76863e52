//! Files that are no strategies: each is told apart and named, and most before anything is compiled.

use std::time::Duration;

use assignor_host::{Context, FallbackPolicy, Outcome, Runtime, RuntimeOptions, Strategy};

use super::support::{self, beside_a_good_one, bounded, config, group, load, native, refused};
use super::{bombs, wat};

#[test]
fn an_empty_file() {
    refused(vec![], "not-wasm");
}

#[test]
fn text() {
    refused(b"(component)".to_vec(), "text");
    refused(b"\n  (module)".to_vec(), "text");
    refused(wat::fields!("start-loops").into(), "text");
    refused(b"#!/bin/sh\nrm -rf /\n".to_vec(), "not-wasm");
}

#[test]
fn a_core_module_is_told_what_to_do_next() {
    let error = refused(wasm_encoder::Module::new().finish(), "core-module");
    assert!(error.advice().is_some_and(|advice| advice.contains("assignor build")));
}

#[test]
fn a_component_that_is_no_strategy() {
    refused(wasm_encoder::Component::HEADER.to_vec(), "contract");
}

#[test]
fn a_header_and_nothing_behind_it() {
    for length in 1..8 {
        refused(wasm_encoder::Component::HEADER[..length].to_vec(), "malformed");
    }
}

#[test]
fn a_precompiled_component_is_never_run() {
    let engine = wasmtime::Engine::default();
    let precompiled = engine.precompile_component(&wat::component("")).unwrap();
    assert!(wasmtime::Engine::detect_precompiled(&precompiled).is_some());
    refused(precompiled, "precompiled");
    let precompiled = engine.precompile_module(&wasm_encoder::Module::new().finish()).unwrap();
    refused(precompiled, "precompiled");
}

#[test]
fn a_file_larger_than_the_limit_is_not_looked_into() {
    let limit = usize::try_from(support::limits().component_bytes).unwrap();
    refused(vec![0; limit + 1], "too-large");
}

#[test]
fn a_file_cut_off_anywhere() {
    let whole = wat::component("");
    // Some cuts fall between two sections and leave a whole component, which misses what came after.
    for length in (8..whole.len()).step_by(whole.len() / 100) {
        let cut = whole[..length].to_vec();
        let error = bounded(move || load(&cut, config(&[])).map(drop)).unwrap_err();
        assert!(["malformed", "contract"].contains(&error.code()), "{length}: {error}");
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(1);
    for length in [1, 4, 8, 100, 10_000, 1_000_000] {
        let mut bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        let error = load(&bytes, config(&[])).unwrap_err();
        assert_eq!(error.code(), "not-wasm", "{error}");
        let header = wasm_encoder::Component::HEADER;
        if length > header.len() {
            bytes[..header.len()].copy_from_slice(&header);
            let error = load(&bytes, config(&[])).unwrap_err();
            assert!(["malformed", "contract"].contains(&error.code()), "{error}");
        }
    }
}

/// A flipped bit may leave a sound strategy: another constant, another name. What matters is that the host survives whatever
/// it is, and that each plan is the plugin's own and checked, or the native one.
#[test]
fn a_flipped_bit_anywhere() {
    let whole = wat::component("");
    let mut random = Random(2);
    let mut refused = 0;
    for _ in 0..200 {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << (random.byte() % 8);
        let plan = bounded(move || match load(&bytes, config(&[])) {
            Err(_) => None,
            Ok(plugin) => {
                let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), support::nobody());
                let decision = strategy.decide(&Context::default(), &group());
                Some((decision.outcome, decision.plan))
            }
        });
        match plan {
            None => refused += 1,
            Some((Outcome::Fallback, plan)) => assert_eq!(plan, native().plan),
            Some((outcome, _)) => assert_eq!(outcome, Outcome::Plugin),
        }
    }
    assert!(refused > 0, "no flip was noticed");
}

#[test]
fn what_is_slow_or_large_to_compile_is_refused_before() {
    let bombs = [
        ("locals x branches", bombs::locals_times_branches(2_000, 2_000)),
        ("parameters x branches", bombs::parameters_times_branches(1_000, 4_000)),
        ("locals x jump tables", bombs::locals_times_table_targets(300, 10, 5_000)),
        ("locals", bombs::locals_times_branches(40_000, 1)),
        ("many functions of many locals", bombs::functions_of_many_locals(20_000, 4_000)),
        ("blocks in a row", bombs::blocks_in_a_row(50_000)),
        ("blocks of many values", bombs::blocks_of_many_values(500, 500)),
        ("calls of many values", bombs::calls_of_many_values(1_000, 1_000)),
        ("functions", bombs::functions(100_000)),
        ("one long function", bombs::body(1_000_000)),
        ("components unfolding", bombs::nested_components(8, 10)),
        ("components within components", bombs::deeply_nested_components(1_000)),
    ];
    for (name, bytes) in bombs {
        assert!(bytes.len() < 3 << 20, "{name}");
        let started = std::time::Instant::now();
        let error = refused(bytes, "too-complex");
        assert!(started.elapsed() < support::BOUND, "{name}: {error}");
    }
}

#[test]
fn many_functions_each_within_the_limits_are_refused_together() {
    let error = refused(bombs::many_times_locals_times_branches(1_000, 100, 300), "too-complex");
    assert!(error.to_string().contains("all functions"), "{error}");
}

#[test]
fn a_compile_that_takes_too_long_is_given_up_and_no_second_one_starts_beside_it() {
    let recovered = beside_a_good_one(|| {
        let mut limits = support::limits();
        limits.compile_time = Duration::from_millis(50);
        let runtime = Runtime::new(RuntimeOptions { limits, cache: None }).unwrap();
        // Within the scan's limits, and most of a second of work.
        let slow = bombs::body(250_000);
        assert_eq!(runtime.compile(&slow).unwrap_err().code(), "compile-timeout");
        let small = wat::component("");
        assert_eq!(runtime.compile(&small).unwrap_err().code(), "compiler-busy");
        loop {
            match runtime.compile(&small) {
                Ok(component) => break component.size() == small.len() as u64,
                // The small one may be late, too, on a busy machine.
                Err(error) => {
                    assert!(["compiler-busy", "compile-timeout"].contains(&error.code()), "{error}")
                }
            }
            std::thread::yield_now();
        }
    });
    assert!(recovered);
}

#[test]
fn more_instances_than_allowed() {
    refused(bombs::core_instances(200), "resource");
}

#[test]
fn types_nested_too_deep_do_not_end_the_process() {
    let error = bounded(|| load(&bombs::deep_types(50_000), config(&[])).map(drop));
    assert_eq!(error.unwrap_err().code(), "malformed");
}

/// Enough randomness for tests, the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}
