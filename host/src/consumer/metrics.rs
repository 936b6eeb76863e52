//! What a consumer counts, as Prometheus reads it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::lag::{Found, Kind};
use super::rebalance::Rebalance;
use super::services::Asker;
use super::shared::Shared;
use crate::assignor::Health;
use crate::fallback::Event;
use crate::group::TopicPartitions;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseOutcome {
    cause: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StrategyLabel {
    strategy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StrategyCause {
    strategy: String,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StrategyCall {
    strategy: String,
    call: &'static str,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StrategyOutcome {
    strategy: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabel {
    error: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabel {
    topic: String,
    partition: u32,
}

/// From a millisecond to two seconds, the longest that a plugin may decide, and above, for native strategies.
const ASSIGN_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0];

/// From what a lonely member takes to the rebalance time-out.
const REBALANCE_BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How long reading metrics may wait for the ends of the partitions.
const LAG_LIMIT: Duration = Duration::from_millis(500);

/// So many partitions are told apart, the first ones by topic: readers of metrics keep each for good.
const MOST_LAGS: usize = 10_000;

/// The counters of one consumer.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    rebalances: Family<CauseOutcome, Counter>,
    rebalance_time: Histogram,
    phase_time: Family<PhaseLabel, Histogram>,
    assign_time: Family<StrategyLabel, Histogram>,
    fallbacks: Family<StrategyCause, Counter>,
    failed_calls: Family<StrategyCall, Counter>,
    benchings: Family<StrategyLabel, Counter>,
    reloads: Family<StrategyOutcome, Counter>,
    memory: Family<StrategyLabel, Gauge>,
    benched: Family<StrategyLabel, Gauge>,
    degraded: Family<StrategyLabel, Gauge>,
    records: Counter,
    partitions_lost: Counter,
    heartbeats: Counter,
    heartbeats_failed: Family<ErrorLabel, Counter>,
    commits: Counter,
    commits_failed: Family<ErrorLabel, Counter>,
    generation: Gauge,
    leader: Gauge,
    assigned: Gauge,
    lag: Family<PartitionLabel, Gauge>,
    /// Partitions of the last reading must not be mixed with those of this one.
    reading: Mutex<()>,
}

fn histogram(buckets: &'static [f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}

impl Metrics {
    pub(super) fn new(group: &str, client_id: &str) -> Self {
        let label = |name: &'static str, value: &str| (name.into(), value.to_owned().into());
        let labels = [label("client_id", client_id), label("group", group)];
        let mut new = Self {
            registry: Registry::with_prefix_and_labels("assignor", labels.into_iter()),
            rebalances: Family::default(),
            rebalance_time: histogram(&REBALANCE_BUCKETS),
            phase_time: Family::new_with_constructor(|| histogram(&REBALANCE_BUCKETS)),
            assign_time: Family::new_with_constructor(|| histogram(&ASSIGN_BUCKETS)),
            fallbacks: Family::default(),
            failed_calls: Family::default(),
            benchings: Family::default(),
            reloads: Family::default(),
            memory: Family::default(),
            benched: Family::default(),
            degraded: Family::default(),
            records: Counter::default(),
            partitions_lost: Counter::default(),
            heartbeats: Counter::default(),
            heartbeats_failed: Family::default(),
            commits: Counter::default(),
            commits_failed: Family::default(),
            generation: Gauge::default(),
            leader: Gauge::default(),
            assigned: Gauge::default(),
            lag: Family::default(),
            reading: Mutex::default(),
        };
        new.register();
        new
    }

    /// The names here, the page and the test of it go together.
    fn register(&mut self) {
        let all = &mut self.registry;
        all.register("rebalances", "Rebalances that are over, by cause and outcome", self.rebalances.clone());
        let help = "Time from a rebalance's first step to its end";
        all.register_with_unit("rebalance", help, Unit::Seconds, self.rebalance_time.clone());
        let help = "Time of a rebalance's phases";
        all.register_with_unit("rebalance_phase", help, Unit::Seconds, self.phase_time.clone());
        let help = "Time of a strategy's decisions, this member's as a leader";
        all.register_with_unit("assign", help, Unit::Seconds, self.assign_time.clone());
        let help = "Decisions made by a native strategy instead, by the code of the cause";
        all.register("fallbacks", help, self.fallbacks.clone());
        let help = "Calls of a strategy, other than for a decision, that failed";
        all.register("strategy_calls_failed", help, self.failed_calls.clone());
        let help = "Times that a strategy was put on the bench";
        all.register("strategy_benchings", help, self.benchings.clone());
        let help = "Attempts to put other bytes in a strategy's place";
        all.register("strategy_reloads", help, self.reloads.clone());
        let help = "Memory that a plugin's instance holds";
        all.register_with_unit("plugin_memory", help, Unit::Bytes, self.memory.clone());
        let help = "Whether a strategy is on the bench: 1 if so, as of its last call";
        all.register("strategy_benched", help, self.benched.clone());
        let help = "Whether a strategy could not be loaded: 1 if so";
        all.register("strategy_degraded", help, self.degraded.clone());
        all.register("records", "Records handed out to the application", self.records.clone());
        let help = "Partitions that became another member's without having been given up";
        all.register("partitions_lost", help, self.partitions_lost.clone());
        all.register("heartbeats", "Heartbeats that were answered or timed out", self.heartbeats.clone());
        let help = "Heartbeats without an answer or refused; that the group rebalances is no failure";
        all.register("heartbeats_failed", help, self.heartbeats_failed.clone());
        all.register("commits", "Commits that were answered or timed out", self.commits.clone());
        all.register("commits_failed", "Commits without an answer or refused", self.commits_failed.clone());
        let help = "The group's generation, -1 while the consumer is no member";
        all.register("generation", help, self.generation.clone());
        all.register("leader", "Whether this member leads its group: 1 if so", self.leader.clone());
        all.register("assigned_partitions", "Partitions assigned to this member", self.assigned.clone());
        let help = "Records between the next one to hand out and the end, of each assigned partition where both are known";
        all.register("partition_lag", help, self.lag.clone());
    }

    pub(super) fn rebalanced(&self, rebalance: &Rebalance) {
        let labels = CauseOutcome { cause: rebalance.cause_code, outcome: rebalance.outcome.code() };
        self.rebalances.get_or_create(&labels).inc();
        self.rebalance_time.observe(rebalance.took.as_secs_f64());
        for (phase, took) in rebalance.phases.each().into_iter().filter(|(_, took)| !took.is_zero()) {
            self.phase_time.get_or_create(&PhaseLabel { phase }).observe(took.as_secs_f64());
        }
    }

    pub(super) fn decided(&self, strategy: &str, took: Duration) {
        self.assign_time.get_or_create(&strategy_label(strategy)).observe(took.as_secs_f64());
    }

    /// What a strategy's wrapper says.
    pub(super) fn happened(&self, event: &Event) {
        match event {
            Event::Fallback { strategy, cause, .. } => {
                let labels = StrategyCause { strategy: strategy.clone(), cause: cause.code() };
                self.fallbacks.get_or_create(&labels).inc();
            }
            Event::CallFailed { strategy, call, cause } => {
                let labels = StrategyCall { strategy: strategy.clone(), call, cause: cause.code() };
                self.failed_calls.get_or_create(&labels).inc();
            }
            Event::Benched { strategy, .. } => {
                self.benchings.get_or_create(&strategy_label(strategy)).inc();
            }
            Event::Replaced { strategy, .. } => self.reloaded(strategy, "replaced"),
            Event::ReplaceFailed { strategy, .. } => self.reloaded(strategy, "refused"),
        }
    }

    fn reloaded(&self, strategy: &str, outcome: &'static str) {
        let labels = StrategyOutcome { strategy: strategy.to_owned(), outcome };
        self.reloads.get_or_create(&labels).inc();
    }

    /// How a strategy is doing after a call of it.
    pub(super) fn health(&self, strategy: &str, health: Health, degraded: bool) {
        let labels = strategy_label(strategy);
        let flag = |family: &Family<_, Gauge>, on| family.get_or_create(&labels).set(i64::from(on));
        flag(&self.benched, health.benched);
        flag(&self.degraded, degraded);
        match health.memory {
            Some(bytes) => {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.memory.get_or_create(&labels).set(bytes);
            }
            None => {
                self.memory.remove(&labels);
            }
        }
    }

    pub(super) fn handed_out(&self, records: usize) {
        self.records.inc_by(records as u64);
    }

    pub(super) fn lost(&self, partitions: &[TopicPartitions]) {
        let count: usize = partitions.iter().map(|t| t.partitions.len()).sum();
        self.partitions_lost.inc_by(count as u64);
    }

    /// A heartbeat's answer, if it has one.
    pub(super) fn heartbeat(&self, answer: Option<i16>) {
        self.heartbeats.inc();
        let error = error(answer).filter(|_| answer != Some(ResponseError::RebalanceInProgress.code()));
        if let Some(error) = error {
            self.heartbeats_failed.get_or_create(&ErrorLabel { error }).inc();
        }
    }

    /// A commit's answer, if it has one.
    pub(super) fn commit(&self, answer: Option<i16>) {
        self.commits.inc();
        if let Some(error) = error(answer) {
            self.commits_failed.get_or_create(&ErrorLabel { error }).inc();
        }
    }

    /// All of it as text, with the lag as it is now: the ends of the partitions are asked for, and waited for at most
    /// [`LAG_LIMIT`].
    pub(super) fn text(&self, shared: &Shared, asker: &Asker) -> String {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let membership = shared.metadata("");
        self.generation.set(membership.generation.into());
        self.leader.set(membership.is_leader.into());
        let assigned: usize = shared.partitions().iter().map(|t| t.partitions.len()).sum();
        self.assigned.set(i64::try_from(assigned).unwrap_or(i64::MAX));
        self.lag.clear();
        for (labels, lag) in lags(shared, asker) {
            self.lag.get_or_create(&labels).set(lag);
        }
        let mut text = String::new();
        if let Err(e) = encode(&mut text, &self.registry) {
            // A string takes everything: only a value that can't be written as a number could do that.
            tracing::error!(error = %e, "metrics");
        }
        text
    }
}

/// The lag of each partition with a position, as far as its end is told.
fn lags(shared: &Shared, asker: &Asker) -> Vec<(PartitionLabel, i64)> {
    let positions = shared.positions();
    let mut topics: BTreeMap<&String, Vec<u32>> = BTreeMap::new();
    for (topic, partition) in positions.keys().take(MOST_LAGS) {
        topics.entry(topic).or_default().push(*partition);
    }
    if topics.is_empty() {
        return Vec::new();
    }
    let wanted: Vec<TopicPartitions> = topics
        .into_iter()
        .map(|(topic, partitions)| TopicPartitions { topic: topic.clone(), partitions })
        .collect();
    // Twice: the answer, which may be partial, comes within half of the time.
    let found = match asker.ask(Kind::End, wanted.clone(), Instant::now() + LAG_LIMIT * 2) {
        Ok(Found(found)) => found,
        Err(e) => {
            tracing::debug!(error = %e, "the lag is not known");
            return Vec::new();
        }
    };
    let ends = wanted.into_iter().zip(found).flat_map(|(asked, found)| {
        let topic = asked.topic;
        let each = asked.partitions.into_iter().zip(found.offsets);
        each.map(move |(partition, end)| (PartitionLabel { topic: topic.clone(), partition }, end))
    });
    ends.filter_map(|(labels, end)| {
        let position = positions.get(&(labels.topic.clone(), labels.partition))?;
        Some((labels, end?.saturating_sub(*position).max(0)))
    })
    .collect()
}

fn strategy_label(strategy: &str) -> StrategyLabel {
    StrategyLabel { strategy: strategy.to_owned() }
}

/// What an answer says went wrong, by Kafka's name of the error.
fn error(answer: Option<i16>) -> Option<String> {
    match answer {
        None => Some("no-answer".into()),
        Some(code) => ResponseError::try_from_code(code).map(|e| format!("{e:?}")),
    }
}

/// Told by the strategies' thread after each of its calls.
pub(super) fn watch_strategies(metrics: Arc<Metrics>) -> impl Fn(&[Box<dyn crate::Assignor>]) + Send {
    move |assignors| {
        for assignor in assignors {
            metrics.health(assignor.name(), assignor.health(), assignor.is_degraded());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{CallError, Cause};
    use crate::consumer::clock::Moment;
    use crate::consumer::lag::TopicOffsets;
    use crate::consumer::machine::Identity;
    use crate::consumer::offsets::Offsets;
    use crate::consumer::rebalance::{Phases, RebalanceOutcome, cause_code};
    use crate::consumer::shared::Assignment;

    /// The lines that are no comments, without the labels that all have.
    fn lines(text: &str) -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                line.replace(r#"client_id="c",group="g","#, "").replace(r#"{client_id="c",group="g"}"#, "")
            })
            .collect()
    }

    fn rebalance() -> Rebalance {
        let phases = Phases { join: Duration::from_millis(20), ..Phases::default() };
        Rebalance {
            cause: "first subscription".into(),
            cause_code: cause_code("first subscription"),
            outcome: RebalanceOutcome::Assigned,
            generation: 1,
            strategy: "s".into(),
            leader: true,
            members: Some(1),
            took: Duration::from_millis(30),
            phases,
        }
    }

    fn assigned() -> Shared {
        let shared = Shared::new(Moment::default());
        let identity = Identity { member_id: "m".into(), generation: 4 };
        let partitions = vec![TopicPartitions { topic: "t".into(), partitions: vec![0, 1, 2] }];
        let assignment = Assignment::new(identity, true, "s".into(), partitions.clone());
        shared.assign(assignment, partitions);
        shared.start(Offsets::from([(("t".to_owned(), 0), 10), (("t".to_owned(), 1), 5)]), true);
        shared
    }

    /// Everything once, and the lag of what is assigned.
    fn everything() -> String {
        let metrics = Metrics::new("g", "c");
        metrics.rebalanced(&rebalance());
        metrics.decided("s", Duration::from_millis(3));
        let (strategy, cause) = ("s".to_owned(), CallError::Trap("boom".into()));
        let fallback = Event::Fallback {
            strategy: strategy.clone(),
            used: "keep",
            cause: Cause::Call(cause.clone()),
            in_a_row: 1,
        };
        metrics.happened(&fallback);
        metrics.happened(&Event::CallFailed { strategy: strategy.clone(), call: "subscription", cause });
        let pause = Duration::from_secs(1);
        metrics.happened(&Event::Benched { strategy: strategy.clone(), pause, failures: 3 });
        metrics.happened(&Event::Replaced { strategy, digest: "sha256:0".into() });
        metrics.health("s", Health { memory: Some(65_536), benched: true }, false);
        metrics.handed_out(7);
        metrics.lost(&[TopicPartitions { topic: "t".into(), partitions: vec![1, 2] }]);
        metrics.heartbeat(Some(0));
        metrics.heartbeat(Some(27));
        metrics.heartbeat(Some(25));
        metrics.heartbeat(None);
        metrics.commit(Some(0));
        metrics.commit(Some(22));
        let (asker, mut asked) = Asker::new();
        let driver = std::thread::spawn(move || {
            let ask = asked.blocking_recv().unwrap();
            assert_eq!(ask.wanted, [TopicPartitions { topic: "t".into(), partitions: vec![0, 1] }]);
            let offsets = vec![Some(12), None];
            ask.reply.send(Found(vec![TopicOffsets { offsets, problem: None }])).unwrap();
        });
        let text = metrics.text(&assigned(), &asker);
        driver.join().unwrap();
        text
    }

    #[test]
    fn everything_that_is_counted_is_told() {
        let text = everything();
        let lines = lines(&text);
        for line in [
            r#"assignor_rebalances_total{cause="subscribe",outcome="assigned"} 1"#,
            r#"assignor_rebalance_seconds_count 1"#,
            r#"assignor_rebalance_phase_seconds_bucket{le="0.05",phase="join"} 1"#,
            r#"assignor_assign_seconds_bucket{le="0.0025",strategy="s"} 0"#,
            r#"assignor_assign_seconds_bucket{le="0.005",strategy="s"} 1"#,
            r#"assignor_fallbacks_total{strategy="s",cause="trap"} 1"#,
            r#"assignor_strategy_calls_failed_total{strategy="s",call="subscription",cause="trap"} 1"#,
            r#"assignor_strategy_benchings_total{strategy="s"} 1"#,
            r#"assignor_strategy_reloads_total{strategy="s",outcome="replaced"} 1"#,
            r#"assignor_plugin_memory_bytes{strategy="s"} 65536"#,
            r#"assignor_strategy_benched{strategy="s"} 1"#,
            r#"assignor_strategy_degraded{strategy="s"} 0"#,
            "assignor_records_total 7",
            "assignor_partitions_lost_total 2",
            "assignor_heartbeats_total 4",
            r#"assignor_heartbeats_failed_total{error="UnknownMemberId"} 1"#,
            r#"assignor_heartbeats_failed_total{error="no-answer"} 1"#,
            "assignor_commits_total 2",
            r#"assignor_commits_failed_total{error="IllegalGeneration"} 1"#,
            "assignor_generation 4",
            "assignor_leader 1",
            "assignor_assigned_partitions 3",
            r#"assignor_partition_lag{topic="t",partition="0"} 2"#,
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}\n{}", lines.join("\n"));
        }
        assert!(!text.contains(r#"partition="1""#), "its end isn't known: no lag is not a lag of 0");
        assert!(!text.contains("RebalanceInProgress"), "{text}");
    }

    #[test]
    fn the_page_lists_each_metric_and_no_other() {
        let page = include_str!("../../docs/metrics.md");
        let listed =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(n, _)| n));
        let mut listed: Vec<&str> = listed.collect();
        let text = everything();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let name = |(name, kind): (&str, &str)| {
            if kind == "counter" { format!("{name}_total") } else { name.to_owned() }
        };
        let mut told: Vec<String> = types.map(name).collect();
        listed.sort_unstable();
        told.sort_unstable();
        assert_eq!(listed, told);
    }

    #[test]
    fn partitions_of_an_earlier_reading_are_gone() {
        let metrics = Metrics::new("g", "c");
        let (asker, mut asked) = Asker::new();
        let driver = std::thread::spawn(move || {
            let ask = asked.blocking_recv().unwrap();
            let offsets = vec![Some(12), Some(12)];
            ask.reply.send(Found(vec![TopicOffsets { offsets, problem: None }])).unwrap();
        });
        let shared = assigned();
        assert!(metrics.text(&shared, &asker).contains("partition_lag{"));
        driver.join().unwrap();
        shared.lose("expelled");
        let text = metrics.text(&shared, &asker);
        assert!(!text.contains("partition_lag{"), "{text}");
        assert!(lines(&text).contains(&"assignor_generation -1".to_owned()), "{text}");
    }
}
