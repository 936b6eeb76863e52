//! Records that never stop: each partition gets one after the other, numbered, and what the broker acknowledges is written down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext, Message as _};

use crate::ledger::Ledger;

/// Runs until it is dropped.
pub(crate) struct Producer {
    servers: String,
    ledger: Ledger,
    pause: Duration,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    client: ThreadedProducer<Acknowledgements>,
    /// How many partitions of which topics get records.
    topics: Mutex<BTreeMap<String, u32>>,
    next: AtomicU64,
    ended: AtomicBool,
}

struct Acknowledgements(Ledger);

impl ClientContext for Acknowledgements {}

impl ProducerContext for Acknowledgements {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        // What isn't acknowledged may be there or not: nobody relies on it.
        let Ok(message) = result else { return };
        let value = message.payload().and_then(|v| std::str::from_utf8(v).ok()).and_then(|v| v.parse().ok());
        let partition = u32::try_from(message.partition());
        if let (Some(value), Ok(partition)) = (value, partition) {
            self.0.acknowledged(value, (message.topic().to_owned(), partition));
        }
    }
}

impl Producer {
    /// Sends a record to each partition in every such pause.
    pub(crate) fn start(servers: &str, ledger: Ledger, pause: Duration) -> Self {
        Self::go_on(servers.to_owned(), ledger, pause, BTreeMap::new(), 1)
    }

    /// Goes on with a client that knows nothing of what has been. One of librdkafka's that knew a topic sends nothing to another one
    /// of its name, whose leaders' epochs are lower.
    pub(crate) fn renew(&mut self) {
        self.end();
        let topics = self.shared.topics.lock().unwrap().clone();
        let next = self.next();
        *self = Self::go_on(self.servers.clone(), self.ledger.clone(), self.pause, topics, next);
    }

    fn go_on(
        servers: String,
        ledger: Ledger,
        pause: Duration,
        topics: BTreeMap<String, u32>,
        next: u64,
    ) -> Self {
        let client = ClientConfig::new()
            .set("bootstrap.servers", &servers)
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // Where a partition is so new that its broker refuses the first request, the second may be taken meanwhile; the first,
            // sent again, then counts as a duplicate, which is acknowledged and nowhere to be read.
            .set("max.in.flight.requests.per.connection", "1")
            .set("linger.ms", "2")
            // Longer than any broker is away.
            .set("message.timeout.ms", "120000")
            .set("reconnect.backoff.max.ms", "500")
            .set("topic.metadata.refresh.interval.ms", "1000")
            .create_with_context(Acknowledgements(ledger.clone()))
            .unwrap();
        let shared = Arc::new(Shared {
            client,
            topics: Mutex::new(topics),
            next: AtomicU64::new(next),
            ended: AtomicBool::new(false),
        });
        let running = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !running.ended.load(Ordering::Relaxed) {
                running.send_to_all();
                std::thread::sleep(pause);
            }
        });
        Self { servers, ledger, pause, shared, thread: Some(thread) }
    }

    /// From now on so many partitions of this topic get records; 0 for none.
    pub(crate) fn topic(&self, name: &str, partitions: u32) {
        self.shared.topics.lock().unwrap().insert(name.to_owned(), partitions);
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.shared.next.load(Ordering::SeqCst)
    }

    /// Waits until what was sent is acknowledged, or given up.
    pub(crate) fn flush(&self) {
        self.shared.client.flush(Duration::from_secs(120)).unwrap();
    }
}

impl Shared {
    fn send_to_all(&self) {
        // Held while it sends: who changes the topics knows that nothing is on its way to what was taken out.
        let topics = self.topics.lock().unwrap();
        for (topic, partitions) in &*topics {
            for partition in 0..*partitions {
                let value = self.next.fetch_add(1, Ordering::SeqCst).to_string();
                let record = BaseRecord::<[u8], [u8]>::to(topic)
                    .partition(i32::try_from(partition).unwrap())
                    .payload(value.as_bytes());
                // A partition that the client doesn't know yet gets the next one.
                let _ = self.client.send(record);
            }
        }
    }
}

impl Producer {
    fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.end();
    }
}
