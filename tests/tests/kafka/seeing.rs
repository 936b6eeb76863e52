//! What is seen of a group on a real broker: by its strategies while they assign, and by an operator from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use assignor_host::consumer::{GroupEvent, RebalanceOutcome};
use assignor_host::{Assignor, CallError, Context, Group, Plan, Protocol, Unavailable};
use assignor_tests::built;
use rdkafka::ClientConfig;
use rdkafka::consumer::Consumer as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::Value;

use crate::watched::{PATIENCE, SHARED, Watched, properties, share};

/// Gives each partition, the one with the most lag first, to the member with the least so far; ties by count, then by id.
struct LagBased(Sender<Vec<i64>>);

impl LagBased {
    fn lags(cx: &Context, topic: &str) -> Result<Vec<i64>, Unavailable> {
        let soon = Instant::now() + Duration::from_secs(1);
        let (end, committed) =
            (cx.services.end_offsets(topic, soon)?, cx.services.committed_offsets(topic, soon)?);
        let begin = cx.services.begin_offsets(topic, soon)?;
        let from = committed.iter().zip(&begin).map(|(committed, begin)| (*committed).max(*begin));
        Ok(end.iter().zip(from).map(|(end, from)| end - from).collect())
    }
}

impl Assignor for LagBased {
    fn name(&self) -> &str {
        "lag-based"
    }
    fn protocols(&self) -> &[Protocol] {
        &[Protocol::Eager]
    }
    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError> {
        let mut lags = BTreeMap::new();
        for topic in group.topics() {
            let told = Self::lags(cx, &topic.name).map_err(|e| CallError::Declined(e.to_string()))?;
            // The test has ended if nobody receives.
            let _ = self.0.send(told.clone());
            lags.extend(topic.numbers().zip(told));
        }
        let mut heaviest_first: Vec<(u32, i64)> = lags.into_iter().collect();
        heaviest_first.sort_by_key(|(partition, lag)| (-lag, *partition));
        let mut plan = vec![Vec::new(); group.members().len()];
        let mut loads = vec![0; plan.len()];
        for (partition, lag) in heaviest_first {
            let least = (0..plan.len()).min_by_key(|&m| (loads[m], plan[m].len(), m)).unwrap();
            loads[least] += lag;
            plan[least].push(partition);
        }
        Ok(Plan::of(plan))
    }
}

