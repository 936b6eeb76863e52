//! The coordinator's requests, built for the version in use, and their answers as plain values.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::config::ConsumerConfig;
use super::connection::{Channel, RequestError};
use super::machine::{Coordinator, Identity, Join, JoinedMember, Sync};

/// The protocol type of consumer groups.
const CONSUMER: StrBytes = StrBytes::from_static_str("consumer");

/// JoinGroup is answered when all members have joined or the rebalance time-out has passed. Java waits as much longer.
const JOIN_GRACE: Duration = Duration::from_secs(5);

/// FindCoordinator for a group.
pub(super) fn find_request(group: &str, version: i16) -> FindCoordinatorRequest {
    let group = text(group);
    let request = FindCoordinatorRequest::default().with_key_type(0);
    if version >= 4 { request.with_coordinator_keys(vec![group]) } else { request.with_key(group) }
}

/// Its answer.
pub(super) fn found(answer: FindCoordinatorResponse) -> Coordinator {
    match answer.coordinators.into_iter().next() {
        Some(c) => Coordinator { error: c.error_code, host: c.host.to_string(), port: c.port },
        None => Coordinator { error: answer.error_code, host: answer.host.to_string(), port: answer.port },
    }
}

pub(super) async fn join(
    channel: &Channel,
    config: &ConsumerConfig,
    member_id: &str,
    reason: &str,
    protocols: Vec<(String, Bytes)>,
) -> Result<Join, RequestError> {
    let protocols = protocols
        .into_iter()
        .map(|(name, blob)| {
            JoinGroupRequestProtocol::default().with_name(StrBytes::from_string(name)).with_metadata(blob)
        })
        .collect();
    let limit = config.max_poll_interval + JOIN_GRACE;
    let answer = channel
        .call_within(limit, |version| {
            let request = JoinGroupRequest::default()
                .with_group_id(text(&config.group_id).into())
                .with_session_timeout_ms(ms(config.session_timeout))
                .with_rebalance_timeout_ms(ms(config.max_poll_interval))
                .with_member_id(text(member_id))
                .with_protocol_type(CONSUMER)
                .with_protocols(protocols)
                .with_group_instance_id(instance_id(config));
            if version >= 8 { request.with_reason(Some(reason_text(reason))) } else { request }
        })
        .await?;
    Ok(joined(answer))
}

/// JoinGroup's answer.
fn joined(answer: JoinGroupResponse) -> Join {
    let members = answer
        .members
        .into_iter()
        .map(|m| JoinedMember {
            id: m.member_id.to_string(),
            instance_id: m.group_instance_id.map(|i| i.to_string()),
            metadata: m.metadata,
        })
        .collect();
    Join {
        error: answer.error_code,
        generation: answer.generation_id,
        protocol: answer.protocol_name.map(|p| p.to_string()).unwrap_or_default(),
        leader: answer.leader.to_string(),
        member_id: answer.member_id.to_string(),
        members,
        skip_assignment: answer.skip_assignment,
    }
}

pub(super) async fn sync(
    channel: &Channel,
    config: &ConsumerConfig,
    identity: &Identity,
    protocol: &str,
    plan: Vec<(String, Bytes)>,
) -> Result<Sync, RequestError> {
    let assignments = plan
        .into_iter()
        .map(|(member, blob)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member))
                .with_assignment(blob)
        })
        .collect();
    // Answered when the leader has assigned, within the rebalance time-out.
    let limit = config.max_poll_interval + JOIN_GRACE;
    let answer = channel
        .call_within(limit, |version| {
            let request = SyncGroupRequest::default()
                .with_group_id(text(&config.group_id).into())
                .with_generation_id(identity.generation)
                .with_member_id(text(&identity.member_id))
                .with_group_instance_id(instance_id(config))
                .with_assignments(assignments);
            if version >= 5 {
                request.with_protocol_type(Some(CONSUMER)).with_protocol_name(Some(text(protocol)))
            } else {
                request
            }
        })
        .await?;
    Ok(Sync { error: answer.error_code, assignment: answer.assignment })
}

/// Heartbeat's error code.
pub(super) async fn heartbeat(
    channel: &Channel,
    config: &ConsumerConfig,
    identity: &Identity,
) -> Result<i16, RequestError> {
    // An answer that comes after a session is of no use.
    let limit = config.request_timeout.min(config.session_timeout);
    let answer = channel
        .call_within(limit, |_| {
            HeartbeatRequest::default()
                .with_group_id(text(&config.group_id).into())
                .with_generation_id(identity.generation)
                .with_member_id(text(&identity.member_id))
                .with_group_instance_id(instance_id(config))
        })
        .await?;
    Ok(answer.error_code)
}

pub(super) async fn leave(
    channel: &Channel,
    config: &ConsumerConfig,
    member_id: &str,
    reason: &str,
) -> Result<i16, RequestError> {
    let answer = channel
        .call(|version| {
            let request = LeaveGroupRequest::default().with_group_id(text(&config.group_id).into());
            if version < 3 {
                return request.with_member_id(text(member_id));
            }
            let member = MemberIdentity::default()
                .with_member_id(text(member_id))
                .with_group_instance_id(instance_id(config));
            let member = if version >= 5 { member.with_reason(Some(reason_text(reason))) } else { member };
            request.with_members(vec![member])
        })
        .await?;
    // The error of the one member stands beside that of the request.
    let of_member = answer.members.first().map(|member| member.error_code);
    Ok(of_member.filter(|_| answer.error_code == 0).unwrap_or(answer.error_code))
}

/// `group.instance.id`. A request of a version that has no room for it, to a broker before Kafka 2.3, can't be encoded with it.
pub(super) fn instance_id(config: &ConsumerConfig) -> Option<StrBytes> {
    config.group_instance_id.as_deref().map(text)
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Brokers take reasons of up to 255 bytes (KIP-800).
fn reason_text(reason: &str) -> StrBytes {
    let cut = (0..=reason.len().min(255)).rev().find(|&i| reason.is_char_boundary(i)).unwrap_or(0);
    text(reason.get(..cut).unwrap_or_default())
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::find_coordinator_response;
    use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;

    #[test]
    fn a_reason_is_cut_to_what_brokers_take_at_a_character() {
        assert_eq!(&*reason_text("short"), "short");
        let cut = reason_text(&"ä".repeat(200));
        assert_eq!(cut.len(), 254);
    }

    #[test]
    fn the_coordinator_is_read_from_both_shapes_of_the_answer() {
        let old = FindCoordinatorResponse::default().with_host(text("h")).with_port(1);
        let new = FindCoordinatorResponse::default().with_coordinators(vec![
            find_coordinator_response::Coordinator::default().with_host(text("h")).with_port(1),
        ]);
        assert_eq!(found(old), found(new));
        assert_eq!(find_request("g", 3).key, text("g"));
        assert_eq!(find_request("g", 4).coordinator_keys, [text("g")]);
    }
    #[test]
    fn kafka_13435_a_leader_hears_that_it_shall_skip_and_who_is_in_the_group() {
        let member = JoinGroupResponseMember::default().with_member_id(text("m"));
        let answer = JoinGroupResponse::default().with_members(vec![member]);
        for skip in [false, true] {
            let join = joined(answer.clone().with_skip_assignment(skip));
            assert_eq!((join.skip_assignment, join.members.len()), (skip, 1));
        }
    }
}
