//! The answers in use: their fields in order, and the versions that have them. From Kafka's message definitions
//! (`clients/src/main/resources/common/message/*Response.json`); the tests hold this table against kafka-protocol's.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, DescribeGroupsResponse, FindCoordinatorResponse, HeartbeatResponse,
    JoinGroupResponse, LeaveGroupResponse, ListGroupsResponse, ListOffsetsResponse, MetadataResponse,
    OffsetCommitResponse, OffsetFetchResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
    SyncGroupResponse,
};

#[cfg(test)]
use super::tests::Dice;
use super::{DecodeError, Field, Reader};

/// `field: versions` or, for an id that is passed over, `uuid: versions`.
macro_rules! answers {
    ($($answer:ident { $($field:ident: $versions:expr),* $(,)? })*) => {
        $(impl Field for $answer {
            fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
                let mut answer = Self::default();
                $(if ($versions).contains(&reader.version) { answers!(read $field, answer, reader); })*
                reader.skip_tagged()?;
                Ok(answer)
            }

            #[cfg(test)]
            fn sample(dice: &mut Dice, version: i16) -> Self {
                let mut answer = Self::default();
                $(if ($versions).contains(&version) { answers!(sample $field, answer, dice, version); })*
                answer
            }
        })*
    };
    (read uuid, $answer:ident, $reader:ident) => { $reader.skip_uuid()? };
    (read $field:ident, $answer:ident, $reader:ident) => { $answer.$field = Field::read($reader)? };
    (sample uuid, $answer:ident, $dice:ident, $version:ident) => {};
    (sample $field:ident, $answer:ident, $dice:ident, $version:ident) => {
        $answer.$field = Field::sample($dice, $version)
    };
}

answers! {
    // Features and the like are tagged fields.
    ApiVersionsResponse { error_code: 0.., api_keys: 0.., throttle_time_ms: 1.. }
    ApiVersion { api_key: 0.., min_version: 0.., max_version: 0.. }

    SaslHandshakeResponse { error_code: 0.., mechanisms: 0.. }
    SaslAuthenticateResponse { error_code: 0.., error_message: 0.., auth_bytes: 0.., session_lifetime_ms: 1.. }

    MetadataResponse {
        throttle_time_ms: 3..,
        brokers: 0..,
        cluster_id: 2..,
        controller_id: 1..,
        topics: 0..,
        cluster_authorized_operations: 8..=10,
        error_code: 13..,
    }
    MetadataResponseBroker { node_id: 0.., host: 0.., port: 0.., rack: 1.. }
    MetadataResponseTopic {
        error_code: 0..,
        name: 0..,
        topic_id: 10..,
        is_internal: 1..,
        partitions: 0..,
        topic_authorized_operations: 8..,
    }
    MetadataResponsePartition {
        error_code: 0..,
        partition_index: 0..,
        leader_id: 0..,
        leader_epoch: 7..,
        replica_nodes: 0..,
        isr_nodes: 0..,
        offline_replicas: 5..,
    }

    FindCoordinatorResponse {
        throttle_time_ms: 1..,
        error_code: ..=3,
        error_message: 1..=3,
        node_id: ..=3,
        host: ..=3,
        port: ..=3,
        coordinators: 4..,
    }
    Coordinator { key: 4.., node_id: 4.., host: 4.., port: 4.., error_code: 4.., error_message: 4.. }

    JoinGroupResponse {
        throttle_time_ms: 2..,
        error_code: 0..,
        generation_id: 0..,
        protocol_type: 7..,
        protocol_name: 0..,
        leader: 0..,
        skip_assignment: 9..,
        member_id: 0..,
        members: 0..,
    }
    JoinGroupResponseMember { member_id: 0.., group_instance_id: 5.., metadata: 0.. }

    SyncGroupResponse { throttle_time_ms: 1.., error_code: 0.., protocol_type: 5.., protocol_name: 5.., assignment: 0.. }

    HeartbeatResponse { throttle_time_ms: 1.., error_code: 0.. }

    LeaveGroupResponse { throttle_time_ms: 1.., error_code: 0.., members: 3.. }
    MemberResponse { member_id: 3.., group_instance_id: 3.., error_code: 3.. }

    OffsetCommitResponse { throttle_time_ms: 3.., topics: 0.. }
    OffsetCommitResponseTopic { name: ..=9, uuid: 10.., partitions: 0.. }
    OffsetCommitResponsePartition { partition_index: 0.., error_code: 0.. }

    OffsetFetchResponse { throttle_time_ms: 3.., topics: ..=7, error_code: 2..=7, groups: 8.. }
    OffsetFetchResponseTopic { name: 0.., partitions: 0.. }
    OffsetFetchResponsePartition {
        partition_index: 0..,
        committed_offset: 0..,
        committed_leader_epoch: 5..,
        metadata: 0..,
        error_code: 0..,
    }
    OffsetFetchResponseGroup { group_id: 8.., topics: 8.., error_code: 8.. }
    OffsetFetchResponseTopics { name: ..=9, uuid: 10.., partitions: 8.. }
    OffsetFetchResponsePartitions {
        partition_index: 8..,
        committed_offset: 8..,
        committed_leader_epoch: 8..,
        metadata: 8..,
        error_code: 8..,
    }

    ListOffsetsResponse { throttle_time_ms: 2.., topics: 0.. }
    ListOffsetsTopicResponse { name: 0.., partitions: 0.. }
    ListOffsetsPartitionResponse { partition_index: 0.., error_code: 0.., timestamp: 1.., offset: 1.., leader_epoch: 4.. }

    DescribeGroupsResponse { throttle_time_ms: 1.., groups: 0.. }
    DescribedGroup {
        error_code: 0..,
        error_message: 6..,
        group_id: 0..,
        group_state: 0..,
        protocol_type: 0..,
        protocol_data: 0..,
        members: 0..,
        authorized_operations: 3..,
    }
    DescribedGroupMember {
        member_id: 0..,
        group_instance_id: 4..,
        client_id: 0..,
        client_host: 0..,
        member_metadata: 0..,
        member_assignment: 0..,
    }

    ListGroupsResponse { throttle_time_ms: 1.., error_code: 0.., groups: 0.. }
    ListedGroup { group_id: 0.., protocol_type: 0.., group_state: 4.., group_type: 5.. }
}
