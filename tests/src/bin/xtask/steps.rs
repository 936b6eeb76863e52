//! What the commands are made of.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::class_data;
use crate::workspace::{Workspace, run, succeeds};

/// A step's name and what it does.
pub(crate) type Step<'a> = (&'a str, &'a dyn Fn(&Workspace) -> anyhow::Result<()>);

/// How long each step took.
pub(crate) type Times = Vec<(String, Duration)>;

/// The features that everything in the workspace is built with, so that all steps share one build.
pub(crate) const FEATURES: [&str; 2] = ["--features", "assignor-host/cli"];

/// The crates that are published.
const PUBLISHED: [&str; 2] = ["assignor-guest-sdk", "assignor-host"];

/// The guests: their folders.
const GUESTS: [&str; 2] = ["plugins/weighted", "tests/hostile"];

pub(crate) fn formatting(workspace: &Workspace) -> anyhow::Result<()> {
    run(&mut workspace.cargo(&["fmt", "--all", "--check"]))
}

pub(crate) fn lints(workspace: &Workspace) -> anyhow::Result<()> {
    let all = ["clippy", "--workspace", "--all-targets"];
    run(workspace.cargo(&all).args(FEATURES).args(["--", "-D", "warnings"]))?;
    // Without its optional features, too: who only runs plugins compiles neither Kafka nor the command.
    run(&mut workspace.cargo(&["clippy", "--package", "assignor-host", "--", "-D", "warnings"]))
}

/// Both crates can be published, and the contract travels with them.
pub(crate) fn packages(workspace: &Workspace) -> anyhow::Result<()> {
    let package = ["package", "--allow-dirty", "--package"];
    run(workspace.cargo(&package).arg("assignor-guest-sdk"))?;
    // Not verified: that would compile wasmtime once more, in a folder of its own.
    run(workspace.cargo(&package).args(["assignor-host", "--no-verify"]))?;
    let contract = std::fs::read(workspace.root.join("wit/0.1.0/assignor.wit"))?;
    for name in PUBLISHED {
        let folder = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let archive = workspace.target.join("package").join(format!("{folder}.crate"));
        // In the checkout `wit` is a link; in the archive it must be the file itself.
        let inside = format!("{folder}/wit/0.1.0/assignor.wit");
        let mut tar = Command::new("tar");
        let found =
            tar.arg("--extract").arg("--gzip").arg("--to-stdout").arg("--file").arg(&archive).arg(&inside);
        if found.output().context("cannot run tar")?.stdout != contract {
            bail!("{}: {inside} is not the contract", archive.display());
        }
        println!("{}: the contract is inside", archive.display());
    }
    Ok(())
}

pub(crate) fn deny(workspace: &Workspace) -> anyhow::Result<()> {
    println!(
        "(without the advisories: their database would have to be fetched; run `cargo deny check advisories` for them)"
    );
    let mut deny =
        workspace.command(deny_program(workspace), &["--workspace", "check", "bans", "licenses", "sources"]);
    run(&mut deny)
}

/// cargo-deny, of the project's tools or of the machine.
pub(crate) fn deny_program(workspace: &Workspace) -> PathBuf {
    let own = workspace.tools().join("bin/cargo-deny");
    if succeeds(Command::new(&own).arg("--version")) { own } else { "cargo-deny".into() }
}

pub(crate) fn command(workspace: &Workspace) -> anyhow::Result<()> {
    // With the tests, although only the command is wanted yet: dependencies then have the same features as in all other
    // steps, and are built once.
    run(workspace.cargo(&["build", "--workspace", "--bins", "--tests"]).args(FEATURES))
}

pub(crate) fn plugins(workspace: &Workspace) -> anyhow::Result<()> {
    std::fs::create_dir_all(workspace.plugins())?;
    for guest in GUESTS {
        let name = guest.rsplit('/').next().unwrap_or(guest);
        let component = workspace.plugins().join(format!("{name}.wasm"));
        let mut build = workspace.command(workspace.assignor(), &["build", guest, "--output"]);
        run(build.arg(component).env("CARGO_TARGET_DIR", workspace.guests()))?;
    }
    Ok(())
}

