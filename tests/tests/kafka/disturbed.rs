//! Groups that are disturbed, one script after the other. `cargo xtask test` plays those that find most; `cargo xtask disturb` plays all,
//! with every strategy, in an order that its `--seed` says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use assignor_tests::built;
use serde::Serialize;

use crate::disturbances::{ALL, Disturbance, Needs};
use crate::stage::{Cast, SESSION_MS, Stage};

/// The order of the full set, as a number; the set isn't played without.
const SEED: &str = "ASSIGNOR_DISTURB_SEED";
/// Where its results go, as JSON.
const RESULTS: &str = "ASSIGNOR_DISTURB_RESULTS";

/// Those that `cargo xtask test` plays.
const QUICK: [&str; 11] = [
    "the leader is killed",
    "a member stands still in poll, past its session",
    "the leader stands still, past its session",
    "the application is busy past max.poll.interval.ms",
    "a member's connections are cut",
    "the broker is stopped and started",
    "partitions are added",
    "a topic is deleted, and created later",
    "the plugin is replaced under load",
    "the plugin traps",
    "from 3 members to 1, to 20, and back",
];

/// What came of a disturbance.
#[derive(Default, Serialize)]
struct Row {
    strategy: String,
    disturbance: &'static str,
    /// Something was lost, or handed out after a lease, or never came to rest again: nothing else is told then.
    failed: bool,
    /// From the harm until every partition gave records again.
    recovered_ms: u128,
    /// Records that were acknowledged and read meanwhile, all of them, and how many deliveries were repetitions.
    acknowledged: u64,
    redelivered: u64,
    /// Until as many members as before were at rest.
    took_ms: u128,
}

/// Members whose strategy is a plugin, and can be replaced by a hostile one that does as it is configured.
fn with_plugin() -> Cast {
    let strategy = format!("weighted={}", built("plugins/weighted.wasm").display());
    Cast::ours(
        &strategy,
        &[
            ("assignor.strategy.weighted.name", "weighted"),
            // Within half a session, all together.
            ("assignor.limit.assign.ms", "150"),
            ("assignor.limit.call.ms", "50"),
            ("assignor.limit.host.wait.ms", "50"),
        ],
    )
}

/// Plays some disturbances. After one that fails the rest is played on another stage.
fn play<'a>(cast: &Cast, strategy: &str, list: impl IntoIterator<Item = &'a Disturbance>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut kept = None;
    for disturbance in list {
        eprintln!("{strategy}: {}", disturbance.name);
        let mut stage = kept.take().unwrap_or_else(|| Stage::new(cast.clone()));
        let played = catch_unwind(AssertUnwindSafe(move || {
            let before = stage.ledger.tally();
            let start = Instant::now();
            let mark = (disturbance.act)(&mut stage);
            let recovered = stage.recovered(mark);
            stage.restore();
            let after = stage.ledger.tally();
            let row = Row {
                strategy: strategy.to_owned(),
                disturbance: disturbance.name,
                failed: false,
                recovered_ms: recovered.as_millis(),
                acknowledged: after.acknowledged.saturating_sub(before.acknowledged),
                redelivered: after.redelivered - before.redelivered,
                took_ms: start.elapsed().as_millis(),
            };
            (stage, row)
        }));
        let row = match played {
            Ok((stage, row)) => {
                kept = Some(stage);
                row
            }
            // Why has been printed.
            Err(_) => Row {
                strategy: strategy.to_owned(),
                disturbance: disturbance.name,
                failed: true,
                ..Row::default()
            },
        };
        rows.push(row);
    }
    rows
}

/// Prints the table, and fails if anything has failed.
fn conclude(rows: &[Row]) {
    eprintln!("\nsession time-out {SESSION_MS} ms");
    eprintln!(
        "{:<18} {:<62} {:>10} {:>8} {:>11} {:>8}",
        "strategy", "disturbance", "recovered", "records", "redelivered", "took"
    );
    for row in rows {
        let name = format!("{:<18} {:<62}", row.strategy, row.disturbance);
        if row.failed {
            eprintln!("{name} FAILED");
            continue;
        }
        eprintln!(
            "{name} {:>7} ms {:>8} {:>11} {:>6.1} s",
            row.recovered_ms,
            row.acknowledged,
            row.redelivered,
            row.took_ms as f64 / 1e3
        );
    }
    let failed = rows.iter().filter(|row| row.failed).count();
    assert_eq!(failed, 0, "disturbances that failed");
    eprintln!("of each: lost 0, handed out after the lease 0, two owners 0");
}

#[test]
fn nothing_is_lost_and_nothing_is_handed_out_after_the_lease_whatever_happens_to_a_group() {
    let Ok(seed) = std::env::var(SEED) else {
        let chosen = QUICK.map(|name| ALL.iter().find(|d| d.name == name).unwrap());
        return conclude(&play(&with_plugin(), "weighted", chosen));
    };
    let mut random = fastrand::Rng::with_seed(seed.parse().unwrap());
    let casts = [
        ("weighted", with_plugin(), &[Needs::Any, Needs::Plugin][..]),
        ("range", Cast::ours("range", &[]), &[Needs::Any]),
        ("cooperative-sticky", Cast::ours("cooperative-sticky", &[]), &[Needs::Any]),
        ("sticky", Cast { nodes: 3, ..Cast::ours("sticky", &[]) }, &[Needs::Any, Needs::Nodes]),
    ];
    let mut rows = Vec::new();
    for (name, cast, plays) in casts {
        let mut list: Vec<&Disturbance> = ALL.iter().filter(|d| plays.contains(&d.needs)).collect();
        random.shuffle(&mut list);
        rows.extend(play(&cast, name, list));
    }
    if let Some(path) = std::env::var_os(RESULTS).map(PathBuf::from) {
        std::fs::write(&path, serde_json::to_vec_pretty(&rows).unwrap()).unwrap();
        eprintln!("\nwritten to {}", path.display());
    }
    conclude(&rows);
}
