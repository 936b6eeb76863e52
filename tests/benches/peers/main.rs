//! The native strategies against their peers, Kafka's Java client and franz-go: the same groups, the same spans, the same run.
//!
//! `cargo xtask peers` builds the peers' programs and runs this.
#![allow(clippy::cast_possible_truncation, reason = "times and sizes are far below what their types hold")]

mod cell;
mod input;
mod machine;
mod matrix;
mod ours;
mod page;
mod plot;
mod results;
mod side;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};

use crate::cell::{Cause, Cell};
use crate::input::Input;
use crate::machine::Machine;
use crate::matrix::{Extent, cells};
use crate::results::{Measured, Outcome, Results};
use crate::side::{Pace, Programs, Span};

/// Times the native strategies against Kafka's Java client and franz-go on the same groups.
///
/// A plan that takes more than 60 s has no figure but this. Results go to <target>/peers/results.json after every group.
#[derive(Parser)]
#[command(name = "cargo xtask peers", args_conflicts_with_subcommands = true)]
struct Args {
    /// A few small groups: minutes, and no results for the documentation.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every shape of Kafka's benchmark, more than a thousand: hours.
    #[arg(long)]
    full: bool,
    /// Only groups whose name contains all of these words; `--list` shows the names.
    #[arg(long, num_args = 1.., value_name = "WORD")]
    filter: Vec<String>,
    /// Show the groups and measure nothing.
    #[arg(long)]
    list: bool,
    /// Write the results to host/docs afterwards.
    #[arg(long, conflicts_with_all = ["quick", "filter", "list"])]
    write: bool,
    /// Write the last run's results to host/docs and measure nothing.
    #[arg(long, conflicts_with_all = ["quick", "full", "filter", "list", "write"])]
    render: bool,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Our side of one measurement.
    #[command(subcommand, hide = true)]
    Side(Task),
}

#[derive(Subcommand)]
enum Task {
    /// One plan in this fresh process.
    Once { file: PathBuf },
    /// Plans after warm-up.
    Time { file: PathBuf, span: Span, warm_ups: u32, measured: u32, milliseconds: u64 },
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.role {
        Some(Role::Side(Task::Once { file })) => {
            let once = ours::once(Input::read(&file)?, || println!("ready"))?;
            println!("{}", serde_json::to_string(&once)?);
        }
        Some(Role::Side(Task::Time { file, span, warm_ups, measured, milliseconds })) => {
            let pace = Pace { warm_ups, measured, milliseconds };
            println!("{}", serde_json::to_string(&ours::time(Input::read(&file)?, span, pace)?)?);
        }
        None => compare(&args)?,
    }
    Ok(())
}

fn compare(args: &Args) -> anyhow::Result<()> {
    let folder = target()?.join("peers");
    std::fs::create_dir_all(&folder)?;
    let kept = folder.join("results.json");
    if args.render {
        let results = serde_json::from_slice(&std::fs::read(&kept).context("there was no run yet")?)?;
        return write(&results);
    }
    let extent = match (args.quick, args.full) {
        (true, _) => Extent::Quick,
        (_, true) => Extent::Full,
        _ => Extent::Default,
    };
    let mut cells = cells(extent);
    cells.retain(|cell| args.filter.iter().all(|word| cell.name().contains(word.as_str())));
    if args.list {
        cells.iter().for_each(|cell| println!("{}", cell.name()));
        println!("{} groups", cells.len());
        return Ok(());
    }
    if cells.is_empty() {
        bail!("no group's name contains all of {:?}; --list shows them", args.filter);
    }
    let programs = Programs {
        jar: target()?.join("java/benchmark/benchmark.jar"),
        franz_go: folder.join("sticky-bench"),
    };
    let mut results = Results { machine: Machine::of_this(), seconds: 0, cells: Vec::new() };
    let begun = Instant::now();
    let group = folder.join("group");
    for (done, cell) in cells.iter().enumerate() {
        println!("[{}/{}] {}", done + 1, cells.len(), cell.name());
        let outcomes = measure(cell, &programs, args.quick, &group)
            .with_context(|| format!("{} (the group is in {})", cell.name(), group.display()))?;
        results.cells.push(Measured { cell: cell.clone(), outcomes });
        results.seconds = begun.elapsed().as_secs();
        std::fs::write(&kept, serde_json::to_vec_pretty(&results)?)?;
        let left = begun.elapsed().as_secs_f64() / (done + 1) as f64 * (cells.len() - done - 1) as f64;
        println!("    {} s so far, about {left:.0} s left", results.seconds);
    }
    std::fs::remove_file(&group)?;
    println!("\n{}", page::summary(&results));
    println!("{}", kept.display());
    if args.write { write(&results) } else { Ok(()) }
}

/// Measures one cell on each of its sides.
fn measure(cell: &Cell, programs: &Programs, quick: bool, file: &Path) -> anyhow::Result<Vec<Outcome>> {
    cell.input()?.write(file)?;
    let mut outcomes = Vec::new();
    for &side in &cell.sides {
        let mut outcome = Outcome { side, once: programs.once(side, file)?, plan: None, wire: None };
        if let Some(once) = &outcome.once {
            let all = cell.all_partitions() as u64;
            if cell.cause == Cause::First && once.assigned != all {
                bail!("{side:?} assigned {} of {all} partitions", once.assigned);
            }
            for &span in &cell.spans {
                let pace = Pace::of(side, span, quick).for_plans_of(Duration::from_nanos(once.nanoseconds));
                let times = Some(programs.time(side, file, span, pace)?);
                match span {
                    Span::Plan => outcome.plan = times,
                    Span::Wire => outcome.wire = times,
                }
            }
        }
        println!("    {}", outcome.shown());
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Writes the page and its pictures.
fn write(results: &Results) -> anyhow::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/docs");
    std::fs::create_dir_all(&docs)?;
    plot::growth(results, &docs.join("benchmarks-growth.svg"))?;
    plot::ratios(results, &docs.join("benchmarks-ratios.svg"))?;
    std::fs::write(docs.join("benchmarks.md"), page::page(results))?;
    println!("written: {}", docs.join("benchmarks.md").display());
    Ok(())
}

/// Cargo's target folder: this is `<target>/<profile>/deps/<name>`.
fn target() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.ancestors().nth(3).context("cargo's target folder")?.to_owned())
}
