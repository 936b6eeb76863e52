//! On what it was measured.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine and the versions of everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// In GiB.
    pub(crate) memory: u64,
    pub(crate) system: String,
    pub(crate) rust: String,
    pub(crate) java: String,
    pub(crate) go: String,
    pub(crate) commit: String,
    /// What else kept the machine busy when the run began: the load of the last minute.
    pub(crate) load: String,
}

impl Machine {
    pub(crate) fn of_this() -> Self {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let kibibytes: u64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: kibibytes.div_ceil(1024 * 1024),
            system: first_line("uname", &["-sm"]),
            rust: first_line("rustc", &["--version"]),
            java: first_line("java", &["--version"]),
            go: first_line("go", &["version"]),
            commit: first_line("git", &["describe", "--always", "--dirty"]),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// The first line that a command prints, or why it can't be had.
fn first_line(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned(),
        Err(error) => format!("{program}: {error}"),
    }
}
