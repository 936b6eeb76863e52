//! Our consumer as a member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, GroupEvent};
use assignor_host::{Catalog, Observer, TopicPartitions};

use crate::lines::{now, write_partitions};
use crate::program::{Client, Failure, Output};

pub(crate) struct Ours {
    consumer: Consumer,
    catalog: Catalog,
    output: Output,
}

impl Client for Ours {
    fn new(properties: BTreeMap<String, String>, output: &Output) -> Result<Self, String> {
        let (said, told) = (output.clone(), output.clone());
        let observer: Observer = Arc::new(move |event| said.say("event", &format!("{event:?}")));
        let catalog = Catalog::from_properties(&properties, &observer).map_err(|e| e.to_string())?;
        let config = ConsumerConfig::from_properties(properties).map_err(|e| e.to_string())?;
        let consumer = Consumer::new(config, catalog.assignors(), move |event| tell(&told, event));
        Ok(Self { consumer: consumer.map_err(|e| e.to_string())?, catalog, output: output.clone() })
    }

    fn subscribe(&mut self, topics: &[&str]) -> Result<(), Failure> {
        self.consumer.subscribe(topics).map_err(failure)
    }

    fn poll(&mut self, within: Duration) -> Result<bool, Failure> {
        let records = self.consumer.poll(within).map_err(failure)?;
        let lines = records
            .iter()
            .map(|r| (&*r.topic, r.partition, r.offset, r.value.as_deref().unwrap_or_default()));
        self.output.records(now(), lines);
        Ok(!records.is_empty())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.consumer.commit().map_err(failure)
    }

    fn obey(&mut self, command: &[&str]) -> Result<(), String> {
        match command {
            ["rebalance"] => self.consumer.request_rebalance("it was asked for"),
            ["replace", name, path] => {
                let strategy = self.catalog.get(name).ok_or_else(|| format!("no strategy {name}"))?;
                let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
                // It asks for the rebalance by itself.
                strategy.replace(&bytes).map_err(|e| e.to_string())?;
            }
            _ => return Err(format!("what is {command:?}?")),
        }
        Ok(())
    }

    fn close(self) -> Result<(), Failure> {
        self.consumer.close().map_err(failure)
    }
}

fn failure(error: ConsumerError) -> Failure {
    if error.is_retriable() { Failure::Passing(error.to_string()) } else { Failure::Fatal(error.to_string()) }
}

fn tell(output: &Output, event: &GroupEvent) {
    let partitions =
        |all: &[TopicPartitions]| write_partitions(all.iter().map(|t| (&*t.topic, &*t.partitions)));
    match event {
        GroupEvent::Assigned { generation, partitions: all, leader, strategy } => {
            let leader = i32::from(*leader);
            output.say("assigned", &format!("{generation} {leader} {strategy} {}", partitions(all)));
        }
        GroupEvent::Revoked { partitions: all } => output.say("revoked", &partitions(all)),
        GroupEvent::Lost { partitions: all, cause } => {
            output.say("lost", &partitions(all));
            output.say("event", cause);
        }
        other => output.say("event", &format!("{other:?}")),
    }
}
