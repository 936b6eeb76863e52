//! Exchanges with a broker on one connection: frames, correlation, the versions that it offers.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::sleep;

use super::call::{Call, RequestError};
use super::socket::{self, Socket};
use super::{Settings, decode, tls};
use crate::consumer::clock::Moment;
use crate::consumer::config::Address;

/// The largest answer that is read. The largest legitimate ones are those of JoinGroup to the leader of a group of
/// thousands, and of Metadata for as many topics: a few megabytes. Java's limit is the memory it has.
pub(super) const MAX_FRAME: usize = 100 * 1024 * 1024;

/// UNSUPPORTED_VERSION.
const UNSUPPORTED_VERSION: i16 = 35;

/// An open connection.
pub(super) struct Connection {
    pub(super) address: Address,
    stream: BufReader<Socket>,
    /// What the broker offers: lowest and highest version by API key.
    offered: BTreeMap<i16, (i16, i16)>,
    correlation: i32,
    /// Answers so far.
    answered: u64,
    /// When the last one came.
    used: Moment,
    /// The broker asks for no request before then.
    throttled_until: Moment,
    /// The login ends some time after.
    pub(super) log_in_again: Option<Moment>,
}

impl Connection {
    /// Connects, asks which versions the broker offers, and logs in.
    pub(super) async fn open(
        address: &Address,
        settings: &Settings,
        limit: Duration,
    ) -> Result<Self, RequestError> {
        let now = Moment::now();
        let mut connection = Self {
            address: address.clone(),
            stream: BufReader::new(socket::connect(address, settings.tls.as_ref(), limit).await?),
            offered: BTreeMap::new(),
            correlation: 0,
            answered: 0,
            used: now,
            throttled_until: now,
            log_in_again: None,
        };
        connection.negotiate(settings).await?;
        connection.log_in(settings).await?;
        Ok(connection)
    }

    /// Whether nobody has used it for so long that the broker may have closed it.
    pub(super) fn is_stale(&self, settings: &Settings) -> bool {
        Moment::now().since(self.used) >= settings.max_idle
    }

    /// Waits as long as the broker has asked, and logs in again if that is due: what precedes every request.
    pub(super) async fn ready(&mut self, settings: &Settings) -> Result<(), RequestError> {
        let pause = self.throttled_until.since(Moment::now());
        if !pause.is_zero() {
            tracing::debug!(broker = %self.address, ?pause, "throttled");
            sleep(pause).await;
        }
        if self.log_in_again.is_some_and(|due| Moment::now() >= due) {
            self.log_in(settings).await?;
        }
        Ok(())
    }

