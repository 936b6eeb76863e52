//! The README's path for newcomers, run as it stands there: from nothing to a strategy of one's own that decides a live group.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::workspace::Workspace;

/// Stands above each block of commands that is run.
const MARK: &str = "<!-- run by cargo xtask test -->";

/// The strategy's name in the README.
const STRATEGY: &str = "my-strategy";

pub(crate) fn path(workspace: &Workspace) -> anyhow::Result<()> {
    let readme = std::fs::read_to_string(workspace.root.join("README.md"))?;
    let commands = marked_blocks(&readme)?;
    let folder = workspace.target.join("newcomer");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    // The README's commands begin in the checkout and go on beside it.
    let checkout = folder.join("assignor");
    symlink(&workspace.root, &checkout)?;

    // As they are typed, stopping at the first that fails; `cd ..` out of a link leads to where the link is.
    let script = format!("set -euo pipefail\ncd '{}'\nset -x\n{commands}", checkout.display());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        std::iter::once(workspace.target.join("debug")).chain(std::env::split_paths(&path)),
    )?;
    let mut bash = workspace.command("bash", &["-c", &script]);
    bash.env("PATH", path).env("CARGO_TARGET_DIR", workspace.guests()).stdin(Stdio::null());
    let output = run_and_keep(&mut bash)?;

    let strategy = std::fs::read_to_string(folder.join(STRATEGY).join("src/lib.rs"))?;
    let lines = strategy.lines().count();
    if lines >= 40 {
        bail!("the strategy has {lines} lines; the README says under 40");
    }
    let decided = output.matches(&format!("decided by {STRATEGY}")).count();
    if decided == 0 {
        bail!("the output does not say that {STRATEGY} decided");
    }
    println!("{STRATEGY}: {lines} lines of Rust, decided {decided} times");
    Ok(())
}

/// Runs a command whose output is both shown as it comes and returned.
fn run_and_keep(command: &mut Command) -> anyhow::Result<String> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut kept = String::new();
    for line in BufReader::new(child.stdout.take().context("the output is not captured")?).lines() {
        let line = line?;
        println!("{line}");
        kept.push_str(&line);
        kept.push('\n');
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("a command of the README failed: {status}");
    }
    Ok(kept)
}

/// The commands of all marked blocks.
fn marked_blocks(readme: &str) -> anyhow::Result<String> {
    let blocks = readme.split(MARK).skip(1).map(|after| {
        let block = after
            .trim_start()
            .strip_prefix("```sh\n")
            .context("a mark without a block of commands below it")?;
        let (commands, _) = block.split_once("```").context("a block without end")?;
        Ok(commands)
    });
    let commands = blocks.collect::<anyhow::Result<Vec<_>>>()?.concat();
    if commands.is_empty() {
        bail!("README.md has no block marked {MARK:?}");
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_blocks_and_only_those_are_run() {
        let readme =
            format!("```sh\nno\n```\n{MARK}\n```sh\nyes\n```\ntext\n\n{MARK}\n\n```sh\nyes too\n```\n");
        assert_eq!(marked_blocks(&readme).unwrap(), "yes\nyes too\n");
        assert!(marked_blocks("```sh\nno\n```").is_err());
        assert!(marked_blocks(MARK).is_err());
    }
}
