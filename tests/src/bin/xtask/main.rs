//! `cargo xtask`: the project's task runner. One command sets up the machine and runs the demo, one runs every test.

mod class_data;
mod kafka_tests;
mod newcomer;
mod setup;
mod steps;
mod workspace;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  setup         install what is missing: Debian packages, the target or packages that guests are built with, cargo-deny
  plugins       build the example strategies and the tests' hostile ones to <target>/plugins/*.wasm
  java          build what the tests need of Kafka, its Java client and its broker, to <target>/java
  clients       build or install the tests' consumers of franz-go and kafka-python to <target>/clients
  newcomer      the README's path for newcomers, as it stands there
  demo          setup, plugins, then `assignor demo` with the weighted strategy; further arguments go to it
  test          setup, then formatting, lints, packages, licences, plugins, java, the README's path for newcomers, all tests,
                and Kafka's own of its assignors
  kafka-tests   setup, java, then Kafka's own unit tests of its assignors against the built-in strategies
  differential  setup, java, then the built-in strategies against Kafka's own; --groups N (20,000), --seed N
  disturb       setup, plugins, java, then groups on a real Kafka under every disturbance; --seed N for another order
  bench         setup, plugins, then the benchmarks; further arguments go to criterion
  peers         setup, java, then the built-in strategies timed against Kafka's own and franz-go's; --help shows what it takes
  rebalance-times
                setup, java, then how long groups take from joining to records: ours, Kafka's own client's and librdkafka's; --help
                shows what it takes

Every command line that is run is printed. <target> is cargo's target folder; CARGO_TARGET_DIR moves it.";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let begun = Instant::now();
    let mut took = Vec::new();
    let done = run(&command, &rest, &mut took);
    if !took.is_empty() {
        println!("\n== time of each step");
        took.iter().for_each(|(name, time)| println!("{:>7.1} s  {name}", time.as_secs_f64()));
        println!("{:>7.1} s  in all", begun.elapsed().as_secs_f64());
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, rest: &[String], took: &mut steps::Times) -> anyhow::Result<()> {
    if let "" | "help" | "--help" | "-h" = command {
        println!("{HELP}");
        return Ok(());
    }
    let workspace = Workspace::find()?;
    let takes_more = ["demo", "differential", "disturb", "bench", "peers", "rebalance-times"];
    if !rest.is_empty() && !takes_more.contains(&command) {
        bail!("takes no arguments");
    }
    let steps: &[steps::Step<'_>] = match command {
        "setup" => &[("setup", &setup::set_up)],
        "plugins" => &[("the command `assignor`", &steps::command), ("plugins", &steps::plugins)],
        "java" => &[("Kafka, client and broker", &steps::java)],
        "clients" => &[("other clients", &steps::clients)],
        "newcomer" => &[
            ("the command `assignor`", &steps::command),
            ("the README's path for newcomers", &newcomer::path),
        ],
        "demo" => &[
            ("setup", &setup::set_up),
            ("the command `assignor`", &steps::command),
            ("plugins", &steps::plugins),
            ("demo", &|workspace| steps::demo(workspace, rest)),
        ],
        "test" => &[
            ("setup", &setup::set_up),
            ("formatting", &steps::formatting),
            ("lints", &steps::lints),
            ("packages", &steps::packages),
            ("licences and sources of dependencies", &steps::deny),
            ("the command `assignor`", &steps::command),
            ("plugins", &steps::plugins),
            ("Kafka, client and broker", &steps::java),
            ("other clients", &steps::clients),
            ("the README's path for newcomers", &newcomer::path),
            ("tests", &steps::tests),
            ("Kafka's own tests", &kafka_tests::kafka_tests),
        ],
        "kafka-tests" => &[
            ("setup", &setup::set_up),
            ("Kafka, client and broker", &steps::java),
            ("Kafka's own tests", &kafka_tests::kafka_tests),
        ],
        "differential" => &[
            ("setup", &setup::set_up),
            ("Kafka, client and broker", &steps::java),
            ("the built-in strategies against Kafka's", &|workspace| steps::differential(workspace, rest)),
        ],
        "disturb" => &[
            ("setup", &setup::set_up),
            ("the command `assignor`", &steps::command),
            ("plugins", &steps::plugins),
            ("Kafka, client and broker", &steps::java),
            ("disturbances", &|workspace| steps::disturb(workspace, rest)),
        ],
        "bench" => &[
            ("setup", &setup::set_up),
            ("the command `assignor`", &steps::command),
            ("plugins", &steps::plugins),
            ("benchmarks", &|workspace| steps::benchmarks(workspace, rest)),
        ],
        "peers" => &[
            ("setup", &setup::set_up),
            ("Kafka, client and broker", &steps::java),
            ("franz-go", &steps::franz_go),
            ("the built-in strategies against their peers", &|workspace| steps::peers(workspace, rest)),
        ],
        "rebalance-times" => &[
            ("setup", &setup::set_up),
            ("Kafka, client and broker", &steps::java),
            ("rebalance times", &|workspace| steps::rebalance_times(workspace, rest)),
        ],
        _ => bail!("there is no such command; see `cargo xtask help`"),
    };
    for (index, (name, step)) in steps.iter().enumerate() {
        println!("\n== [{}/{}] {name}", index + 1, steps.len());
        let begun = Instant::now();
        let done = step(&workspace);
        took.push(((*name).to_owned(), begun.elapsed()));
        done?;
    }
    Ok(())
}
