//! One connection to a broker: frames, correlation, versions, time-outs.
//!
//! What a broker sends is believed as little as what other members write (the blobs inside JoinGroup and SyncGroup, read by
//! [`crate::wire`]): frames are bounded, and `decode` reserves nothing for what isn't there.

mod call;
mod decode;
mod exchange;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

pub(super) use call::{API_NAMES, Call, RequestError, is_api};
use exchange::Connection;

use super::config::{Address, ConsumerConfig};

/// What all connections share.
#[derive(Debug)]
pub(super) struct Settings {
    client_id: String,
    connect_timeout: Duration,
    request_timeout: Duration,
    caps: BTreeMap<String, i16>,
}

impl Settings {
    pub(super) fn new(config: &ConsumerConfig) -> Rc<Self> {
        Rc::new(Self {
            client_id: config.client_id.clone(),
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            caps: config.api_max_versions.clone(),
        })
    }

    fn cap(&self, api: &str) -> i16 {
        self.caps.get(api).copied().unwrap_or(i16::MAX)
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
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => Connection::open(&self.address, &self.settings).await?,
            };
            let version = connection.version::<R>(self.settings.cap(R::NAME))?;
            let answer = connection.exchange(version, &build(version), &self.settings.client_id).await?;
            *slot = Some(connection);
            Ok(answer)
        };
        timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }
}

#[cfg(test)]
mod tests;
