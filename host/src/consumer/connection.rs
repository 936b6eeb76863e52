//! One connection to a broker: frames, correlation, versions, time-outs.
//!
//! A broker is trusted as far as a Kafka client has to: kafka-protocol's array decoding reserves what the wire claims, so a broker
//! that lies about lengths can exhaust memory. Frames are bounded all the same, and what *other members* write (the blobs inside
//! JoinGroup and SyncGroup) goes through [`crate::wire`], which believes no length.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, RequestHeader,
    ResponseHeader, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::config::{Address, ConsumerConfig};

/// The largest answer that is read. The largest legitimate ones are those of JoinGroup to the leader of a group of
/// thousands, and of Metadata for as many topics: a few megabytes. Java's limit is the memory it has.
const MAX_FRAME: usize = 100 * 1024 * 1024;

/// UNSUPPORTED_VERSION.
const UNSUPPORTED_VERSION: i16 = 35;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: Address, reason: String },
    #[error("the connection to {address} broke: {reason}")]
    Broken { address: Address, reason: String },
    #[error("{address} did not answer {api} within {limit:?}")]
    Timeout { address: Address, api: &'static str, limit: Duration },
    #[error("{address} claims an answer of {size} bytes, the limit is {MAX_FRAME}")]
    FrameTooLarge { address: Address, size: i64 },
    #[error("the answer of {address} to {api} version {version} can't be decoded: {reason}")]
    Malformed { address: Address, api: &'static str, version: i16, reason: String },
    #[error("{api} version {version} can't be encoded: {reason}")]
    Encode { api: &'static str, version: i16, reason: String },
    #[error(
        "{address} offers {api} in versions {theirs}, this client uses {ours}; see assignor.api.max.versions"
    )]
    Version { address: Address, api: &'static str, theirs: String, ours: String },
}

/// A request of ours: its API, the versions in which we can build it, and its answer.
pub(super) trait Call: Encodable + HeaderVersion {
    const API: ApiKey;
    const NAME: &'static str;
    const VERSIONS: (i16, i16);
    type Answer: Decodable + HeaderVersion;

    fn decode(body: &mut Bytes, version: i16) -> Result<Self::Answer, String> {
        Self::Answer::decode(body, version).map_err(|e| e.to_string())
    }
}

macro_rules! calls {
    ($($api:ident $request:ident $answer:ident $min:literal ..= $max:literal $({ $decode:item })?)*) => {
        /// The APIs that versions can be capped of.
        pub(super) const API_NAMES: &[&str] = &[$(stringify!($api)),*];

        $(impl Call for $request {
            const API: ApiKey = ApiKey::$api;
            const NAME: &'static str = stringify!($api);
            const VERSIONS: (i16, i16) = ($min, $max);
            type Answer = $answer;
            $($decode)?
        })*
    };
}

// Upper ends: the last version in which topics go by name (topic ids come with OffsetCommit and OffsetFetch 10), and what
// kafka-protocol can encode. Lower ends: Kafka 0.11 and later.
calls! {
    FindCoordinator FindCoordinatorRequest FindCoordinatorResponse 1..=6
    JoinGroup JoinGroupRequest JoinGroupResponse 2..=9
    SyncGroup SyncGroupRequest SyncGroupResponse 1..=5 {
        fn decode(body: &mut Bytes, version: i16) -> Result<SyncGroupResponse, String> {
            // Some brokers send a null assignment along with an error, which kafka-protocol refuses: the error code, which
            // follows the throttle time, is what matters then.
            let code = body.get(4..6).and_then(|b| b.try_into().ok()).map(i16::from_be_bytes);
            SyncGroupResponse::decode(body, version).or_else(|e| match code {
                Some(code) if code != 0 => Ok(SyncGroupResponse::default().with_error_code(code)),
                _ => Err(e.to_string()),
            })
        }
    }
    Heartbeat HeartbeatRequest HeartbeatResponse 1..=4
    LeaveGroup LeaveGroupRequest LeaveGroupResponse 1..=5
    OffsetCommit OffsetCommitRequest OffsetCommitResponse 2..=9
    OffsetFetch OffsetFetchRequest OffsetFetchResponse 1..=9
    ListOffsets ListOffsetsRequest ListOffsetsResponse 2..=9
    Metadata MetadataRequest MetadataResponse 4..=12
    ApiVersions ApiVersionsRequest ApiVersionsResponse 0..=4
}

/// Whether an API's versions can be capped.
pub(super) fn is_api(name: &str) -> bool {
    API_NAMES.contains(&name)
}

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

struct Connection {
    address: Address,
    stream: BufReader<TcpStream>,
    /// What the broker offers: lowest and highest version by API key.
    offered: BTreeMap<i16, (i16, i16)>,
    correlation: i32,
}

impl Connection {
    async fn open(address: &Address, settings: &Settings) -> Result<Self, RequestError> {
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

    fn version<R: Call>(&self, cap: i16) -> Result<i16, RequestError> {
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

    async fn exchange<R: Call>(
        &mut self,
        version: i16,
        request: &R,
        client_id: &str,
    ) -> Result<R::Answer, RequestError> {
        let mut body = self.round_trip(version, request, client_id).await?;
        self.decode::<R>(&mut body, version)
    }

    fn decode<R: Call>(&self, body: &mut Bytes, version: i16) -> Result<R::Answer, RequestError> {
        let answer = R::decode(body, version).map_err(|reason| self.malformed::<R>(version, reason))?;
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
        let header = ResponseHeader::decode(&mut body, R::Answer::header_version(version))
            .map_err(|e| self.malformed::<R>(version, e.to_string()))?;
        if header.correlation_id != self.correlation {
            return Err(self.malformed::<R>(
                version,
                format!("it answers request {}, not {}", header.correlation_id, self.correlation),
            ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn settings(request_timeout: Duration) -> Rc<Settings> {
        Rc::new(Settings {
            client_id: "test".into(),
            connect_timeout: Duration::from_secs(5),
            request_timeout,
            caps: [("Heartbeat".to_owned(), 3)].into(),
        })
    }

    /// A broker that gives these answers in turn, whatever it is asked, to one connection.
    async fn broker(answers: Vec<Vec<u8>>) -> (Address, tokio::task::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut requests = Vec::new();
            for answer in answers {
                let size = stream.read_i32().await.unwrap();
                let mut request = vec![0; usize::try_from(size).unwrap()];
                stream.read_exact(&mut request).await.unwrap();
                requests.push(request);
                stream.write_all(&answer).await.unwrap();
            }
            // Stays open until the client hangs up.
            let _ = stream.read(&mut [0]).await;
            requests
        });
        (Address { host: "127.0.0.1".into(), port }, served)
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        frame
    }

    /// The answer to the first request: ApiVersions is not known in the version asked.
    fn unsupported() -> Vec<u8> {
        frame(&[0, 0, 0, 1, 0, 35, 0, 0, 0, 0])
    }

    /// The answer to the second: Heartbeat in versions 0 to 4.
    fn offers_heartbeat() -> Vec<u8> {
        frame(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 12, 0, 0, 0, 4])
    }

    async fn beat(address: Address, limit: Duration) -> Result<HeartbeatResponse, RequestError> {
        Channel::new(address, settings(limit)).call(|_| HeartbeatRequest::default()).await
    }

    #[tokio::test]
    async fn an_older_broker_is_asked_again_and_versions_are_capped() {
        let ok = frame(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 27]);
        let (address, served) = broker(vec![unsupported(), offers_heartbeat(), ok]).await;
        let answer = beat(address, Duration::from_secs(5)).await.unwrap();
        assert_eq!(answer.error_code, 27);
        let requests = served.await.unwrap();
        let versions: Vec<_> = requests.iter().map(|r| (r[1], r[3])).collect();
        assert_eq!(versions, [(18, 4), (18, 0), (12, 3)]);
    }

    #[tokio::test]
    async fn a_frame_that_claims_too_much_is_refused_before_it_is_read() {
        for claim in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff]] {
            let (address, _served) = broker(vec![claim.to_vec()]).await;
            let error = beat(address, Duration::from_secs(5)).await.unwrap_err();
            assert!(matches!(error, RequestError::FrameTooLarge { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn a_wrong_correlation_id_a_short_answer_and_garbage_are_errors() {
        for answer in
            [frame(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 27]), frame(&[0, 0, 0, 3, 0]), frame(&[]), frame(&[0xff; 3])]
        {
            let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), answer]).await;
            let error = beat(address, Duration::from_secs(5)).await.unwrap_err();
            assert!(matches!(error, RequestError::Malformed { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn no_answer_ends_in_a_time_out() {
        let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), vec![]]).await;
        let error = beat(address, Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(error, RequestError::Timeout { api: "Heartbeat", .. }), "{error}");
    }

    #[tokio::test]
    async fn an_api_that_the_broker_does_not_offer_is_named() {
        let (address, _served) = broker(vec![unsupported(), offers_heartbeat()]).await;
        let channel = Channel::new(address, settings(Duration::from_secs(5)));
        let error = channel.call(|_| SyncGroupRequest::default()).await.unwrap_err();
        assert!(error.to_string().contains("SyncGroup"), "{error}");
    }

    #[test]
    fn an_error_of_sync_group_with_a_null_assignment_is_still_read() {
        let mut body = Bytes::from_static(&[0, 0, 0, 0, 0, 27, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(<SyncGroupRequest as Call>::decode(&mut body, 3).unwrap().error_code, 27);
        let mut body = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert!(<SyncGroupRequest as Call>::decode(&mut body, 3).is_err());
    }
}
