//! Strategies in WebAssembly text: faults of instances, of memory, of the border between guest and host.

use assignor_host::Cause;

use super::support::{falls_back, refused};
use super::wat::{component, component_for, fields, named};

/// `test: file => code` for each strategy that can't be loaded.
macro_rules! refused {
    ($($test:ident: $file:literal => $code:literal;)*) => {
        $(#[test]
        fn $test() {
            refused(component(fields!($file)), $code);
        })*
    };
}

/// `test: file => code` for each strategy that can be loaded and can't decide.
macro_rules! falls_back {
    ($($test:ident: $file:literal => $code:literal;)*) => {
        $(#[test]
        fn $test() {
            falls_back(component(fields!($file)), $code);
        })*
    };
}

refused! {
    a_start_function_that_loops_is_stopped: "start-loops" => "deadline";
    a_start_function_that_traps: "start-traps" => "trap";
    a_name_that_never_comes_is_not_waited_for: "name-loops" => "deadline";
    no_protocols_at_all: "protocols-none" => "no-protocols";
    cooperative_only_is_named_as_such: "protocols-cooperative" => "cooperative-only";
    a_protocol_that_the_contract_does_not_have: "protocols-unknown" => "trap";
    more_memory_than_allowed_at_once: "memory-minimum" => "memory";
    more_table_elements_than_allowed_at_once: "table-minimum" => "resource";
    more_memories_than_allowed: "memories-many" => "resource";
    an_allocator_that_loops_is_stopped: "realloc-loops" => "deadline";
    an_allocator_that_points_outside_its_memory: "realloc-outside" => "trap";
    an_allocator_that_calls_the_host: "realloc-calls-host" => "trap";
}

falls_back! {
    an_endless_loop_is_stopped: "assign-loops" => "deadline";
    a_loop_of_long_single_instructions_is_stopped: "fill-loops" => "deadline";
    a_clean_up_that_never_ends_is_stopped: "post-return-loops" => "deadline";
    a_clean_up_that_traps: "post-return-traps" => "trap";
    memory_is_bounded_and_the_refusal_remembered: "memory-grows" => "memory";
    many_memories_add_up: "memories-grow" => "memory";
    tables_are_bounded: "table-grows" => "resource";
    the_stack_is_bounded: "recursion" => "stack";
    a_shadow_stack_that_leaves_the_memory: "shadow-stack" => "trap";
    a_result_outside_the_memory: "list-outside" => "trap";
    a_result_of_four_billion_entries: "list-endless" => "trap";
    a_result_that_is_small_in_the_guest_and_huge_in_the_host: "list-amplified" => "host-bytes";
    a_result_that_is_neither: "result-neither" => "trap";
    an_error_text_that_is_no_text: "error-not-utf8" => "trap";
}

#[test]
fn control_characters_of_an_error_text_reach_nobody() {
    let decision = falls_back(component(fields!("error-with-controls")), "declined");
    let text = decision.cause.as_ref().map(Cause::to_string).unwrap();
    assert!(text.contains("boom") && !text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn another_version_of_the_contract_is_named_in_words() {
    for version in ["0.2.0", "0.3.1", "1.0.0", "0.1.9"] {
        let bytes = component_for(&[("@0.1.0", &format!("@{version}"))], "");
        let error = refused(bytes, "contract-version");
        assert!(error.to_string().contains(version), "{error}");
    }
}

#[test]
fn an_interface_that_the_contract_never_had_is_named() {
    let world = "interface teleport { jump: func() -> u32; }\nworld assignor { import teleport;";
    let bytes = component_for(&[("world assignor {", world)], fields!("import-unknown"));
    let error = refused(bytes, "unknown-import");
    assert!(error.to_string().contains("assignor:strategy/teleport@0.1.0"), "{error}");
}

#[test]
fn a_function_of_a_later_contract_is_named() {
    let interface = "interface control { from-the-future: func() -> u32;";
    let bytes = component_for(&[("interface control {", interface)], fields!("import-unknown-function"));
    let error = refused(bytes, "contract");
    assert!(error.to_string().contains("from-the-future"), "{error}");
}

#[test]
fn wasi_is_refused_with_advice() {
    let wasi = "package wasi:clocks@0.2.0 { interface monotonic-clock { now: func() -> u64; } }";
    let world = format!("{wasi}\nworld assignor {{ import wasi:clocks/monotonic-clock@0.2.0;");
    let error = refused(component_for(&[("world assignor {", &world)], fields!("import-wasi")), "wasi");
    assert!(error.to_string().contains("wasi:clocks/monotonic-clock"), "{error}");
    assert!(error.advice().is_some_and(|advice| advice.contains("without WASI")));
}

#[test]
fn a_function_that_is_not_exported_is_named() {
    let edits = [("  assign: func(topics", "  assigns: func(topics"), ("#assign\"", "#assigns\"")];
    let error = refused(component_for(&edits, ""), "contract");
    assert!(error.to_string().contains("`assign`"), "{error}");
}

#[test]
fn a_function_of_another_signature_is_named() {
    let edits = [("  name: func() -> string;", "  name: func() -> list<u8>;")];
    let error = refused(component_for(&edits, ""), "contract");
    assert!(error.to_string().contains("name"), "{error}");
}

#[test]
fn names_that_cannot_be_used() {
    refused(named(""), "bad-name");
    refused(named(&"x".repeat(65)), "bad-name");
    refused(named("with space"), "bad-name");
    refused(named("größe"), "bad-name");
    let error = refused(named(&"n".repeat(500_000)), "bad-name");
    assert!(error.to_string().len() < 1_000, "a long name is not repeated in full");
    for name in ["range", "roundrobin", "sticky", "cooperative-sticky", "keep"] {
        refused(named(name), "reserved-name");
    }
    refused(named("org.apache.kafka.clients.consumer.RangeAssignor"), "reserved-name");
}
