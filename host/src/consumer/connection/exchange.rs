//! Exchanges with a broker on one connection: frames, correlation, the versions that it offers.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::call::{Call, RequestError};
use super::{Settings, decode};
use crate::consumer::config::Address;

/// The largest answer that is read. The largest legitimate ones are those of JoinGroup to the leader of a group of
/// thousands, and of Metadata for as many topics: a few megabytes. Java's limit is the memory it has.
pub(super) const MAX_FRAME: usize = 100 * 1024 * 1024;

/// UNSUPPORTED_VERSION.
const UNSUPPORTED_VERSION: i16 = 35;

/// An open connection.
pub(super) struct Connection {
    address: Address,
    stream: BufReader<TcpStream>,
    /// What the broker offers: lowest and highest version by API key.
    offered: BTreeMap<i16, (i16, i16)>,
    correlation: i32,
}

impl Connection {
    /// Connects, and asks which versions the broker offers.
    pub(super) async fn open(address: &Address, settings: &Settings) -> Result<Self, RequestError> {
        let failed = |reason: String| RequestError::Connect { address: address.clone(), reason };
        let connect = TcpStream::connect((address.host.as_str(), address.port));
        let stream = timeout(settings.connect_timeout, connect)
            .await
            .map_err(|_| failed(format!("no answer within {:?}", settings.connect_timeout)))?
            .map_err(|e| failed(e.to_string()))?;
        stream.set_nodelay(true).map_err(|e| failed(e.to_string()))?;
        let mut connection = Self {
            address: address.clone(),
            stream: BufReader::new(stream),
            offered: BTreeMap::new(),
            correlation: 0,
        };
        connection.negotiate(settings).await?;
        Ok(connection)
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
        self.decode::<R>(&mut body, version)
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
        let broken =
            |e: std::io::Error| RequestError::Broken { address: self.address.clone(), reason: e.to_string() };
        self.stream.write_all(&frame).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;

        let claimed = self.stream.read_i32().await.map_err(broken)?;
        let size = usize::try_from(claimed).ok().filter(|&n| n <= MAX_FRAME).ok_or_else(|| {
            RequestError::FrameTooLarge { address: self.address.clone(), size: i64::from(claimed) }
        })?;
        // Grows with what arrives, not with what is claimed.
        let mut body = Vec::new();
        (&mut self.stream).take(size as u64).read_to_end(&mut body).await.map_err(broken)?;
        if body.len() != size {
            return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
        }

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
