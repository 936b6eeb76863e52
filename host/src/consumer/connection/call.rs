//! Which requests there are, in which versions, and why one may have no answer.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

use super::exchange::MAX_FRAME;
use crate::consumer::config::Address;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::consumer) enum RequestError {
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
pub(in crate::consumer) trait Call: Encodable + HeaderVersion {
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
        pub(in crate::consumer) const API_NAMES: &[&str] = &[$(stringify!($api)),*];

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
pub(in crate::consumer) fn is_api(name: &str) -> bool {
    API_NAMES.contains(&name)
}
