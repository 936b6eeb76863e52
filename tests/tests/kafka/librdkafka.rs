//! librdkafka's consumer as a member: an ordinary one, whose group librdkafka looks after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{ClientConfig, ClientContext};

use crate::lines::{now, write_partitions};
use crate::program::{Client, Failure, Output};

/// The most records of a poll, as of Kafka's own client: librdkafka gives one at a time.
const MOST: usize = 500;

pub(crate) struct Librdkafka {
    consumer: BaseConsumer<Told>,
    output: Output,
}

impl Client for Librdkafka {
    fn new(properties: BTreeMap<String, String>, output: &Output) -> Result<Self, String> {
        let mut config = ClientConfig::new();
        for (key, value) in &properties {
            match &**key {
                "fetch.max.wait.ms" => config.set("fetch.wait.max.ms", value),
                // Ours.
                "max.poll.records" => &mut config,
                key => config.set(key, value),
            };
        }
        // An offset counts when its record is written down. By default it counts when `poll` gives it; and a consumer that is dropped
        // polls, by the crate rdkafka, and forgets what comes, which librdkafka then commits.
        config.set("enable.auto.offset.store", "false");
        let consumer = config.create_with_context(Told(output.clone())).map_err(|e| e.to_string())?;
        Ok(Self { consumer, output: output.clone() })
    }

    fn subscribe(&mut self, topics: &[&str]) -> Result<(), Failure> {
        self.consumer.subscribe(topics).map_err(failure)
    }

    fn poll(&mut self, within: Duration) -> Result<bool, Failure> {
        let begun = Instant::now();
        let mut given = 0;
        while given < MOST {
            // Once there is one, others come only if they are here already.
            let left = if given > 0 { Duration::ZERO } else { within.saturating_sub(begun.elapsed()) };
            match self.consumer.poll(left) {
                Some(Ok(record)) => {
                    // Each is written down before the next poll, which may give its partition up.
                    let partition = u32::try_from(record.partition()).unwrap_or(u32::MAX);
                    let value = record.payload().unwrap_or_default();
                    self.output.records(now(), [(record.topic(), partition, record.offset(), value)]);
                    given += 1;
                    self.consumer.store_offset_from_message(&record).map_err(failure)?;
                }
                Some(Err(error)) => return Err(failure(error)),
                None if given > 0 || begun.elapsed() >= within => break,
                // A rebalance or a commit was all there was.
                None => {}
            }
        }
        Ok(given > 0)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        match self.consumer.commit_consumer_state(CommitMode::Sync) {
            // What was given was given up in the same poll.
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) | Ok(()) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    fn obey(&mut self, command: &[&str]) -> Result<(), String> {
        Err(format!("librdkafka can't {command:?}"))
    }

    fn close(self) -> Result<(), Failure> {
        // It leaves when it is dropped.
        Ok(())
    }
}

fn failure(error: KafkaError) -> Failure {
    match error {
        KafkaError::MessageConsumptionFatal(_) => Failure::Fatal(error.to_string()),
        error => Failure::Passing(error.to_string()),
    }
}

/// Says what librdkafka tells about partitions.
struct Told(Output);

impl ClientContext for Told {}

impl ConsumerContext for Told {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(partitions) if consumer.assignment_lost() => {
                self.0.say("lost", &word(partitions))
            }
            Rebalance::Revoke(partitions) => self.0.say("revoked", &word(partitions)),
            Rebalance::Assign(_) => {}
            Rebalance::Error(error) => self.0.say("error", &error.to_string()),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(_) = rebalance {
            match consumer.assignment() {
                // Neither the generation nor who leads nor by which strategy is told.
                Ok(all) => self.0.say("assigned", &format!("-1 - - {}", word(&all))),
                Err(error) => self.0.say("error", &error.to_string()),
            }
        }
    }
}

/// Partitions as a word.
fn word(partitions: &TopicPartitionList) -> String {
    let mut topics: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for element in partitions.elements() {
        let partition = u32::try_from(element.partition()).unwrap_or(u32::MAX);
        topics.entry(element.topic().to_owned()).or_default().push(partition);
    }
    topics.values_mut().for_each(|partitions| partitions.sort_unstable());
    write_partitions(topics.iter().map(|(topic, partitions)| (&**topic, &**partitions)))
}
