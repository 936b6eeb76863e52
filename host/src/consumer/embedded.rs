//! A Kafka broker inside this process, for demonstrations and quick tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};

/// Why the embedded broker failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the embedded broker: {0}")]
pub struct EmbeddedError(String);

impl From<KafkaError> for EmbeddedError {
    fn from(e: KafkaError) -> Self {
        Self(e.to_string())
    }
}

/// librdkafka's mock cluster, with one broker.
///
/// It serves consumers and producers over TCP on the loopback interface. What it can't do: persistence, TLS, administration,
/// MEMBER_ID_REQUIRED. It refuses commits while a group rebalances, which Kafka accepts until JoinGroup is answered: what was not
/// committed automatically before is delivered again. **All members of a group must list the same strategy first, or it ends the process.** A rebalance of a
/// running group takes a second less than the session time-out, which is why
/// [`consumer_properties`](Self::consumer_properties) sets a short one.
pub struct EmbeddedBroker {
    servers: String,
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    producer: ThreadedProducer<Deliveries>,
}

enum Command {
    CreateTopic { name: String, partitions: i32, reply: SyncSender<Result<(), EmbeddedError>> },
}

/// Counts what became of records.
#[derive(Default)]
struct Deliveries {
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl rdkafka::ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.delivered } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedBroker").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl EmbeddedBroker {
    /// Starts it.
    ///
    /// # Errors
    /// If librdkafka can't.
    pub fn start() -> Result<Self, EmbeddedError> {
        let (commands, received) = channel();
        let (ready, started) = sync_channel(1);
        // The cluster's handle can't move between threads.
        let thread = std::thread::Builder::new()
            .name("assignor-broker".into())
            .spawn(move || serve(&received, &ready))
            .map_err(|e| EmbeddedError(e.to_string()))?;
        let servers = started.recv().map_err(|_| EmbeddedError("its thread ended".into()))??;
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &servers)
            .set("linger.ms", "5")
            .set("message.timeout.ms", "30000")
            .create_with_context(Deliveries::default())?;
        Ok(Self { servers, commands: Some(commands), thread: Some(thread), producer })
    }

    /// `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> &str {
        &self.servers
    }

    /// What a consumer needs for it, besides `group.id`: the server's address, versions that it can parse, a short session, and a
    /// start at the beginning of topics.
    pub fn consumer_properties(&self) -> BTreeMap<String, String> {
        [
            ("bootstrap.servers", self.servers.as_str()),
            // It advertises more than it parses.
            ("assignor.api.max.versions", "JoinGroup:5,SyncGroup:3,LeaveGroup:2"),
            ("session.timeout.ms", "2500"),
            ("heartbeat.interval.ms", "300"),
            ("metadata.max.age.ms", "1000"),
            ("retry.backoff.ms", "50"),
            ("auto.offset.reset", "earliest"),
            ("auto.commit.interval.ms", "100"),
            ("fetch.max.wait.ms", "100"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// If it exists already, or `partitions` is 0.
    pub fn create_topic(&self, name: &str, partitions: u32) -> Result<(), EmbeddedError> {
        let ended = || EmbeddedError("its thread ended".into());
        let (reply, answer) = sync_channel(1);
        let partitions = i32::try_from(partitions).map_err(|e| EmbeddedError(e.to_string()))?;
        let command = Command::CreateTopic { name: name.to_owned(), partitions, reply };
        self.commands.as_ref().ok_or_else(ended)?.send(command).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }

    /// Sends a record on its way. Waits while too many are under way; [`flush`](Self::flush) tells when all have arrived.
    ///
    /// # Errors
    /// If the topic or partition can't be.
    pub fn produce(
        &self,
        topic: &str,
        partition: u32,
        key: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(), EmbeddedError> {
        let partition = i32::try_from(partition).map_err(|e| EmbeddedError(e.to_string()))?;
        loop {
            let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(partition).payload(value);
            if let Some(key) = key {
                record = record.key(key);
            }
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    self.producer.flush(Duration::from_millis(100)).or_else(|e| match e {
                        KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut) => Ok(()),
                        e => Err(e),
                    })?;
                }
                Err((e, _)) => return Err(e.into()),
            }
        }
    }

    /// Waits until all records have arrived, and says how many have since the start.
    ///
    /// # Errors
    /// If that takes longer than `limit`, or a record was refused.
    pub fn flush(&self, limit: Duration) -> Result<u64, EmbeddedError> {
        self.producer.flush(limit)?;
        match self.producer.context().failed.load(Ordering::Relaxed) {
            0 => Ok(self.producer.context().delivered.load(Ordering::Relaxed)),
            failed => Err(EmbeddedError(format!("{failed} records did not arrive"))),
        }
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        // The thread ends with its last command.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn serve(commands: &Receiver<Command>, ready: &SyncSender<Result<String, EmbeddedError>>) {
    let cluster = match MockCluster::new(1) {
        Ok(cluster) => cluster,
        Err(e) => {
            // Who starts it waits for this.
            let _ = ready.send(Err(e.into()));
            return;
        }
    };
    let _ = ready.send(Ok(cluster.bootstrap_servers()));
    for command in commands {
        match command {
            Command::CreateTopic { name, partitions, reply } => {
                let _ = reply.send(cluster.create_topic(&name, partitions, 1).map_err(Into::into));
            }
        }
    }
}
