//! A leader whose strategy takes longer than the session lasts keeps its session, and falls back in time.

use std::time::{Duration, Instant};

use assignor_host::consumer::GroupEvent;
use assignor_host::{Assignor, CallError, Context, Event, Group, Plan, Protocol};
use assignor_tests::built;
use kafka_protocol::messages::ApiKey;

use crate::broker::{Cluster, Options};
use crate::proxy::Proxy;
use crate::watched::{SHARED, Seen, Watched, properties, share};

const PARTITIONS: u32 = 4;

/// Nothing that was owned was lost, and the membership never ended.
fn assert_kept(member: &Watched) {
    let ended = |seen: &Seen| {
        let ended = |event: &&GroupEvent| matches!(event, GroupEvent::Lost { .. } | GroupEvent::Left { .. });
        seen.group.iter().find(ended).cloned()
    };
    assert_eq!(member.look(ended), None);
}

/// The plugin's own limit ends the call.
#[test]
fn a_plugin_that_never_returns_costs_neither_session_nor_rebalance() {
    const TOPIC: &str = "loops";
    SHARED.admin().create_topic(TOPIC, PARTITIONS);
    let strategy = format!("hostile={}", built("plugins/hostile.wasm").display());
    let properties = || {
        let more = [
            ("partition.assignment.strategy", strategy.as_str()),
            ("assignor.strategy.hostile.fault", "loop"),
            ("session.timeout.ms", "1000"),
            ("assignor.limit.assign.ms", "100"),
            ("assignor.limit.call.ms", "30"),
            ("assignor.limit.host.wait.ms", "30"),
        ];
        properties(&SHARED.bootstrap(), TOPIC, &more)
    };
    let leader = Watched::new(properties(), &[TOPIC]);
    share(&[&leader], PARTITIONS as usize);
    let follower = Watched::new(properties(), &[TOPIC]);
    let fell_back =
        |event: &&Event| matches!(event, Event::Fallback { cause, .. } if cause.code() == "deadline");
    leader.wait("fallbacks", |seen| (seen.strategy.iter().filter(fell_back).count() >= 2).then_some(()));
    // The first fallbacks move nothing: whoever comes waits for a plan.
    let told = |event: &GroupEvent| matches!(event, GroupEvent::Assigned { .. });
    follower.wait("it is assigned nothing", |seen| seen.group.iter().any(told).then_some(()));
    share(&[&leader], PARTITIONS as usize);
    for member in [&leader, &follower] {
        assert_kept(member);
    }
    leader.close();
    follower.close();
}

/// A strategy of the application's own, which no limit of a plugin stops.
struct Sleeper(Duration);

impl Assignor for Sleeper {
    fn name(&self) -> &str {
        "sleeper"
    }
    fn protocols(&self) -> &[Protocol] {
        &[Protocol::Eager]
    }
    fn assign(&mut self, _: &Context, group: &Group) -> Result<Plan, CallError> {
        std::thread::sleep(self.0);
        // Everything to whom comes first: nobody else decides like that.
        let mut plan = vec![Vec::new(); group.members().len()];
        plan[0] = (0..PARTITIONS).collect();
        Ok(Plan::of(plan))
    }
}

/// The consumer's own limit, half a session, ends the wait.
#[test]
fn a_strategy_that_sleeps_for_three_sessions_is_not_waited_for() {
    const TOPIC: &str = "sleeps";
    const SESSION: Duration = Duration::from_millis(1000);
    SHARED.admin().create_topic(TOPIC, PARTITIONS);
    let properties = || properties(&SHARED.bootstrap(), TOPIC, &[("session.timeout.ms", "1000")]);
    let start = Instant::now();
    let leader = Watched::running(properties(), Box::new(Sleeper(SESSION * 3)), &[TOPIC]);
    share(&[&leader], PARTITIONS as usize);
    assert!(start.elapsed() < SESSION * 3, "it was waited for: {:?}", start.elapsed());
    let told =
        |event: &GroupEvent| matches!(event, GroupEvent::Trouble { message } if message.contains("no plan"));
    leader.wait("it says so", |seen| seen.group.iter().any(told).then_some(()));
    // The session goes on while the strategy's thread is asleep, and so does the group.
    let follower = Watched::running(properties(), Box::new(Sleeper(Duration::ZERO)), &[TOPIC]);
    share(&[&leader, &follower], PARTITIONS as usize);
    std::thread::sleep(SESSION * 3);
    for member in [&leader, &follower] {
        assert_kept(member);
    }
    leader.close();
    follower.close();
}

/// Within the limit it decides, however many heartbeats that takes.
#[test]
fn heartbeats_go_on_while_a_slow_strategy_decides() {
    const TOPIC: &str = "slow";
    let proxy = Proxy::new();
    let mut cluster = Cluster::start(&Options::nodes(1).proxied("PROXIED", "PLAINTEXT", &[proxy.port()]));
    proxy.forward(cluster.node(1).port("PROXIED"));
    cluster.admin().create_topic(TOPIC, PARTITIONS);
    let servers = format!("127.0.0.1:{}", proxy.port());
    let properties = properties(&servers, TOPIC, &[("session.timeout.ms", "10000")]);
    let slow = Duration::from_millis(3_000);
    let leader = Watched::running(properties, Box::new(Sleeper(slow)), &[TOPIC]);
    let joined = Instant::now();
    while proxy.requests(ApiKey::SyncGroup) == 0 {
        assert!(joined.elapsed() < slow * 10, "no plan");
        std::thread::sleep(Duration::from_millis(5));
    }
    // One is due every 200 ms.
    assert!(proxy.requests(ApiKey::Heartbeat) >= 8, "{} heartbeats", proxy.requests(ApiKey::Heartbeat));
    share(&[&leader], PARTITIONS as usize);
    assert_eq!(leader.consumer.group_metadata().generation, 1, "decided once, and in time");
    assert_kept(&leader);
    leader.close();
}