fn produce(topic: &str, counts: &[usize]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", SHARED.bootstrap()).create().unwrap();
    for (partition, count) in (0..).zip(counts) {
        for _ in 0..*count {
            let record = BaseRecord::<(), str>::to(topic).partition(partition).payload("x");
            producer.send(record).map_err(|(e, _)| e).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();
}

fn assignor(args: &[&str]) -> Output {
    let mut command = Command::new(built("debug/assignor"));
    command.args(["group", "--bootstrap-server", &SHARED.bootstrap()]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = assignor(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_strategy_splits_a_real_group_by_its_true_lags_and_an_operator_sees_it() {
    let topic = "lagging";
    SHARED.admin().create_topic(topic, 4);
    produce(topic, &[100, 10, 60, 0]);
    let manual = [("enable.auto.commit", "false"), ("client.id", "first")];
    let servers = SHARED.bootstrap();
    let join = |more: &[(&str, &str)]| {
        let (sender, told) = channel();
        let strategy = Box::new(LagBased(sender));
        (Watched::running(properties(&servers, "lag-group", more), strategy, &[topic]), told)
    };
    let (first, told) = join(&manual);
    // Nothing is committed: everything is to be read.
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), [100, 10, 60, 0]);
    first.wait("all records", |seen| (seen.records == 170).then_some(()));
    first.consumer.commit().unwrap();
    produce(topic, &[1, 70, 2, 40]);
    first.wait("the new records", |seen| (seen.records == 283).then_some(()));

    // What the first has read and not committed is lag.
    let (second, _) = join(&[manual[0], ("client.id", "second"), ("client.rack", "r")]);
    share(&[&first, &second], 4);
    let lags: Vec<Vec<i64>> = told.try_iter().collect();
    assert_eq!(lags.last().unwrap(), &[1, 70, 2, 40]);
    let owned = [first.owned(), second.owned()];
    let heavy = (topic.to_owned(), 1);
    let alone = owned.iter().find(|owned| owned.contains(&heavy)).unwrap();
    assert_eq!(alone, &BTreeSet::from([heavy]), "70 against 1 + 2 + 40");

    let group = json(&["lag-group"]);
    assert_eq!((group["state"].as_str(), group["strategy"].as_str()), (Some("Stable"), Some("lag-based")));
    assert_eq!(group["members"].as_array().unwrap().len(), 2, "{group}");
    for member in group["members"].as_array().unwrap() {
        let consumer = if member["client_id"] == "first" { &first } else { &second };
        assert_eq!(member["id"], consumer.consumer.group_metadata().member_id);
        let owned: BTreeSet<(String, u32)> = member["assigned"][topic]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| (topic.to_owned(), u32::try_from(p.as_u64().unwrap()).unwrap()))
            .collect();
        assert_eq!(owned, consumer.owned());
        assert_eq!(member["topics"], serde_json::json!([topic]));
        assert_eq!(member["rack"].as_str(), (member["client_id"] == "second").then_some("r"));
    }
    let partition = |p: &Value| (p["committed"].as_i64(), p["end"].as_i64(), p["lag"].as_i64());
    let partitions: Vec<_> = group["partitions"].as_array().unwrap().iter().map(partition).collect();
    let known = [(100, 101, 1), (10, 80, 70), (60, 62, 2)].map(|(c, e, l)| (Some(c), Some(e), Some(l)));
    assert_eq!(partitions[..3], known);
    // Nothing was there to be committed but the beginning.
    assert!([(Some(0), Some(40), Some(40)), (None, Some(40), None)].contains(&partitions[3]), "{group}");
    assert_eq!((&group["balance"]["fewest"], &group["balance"]["most"]), (&1.into(), &3.into()));
    let shown = assignor(&["lag-group"]);
    assert!(
        text(&shown.stdout).contains("group lag-group: Stable, strategy lag-based"),
        "{}",
        text(&shown.stdout)
    );

    let list = json(&[]);
    let listed = list["groups"].as_array().unwrap().iter().find(|g| g["group_id"] == "lag-group").unwrap();
    assert_eq!((listed["kind"].as_str(), listed["state"].as_str()), (Some("classic"), Some("Stable")));

    // What the leader's rebalances were, with times that add up.
    first.look(|seen| {
        let rebalances = seen.group.iter().filter_map(|event| match event {
            GroupEvent::Rebalanced(rebalance) => Some(rebalance),
            _ => None,
        });
        let done: Vec<_> = rebalances.filter(|r| r.outcome == RebalanceOutcome::Assigned).collect();
        assert!(done.iter().any(|r| r.leader && r.members == Some(2)), "{done:#?}");
        for rebalance in done {
            assert!(
                rebalance.phases.each().iter().all(|(_, took)| *took <= rebalance.took),
                "{rebalance:#?}"
            );
            assert!(!rebalance.phases.join.is_zero() && !rebalance.phases.sync.is_zero(), "{rebalance:#?}");
        }
    });
    let metrics = first.consumer.metrics();
    // What was not committed has been, or is being, read again.
    let count = metrics
        .lines()
        .find_map(|l| l.strip_prefix("assignor_records_total{client_id=\"first\",group=\"lag-group\"} "));
    assert!(count.is_some_and(|n| n.parse::<u64>().unwrap() >= 283), "{metrics}");
    first.close();
    second.close();
    assert_eq!(json(&["lag-group"])["state"], "Empty");
}

#[test]
fn groups_that_are_not_there_or_have_no_strategies_of_their_own_are_told_in_words() {
    let none = assignor(&["no-such-group"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("there is no group \"no-such-group\""), "{}", text(&none.stderr));

    SHARED.admin().create_topic("kip-848", 1);
    let member: rdkafka::consumer::BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", SHARED.bootstrap())
        .set("group.id", "broker-assigned")
        .set("group.protocol", "consumer")
        .create()
        .unwrap();
    member.subscribe(&["kip-848"]).unwrap();
    let start = Instant::now();
    while member.assignment().unwrap().count() == 0 {
        assert!(start.elapsed() < PATIENCE);
        member.poll(Duration::from_millis(100));
    }
    let other = assignor(&["broker-assigned"]);
    assert_eq!((other.status.code(), text(&other.stdout)), (Some(1), ""));
    let told = text(&other.stderr);
    assert!(
        told.contains("KIP-848") && told.contains("of the type \"Consumer\"")
            || told.contains("of the type \"consumer\""),
        "{told}"
    );
}
