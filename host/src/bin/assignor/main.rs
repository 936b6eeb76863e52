//! The `assignor` command: write, build, look into and try out partition assignment strategies, and look at live groups.

mod anatomy;
mod assign;
mod build;
mod consume;
mod demo;
mod files;
mod group;
mod inspect;
mod new;
mod properties;
mod toolchain;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What every command's exit code means; shown by each `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it does not work: a component that is not fit to run, a build that failed, records lost, a group that can't be had
  2  bad input: a wrong argument, a file that is not what it should be (the message names the place)
  3  `assign --strict` only: the fallback decided, not the strategy";

/// Kafka partition assignors as WebAssembly components: write one, build it, look into it, try it out, consume with it.
#[derive(Parser)]
#[command(name = "assignor", version, about, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log lines to standard error: error, warn, info, debug or trace, also per module (`assignor_host=debug`).
    /// [default: warn; for demo and consume: off]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    New(new::New),
    Build(build::Build),
    Inspect(inspect::Inspect),
    Assign(assign::Assign),
    Consume(consume::Consume),
    Group(group::Describe),
    Demo(demo::Demo),
}

/// Marks an error as the caller's: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct BadInput(anyhow::Error);

/// An error with exit code 2.
fn bad_input(error: impl Into<anyhow::Error>) -> anyhow::Error {
    BadInput(error.into()).into()
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = cli.log.as_deref().unwrap_or(match &cli.command {
        // What happens is shown.
        Command::Demo(_) | Command::Consume(consume::Consume { quiet: false, .. }) => "off",
        _ => "warn",
    });
    let filter = match tracing_subscriber::EnvFilter::try_new(log) {
        Ok(filter) => filter,
        Err(e) => return complain(&bad_input(anyhow::anyhow!("--log {log:?}: {e}"))),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = match cli.command {
        Command::New(command) => command.run(),
        Command::Build(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Assign(command) => command.run(),
        Command::Consume(command) => command.run(),
        Command::Group(command) => command.run(),
        Command::Demo(command) => command.run(),
    };
    done.unwrap_or_else(|e| complain(&e))
}

fn complain(error: &anyhow::Error) -> ExitCode {
    // Nobody left to read it: nothing to do about that.
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(if error.is::<BadInput>() { 2 } else { 1 })
}

/// Writes to standard output: the text for people, or the value as one line of JSON for programs.
fn print(json: bool, value: &impl serde::Serialize, text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(value)?)?
    } else {
        write!(out, "{text}")?
    }
    Ok(out.flush()?)
}
