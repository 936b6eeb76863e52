//! The data path: fetching records of given partitions from given offsets. Everything else is ours.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::config::ConsumerConfig;
use super::error::ConsumerError;
use super::offsets::Offsets;
use super::partition::TopicPartition;
use super::shared::Key;

/// A record. Key and value are bytes, unless [`Consumer::typed`](super::Consumer::typed) makes something else of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<K = Option<Vec<u8>>, V = Option<Vec<u8>>> {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970-01-01 UTC, as the producer or the broker set it.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: K,
    /// Its value; of bytes, `None` is a tombstone.
    pub value: V,
    /// Its headers, in order.
    pub headers: Vec<Header>,
}

/// A header's name and value.
pub type Header = (String, Option<Vec<u8>>);

impl<K, V> Record<K, V> {
    /// Its partition.
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition::new(&*self.topic, self.partition)
    }
}

/// What a look for a record found.
#[derive(Debug)]
pub(super) enum Fetched {
    Record(Record),
    /// Nothing within the time.
    Nothing,
    /// Something that is no record and needs no mention; what comes next may be there already.
    Passing,
    /// A partition's offset is not there (any more), without telling which partition's.
    OutOfRange,
    Failed(ConsumerError),
}

/// Fetches records.
pub(super) trait DataPath: Send {
    /// Stops fetching some partitions, then fetches others from these offsets on; a partition may be among both. What is fetched
    /// besides goes on untouched.
    fn change(&mut self, stop: &BTreeSet<Key>, start: &Offsets) -> Result<(), ConsumerError>;

    /// Stops fetching anything.
    fn clear(&mut self);

    /// The next record, within a time.
    fn next(&mut self, limit: Duration) -> Fetched;

    /// Stops fetching anything, and forgets all that is known of topics: one of them is another one now, of the same name.
    fn renew(&mut self) -> Result<(), ConsumerError>;

    /// Has `wake` called whenever there is something again after [`next`](Self::next) found nothing.
    fn wake_by(&mut self, wake: Arc<dyn Fn() + Send + Sync>);
}

