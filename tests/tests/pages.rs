//! Pages of the documentation that name tests.
#![allow(clippy::unwrap_used, reason = "the helpers of tests panic as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PREFIXES: [&str; 8] = [
    "aiokafka_",
    "franz_go_",
    "kafka_",
    "kafkajs_",
    "lag_based_assignor_",
    "librdkafka_",
    "sarama_",
    "kafka_python_",
];

/// What says of itself, next to the departures, that something is right.
const NOT_A_DEPARTURE: &str = "under_other_names_range_is_the_same";

/// Names that begin as an incident's test does: with the project's name and a number.
fn is_incident(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The names of incidents' tests in the sources below a folder.
fn tests_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
            found.extend(names.filter(|name| is_incident(name)).map(str::to_owned));
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn the_page_of_departures_names_each_of_their_tests_and_no_other() {
    let source = fs::read_to_string(root().join("tests/tests/differential/known.rs")).unwrap();
    let tests = source.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next());
    let tests: BTreeSet<&str> = tests.filter(|name| *name != NOT_A_DEPARTURE).collect();
    let page = fs::read_to_string(root().join("host/docs/departures.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit('`').next());
    assert_eq!(rows.collect::<BTreeSet<&str>>(), tests);
}

#[test]
fn the_page_of_incidents_names_each_of_their_tests_and_no_other() {
    let mut tests = BTreeSet::new();
    for folder in ["host/src", "guest-sdk/src", "plugins", "tests/src", "tests/tests"] {
        tests_in(&root().join(folder), &mut tests);
    }
    let page = fs::read_to_string(root().join("host/docs/incidents.md")).unwrap();
    let named: BTreeSet<String> =
        page.split('`').filter(|name| is_incident(name)).map(str::to_owned).collect();
    let (unlisted, gone): (Vec<_>, Vec<_>) =
        (tests.difference(&named).collect(), named.difference(&tests).collect());
    assert!(
        !named.is_empty() && unlisted.is_empty() && gone.is_empty(),
        "not on the page: {unlisted:?}; no tests: {gone:?}"
    );
}
