//! The three sides, each in processes of its own that speak alike: a program takes a group's file and prints what it measured.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

/// A plan that takes longer has no figure but this.
pub(crate) const CAP: Duration = Duration::from_secs(60);

/// How long a program may take to read a group, or beyond its pace.
const GRACE: Duration = Duration::from_secs(90);

/// Who plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// We.
    Assignor,
    /// Kafka's Java client, in JMH.
    Java,
    /// franz-go.
    FranzGo,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Span {
    /// From decoded subscriptions to a plan by topic name.
    Plan,
    /// From the bytes of JoinGroup to the bytes of SyncGroup.
    Wire,
}

impl Span {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Wire => "wire",
        }
    }
}

/// How often and how long: intervals to warm up, intervals that count, each at least one plan long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Intervals before those that count.
    pub(crate) warm_ups: u32,
    /// Intervals that count.
    pub(crate) measured: u32,
    /// The least that an interval takes.
    pub(crate) milliseconds: u64,
}

impl Pace {
    /// All intervals together, unless a single plan takes longer.
    pub(crate) const MOST: Duration = Duration::from_secs(20);

    /// As many intervals for all sides. Java's are longer: its compiler needs time, and more of it than compiled programs.
    pub(crate) fn of(side: Side, span: Span, quick: bool) -> Self {
        let (warm_ups, measured) = match span {
            Span::Plan => (3, 5),
            Span::Wire => (2, 3),
        };
        let milliseconds = match (quick, side) {
            (true, _) => 200,
            (false, Side::Java) => 1_000,
            (false, _) => 300,
        };
        Self { warm_ups, measured, milliseconds }
    }

    /// Fewer intervals where a plan takes so long that all of them would take longer than [`MOST`](Self::MOST).
    pub(crate) fn for_plans_of(self, cold: Duration) -> Self {
        let interval = self.interval().max(cold).as_secs_f64();
        let fit = (Self::MOST.as_secs_f64() / interval) as u32;
        let wanted = self.warm_ups + self.measured;
        if fit >= wanted {
            return self;
        }
        let warm_ups = (self.warm_ups * fit / wanted).max(u32::from(fit > 1));
        Self { warm_ups, measured: fit.saturating_sub(warm_ups).max(1), ..self }
    }

    pub(crate) fn interval(self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }
}

/// One plan in a fresh process; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Once {
    /// How long it took, cold.
    pub(crate) nanoseconds: u64,
    /// How many partitions it assigns.
    pub(crate) assigned: u64,
    /// The process with the decoded group in memory.
    pub(crate) resident_before: u64,
    /// The process at its largest, after the plan.
    pub(crate) peak_resident: u64,
    /// What the plan allocated.
    pub(crate) allocated: u64,
}

/// Plans after warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The mean time of a plan in each measured interval.
    pub(crate) nanoseconds: Vec<f64>,
    /// What a plan allocates, in bytes, where the side measures it here too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allocated: Option<f64>,
}

impl Times {
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        if sorted.len().is_multiple_of(2) {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        } else {
            at(middle)
        }
    }

    /// From the least to the greatest, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        let least = self.nanoseconds.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.nanoseconds.iter().copied().fold(0.0, f64::max);
        (greatest - least) / self.median()
    }
}

/// Where the peers' programs are.
pub(crate) struct Programs {
    /// The jar with Kafka's side.
    pub(crate) jar: PathBuf,
    /// franz-go's side.
    pub(crate) franz_go: PathBuf,
}

impl Programs {
    /// The program of a side, which takes `once FILE` or `time FILE SPAN WARM-UPS MEASURED MILLISECONDS`.
    fn command(&self, side: Side) -> anyhow::Result<Command> {
        Ok(match side {
            Side::Assignor => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("side");
                command
            }
            Side::Java => {
                let mut command = Command::new("java");
                command.arg("-jar").arg(&self.jar);
                command
            }
            Side::FranzGo => Command::new(&self.franz_go),
        })
    }

    /// One plan in a fresh process; `None` if it takes longer than [`CAP`].
    pub(crate) fn once(&self, side: Side, file: &Path) -> anyhow::Result<Option<Once>> {
        let mut command = self.command(side)?;
        command.arg("once").arg(file);
        let mut running = Running::start(command)?;
        match running.line(GRACE)? {
            Some(line) if line == "ready" => {}
            Some(line) => bail!("{side:?} said {line:?} instead of \"ready\""),
            None => bail!("{side:?} took longer than {GRACE:?} to read the group"),
        }
        let Some(line) = running.line(CAP)? else { return Ok(None) };
        running.end()?;
        Ok(Some(serde_json::from_str(&line).with_context(|| format!("{side:?} said {line:?}"))?))
    }

    /// Plans after warm-up.
    pub(crate) fn time(&self, side: Side, file: &Path, span: Span, pace: Pace) -> anyhow::Result<Times> {
        let mut command = self.command(side)?;
        command.arg("time").arg(file).arg(span.name());
        command.args([pace.warm_ups.to_string(), pace.measured.to_string(), pace.milliseconds.to_string()]);
        let mut running = Running::start(command)?;
        let Some(line) = running.line(CAP + GRACE)? else { bail!("{side:?} does not end") };
        running.end()?;
        serde_json::from_str(&line).with_context(|| format!("{side:?} said {line:?}"))
    }
}

/// A program whose lines are waited for; it ends with this.
struct Running {
    child: Child,
    lines: mpsc::Receiver<std::io::Result<String>>,
    ended: bool,
}

impl Running {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        // A group of its own, since JMH starts processes too.
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn();
        let mut child = child.with_context(|| format!("cannot run {command:?}"))?;
        let output = BufReader::new(child.stdout.take().context("the output is not captured")?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().all(|line| sender.send(line).is_ok()));
        Ok(Self { child, lines, ended: false })
    }

    /// The next line; `None` if there is none within the time.
    fn line(&mut self, within: Duration) -> anyhow::Result<Option<String>> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(Some(line?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                self.ended = true;
                bail!("ended early: {}", self.child.wait()?)
            }
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        let until = Instant::now() + GRACE;
        // Its output ends when it does.
        while self.line_or_end(until)? {}
        let status = self.child.wait()?;
        self.ended = true;
        if !status.success() {
            bail!("failed: {status}");
        }
        Ok(())
    }

    fn line_or_end(&self, until: Instant) -> anyhow::Result<bool> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(_) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => Ok(false),
            Err(RecvTimeoutError::Timeout) => bail!("does not end"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let group = format!("-{}", self.child.id());
            // Nothing more can be done about a program that can't be ended.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = self.child.wait();
        }
    }
}
