//! Which requests there are, in which versions, and why one may have no answer.

use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use super::decode::Field;
use super::exchange::MAX_FRAME;
use crate::consumer::config::Address;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::consumer) enum RequestError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: Address, reason: String },
    /// One side does not accept the other, by TLS or by login: trying again does not help until someone has mended it.
    #[error("authentication with {address} failed: {reason}")]
    Authentication { address: Address, reason: String },
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
pub(in crate::consumer) trait Call: Encodable + HeaderVersion {
    const API: ApiKey;
    const NAME: &'static str;
    const VERSIONS: (i16, i16);
    type Answer: Field + HeaderVersion;

    /// How long to wait before the next request: since the version named below, a broker that throttles a client answers at once
    /// and leaves the waiting to it (KIP-219); before, it waited itself.
    fn throttled(_answer: &Self::Answer, _version: i16) -> Duration {
        Duration::ZERO
    }
}

macro_rules! calls {
    ($($api:ident $request:ident $answer:ident $min:literal ..= $max:literal $((throttled $since:literal))?)*) => {
        /// The APIs that versions can be capped of.
        pub(in crate::consumer) const API_NAMES: &[&str] = &[$(stringify!($api)),*];

        $(impl Call for $request {
            const API: ApiKey = ApiKey::$api;
            const NAME: &'static str = stringify!($api);
            const VERSIONS: (i16, i16) = ($min, $max);
            type Answer = $answer;

            $(fn throttled(answer: &$answer, version: i16) -> Duration {
                let ms = if version >= $since { answer.throttle_time_ms } else { 0 };
                Duration::from_millis(u64::try_from(ms).unwrap_or(0))
            })?
        })*

        /// Shows every request to a test.
        #[cfg(test)]
        pub(super) fn every_call(visitor: &mut impl Visitor) {
            $(visitor.visit::<$request>();)*
        }
    };
}

// Upper ends: the last version in which topics go by name (topic ids come with OffsetCommit and OffsetFetch 10), and what
// kafka-protocol can encode. Lower ends: Kafka 0.11 and later.
calls! {
    FindCoordinator FindCoordinatorRequest FindCoordinatorResponse 1..=6 (throttled 2)
    JoinGroup JoinGroupRequest JoinGroupResponse 2..=9 (throttled 3)
    SyncGroup SyncGroupRequest SyncGroupResponse 1..=5 (throttled 2)
    Heartbeat HeartbeatRequest HeartbeatResponse 1..=4 (throttled 2)
    LeaveGroup LeaveGroupRequest LeaveGroupResponse 1..=5 (throttled 2)
    OffsetCommit OffsetCommitRequest OffsetCommitResponse 2..=9 (throttled 4)
    OffsetFetch OffsetFetchRequest OffsetFetchResponse 1..=9 (throttled 4)
    ListOffsets ListOffsetsRequest ListOffsetsResponse 2..=9 (throttled 3)
    DescribeGroups DescribeGroupsRequest DescribeGroupsResponse 0..=6 (throttled 2)
    ListGroups ListGroupsRequest ListGroupsResponse 0..=5 (throttled 2)
    Metadata MetadataRequest MetadataResponse 4..=13 (throttled 6)
    ApiVersions ApiVersionsRequest ApiVersionsResponse 0..=4 (throttled 2)
    SaslHandshake SaslHandshakeRequest SaslHandshakeResponse 1..=1
    SaslAuthenticate SaslAuthenticateRequest SaslAuthenticateResponse 0..=2
}

/// Whether an API's versions can be capped.
pub(in crate::consumer) fn is_api(name: &str) -> bool {
    API_NAMES.contains(&name)
}

/// What a test does with each request.
#[cfg(test)]
pub(super) trait Visitor {
    fn visit<R: Call>(&mut self)
    where
        R::Answer: Encodable + kafka_protocol::protocol::Decodable + PartialEq + std::fmt::Debug;
}
