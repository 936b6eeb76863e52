//! Memberships on a real coordinator: cooperative rebalances, static members, rebalance listeners, rolling upgrades, conversion to the
//! new protocol.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assignor_host::builtin::COOPERATIVE_STICKY;
use assignor_host::consumer::{
    Consumer, ConsumerConfig, GroupEvent, ListenerContext, RebalanceListener, TopicPartition,
};
use assignor_host::{Catalog, TopicPartitions};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest;
use kafka_protocol::protocol::StrBytes;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::watched::{PATIENCE, SHARED, Seen, Watched, properties, share};
use crate::wire::Wire;

const STRATEGY: &str = "partition.assignment.strategy";

fn produce(topic: &str, partitions: u32, numbers: std::ops::Range<u32>) {
    let producer: BaseProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", SHARED.bootstrap()).create().unwrap();
    for n in numbers {
        let (partition, value) = ((n % partitions) as i32, n.to_string());
        producer.send(BaseRecord::<(), _>::to(topic).partition(partition).payload(&value)).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

fn member(topic: &str, more: &[(&str, &str)]) -> Watched {
    Watched::new(properties(&SHARED.bootstrap(), topic, more), &[topic])
}

/// How many partitions a member has given up, and whether it has lost any.
fn given_up(seen: &Seen) -> (usize, bool) {
    let revoked = seen.group.iter().map(|event| match event {
        GroupEvent::Revoked { partitions } => partitions.iter().map(|t| t.partitions.len()).sum(),
        _ => 0,
    });
    (revoked.sum(), seen.group.iter().any(|event| matches!(event, GroupEvent::Lost { .. })))
}

fn read(members: &[&Watched]) -> usize {
    members.iter().map(|member| member.look(|seen| seen.records)).sum()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn cooperative_members_give_up_no_more_than_they_must_and_nothing_is_read_twice() {
    const TOPIC: &str = "cooperative";
    const PARTITIONS: u32 = 12;
    SHARED.admin().create_topic(TOPIC, PARTITIONS);
    let join = || member(TOPIC, &[(STRATEGY, COOPERATIVE_STICKY)]);
    let a = join();
    share(&[&a], 12);
    produce(TOPIC, PARTITIONS, 0..1200);
    let b = join();
    share(&[&a, &b], 12);
    let c = join();
    share(&[&a, &b, &c], 12);
    produce(TOPIC, PARTITIONS, 1200..2400);
    // 12, then 6 and 6, then 4, 4 and 4: of twelve, six and two go.
    assert_eq!(a.look(given_up), (8, false));
    assert_eq!(b.look(given_up), (2, false));
    wait_until("every record is read", || read(&[&a, &b, &c]) >= 2400);
    let (first, of_b) = (a.owned(), b.look(|seen| seen.records));
    b.close();
    share(&[&a, &c], 12);
    assert!(first.is_subset(&a.owned()), "what it has stays when another one leaves");
    assert_eq!((a.look(given_up).0, c.look(given_up)), (8, (0, false)));
    produce(TOPIC, PARTITIONS, 2400..3600);
    wait_until("every record is read", || read(&[&a, &c]) + of_b >= 3600);
    assert_eq!(read(&[&a, &c]) + of_b, 3600, "none twice");
    a.close();
    c.close();
}

#[test]
fn records_go_on_while_others_are_waited_for_and_each_is_read_once() {
    const TOPIC: &str = "through";
    const PARTITIONS: u32 = 4;
    SHARED.admin().create_topic(TOPIC, PARTITIONS);
    let strategy = (STRATEGY, COOPERATIVE_STICKY);
    let steady = member(TOPIC, &[strategy]);
    share(&[&steady], 4);
    // A member that does not poll holds the rebalance up, as long as it may.
    let config =
        ConsumerConfig::from_properties(properties(&SHARED.bootstrap(), TOPIC, &[strategy])).unwrap();
    let catalog = Catalog::from_properties(&config.properties, &(Arc::new(|_: &_| {}) as _)).unwrap();
    let slow = Consumer::new(config, catalog.assignors(), |_| {}).unwrap();
    slow.subscribe(&[TOPIC]).unwrap();
    wait_until("the slow one has its part", || {
        slow.poll(Duration::from_millis(20)).unwrap();
        slow.assignment().iter().map(|t| t.partitions.len()).sum::<usize>() == 2
    });
    let third = member(TOPIC, &[strategy]);
    let joining = |event: &GroupEvent| matches!(event, GroupEvent::Joining { .. });
    let joins = |seen: &Seen| seen.group.iter().filter(|event| joining(event)).count();
    let (before, owned) = (steady.look(joins), steady.owned());
    wait_until("the steady one joins again", || steady.look(joins) > before);
    let read_before = steady.look(|seen| seen.records);
    produce(TOPIC, PARTITIONS, 0..40);
    wait_until("its records come meanwhile", || steady.look(|seen| seen.records) == read_before + 20);
    assert_eq!(steady.owned(), owned);
    let mut of_slow = 0;
    wait_until("the rebalance ends", || {
        of_slow += slow.poll(Duration::from_millis(20)).unwrap().len();
        !third.owned().is_empty() && read(&[&steady, &third]) + of_slow >= 40
    });
    assert_eq!(read(&[&steady, &third]) + of_slow, 40, "what was read was committed before it was given up");
    slow.close().unwrap();
    steady.close();
    third.close();
}

#[test]
fn a_static_member_comes_back_to_what_it_had_without_a_rebalance() {
    const TOPIC: &str = "static";
    SHARED.admin().create_topic(TOPIC, 4);
    for strategy in ["range", COOPERATIVE_STICKY] {
        let group = format!("static-{strategy}");
        let join = |instance| {
            let more =
                [(STRATEGY, strategy), ("group.instance.id", instance), ("session.timeout.ms", "10000")];
            Watched::new(properties(&SHARED.bootstrap(), &group, &more), &[TOPIC])
        };
        let (a, b) = (join("a"), join("b"));
        share(&[&a, &b], 4);
        let settled = |m: &Watched| m.consumer.group_metadata().generation;
        wait_until("both are in one generation", || settled(&a) == settled(&b));
        let (generation, had, before) = (settled(&a), b.owned(), b.consumer.group_metadata().member_id);
        b.close();
        let b = join("b");
        wait_until("it is back", || b.owned() == had);
        assert_eq!((settled(&a), settled(&b)), (generation, generation), "{strategy}");
        assert_ne!(b.consumer.group_metadata().member_id, before, "its id is a new one");

        // The leader, too: it is told to skip its plan (KIP-814).
        let (had, leads) = (a.owned(), a.consumer.group_metadata().is_leader);
        a.close();
        let a = join("a");
        wait_until("it is back", || a.owned() == had);
        assert_eq!((settled(&a), settled(&b)), (generation, generation), "{strategy}");
        assert_eq!(a.consumer.group_metadata().is_leader, leads);

        // Two of one instance id: the newer one stays.
        let usurper = join("b");
        let fenced = b.wait("it is fenced", |seen| seen.errors.last().map(|error| error.code()));
        assert_eq!(fenced, "fenced");
        wait_until("the newer one has its place", || usurper.owned().len() == 2);
        a.close();
        usurper.close();
    }
}

type Heard = Arc<Mutex<Vec<(&'static str, BTreeSet<u32>)>>>;

/// Keeps what it hears; commits what is revoked, and looks whether that worked.
struct Listens {
    heard: Heard,
    topic: &'static str,
}

impl Listens {
    fn hear(&self, what: &'static str, partitions: &[TopicPartitions]) {
        let partitions = partitions.iter().flat_map(|t| t.partitions.iter().copied()).collect();
        self.heard.lock().unwrap().push((what, partitions));
    }
}

impl RebalanceListener for Listens {
    fn assigned(&mut self, _: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        self.hear("assigned", partitions);
    }
    fn revoked(&mut self, consumer: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        assert_eq!(consumer.poll(Duration::ZERO).unwrap_err().code(), "in-listener");
        consumer.commit().unwrap();
        let all: Vec<TopicPartition> = partitions
            .iter()
            .flat_map(|t| t.partitions.iter().map(|&p| TopicPartition::new(t.topic.clone(), p)))
            .collect();
        let committed = consumer.committed(&all).unwrap();
        assert_eq!(committed.len(), all.len(), "{} committed: {committed:?}", self.topic);
        self.hear("revoked", partitions);
    }
    fn lost(&mut self, _: &ListenerContext<'_>, partitions: &[TopicPartitions]) {
        self.hear("lost", partitions);
    }
}

#[test]
fn a_listener_hears_what_comes_and_goes_in_order_and_commits_what_goes() {
    for (topic, strategy, eager) in [("listens-eager", "range", true), ("listens", COOPERATIVE_STICKY, false)]
    {
        SHARED.admin().create_topic(topic, 4);
        produce(topic, 4, 0..400);
        let heard = Heard::default();
        // Only the listener commits.
        let more = [(STRATEGY, strategy), ("enable.auto.commit", "false"), ("max.poll.records", "50")];
        let config = ConsumerConfig::from_properties(properties(&SHARED.bootstrap(), topic, &more)).unwrap();
        let catalog = Catalog::from_properties(&config.properties, &(Arc::new(|_: &_| {}) as _)).unwrap();
        let consumer = Consumer::new(config, catalog.assignors(), |_| {}).unwrap();
        consumer.subscribe_with(&[topic], Listens { heard: Arc::clone(&heard), topic }).unwrap();
        let mut records = 0;
        wait_until("all is read", || {
            records += consumer.poll(Duration::from_millis(50)).unwrap().len();
            records >= 400
        });
        let other = member(topic, &[(STRATEGY, strategy)]);
        wait_until("they share", || {
            records += consumer.poll(Duration::from_millis(50)).unwrap().len();
            let own: usize = consumer.assignment().iter().map(|t| t.partitions.len()).sum();
            own == 2 && other.owned().len() == 2
        });
        // Something to commit when it closes.
        produce(topic, 4, 400..440);
        wait_until("more is read", || {
            records += consumer.poll(Duration::from_millis(50)).unwrap().len();
            records + other.look(|seen| seen.records) >= 440
        });
        let closes = Instant::now();
        consumer.close().unwrap();
        assert!(closes.elapsed() < Duration::from_secs(4), "the listener can commit while it closes");
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard[0], ("assigned", (0..4).collect()));
        assert_eq!(heard[1].0, "revoked");
        assert_eq!(heard[1].1.len(), if eager { 4 } else { 2 }, "{heard:?}");
        assert_eq!(heard[2].0, "assigned");
        assert_eq!(heard[2].1.len(), if eager { 2 } else { 0 }, "{heard:?}");
        let last = heard.last().unwrap();
        assert_eq!((last.0, last.1.len()), ("revoked", 2), "close gives up the rest");
        assert!(heard.iter().all(|(what, _)| *what != "lost"), "{heard:?}");
        assert_eq!(records + other.look(|seen| seen.records), 440, "nothing is read twice");
        other.close();
    }
}

/// Kafka's documented way (KIP-429): one bounce lists both, a second one drops the old strategy.
#[test]
fn a_group_goes_from_range_to_cooperative_sticky_in_two_rolling_bounces() {
    const TOPIC: &str = "upgrade";
    SHARED.admin().create_topic(TOPIC, 6);
    let lists = ["range", "cooperative-sticky,range", "cooperative-sticky"];
    let join = |list: &str| member(TOPIC, &[(STRATEGY, list)]);
    let mut members: Vec<Watched> = (0..3).map(|_| join(lists[0])).collect();
    let mut produced = 0;
    let mut gone = 0;
    let mut settle = |members: &[Watched], gone: usize| {
        share(&members.iter().collect::<Vec<_>>(), 6);
        produce(TOPIC, 6, produced..produced + 60);
        produced += 60;
        wait_until("all is read", || read(&members.iter().collect::<Vec<_>>()) + gone >= produced as usize);
    };
    settle(&members, gone);
    for list in &lists[1..] {
        for index in 0..members.len() {
            let old = std::mem::replace(&mut members[index], join(list));
            gone += old.look(|seen| seen.records);
            old.close();
            settle(&members, gone);
        }
    }
    let strategies: Vec<_> = members.iter().map(|m| m.consumer.group_metadata().strategy).collect();
    assert_eq!(strategies, vec![Some(COOPERATIVE_STICKY.to_owned()); 3]);
    for member in &members {
        let seen = member.look(|seen| (seen.errors.clone(), given_up(seen).1));
        assert_eq!(seen, (Vec::new(), false));
    }
    members.into_iter().for_each(Watched::close);
}

/// KIP-848: a member of the new protocol turns a classic group into one of its own, unless assignments carry user data.
#[test]
fn a_group_that_the_broker_takes_over_says_so_and_block_upgrade_prevents_it() {
    for (topic, block) in [("taken-over", "false"), ("not-taken-over", "true")] {
        SHARED.admin().create_topic(topic, 4);
        let ours = member(topic, &[("assignor.block-upgrade", block)]);
        share(&[&ours], 4);
        let taken_over =
            |seen: &Seen| seen.group.iter().any(|event| matches!(event, GroupEvent::BrokerAssigns { .. }));
        if block == "false" {
            let theirs: BaseConsumer = rdkafka::ClientConfig::new()
                .set("bootstrap.servers", SHARED.bootstrap())
                .set("group.id", topic)
                .set("group.protocol", "consumer")
                .create()
                .unwrap();
            theirs.subscribe(&[topic]).unwrap();
            wait_until("it says so", || {
                theirs.poll(Duration::from_millis(20));
                ours.look(taken_over)
            });
            wait_until("they share all the same", || {
                theirs.poll(Duration::from_millis(20));
                ours.owned().len() == 2 && theirs.assignment().unwrap().count() == 2
            });
        } else {
            let port = SHARED.admin().coordinator(topic);
            let join = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(StrBytes::from_static_str(topic).into())
                .with_rebalance_timeout_ms(60_000)
                .with_subscribed_topic_names(Some(vec![StrBytes::from_static_str(topic).into()]))
                .with_topic_partitions(Some(Vec::new()));
            let refused = Wire::connect(port).unwrap().call(&join).unwrap();
            let error = ResponseError::try_from_code(refused.error_code);
            assert_eq!(error, Some(ResponseError::GroupIdNotFound), "{:?}", refused.error_message);
            assert!(!ours.look(taken_over));
            assert_eq!(ours.owned().len(), 4);
        }
        ours.close();
    }
}
