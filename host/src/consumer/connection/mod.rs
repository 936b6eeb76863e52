//! One connection to a broker: frames, correlation, versions, time-outs.
//!
//! What a broker sends is believed as little as what other members write (the blobs inside JoinGroup and SyncGroup, read by
//! [`crate::wire`]): frames are bounded, and `decode` reserves nothing for what isn't there.

mod call;
mod decode;
mod exchange;
mod reconnect;
mod sasl;
mod socket;
mod tls;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

pub(super) use call::{API_NAMES, Call, RequestError, is_api};
use exchange::Connection;
use reconnect::Reconnect;
use tls::Connector;

use super::clock::Moment;
use super::config::{Address, ConsumerConfig, Sasl};
use super::error::ConsumerError;

/// What all connections share.
pub(super) struct Settings {
    client_id: String,
    request_timeout: Duration,
    max_idle: Duration,
    caps: BTreeMap<String, i16>,
    tls: Option<Connector>,
    sasl: Option<Sasl>,
    reconnect: Reconnect,
    /// Hears of refusals that trying again does not heal, whoever tries.
    on_refusal: Box<dyn Fn(ConsumerError)>,
}

impl Settings {
    /// `on_refusal` is told when a broker and this client don't accept each other.
    ///
    /// # Errors
    /// If the configured certificates can't be used.
    pub(super) fn new(
        config: &ConsumerConfig,
        on_refusal: impl Fn(ConsumerError) + 'static,
    ) -> Result<Rc<Self>, ConsumerError> {
        let tls = config.security.tls.as_ref().map(Connector::new).transpose();
        Ok(Rc::new(Self {
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            max_idle: config.connections_max_idle,
            caps: config.api_max_versions.clone(),
            tls: tls.map_err(|e| ConsumerError::Config(format!("TLS: {e}")))?,
            sasl: config.security.sasl.clone(),
            reconnect: Reconnect::new(config),
            on_refusal: Box::new(on_refusal),
        }))
    }

    fn cap(&self, api: &str) -> i16 {
        self.caps.get(api).copied().unwrap_or(i16::MAX)
    }

    /// Whether this broker has failed just now, and others are better asked first.
    pub(super) fn has_failed(&self, address: &Address) -> bool {
        !self.reconnect.pause(address, Moment::now()).is_zero()
    }

    /// Connects, after the pause that is due.
    async fn connect(&self, address: &Address) -> Result<Connection, RequestError> {
        let pause = self.reconnect.pause(address, Moment::now());
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let limit = self.reconnect.setup_timeout(address);
        let attempt = self.reconnect.begin(address);
        let connection = Connection::open(address, self, limit).await?;
        attempt.succeeded();
        Ok(connection)
    }
}

/// An address and, while it works, a connection to it. Requests queue: a broker answers one at a time per connection.
pub(super) struct Channel {
    address: Address,
    settings: Rc<Settings>,
    connection: Mutex<Option<Connection>>,
}

impl Channel {
    pub(super) fn new(address: Address, settings: Rc<Settings>) -> Self {
        Self { address, settings, connection: Mutex::new(None) }
    }

    /// Where it leads.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends the request that `build` makes for the version in use, and waits `request.timeout.ms` for its answer.
    pub(super) async fn call<R: Call>(
        &self,
        build: impl FnOnce(i16) -> R,
    ) -> Result<R::Answer, RequestError> {
        self.call_within(self.settings.request_timeout, build).await
    }

    /// The same, with another time-out.
    pub(super) async fn call_within<R: Call>(
        &self,
        limit: Duration,
        build: impl FnOnce(i16) -> R,
    ) -> Result<R::Answer, RequestError> {
        let late = || RequestError::Timeout { address: self.address.clone(), api: R::NAME, limit };
        let exchange = async {
            let mut slot = self.connection.lock().await;
            // Taken out: whatever ends this exchange early leaves no connection behind on which an answer is still due.
            let mut connection = match slot.take().filter(|c| !c.is_stale(&self.settings)) {
                Some(connection) => connection,
                None => self.settings.connect(&self.address).await?,
            };
            let version = connection.version::<R>(self.settings.cap(R::NAME))?;
            connection.ready(&self.settings).await?;
            let answer = connection.exchange(version, &build(version), &self.settings.client_id).await?;
            *slot = Some(connection);
            Ok(answer)
        };
        let answer = timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()));
        if let Err(RequestError::Authentication { address, reason }) = &answer {
            let (broker, reason) = (address.to_string(), reason.clone());
            (self.settings.on_refusal)(ConsumerError::Authentication { broker, reason });
        }
        answer
    }
}

#[cfg(test)]
mod tests;
