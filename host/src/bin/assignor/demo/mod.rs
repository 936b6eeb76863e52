//! `assignor demo`: a live group, its strategy replaced by broken ones while records flow.

mod broken;
mod flow;
mod members;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use assignor_host::consumer::EmbeddedBroker;
use assignor_host::{Assignor as _, Limits, Plugin, Runtime, RuntimeOptions, read_component};

use self::broken::Fault;
use self::flow::{Flow, Tally};
use self::members::{Happening, Members};
use self::view::View;
use crate::{bad_input, print};

/// Shows a strategy decide a live consumer group, and the group go on while broken strategies take its place.
///
/// A broker inside this process, a topic of 12 partitions with records flowing, three consumers of the weights 1, 2 and 3
/// (configuration key `weight`). Then the strategy is replaced, under its own name, by one that traps, one that loops for ever and
/// one whose plan is broken; each time the native fallback decides and the cause is shown. At last the good one returns.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor demo --strategy my-strategy.wasm
  assignor demo --strategy my-strategy.wasm --seconds 60 --json | tail -n 1 | jq .lost

Log lines are off, since what happens is shown; --log warn turns them on.
With --json, standard output is one line, and what happens goes to standard error:
  {\"produced\": 9000, \"consumed\": 9000, \"redelivered\": 0, \"lost\": 0, \"rebalances\": 7, \"fallbacks\": {\"trap\": 1}}
consumed counts each record once, redelivered what came again; lost is what never came.

Exit codes: 0 nothing was lost, 1 records were lost, the file is not fit to run or the group did not settle, 2 bad input.")]
pub(crate) struct Demo {
    /// The strategy: the file of a component [default: plugins/weighted/weighted.wasm, where `assignor build plugins/weighted`
    /// puts it].
    #[arg(long, value_name = "FILE")]
    strategy: Option<PathBuf>,
    /// How long to let records flow, about.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// The topic, its partitions, and the consumers' weights.
const TOPIC: &str = "orders";
const PARTITIONS: u32 = 12;
const WEIGHTS: [u32; 3] = [1, 2, 3];

/// Where `assignor build plugins/weighted` puts it.
const WEIGHTED: &str = "plugins/weighted/weighted.wasm";

/// Time that a strategy has for a decision: shorter than a consumer's default, so that the one that loops is found out in a moment.
const ASSIGN_TIME: Duration = Duration::from_millis(500);

/// A group that has not settled by then won't.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// Records that have not come by then are lost.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// What it came to.
#[derive(serde::Serialize)]
struct Summary {
    produced: u64,
    consumed: u64,
    redelivered: u64,
    lost: u64,
    rebalances: usize,
    fallbacks: BTreeMap<&'static str, u64>,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let good = self.component()?;
        let mut limits = Limits::default();
        limits.assign_time = ASSIGN_TIME;
        let runtime = Runtime::new(RuntimeOptions { limits, cache: None })?;
        let component = runtime.compile(&good)?;
        let probed = Plugin::new(&component, BTreeMap::new())?;
        let (name, protocols) = (probed.name().to_owned(), probed.protocols().to_vec());

        let broker = Arc::new(EmbeddedBroker::start()?);
        broker.create_topic(TOPIC, PARTITIONS)?;
        let tally = Arc::new(Mutex::new(Tally::new(WEIGHTS.len())));
        let (happenings, happened) = channel();
        let flow = Flow::start(Arc::clone(&broker))?;
        let members = Members::start(&broker, &component, &tally, &happenings)?;
        let mut stage = Stage {
            view: View::new(&name, members.consumers(), Arc::clone(&tally), self.json),
            happened,
            begun: Instant::now(),
            phase: Duration::from_secs(self.seconds) / (2 + Fault::ALL.len() as u32),
            phases: 0,
        };

        stage.view.say(&format!("three consumers join the group; records flow into {PARTITIONS} partitions"));
        stage.play()?;
        for fault in Fault::ALL {
            stage.view.say(&format!("{name} is replaced by one that {}", fault.in_words()));
            members.replace(&fault.component(&name, &protocols)?)?;
            stage.play()?;
        }
        stage.view.say(&format!("the good {name} returns"));
        members.replace(&good)?;
        stage.play()?;

        let produced = flow.stop()?;
        stage.drain(&tally, produced)?;
        members.close()?;
        self.sum_up(&stage.view, &tally, produced)
    }

    /// The bytes of the strategy.
    fn component(&self) -> anyhow::Result<Vec<u8>> {
        let file = self.strategy.clone().unwrap_or_else(|| WEIGHTED.into());
        if self.strategy.is_none() && !file.exists() {
            return Err(bad_input(anyhow!(
                "name a strategy by --strategy FILE; there is no {WEIGHTED}, which `assignor build plugins/weighted` makes"
            )));
        }
        read_component(&file, Limits::default().component_bytes).map_err(bad_input)
    }

    fn sum_up(&self, view: &View, tally: &Mutex<Tally>, produced: u64) -> anyhow::Result<ExitCode> {
        let tally = flow::lock(tally);
        let summary = Summary {
            produced,
            consumed: tally.consumed(),
            redelivered: tally.redelivered(),
            lost: produced.saturating_sub(tally.consumed()),
            rebalances: view.rebalances(),
            fallbacks: view.fallbacks().clone(),
        };
        let causes = summary.fallbacks.iter().map(|(code, times)| format!("{code} {times}"));
        let text = format!(
            "\nproduced {}, consumed {}, redelivered {}, lost {}\nrebalances {}, fallbacks by cause: {}\n",
            summary.produced,
            summary.consumed,
            summary.redelivered,
            summary.lost,
            summary.rebalances,
            causes.collect::<Vec<_>>().join(", "),
        );
        print(self.json, &summary, &text)?;
        Ok(if summary.lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The running demo: what happens, and its time table.
struct Stage {
    view: View,
    happened: Receiver<Happening>,
    begun: Instant,
    /// Length of one phase.
    phase: Duration,
    /// Phases that are over.
    phases: u32,
}

impl Stage {
    /// One phase: the group settles, and goes on until the phase's time is over.
    fn play(&mut self) -> anyhow::Result<()> {
        self.phases += 1;
        let over = self.begun + self.phase * self.phases;
        let before = self.view.settled();
        let limit = Instant::now() + SETTLE_LIMIT;
        while self.view.settled() == before {
            if Instant::now() > limit {
                bail!("the group did not settle within {SETTLE_LIMIT:?}");
            }
            self.watch(limit)?;
        }
        while Instant::now() < over {
            self.watch(over)?;
        }
        Ok(())
    }

    /// Waits until every record that was produced has come, or none comes any more.
    fn drain(&mut self, tally: &Mutex<Tally>, produced: u64) -> anyhow::Result<()> {
        self.view.say("no more records are produced; the rest is consumed");
        let limit = Instant::now() + DRAIN_LIMIT;
        while flow::lock(tally).consumed() < produced && Instant::now() < limit {
            self.watch(limit.min(Instant::now() + Duration::from_millis(100)))?;
        }
        Ok(())
    }

    /// Shows the next thing that happens, if anything does before `until`.
    fn watch(&mut self, until: Instant) -> anyhow::Result<()> {
        match self.happened.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(happening) => self.view.show(happening),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(anyhow!("the consumers have ended")),
        }
        .context("the demo stops")
    }
}
