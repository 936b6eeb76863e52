//! Requests to a broker, one at a time, as a test wants them: no negotiation, no retries.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, CreateAclsRequest,
    CreateAclsResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteAclsRequest, DeleteAclsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, FindCoordinatorRequest, FindCoordinatorResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, MetadataRequest, MetadataResponse,
    RequestHeader, ResponseHeader, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

/// A broker answers within this time, or the test fails. JoinGroup waits for the other members.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, in the one version that tests use, and its response.
pub(crate) trait Call: Encodable + HeaderVersion {
    const API: ApiKey;
    const VERSION: i16;
    type Response: Decodable + HeaderVersion;
}

macro_rules! calls {
    ($($api:ident $version:literal $request:ident $response:ident)*) => {
        $(impl Call for $request {
            const API: ApiKey = ApiKey::$api;
            const VERSION: i16 = $version;
            type Response = $response;
        })*
    };
}

// The newest versions in which topics go by name.
calls! {
    ConsumerGroupHeartbeat 0 ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse
    CreateAcls 3 CreateAclsRequest CreateAclsResponse
    CreatePartitions 3 CreatePartitionsRequest CreatePartitionsResponse
    CreateTopics 7 CreateTopicsRequest CreateTopicsResponse
    DeleteAcls 3 DeleteAclsRequest DeleteAclsResponse
    DeleteTopics 6 DeleteTopicsRequest DeleteTopicsResponse
    DescribeGroups 5 DescribeGroupsRequest DescribeGroupsResponse
    DescribeUserScramCredentials 0 DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse
    FindCoordinator 4 FindCoordinatorRequest FindCoordinatorResponse
    JoinGroup 9 JoinGroupRequest JoinGroupResponse
    LeaveGroup 5 LeaveGroupRequest LeaveGroupResponse
    Metadata 12 MetadataRequest MetadataResponse
    SyncGroup 5 SyncGroupRequest SyncGroupResponse
}

/// A connection.
pub(crate) struct Wire {
    stream: TcpStream,
    correlation: i32,
}

impl Wire {
    /// Connects to a broker of this machine.
    pub(crate) fn connect(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, correlation: 0 })
    }

    /// Sends a request and waits for its response.
    pub(crate) fn call<R: Call>(&mut self, request: &R) -> std::io::Result<R::Response> {
        let mut body = BytesMut::new();
        request.encode(&mut body, R::VERSION).map_err(std::io::Error::other)?;
        let mut response = self.exchange(R::API, R::VERSION, R::header_version(R::VERSION), &body)?;
        ResponseHeader::decode(&mut response, R::Response::header_version(R::VERSION))
            .and_then(|_| R::Response::decode(&mut response, R::VERSION))
            .map_err(std::io::Error::other)
    }

    /// Sends what may be no request at all, and waits for what comes back: header and body.
    pub(crate) fn exchange(
        &mut self,
        api: ApiKey,
        version: i16,
        header_version: i16,
        body: &[u8],
    ) -> std::io::Result<Bytes> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(api as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("test")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, header_version).map_err(std::io::Error::other)?;
        frame.extend_from_slice(body);
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[&length, &frame[..]].concat())?;

        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut response = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut response)?;
        Ok(response.into())
    }
}