/// What the tests need of Kafka, its Java client and its broker, each part with its dependencies: `<target>/java/<part>/<part>.jar`. Maven
/// fetches what it doesn't have yet, and only that.
pub(crate) fn java(workspace: &Workspace) -> anyhow::Result<()> {
    let mut maven = workspace.command("mvn", &["--batch-mode", "--quiet", "--file", "tests/java"]);
    run(maven.arg(format!("-Dtarget={}", workspace.target.display())).arg("package"))?;
    class_data::archive(workspace)
}

/// Programs whose consumers are of other clients than Kafka's own: `<target>/clients/group-member` of franz-go, and a Python that has
/// kafka-python, `<target>/clients/python`. Go and pip fetch what they don't have yet, and only that.
pub(crate) fn clients(workspace: &Workspace) -> anyhow::Result<()> {
    let clients = workspace.target.join("clients");
    let mut go = workspace.command("go", &["build", "-C", "tests/go/group-member", "-trimpath", "-o"]);
    // An older Go fetches the one that is asked for.
    run(go.arg(clients.join("group-member")).env("GOTOOLCHAIN", "auto"))?;
    let python = clients.join("python");
    if !succeeds(Command::new(python.join("bin/python")).arg("--version")) {
        run(workspace.command("python3", &["-m", "venv", "--clear"]).arg(&python))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(workspace.command(python.join("bin/python"), &install).arg("tests/python/requirements.txt"))
}

pub(crate) fn demo(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    let mut demo = workspace.command(workspace.assignor(), &["demo"]);
    if !rest.iter().any(|arg| arg.starts_with("--strategy")) {
        demo.arg("--strategy").arg(workspace.plugins().join("weighted.wasm"));
    }
    run(demo.args(rest))
}

pub(crate) fn tests(workspace: &Workspace) -> anyhow::Result<()> {
    // Doc tests are part of it.
    run(workspace.cargo(&["test", "--workspace", "--no-fail-fast"]).args(FEATURES))
}

/// The tests of the built-in strategies against Kafka's own, with as many groups as wanted.
pub(crate) fn differential(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    let mut cargo = workspace.cargo(&["test", "--workspace", "--test", "differential"]);
    cargo.args(FEATURES).args(["--", "--nocapture"]).env("ASSIGNOR_DIFFERENTIAL_GROUPS", "20000");
    for option in rest.chunks(2) {
        match option {
            [name, value] if name == "--groups" => cargo.env("ASSIGNOR_DIFFERENTIAL_GROUPS", value),
            [name, value] if name == "--seed" => cargo.env("ASSIGNOR_DIFFERENTIAL_SEED", value),
            _ => bail!("takes --groups N and --seed N, not {}", option.join(" ")),
        };
    }
    run(&mut cargo)
}

/// All disturbances of groups on a real Kafka; the results are in `<target>/disturbances.json`, too.
pub(crate) fn disturb(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    let seed = match rest {
        [] => "1",
        [name, value] if name == "--seed" => value,
        _ => bail!("takes --seed N, not {}", rest.join(" ")),
    };
    let mut cargo = workspace.cargo(&["test", "--workspace", "--test", "kafka"]);
    cargo.args(FEATURES).args(["--", "--nocapture", "disturbed::"]).env("ASSIGNOR_DISTURB_SEED", seed);
    run(cargo.env("ASSIGNOR_DISTURB_RESULTS", workspace.target.join("disturbances.json")))
}

pub(crate) fn benchmarks(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    run(workspace.cargo(&["bench", "--package", "assignor-tests", "--bench", "assign"]).args(rest))
}

/// The program that times franz-go: `<target>/peers/sticky-bench`. Go fetches what it doesn't have yet, and only that.
pub(crate) fn franz_go(workspace: &Workspace) -> anyhow::Result<()> {
    let mut go = workspace.command("go", &["build", "-C", "tests/go/sticky-bench", "-trimpath", "-o"]);
    run(go.arg(workspace.target.join("peers/sticky-bench"))).context("Go 1.26 or later is needed")
}

pub(crate) fn peers(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    let bench = ["bench", "--package", "assignor-tests", "--bench", "peers", "--"];
    run(workspace.cargo(&bench).args(rest))
}

/// How long groups of ours, of Kafka's own client and of librdkafka take to read, written to `<target>/rebalance-times.json`.
pub(crate) fn rebalance_times(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    let bench = ["bench", "--package", "assignor-tests", "--bench", "rebalance", "--", "--json"];
    run(workspace.cargo(&bench).arg(workspace.target.join("rebalance-times.json")).args(rest))
}
