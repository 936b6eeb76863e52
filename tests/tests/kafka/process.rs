//! Processes that tests freeze and thaw.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that stands still, until this is dropped. Should the test be killed meanwhile, it goes on, too, and finds out that
/// nobody is there any more.
pub(crate) struct Frozen {
    /// Thaws the process when its own standard input ends.
    watchdog: Child,
}

/// Stops a process where it is (SIGSTOP).
pub(crate) fn freeze(process: u32) -> Frozen {
    let watchdog = Command::new("sh")
        .args(["-c", "read -r _; kill -CONT \"$0\"", &process.to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let frozen = Frozen { watchdog };
    kill(Pid::from_raw(process.try_into().unwrap()), Signal::SIGSTOP).unwrap();
    let start = Instant::now();
    while state(process) != Some('T') {
        assert!(start.elapsed() < Duration::from_secs(10), "process {process} doesn't stop");
        std::thread::yield_now();
    }
    frozen
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        // It has nothing else to do, and nothing to say.
        let _ = self.watchdog.wait();
    }
}

/// What the kernel says a process does, by its letter in `proc(5)`.
fn state(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command's name, which may hold anything, ends with the last parenthesis.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The memory that a process holds at present, in bytes.
pub(crate) fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}
