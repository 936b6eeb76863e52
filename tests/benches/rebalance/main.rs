//! How long a group takes from joining to records: ours, Java's and librdkafka's, on the same broker, in the same run.
//! `cargo xtask rebalance-times` builds what is needed, and runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what is shared with tests panics as tests do"
)]

// What tests have for real brokers and for members of other clients, not all of which is wanted here.
#[allow(dead_code, unused_imports)]
#[path = "../../tests/kafka/admin.rs"]
mod admin;
#[allow(dead_code)]
#[path = "../../tests/kafka/broker.rs"]
mod broker;
#[allow(dead_code)]
#[path = "../../tests/kafka/librdkafka.rs"]
mod librdkafka;
#[allow(dead_code)]
#[path = "../../tests/kafka/lines.rs"]
mod lines;
#[path = "../peers/machine.rs"]
mod machine;
#[path = "../../tests/kafka/ours.rs"]
mod ours;
mod page;
#[allow(dead_code)]
#[path = "../../tests/kafka/process.rs"]
mod process;
#[path = "../../tests/kafka/program.rs"]
mod program;
mod round;
#[allow(dead_code)]
#[path = "../../tests/kafka/troupe.rs"]
mod troupe;
#[allow(dead_code)]
#[path = "../../tests/kafka/wire.rs"]
mod wire;

use std::path::PathBuf;

use clap::Parser;

use crate::broker::{Cluster, Options};
use crate::page::Run;
use crate::round::{Cell, round};
use crate::troupe::{Troupe, Whose};

/// The clients that are compared.
const CLIENTS: [Whose; 3] = [Whose::Ours, Whose::Java, Whose::Librdkafka];

/// Prints how long groups take from joining to records, and writes it down as JSON.
#[derive(Parser)]
#[command(name = "rebalance-times")]
struct Args {
    /// How many members join at once
    #[arg(long, value_delimiter = ',', default_values_t = [3, 20, 100])]
    members: Vec<usize>,
    /// How often each group is made
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// heartbeat.interval.ms: members hear of a rebalance by their next heartbeat
    #[arg(long, value_delimiter = ',', default_values_t = [3000, 100])]
    heartbeats: Vec<u32>,
    /// Strategies, by the names of their protocols
    #[arg(long, value_delimiter = ',', default_values_t = ["range".to_owned(), "cooperative-sticky".to_owned()])]
    strategies: Vec<String>,
    /// Where to write the JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Cargo gives it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    program::run_if_asked();
    let args = Args::parse();
    let machine = machine::Machine::of_this();
    let cluster = Cluster::start(&Options::nodes(1));
    let admin = cluster.admin();
    for &members in &args.members {
        round::topic(&cluster, &admin, members);
    }
    let mut cells: Vec<Cell> = Vec::new();
    for strategy in &args.strategies {
        for &heartbeat in &args.heartbeats {
            for &members in &args.members {
                for whose in CLIENTS {
                    cells.push(Cell::new(strategy, heartbeat, members, whose));
                }
            }
        }
    }
    let folder = cluster.folder();
    let troupes = CLIENTS
        .map(|whose| (whose, Troupe::start(whose, &[], &folder.join(format!("{}.log", whose.name())))));
    // The clients take turns, so that what else happens on the machine meets all of them; the first turn warms up.
    for turn in 0..=args.rounds {
        for cell in &mut cells {
            let (_, troupe) = troupes.iter().find(|(whose, _)| *whose == cell.whose).unwrap();
            let times = round(&cluster, troupe, cell, turn);
            eprintln!("{turn}: {}: {times:?}", cell.title());
            if turn > 0 {
                cell.rounds.push(times);
            }
        }
    }
    let run = Run { machine, cells };
    println!("{}", run.table());
    if let Some(path) = args.json {
        std::fs::write(&path, serde_json::to_string_pretty(&run).unwrap()).unwrap();
        eprintln!("written: {}", path.display());
    }
}
