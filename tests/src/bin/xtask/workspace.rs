//! Where everything is, and how commands are run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The checkout and cargo's target folder.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Of the running `cargo xtask`.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
        let root = Path::new(&manifest).parent().context("the workspace's folder")?.to_owned();
        // <target>/<profile>/xtask
        let target = std::env::current_exe()?.ancestors().nth(2).context("cargo's target folder")?.to_owned();
        Ok(Self { root, target })
    }

    /// The `assignor` command, as the step of that name builds it.
    pub(crate) fn assignor(&self) -> PathBuf {
        self.target.join("debug/assignor")
    }

    /// Where the built components are.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.target.join("plugins")
    }

    /// The target folder of all guests, shared so that their standard library is built once.
    pub(crate) fn guests(&self) -> PathBuf {
        self.target.join("guests")
    }

    /// Where tools are that are installed for this project only.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A command in the checkout's folder.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// cargo in the checkout's folder.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        self.command("cargo", args)
    }
}

/// Prints a command, runs it, and fails as it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{:?} failed: {status}", command.get_program());
    }
    Ok(())
}

/// Whether a command runs and succeeds; says nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let env = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.to_string_lossy(), value?.to_string_lossy())));
    let program = std::iter::once(command.get_program()).chain(command.get_args());
    env.chain(program.map(|part| quoted(&part.to_string_lossy()))).collect::<Vec<_>>().join(" ")
}

/// As it could be typed.
fn quoted(part: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !part.is_empty() && part.chars().all(plain) {
        part.to_owned()
    } else {
        format!("'{}'", part.replace('\'', r"'\''"))
    }
}