/// librdkafka, as nothing but a fetcher: manual assignment, no group, no commits, no resets.
pub(super) struct Librdkafka {
    config: ClientConfig,
    consumer: BaseConsumer<Log>,
    topics: Vec<Arc<str>>,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Librdkafka {
    pub(super) fn new(config: &ConsumerConfig) -> Result<Self, ConsumerError> {
        let config = client_config(config);
        let consumer = create(&config).map_err(|e| ConsumerError::Config(format!("data path: {e}")))?;
        Ok(Self { config, consumer, topics: Vec::new(), wake: None })
    }
}

fn create(config: &ClientConfig) -> Result<BaseConsumer<Log>, KafkaError> {
    config.create_with_context(Log::default())
}

/// librdkafka's log. Its errors come without a word of why; its log says it.
#[derive(Default)]
struct Log {
    /// Why the last connection failed.
    failure: Mutex<String>,
}

impl ClientContext for Log {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, "librdkafka: {message}");
        if facility == "FAIL" {
            message.clone_into(&mut self.failure.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl ConsumerContext for Log {}

impl Log {
    /// Why a broker and this client don't accept each other.
    fn refusal(&self) -> ConsumerError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // "[thrd:…]: sasl_ssl://host:port/id: SASL authentication error: …"
        let address = failure.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let told = address.and_then(|(broker, rest)| Some((broker, rest.split_once(": ")?.1)));
        let (broker, reason) = told.unwrap_or(("a broker", "see the log"));
        ConsumerError::Authentication { broker: broker.to_owned(), reason: format!("{reason} (data path)") }
    }
}

/// A topic's name, shared by all its records.
fn intern(topics: &mut Vec<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = topics.iter().find(|t| &***t == name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    topics.push(Arc::clone(&name));
    name
}

/// Every property in which librdkafka differs from the Java client is set to Java's value, here or by `config.fetch`.
fn client_config(config: &ConsumerConfig) -> ClientConfig {
    let servers: Vec<String> = config.bootstrap_servers.iter().map(ToString::to_string).collect();
    let fetch_max: u64 = config.fetch.get("fetch.max.bytes").and_then(|v| v.parse().ok()).unwrap_or(0);
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", servers.join(","))
        // Required, though no group request is ever sent through here.
        .set("group.id", &config.group_id)
        .set("client.id", &config.client_id)
        .set("client.rack", config.client_rack.as_deref().unwrap_or_default())
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", if config.read_committed { "read_committed" } else { "read_uncommitted" })
        .set("allow.auto.create.topics", config.allow_auto_create_topics.to_string())
        .set("topic.metadata.refresh.interval.ms", config.metadata_max_age.as_millis().to_string())
        .set("retry.backoff.ms", config.retry_backoff.as_millis().to_string())
        .set("retry.backoff.max.ms", config.retry_backoff_max.as_millis().to_string())
        .set("socket.timeout.ms", config.request_timeout.as_millis().max(1_000).to_string())
        .set("reconnect.backoff.ms", config.reconnect_backoff.as_millis().to_string())
        .set("reconnect.backoff.max.ms", config.reconnect_backoff_max.as_millis().to_string())
        .set("metadata.recovery.strategy", if config.rebootstrap { "rebootstrap" } else { "none" })
        .set("metadata.recovery.rebootstrap.trigger.ms", config.rebootstrap_trigger.as_millis().to_string())
        .set("socket.connection.setup.timeout.ms", config.connect_timeout.as_millis().max(1_000).to_string())
        // librdkafka wants room for one fetch and its framing.
        .set("receive.message.max.bytes", (fetch_max + 512).max(100_000_000).to_string());
    for (key, value) in config.security.data_path() {
        client.set(key, value);
    }
    for (key, value) in &config.fetch {
        let key = if key == "fetch.max.wait.ms" { "fetch.wait.max.ms" } else { key };
        client.set(key, value);
    }
    client
}

impl DataPath for Librdkafka {
    fn change(&mut self, stop: &BTreeSet<Key>, start: &Offsets) -> Result<(), ConsumerError> {
        let failed = |e: KafkaError| ConsumerError::Data(e.to_string());
        let number = |partition: u32| i32::try_from(partition).unwrap_or(i32::MAX);
        if !stop.is_empty() {
            let mut list = TopicPartitionList::with_capacity(stop.len());
            for (topic, partition) in stop {
                list.add_partition(topic, number(*partition));
            }
            self.consumer.incremental_unassign(&list).map_err(failed)?;
        }
        self.topics.retain(|name| !stop.iter().any(|(topic, _)| **topic == **name));
        if !start.is_empty() {
            let mut list = TopicPartitionList::with_capacity(start.len());
            for ((topic, partition), offset) in start {
                let offset = Offset::Offset(*offset);
                list.add_partition_offset(topic, number(*partition), offset).map_err(failed)?;
            }
            self.consumer.incremental_assign(&list).map_err(failed)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        if let Err(e) = self.consumer.unassign() {
            tracing::warn!(error = %e, "data path");
        }
        self.topics.clear();
    }

    fn next(&mut self, limit: Duration) -> Fetched {
        match self.consumer.poll(limit) {
            None | Some(Err(KafkaError::NoMessageReceived)) => Fetched::Nothing,
            Some(Err(KafkaError::PartitionEOF(_))) => Fetched::Passing,
            Some(Ok(message)) => {
                let topic = intern(&mut self.topics, message.topic());
                Fetched::Record(record(topic, &message))
            }
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange,
            ))) => Fetched::OutOfRange,
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::TopicAuthorizationFailed))) => {
                Fetched::Failed(ConsumerError::Data("not authorised to read an assigned topic".into()))
            }
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL,
            ))) => Fetched::Failed(self.consumer.context().refusal()),
            Some(Err(e @ KafkaError::MessageConsumptionFatal(_))) => {
                Fetched::Failed(ConsumerError::Data(e.to_string()))
            }
            Some(Err(e)) => {
                // Brokers that are away, leaders that move: librdkafka goes on by itself.
                tracing::debug!(error = %e, "data path");
                Fetched::Passing
            }
        }
    }

    /// librdkafka keeps the epoch of a partition's leader when its topic is created anew, takes what it hears of the new one for
    /// outdated, and never fetches it (as Java did, KAFKA-12257). Only a new client has forgotten.
    fn renew(&mut self) -> Result<(), ConsumerError> {
        tracing::info!("a topic was created anew: fetching begins anew, too");
        self.consumer = create(&self.config).map_err(|e| ConsumerError::Data(e.to_string()))?;
        self.topics.clear();
        if let Some(wake) = self.wake.clone() {
            self.wake_by(wake);
        }
        Ok(())
    }

    fn wake_by(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.wake = Some(Arc::clone(&wake));
        self.consumer.set_nonempty_callback(move || wake());
    }
}

fn record(topic: Arc<str>, message: &BorrowedMessage<'_>) -> Record {
    // rdkafka panics on a header whose name is not UTF-8, which any producer may write.
    let headers = catch_unwind(AssertUnwindSafe(|| {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        headers.map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect()
    }));
    Record {
        topic,
        partition: u32::try_from(message.partition()).unwrap_or(u32::MAX),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_else(|_| {
            tracing::warn!(offset = message.offset(), "headers dropped: a name is not UTF-8");
            Vec::new()
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_broker_that_does_not_fit_is_told_with_its_address_and_the_reason() {
        // What hears TLS and answers otherwise.
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let broker = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
        let properties =
            [("bootstrap.servers", broker.as_str()), ("group.id", "g"), ("security.protocol", "SSL")];
        let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut path = Librdkafka::new(&ConsumerConfig::from_properties(properties).unwrap()).unwrap();
        path.change(&BTreeSet::new(), &[(("t".to_owned(), 0), 0)].into()).unwrap();
        let start = Instant::now();
        loop {
            match path.next(Duration::from_millis(100)) {
                Fetched::Failed(ConsumerError::Authentication { broker: told, reason }) => {
                    assert_eq!(told, broker);
                    assert!(reason.contains("SSL handshake failed"), "{reason}");
                    return;
                }
                other => assert!(start.elapsed() < Duration::from_secs(30), "{other:?}"),
            }
        }
    }
}
