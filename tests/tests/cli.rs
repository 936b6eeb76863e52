//! The command `assignor` as scripts and people meet it: exit codes, JSON, messages that name the place.
//!
//! Needs the command and the plugins built, as `cargo xtask test` does before: `cargo xtask plugins` does it alone.
#![allow(clippy::unwrap_used, reason = "the helpers of tests panic as tests do")]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assignor_tests::built;
use serde_json::{Value, json};

fn weighted() -> String {
    built("plugins/weighted.wasm").to_str().unwrap().to_owned()
}

fn assignor_in(dir: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(built("debug/assignor"));
    command.args(args).current_dir(dir);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without reading: then the pipe is closed.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

fn assignor(args: &[&str], stdin: &[u8]) -> Output {
    assignor_in(&std::env::temp_dir(), args, stdin)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The one line of JSON on standard output.
fn json(output: &Output) -> Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

const GROUP: &str = r#"{
    "topics": {"t": {"partitions": 12}},
    "members": [
        {"id": "c1", "topics": ["t"], "config": {"weight": "1"}},
        {"id": "c2", "topics": ["t"], "config": {"weight": "2"}},
        {"id": "c3", "topics": ["t"], "config": {"weight": "3"}}
    ]
}"#;

#[test]
fn every_command_explains_itself_with_an_example_and_its_exit_codes() {
    for command in ["new", "build", "inspect", "assign", "consume", "group", "demo"] {
        let help = assignor(&[command, "--help"], b"");
        assert_eq!(code(&help), 0);
        for part in ["Example:", "Exit codes:", "--json"] {
            assert!(stdout(&help).contains(part), "{command} --help lacks {part}");
        }
    }
    assert!(stdout(&assignor(&["--help"], b"")).contains("Exit codes:"));
    assert_eq!(code(&assignor(&["frobnicate"], b"")), 2);
}

#[test]
fn a_built_in_decides_a_group_from_standard_input() {
    let output = assignor(&["assign", "--strategy", "range", "--group", "-", "--json"], GROUP.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let answer = json(&output);
    assert_eq!(keys(&answer), ["assignments", "assignor", "cause", "outcome", "took_us"]);
    assert_eq!(
        answer["assignments"],
        json!({"c1": {"t": [0, 1, 2, 3]}, "c2": {"t": [4, 5, 6, 7]}, "c3": {"t": [8, 9, 10, 11]}})
    );
    assert_eq!((&answer["assignor"], &answer["outcome"]), (&json!("range"), &json!("native")));
    assert!(answer["cause"].is_null() && answer["took_us"].is_u64());
}

#[test]
fn a_plugin_decides_by_what_each_members_own_instance_told() {
    let output = assignor(&["assign", "--strategy", &weighted(), "--json"], GROUP.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let answer = json(&output);
    assert_eq!((&answer["assignor"], &answer["outcome"]), (&json!("weighted"), &json!("plugin")));
    let got = |member: &str| answer["assignments"][member]["t"].as_array().unwrap().len();
    assert_eq!([got("c1"), got("c2"), got("c3")], [2, 4, 6]);
}

#[test]
fn configuration_of_the_command_line_is_for_all_and_a_members_own_goes_over_it() {
    let group = GROUP.replace(r#""config": {"weight": "1"}"#, r#""config": {}"#);
    let args = ["assign", "--strategy", &weighted(), "--json", "--config", "weight=3", "other=x"];
    let answer = json(&assignor(&args, group.as_bytes()));
    let got = |member: &str| answer["assignments"][member]["t"].as_array().unwrap().len();
    // 3 : 2 : 3 of 12, rounded.
    assert_eq!(got("c1") + got("c2") + got("c3"), 12);
    assert!(got("c1") > got("c2") && got("c3") > got("c2"), "{answer}");

    let twice = assignor(&["assign", "--strategy", "range", "--config", "a=1", "--config", "a=2"], b"{}");
    assert_eq!(code(&twice), 0, "built-ins have no configuration");
    let twice = assignor(&["assign", "--strategy", &weighted(), "--config", "a=1", "--config", "a=2"], b"{}");
    assert_eq!(code(&twice), 2);
    assert!(stderr(&twice).contains("--config a"), "{}", stderr(&twice));
}

#[test]
fn user_data_that_the_group_gives_is_not_asked_for() {
    // Not what the strategy writes, so the member counts as one of weight 1.
    let group =
        GROUP.replace(r#""config": {"weight": "3"}"#, r#""config": {"weight": "3"}, "user_data": """#);
    let answer = json(&assignor(&["assign", "--strategy", &weighted(), "--json"], group.as_bytes()));
    assert_eq!(answer["outcome"], "plugin");
    assert_eq!(answer["assignments"]["c3"]["t"].as_array().unwrap().len(), 3);
}

#[test]
fn for_people_the_answer_is_text_that_names_who_decided() {
    let text = stdout(&assignor(&["assign", "--strategy", "range"], GROUP.as_bytes()));
    assert!(text.contains("c2  t: 4-7\n") && text.contains("decided by range (native)"), "{text}");
}

#[test]
fn a_groups_names_do_not_steer_the_terminal() {
    let group = br#"{"topics": {"t\u001b[2J": {"partitions": 1}}, "members": [{"id": "m\n\u0007", "topics": ["t\u001b[2J"]}]}"#;
    let output = assignor(&["assign", "--strategy", "range"], group);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("m\u{fffd}\u{fffd}  t\u{fffd}[2J: 0\ndecided by range"), "{text:?}");
}

#[test]
fn a_file_that_cannot_be_loaded_falls_back_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text.wasm"), "(component)").unwrap();
    for (file, cause) in [("missing.wasm", "unreadable"), (".", "unreadable"), ("text.wasm", "text")] {
        let args = ["assign", "--strategy", file, "--json"];
        let output = assignor_in(dir.path(), &args, GROUP.as_bytes());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let answer = json(&output);
        assert_eq!(answer["outcome"], "fallback");
        assert_eq!(answer["assignor"], "keep");
        assert_eq!(keys(&answer["cause"]), ["code", "message"]);
        assert_eq!(answer["cause"]["code"], cause);
        assert!(answer["assignments"]["c1"]["t"].is_array());

        let strict = assignor_in(dir.path(), &[&args[..], &["--strict"]].concat(), GROUP.as_bytes());
        assert_eq!(code(&strict), 3);
        assert_eq!(json(&strict)["outcome"], "fallback");
        let by_range = [&args[..], &["--fallback", "range"]].concat();
        assert_eq!(json(&assignor_in(dir.path(), &by_range, GROUP.as_bytes()))["assignor"], "range");
    }
    let strict = assignor(&["assign", "--strategy", "range", "--strict"], GROUP.as_bytes());
    assert_eq!(code(&strict), 0);
}

#[test]
fn what_a_plugin_does_wrong_is_told_by_its_cause() {
    let hostile = built("plugins/hostile.wasm").to_str().unwrap().to_owned();
    for (fault, cause) in [
        ("fault=trap", "trap"),
        ("fault=loop", "deadline"),
        ("fault=error", "declined"),
        ("fault=partition-shared", "plan-duplicate"),
        ("fault=name-reserved", "reserved-name"),
    ] {
        let args = ["assign", "--strategy", &hostile, "--json", "--config", fault];
        let output = assignor(&args, GROUP.as_bytes());
        assert_eq!(code(&output), 0, "{fault}: {}", stderr(&output));
        let answer = json(&output);
        assert_eq!(
            (&answer["outcome"], &answer["cause"]["code"]),
            (&json!("fallback"), &json!(cause)),
            "{fault}"
        );
        assert_eq!(answer["assignments"]["c1"]["t"].as_array().unwrap().len(), 4);
    }
    // Asking a member for its user data fails: it joins without, and the strategy decides all the same.
    let spared = ["at=subscription", "fault=trap", "probe=spare"];
    let args = [&["assign", "--strategy", &hostile, "--json", "--config"][..], &spared].concat();
    let output = assignor(&args, GROUP.as_bytes());
    assert_eq!(json(&output)["outcome"], "plugin");
    assert!(stderr(&output).contains("no user data"), "{}", stderr(&output));
}

#[test]
fn a_strategy_that_asks_for_lag_is_answered_from_the_description() {
    // Traps if it is told end offsets, and declines with the text of the error else.
    const ASK: &str = "
        (call $end-offsets (i32.const 0) (i32.const 200))
        (if (i32.eqz (i32.load8_u (i32.const 200))) (then unreachable))
        (i32.store (i32.const 0) (i32.const 1))
        (call $pair (i32.const 4) (i32.load (i32.const 204)) (i32.load (i32.const 208)))
        (i32.const 0)";
    const IMPORT: &str = "(module
        (import \"assignor:strategy/lag@0.1.0\" \"end-offsets\" (func $end-offsets (param i32 i32)))";
    let text = include_str!("../../host/src/bin/assignor/demo/strategy.wat")
        .replace("(module", IMPORT)
        .replace("{{assign}}", ASK)
        .replace("{{name}}", "asks")
        .replace("{{name-length}}", "4")
        .replace("{{protocols}}", r"\00")
        .replace("{{protocols-length}}", "1");
    let component = assignor_host::component::encode_plain(&wat::parse_str(text).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("asks.wasm"), component).unwrap();
    let asked = |topic: &str| {
        let group = GROUP.replace(r#"{"partitions": 12}"#, topic);
        json(&assignor_in(dir.path(), &["assign", "--strategy", "asks.wasm", "--json"], group.as_bytes()))
    };
    assert_eq!(asked(r#"{"partitions": 2, "lag": {"end": [7, 9]}}"#)["cause"]["code"], "trap");
    let declined = asked(r#"{"partitions": 2}"#);
    assert_eq!(declined["cause"]["code"], "declined");
    let message = declined["cause"]["message"].as_str().unwrap();
    assert!(message.contains("unavailable") && message.contains("topics.t.lag.end"), "{message}");
}

/// c1 and c2 own everything; c3 has just come.
const OWNED: &str = r#"{
    "topics": {"t": {"partitions": 6}},
    "members": [
        {"id": "c1", "topics": ["t"], "owned": {"t": [0, 2, 4]}, "generation": 7},
        {"id": "c2", "topics": ["t"], "owned": {"t": [1, 3, 5]}, "generation": 7},
        {"id": "c3", "topics": ["t"]}
    ]
}"#;

fn assignments(strategy: &str, group: &str) -> Value {
    let output = assignor(&["assign", "--strategy", strategy, "--json"], group.as_bytes());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    json(&output).get_mut("assignments").unwrap().take()
}

#[test]
fn members_of_sticky_tell_in_user_data_what_they_owned_and_have_given_it_up() {
    let moved = json!({"c1": {"t": [0, 2]}, "c2": {"t": [1, 3]}, "c3": {"t": [4, 5]}});
    assert_eq!(assignments("sticky", OWNED), moved);
    // c2's own user data, from an older generation, names what c1 owned: t-0 and t-4.
    let told = "AAAAAQABdAAAAAIAAAAAAAAABAAAAAU=";
    let other =
        OWNED.replace(r#"[1, 3, 5]}, "generation": 7"#, &format!(r#"[1, 3, 5]}}, "user_data": "{told}""#));
    assert_ne!(other, OWNED);
    let answer = assignments("sticky", &other);
    assert_eq!(answer["c1"], json!({"t": [0, 2]}));
    // From generation 9 they are its own.
    let newer = other.replace("AAAAAU=", "AAAAAk=");
    assert_eq!(assignments("sticky", &newer)["c2"], json!({"t": [0, 4]}));
}

#[test]
fn cooperative_sticky_holds_back_what_its_owners_must_give_up_first() {
    let kept = json!({"c1": {"t": [0, 2]}, "c2": {"t": [1, 3]}, "c3": {}});
    assert_eq!(assignments("cooperative-sticky", OWNED), kept);
    let text = stdout(&assignor(&["assign", "--strategy", "cooperative-sticky"], OWNED.as_bytes()));
    assert!(text.contains("2 partitions are held back"), "{text}");
}

#[test]
fn racks_of_nodes_and_members_count_for_built_ins() {
    let group = r#"{
        "nodes": [{"id": 1, "rack": "r1"}, {"id": 2, "rack": "r2"}],
        "topics": {"t": {"partitions": 4, "replicas": [[2], [1], [2], [1]]}},
        "members": [{"id": "c1", "topics": ["t"], "rack": "r1"}, {"id": "c2", "topics": ["t"], "rack": "r2"}]
    }"#;
    let matched = json!({"c1": {"t": [1, 3]}, "c2": {"t": [0, 2]}});
    for strategy in ["range", "sticky", "cooperative-sticky"] {
        assert_eq!(assignments(strategy, group), matched, "{strategy}");
    }
}

#[test]
fn a_plugin_may_be_given_with_the_name_that_it_should_have() {
    let named = |name: &str| format!("{name}={}", weighted());
    assert_eq!(assignments(&named("weighted"), GROUP)["c1"]["t"].as_array().unwrap().len(), 2);
    let output = assignor(&["assign", "--strategy", &named("other"), "--json"], GROUP.as_bytes());
    assert_eq!(json(&output)["cause"]["code"], "name-mismatch");
    let output = assignor(&["assign", "--strategy", &named("sticky")], GROUP.as_bytes());
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("reserved"), "{}", stderr(&output));
}

#[test]
fn a_built_in_goes_by_the_name_of_kafkas_class_as_in_a_consumers_configuration() {
    let class = "org.apache.kafka.clients.consumer.StickyAssignor";
    assert_eq!(assignments(class, OWNED), assignments("sticky", OWNED));
}

#[test]
fn no_strategy_at_all_is_bad_input() {
    let output = assignor(&["assign", "--strategy="], GROUP.as_bytes());
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("roundrobin"), "{}", stderr(&output));
}

#[test]
fn a_mistyped_built_in_is_bad_input() {
    let output = assignor(&["assign", "--strategy", "rnage"], GROUP.as_bytes());
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("rnage") && stderr(&output).contains("roundrobin"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bad_groups_are_refused_at_their_place() {
    for (group, place) in [
        ("", "the document"),
        ("{", "the document"),
        (r#"{"members": [{"id": "a", "topics": [], "wieght": 1}]}"#, "members[0].wieght"),
        (r#"{"members": [{"id": "a", "topics": []}, {"id": "a", "topics": []}]}"#, "members[1].id"),
        (
            r#"{"topics": {"t": {"partitions": 1}}, "members": [{"id": "a", "topics": ["t"], "owned": {"t": [1]}}]}"#,
            "members[0].owned.t[0]",
        ),
        (r#"{"topics": {"t": {"partitions": -1}}}"#, "topics.t.partitions"),
        (r#"{"topics": {"t": {"partitions": 99999999}}}"#, "topics.t.partitions"),
        (r#"{"members": [{"id": "a", "topics": [], "user_data": "?"}]}"#, "members[0].user_data"),
    ] {
        let output = assignor(&["assign", "--strategy", "range", "--json"], group.as_bytes());
        assert_eq!(code(&output), 2, "{group}");
        assert!(stderr(&output).contains(place), "{group}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    let missing = assignor(&["assign", "--strategy", "range", "--group", "no-such-file.json"], b"");
    assert_eq!(code(&missing), 2);
    assert!(stderr(&missing).contains("no-such-file.json"), "{}", stderr(&missing));
}

#[test]
fn an_empty_group_is_decided() {
    let output = assignor(&["assign", "--strategy", "range", "--json"], b"{}");
    assert_eq!((code(&output), &json(&output)["assignments"]), (0, &json!({})));
}

#[test]
fn inspect_tells_what_a_good_component_is() {
    let output = assignor(&["inspect", &weighted(), "--json"], b"");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["name"], "weighted");
    assert_eq!(report["kind"], "component");
    assert_eq!(report["contract"], "0.1.0");
    assert_eq!(report["runs"], true);
    assert!(report["refusal"].is_null());
    assert!(report["protocols"].as_array().unwrap().contains(&json!("eager")));
    assert!(report["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(report["size"], std::fs::metadata(weighted()).unwrap().len());
    assert_eq!(report["exports"], json!(["assignor:strategy/strategy@0.1.0"]));
    assert_eq!(report["metadata"]["licenses"], "Apache-2.0");
    let text = stdout(&assignor(&["inspect", &weighted()], b""));
    assert!(text.contains("this host would run it"), "{text}");
}

#[test]
fn inspect_explains_whatever_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let good = std::fs::read(weighted()).unwrap();
    let module = wat::parse_str(r#"(module (memory (export "memory") 1))"#).unwrap();
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let files: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "not-wasm"),
        ("text", b"(component)", "text"),
        ("module", &module, "core-module"),
        ("cut-off", &good[..good.len() / 2], "malformed"),
        ("noise", &noise, "not-wasm"),
        ("an-executable", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", "not-wasm"),
    ];
    for (name, bytes, _) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let all = files.iter().map(|(name, _, refusal)| (*name, *refusal));
    for (name, refusal) in all.chain([(".", "unreadable"), ("missing", "unreadable")]) {
        let output = assignor_in(dir.path(), &["inspect", name, "--json"], b"");
        assert_eq!(code(&output), 1, "{name}: {}", stderr(&output));
        let report = json(&output);
        assert_eq!(report["runs"], false, "{name}");
        assert_eq!(report["refusal"]["code"], refusal, "{name}: {report}");
        assert_eq!(keys(&report["refusal"]), ["advice", "code", "message"]);
        let text = stdout(&assignor_in(dir.path(), &["inspect", name], b""));
        assert!(text.contains("would not run it"), "{name}: {text}");
    }
    let module = json(&assignor_in(dir.path(), &["inspect", "module", "--json"], b""));
    assert_eq!((&module["kind"], &module["exports"]), (&json!("core-module"), &json!(["memory"])));
}

#[test]
fn the_demo_loses_nothing_and_lists_every_induced_failure() {
    let output = assignor(&["demo", "--strategy", &weighted(), "--seconds", "5", "--json"], b"");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let summary = json(&output);
    assert_eq!(keys(&summary), ["consumed", "fallbacks", "lost", "produced", "rebalances", "redelivered"]);
    assert_eq!(summary["lost"], 0);
    assert!(summary["produced"].as_u64().unwrap() > 0);
    assert_eq!(summary["produced"], summary["consumed"]);
    for cause in ["trap", "deadline", "plan-duplicate"] {
        assert!(summary["fallbacks"][cause].as_u64().unwrap_or(0) > 0, "{summary}");
    }
    // The good one, three broken ones, the good one.
    assert!(summary["rebalances"].as_u64().unwrap() >= 5, "{summary}");
    let told = stderr(&output);
    assert!(told.matches("decided by weighted").count() >= 2, "{told}");
    assert!(told.contains("decided by keep (fallback)"), "{told}");
    // Half of the partitions, whatever decides: a hiccup moves nothing, and the good one returns on all members.
    let heaviest = told.lines().filter_map(|line| line.split_once("weight 3, partitions "));
    let shares: BTreeSet<&str> = heaviest.filter_map(|(_, rest)| Some(rest.rsplit_once(", ")?.0)).collect();
    assert_eq!(shares.len(), 1, "{told}");
}

#[test]
fn the_demo_refuses_what_cannot_run() {
    let dir = tempfile::tempdir().unwrap();
    let missing = assignor_in(dir.path(), &["demo"], b"");
    assert_eq!(code(&missing), 2);
    assert!(stderr(&missing).contains("--strategy"), "{}", stderr(&missing));
    assert_eq!(code(&assignor_in(dir.path(), &["demo", "--strategy", "missing.wasm"], b"")), 2);
    std::fs::write(dir.path().join("text.wasm"), "(component)").unwrap();
    let text = assignor_in(dir.path(), &["demo", "--strategy", "text.wasm"], b"");
    assert_eq!(code(&text), 1);
    assert!(stderr(&text).contains("WebAssembly text"), "{}", stderr(&text));
}

#[test]
fn new_makes_a_project_and_never_writes_over_one() {
    let dir = tempfile::tempdir().unwrap();
    let output = assignor_in(dir.path(), &["new", "my.strategy", "--lang", "rust", "--json"], b"");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let project = dir.path().join("my.strategy");
    for file in json(&output)["files"].as_array().unwrap() {
        let text = std::fs::read_to_string(project.join(file.as_str().unwrap())).unwrap();
        assert!(!text.contains("{{"), "{file}: {text}");
    }
    assert!(std::fs::read_to_string(project.join("src/lib.rs")).unwrap().contains("\"my.strategy\""));
    assert!(std::fs::read_to_string(project.join("Cargo.toml")).unwrap().contains("name = \"my-strategy\""));

    let again = assignor_in(dir.path(), &["new", "my.strategy"], b"");
    assert_eq!(code(&again), 2);
    assert!(stderr(&again).contains("exists already"), "{}", stderr(&again));
    for name in ["../elsewhere", "range", "org.apache.kafka.clients.consumer.RangeAssignor", "", "a b"] {
        assert_eq!(code(&assignor_in(dir.path(), &["new", name], b"")), 2, "{name}");
    }
    let sdk = assignor_in(dir.path(), &["new", "other", "--sdk-path", "nowhere"], b"");
    assert_eq!(code(&sdk), 2);
    assert!(!dir.path().join("other").exists());
}

#[test]
fn build_refuses_what_is_no_strategys_project() {
    let dir = tempfile::tempdir().unwrap();
    let output = assignor_in(dir.path(), &["build", "."], b"");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("Cargo.toml"), "{}", stderr(&output));

    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/lib.rs"), "").unwrap();
    let manifest = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    let output = assignor_in(dir.path(), &["build"], b"");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("cdylib"), "{}", stderr(&output));
}
