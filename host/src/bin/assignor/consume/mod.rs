//! `assignor consume`: a member of a group that prints what it gets and says what happens to it.

mod events;
mod http;
mod output;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, GroupEvent};
use assignor_host::{Catalog, Observer, STRATEGY_LIST};

use self::output::Format;
use crate::bad_input;
use crate::properties::Source;

/// Joins a consumer group, prints the records that it gets, and says on standard error what happens to the group.
///
/// The strategies are those of `partition.assignment.strategy`, plugins included; whenever one fails, what decided instead is told, and
/// why. It leaves the group on Ctrl-C and SIGTERM, after it has committed what it has printed (unless enable.auto.commit is false).
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor consume --bootstrap-server localhost:9092 --group orders-debug --topic orders --from-beginning
  assignor consume --config consumer.properties --topic orders --json --max-records 10 | jq .value
  assignor consume --config consumer.properties --topic orders --strategy weighted=weighted.wasm,range \\
    --set assignor.strategy.weighted.weight=2 --metrics 9404

Prints the value of each record, as it is, and a line feed. With --json, one object a line:
  {\"topic\": \"orders\", \"partition\": 0, \"offset\": 17, \"timestamp_ms\": 1790000000000, \"key\": \"k\", \"value\": \"v\",
   \"headers\": [{\"name\": \"h\", \"value\": \"x\"}]}
A key or value that is not UTF-8 is key_base64 or value_base64 instead; a tombstone's value is null.

Log lines are off, since what happens is told; --log warn turns them on, and with --quiet they are on.

Exit codes: 0 ended as asked: by a signal, --max-records, --exit-when-idle, or since nobody reads the output;
1 the group or a broker refused, or no partition came within --exit-when-idle; 2 bad input.")]
pub(crate) struct Consume {
    #[command(flatten)]
    source: Source,
    /// A topic; may be repeated.
    #[arg(long, value_name = "TOPIC", required = true)]
    topic: Vec<String>,
    /// group.id, in place of the file's.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// partition.assignment.strategy, in place of the file's: built-ins, and plugins as FILE.wasm or NAME=FILE.wasm.
    #[arg(long, value_name = "LIST")]
    strategy: Option<String>,
    /// Begin at the beginning where the group has committed nothing (auto.offset.reset=earliest).
    #[arg(long)]
    from_beginning: bool,
    /// End after so many records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_records: Option<u64>,
    /// End when no record has come for so many milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    exit_when_idle: Option<u64>,
    /// Print one JSON object for each record.
    #[arg(long)]
    json: bool,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics. A port alone is on the loopback interface; 0 takes a free one.
    #[arg(long, value_name = "[IP:]PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Say nothing of the group.
    #[arg(long)]
    pub(crate) quiet: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| "it is neither a port nor an IP address and a port".into())
}

/// How long a look for records takes at most: a signal is noticed after it.
const SLICE: Duration = Duration::from_millis(100);

/// Why it ends, other than by an error.
enum End {
    Signal,
    Enough,
    Idle,
    /// Nobody reads the output any more.
    Unread,
}

impl Consume {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let stop = signals()?;
        // When partitions came last: time without records counts from then on.
        let assigned: Arc<Mutex<Option<Instant>>> = Arc::default();
        let consumer = Arc::new(self.consumer(&assigned)?);
        consumer.subscribe(&self.topic).map_err(failed)?;
        if let Some(address) = self.metrics {
            let metered = Arc::clone(&consumer);
            let address = http::serve(address, move || metered.metrics()).map_err(bad_input)?;
            events::say(&format!("metrics at http://{address}/metrics"));
        }
        let ended = self.print(&consumer, &stop, &assigned);
        let closed = consumer.close();
        let (records, end) = ended?;
        closed.context("leaving the group")?;
        if !self.quiet {
            let why = match end {
                End::Signal => "asked to end",
                End::Enough => "that was all that was wanted",
                End::Idle => "no more records came",
                End::Unread => "nobody reads the output",
            };
            events::say(&format!("{why}: left the group after {records} records"));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn consumer(&self, assigned: &Arc<Mutex<Option<Instant>>>) -> anyhow::Result<Consumer> {
        let mut properties = self.source.read()?;
        let mut set = |key: &str, value: &str| properties.insert(key.to_owned(), value.to_owned());
        if let Some(group) = &self.group {
            set("group.id", group);
        }
        if let Some(list) = &self.strategy {
            set(STRATEGY_LIST, list);
        }
        if self.from_beginning {
            set("auto.offset.reset", "earliest");
        }
        if self.max_records.is_some() {
            // One by one: what is returned and not printed would count as processed.
            set("max.poll.records", "1");
        }
        let quiet = self.quiet;
        let observer: Observer = Arc::new(move |event| {
            if !quiet {
                events::of_strategy(event);
            }
        });
        let catalog = Catalog::from_properties(&properties, &observer).map_err(bad_input)?;
        let config = ConsumerConfig::from_properties(properties).map_err(bad_input)?;
        let seen = Arc::clone(assigned);
        Consumer::new(config, catalog.assignors(), move |event| {
            if let GroupEvent::Assigned { .. } = event {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
            if !quiet {
                events::of_group(event);
            }
        })
        .map_err(failed)
    }

    /// Prints records until there is a reason to end.
    fn print(
        &self,
        consumer: &Consumer,
        stop: &AtomicBool,
        assigned: &Mutex<Option<Instant>>,
    ) -> anyhow::Result<(u64, End)> {
        let format = if self.json { Format::Json } else { Format::text(io::stdout().is_terminal()) };
        let mut out = io::BufWriter::new(io::stdout().lock());
        let idle = self.exit_when_idle.map(Duration::from_millis);
        let (mut records, mut last) = (0, Instant::now());
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok((records, End::Signal));
            }
            let polled = match consumer.poll(SLICE) {
                Ok(polled) => polled,
                Err(error) if error.is_retriable() => {
                    events::say(&format!("trouble ({}): {error}", error.code()));
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let written = polled.iter().try_for_each(|record| format.write(&mut out, record));
            match written.and_then(|()| out.flush()) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok((records, End::Unread)),
                Err(e) => return Err(e).context("standard output"),
            }
            records += polled.len() as u64;
            if self.max_records.is_some_and(|most| records >= most) {
                return Ok((records, End::Enough));
            }
            if !polled.is_empty() {
                last = Instant::now();
            }
            let since = *assigned.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.is_some_and(|idle| since.map_or(last, |since| since.max(last)).elapsed() >= idle) {
                return match since {
                    Some(_) => Ok((records, End::Idle)),
                    None => Err(anyhow!("the group gave no partition within --exit-when-idle")),
                };
            }
        }
    }
}

/// Set by the first signal; the second one ends the process at once.
fn signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("signals")?;
    }
    Ok(stop)
}

/// What is wrong with the configuration is the caller's.
fn failed(error: ConsumerError) -> anyhow::Error {
    match error {
        ConsumerError::Config(_) => bad_input(error),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback_interface() {
        assert_eq!(address("9404"), Ok("127.0.0.1:9404".parse().unwrap()));
        assert_eq!(address("0.0.0.0:1"), Ok("0.0.0.0:1".parse().unwrap()));
        assert_eq!(address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        assert!(address("somewhere:1").is_err() && address("99999").is_err());
    }
}