    /// Asks which versions the broker offers: with our name and version (KIP-511), or, of an older broker, without.
    async fn negotiate(&mut self, settings: &Settings) -> Result<(), RequestError> {
        let newest = ApiVersionsRequest::VERSIONS.1.min(settings.cap(ApiVersionsRequest::NAME));
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("assignor"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let mut body = self.round_trip(newest, &request, &settings.client_id).await?;
        let code = body.get(..2).and_then(|b| b.try_into().ok()).map(i16::from_be_bytes);
        let answer = if newest > 0 && code == Some(UNSUPPORTED_VERSION) {
            let plain = ApiVersionsRequest::default();
            let mut body = self.round_trip(0, &plain, &settings.client_id).await?;
            self.decode::<ApiVersionsRequest>(&mut body, 0)?
        } else {
            self.decode::<ApiVersionsRequest>(&mut body, newest)?
        };
        self.offered = answer.api_keys.iter().map(|a| (a.api_key, (a.min_version, a.max_version))).collect();
        Ok(())
    }

    /// The highest version of an API that both sides know.
    pub(super) fn version<R: Call>(&self, cap: i16) -> Result<i16, RequestError> {
        let (min, max) = R::VERSIONS;
        let max = max.min(cap);
        let offered = self.offered.get(&(R::API as i16)).copied();
        let common =
            offered.map(|(low, high)| (min.max(low), max.min(high))).filter(|(low, high)| low <= high);
        common.map(|(_, high)| high).ok_or_else(|| RequestError::Version {
            address: self.address.clone(),
            api: R::NAME,
            theirs: offered.map_or_else(|| "none".into(), |(low, high)| format!("{low} to {high}")),
            ours: format!("{min} to {max}"),
        })
    }

    /// Sends a request and reads its answer.
    pub(super) async fn exchange<R: Call>(
        &mut self,
        version: i16,
        request: &R,
        client_id: &str,
    ) -> Result<R::Answer, RequestError> {
        let mut body = self.round_trip(version, request, client_id).await?;
        let answer = self.decode::<R>(&mut body, version)?;
        self.throttled_until = Moment::now() + R::throttled(&answer, version);
        Ok(answer)
    }

    fn decode<R: Call>(&self, body: &mut Bytes, version: i16) -> Result<R::Answer, RequestError> {
        // Requests and answers become flexible in the same version; the header of ApiVersions' answer never does (KIP-511).
        let flexible = R::header_version(version) >= 2;
        let answer = decode::answer(body, version, flexible)
            .map_err(|e| self.malformed::<R>(version, e.to_string()))?;
        if body.has_remaining() {
            // Newer brokers may append; older ones are known to write stray bytes.
            tracing::debug!(api = R::NAME, version, bytes = body.remaining(), "bytes left after an answer");
        }
        Ok(answer)
    }

    /// Why nothing comes any more, and what may be wrong if it is the first that doesn't.
    fn broken(&self, e: &io::Error) -> RequestError {
        let address = self.address.clone();
        if let Some(reason) = tls::told(e) {
            return RequestError::Authentication { address, reason };
        }
        let hint = match self.answered {
            0 => "; if the listener uses TLS, security.protocol is SSL or SASL_SSL",
            // Versions are told to everybody.
            1 => "; if the listener asks for a login, security.protocol is SASL_SSL or SASL_PLAINTEXT",
            _ => "",
        };
        RequestError::Broken { address, reason: format!("{e}{hint}") }
    }

    fn malformed<R: Call>(&self, version: i16, reason: String) -> RequestError {
        RequestError::Malformed { address: self.address.clone(), api: R::NAME, version, reason }
    }

    /// Sends a request and returns the body of its answer.
    async fn round_trip<R: Call>(
        &mut self,
        version: i16,
        request: &R,
        client_id: &str,
    ) -> Result<Bytes, RequestError> {
        self.correlation = self.correlation.wrapping_add(1);
        let frame = encode(self.correlation, version, request, client_id)
            .map_err(|reason| RequestError::Encode { api: R::NAME, version, reason })?;
        let sent = async {
            self.stream.write_all(&frame).await?;
            self.stream.flush().await
        };
        let sent = sent.await;
        // A broker that has refused us says so before it hangs up, which writing may notice first.
        let claimed = match self.stream.read_i32().await {
            Ok(claimed) => sent.map(|()| claimed),
            Err(e) => Err(e),
        };
        let claimed = claimed.map_err(|e| self.broken(&e))?;
        if tls::looks_like_alert(claimed.to_be_bytes()) {
            let reason = "its answer is TLS: security.protocol is SSL or SASL_SSL".to_owned();
            return Err(RequestError::Authentication { address: self.address.clone(), reason });
        }
        let size = usize::try_from(claimed).ok().filter(|&n| n <= MAX_FRAME).ok_or_else(|| {
            RequestError::FrameTooLarge { address: self.address.clone(), size: i64::from(claimed) }
        })?;
        // Grows with what arrives, not with what is claimed.
        let mut body = Vec::new();
        (&mut self.stream).take(size as u64).read_to_end(&mut body).await.map_err(|e| self.broken(&e))?;
        if body.len() != size {
            return Err(self.broken(&ErrorKind::UnexpectedEof.into()));
        }
        self.answered += 1;
        self.used = Moment::now();

        let mut body = Bytes::from(body);
        let answered = decode::header(&mut body, R::Answer::header_version(version))
            .map_err(|e| self.malformed::<R>(version, e.to_string()))?;
        if answered != self.correlation {
            let reason = format!("it answers request {answered}, not {}", self.correlation);
            return Err(self.malformed::<R>(version, reason));
        }
        Ok(body)
    }
}

fn encode<R: Call>(correlation: i32, version: i16, request: &R, client_id: &str) -> Result<BytesMut, String> {
    let header = RequestHeader::default()
        .with_request_api_key(R::API as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    let mut frame = BytesMut::zeroed(4);
    header.encode(&mut frame, R::header_version(version)).map_err(|e| e.to_string())?;
    request.encode(&mut frame, version).map_err(|e| e.to_string())?;
    let size = i32::try_from(frame.len() - 4).map_err(|e| e.to_string())?;
    if let Some(prefix) = frame.get_mut(..4) {
        prefix.copy_from_slice(&size.to_be_bytes());
    }
    Ok(frame)
}
