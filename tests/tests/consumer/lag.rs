//! What strategies are told of the cluster and of offsets, by a live consumer.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use assignor_host::builtin::Builtin;
use assignor_host::consumer::Consumer;
use assignor_host::{Assignor, CallError, Context, Group, Plan, Protocol, Unavailable};

use crate::support::{PATIENCE, TOPIC, broker, config, number, produce};

/// What it was told in one decision.
#[derive(Debug, PartialEq)]
struct Told {
    begin: Result<Vec<i64>, Unavailable>,
    end: Result<Vec<i64>, Unavailable>,
    committed: Result<Vec<i64>, Unavailable>,
    leaders: Result<Vec<i32>, Unavailable>,
    replicas: Result<Vec<Vec<i32>>, Unavailable>,
    nodes: usize,
}

/// Asks everything, and decides as `range` does.
struct Curious(Sender<Told>);

impl Assignor for Curious {
    fn name(&self) -> &str {
        "curious"
    }
    fn protocols(&self) -> &[Protocol] {
        &[Protocol::Eager]
    }
    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError> {
        let soon = Instant::now() + Duration::from_secs(1);
        let services = &cx.services;
        let told = Told {
            begin: services.begin_offsets(TOPIC, soon),
            end: services.end_offsets(TOPIC, soon),
            committed: services.committed_offsets(TOPIC, soon),
            leaders: services.leaders(TOPIC, soon),
            replicas: services.replicas(TOPIC, soon),
            nodes: services.nodes(soon).map_or(0, |nodes| nodes.len()),
        };
        // The test has ended if nobody receives.
        let _ = self.0.send(told);
        Ok(Builtin::by_name("range").unwrap().plan(group))
    }
}

#[test]
fn a_strategy_is_told_offsets_as_they_are_and_what_nobody_committed_is_absent() {
    let broker = broker(3);
    for (partition, records) in [(0, 5), (1, 2)] {
        for n in 0..records {
            broker.produce(TOPIC, partition, None, (n as u32).to_string().as_bytes()).unwrap();
        }
    }
    broker.flush(PATIENCE).unwrap();
    let (sender, told) = channel();
    let config = config(&broker.consumer_properties(), "curious", &[]);
    let consumer = Consumer::new(config, vec![Box::new(Curious(sender))], |_| {}).unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    let start = Instant::now();
    let mut numbers = Vec::new();
    while numbers.len() < 7 {
        assert!(start.elapsed() < PATIENCE, "{numbers:?}");
        numbers.extend(consumer.poll(Duration::from_millis(100)).unwrap().iter().map(number));
    }
    let first = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.end, Ok(vec![5, 2, 0]));
    assert_eq!(first.begin, Ok(vec![0, 0, 0]));
    assert_eq!(first.committed, Ok(vec![-1, -1, -1]));
    assert_eq!((first.leaders, first.nodes), (Ok(vec![1, 1, 1]), 1));
    assert_eq!(first.replicas, Ok(vec![vec![1]; 3]));

    consumer.commit().unwrap();
    produce(&broker, 3, 0, 3);
    consumer.request_rebalance("to be told again");
    let second = loop {
        assert!(start.elapsed() < PATIENCE);
        consumer.poll(Duration::from_millis(100)).unwrap();
        if let Ok(told) = told.try_recv() {
            break told;
        }
    };
    assert_eq!(second.end, Ok(vec![6, 3, 1]));
    let committed = second.committed.unwrap();
    assert!(committed[0] >= 5 && committed[1] >= 2, "{committed:?}");
    consumer.close().unwrap();
}
