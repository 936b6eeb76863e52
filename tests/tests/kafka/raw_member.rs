//! A group member that says whatever a test has it say.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::Admin;
use crate::wire::Wire;

// Kafka: `Errors`.
const LOADING: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
const REBALANCING: i16 = 27;
const ID_REQUIRED: i16 = 79;

/// A member, as far as it has come.
pub(crate) struct RawMember {
    wire: Wire,
    group: GroupId,
    protocol: StrBytes,
    id: StrBytes,
    generation: i32,
}

impl RawMember {
    /// Connects to a group's coordinator. `protocol` is the one strategy that it lists.
    pub(crate) fn new(admin: &Admin, group: &str, protocol: &str) -> Self {
        Self {
            wire: Wire::connect(admin.coordinator(group)).unwrap(),
            group: StrBytes::from_string(group.to_owned()).into(),
            protocol: StrBytes::from_string(protocol.to_owned()),
            id: StrBytes::default(),
            generation: -1,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Joins with these bytes as its subscription, which takes until all others have joined.
    pub(crate) fn join(&mut self, subscription: &[u8]) -> JoinGroupResponse {
        // It never sends heartbeats.
        let timeout = 60_000;
        loop {
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(self.protocol.clone())
                .with_metadata(Bytes::copy_from_slice(subscription));
            let request = JoinGroupRequest::default()
                .with_group_id(self.group.clone())
                .with_session_timeout_ms(timeout)
                .with_rebalance_timeout_ms(timeout)
                .with_member_id(self.id.clone())
                .with_protocol_type(StrBytes::from_static_str("consumer"))
                .with_protocols(vec![protocol]);
            let response = self.wire.call(&request).unwrap();
            match response.error_code {
                ID_REQUIRED => self.id = response.member_id,
                // The broker has only just become it, and is loading what it knows.
                LOADING | NOT_COORDINATOR => std::thread::sleep(Duration::from_millis(20)),
                _ => {
                    self.id = response.member_id.clone();
                    self.generation = response.generation_id;
                    return response;
                }
            }
        }
    }

    /// Waits for the leader's plan, or, as the leader, tells it, and returns its own part; `None` if the next rebalance has begun
    /// already.
    pub(crate) fn sync(&mut self, plan: &[(&str, &[u8])]) -> Option<Bytes> {
        let plan = plan.iter().map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string((*member).to_owned()))
                .with_assignment(Bytes::copy_from_slice(assignment))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.id.clone())
            .with_generation_id(self.generation)
            .with_protocol_type(Some(StrBytes::from_static_str("consumer")))
            .with_protocol_name(Some(self.protocol.clone()))
            .with_assignments(plan.collect());
        let response = self.wire.call(&request).unwrap();
        assert!([0, REBALANCING].contains(&response.error_code), "SyncGroup: {}", response.error_code);
        (response.error_code == 0).then_some(response.assignment)
    }

    /// Leaves the group.
    pub(crate) fn leave(mut self) {
        let identity = MemberIdentity::default().with_member_id(self.id.clone());
        let request =
            LeaveGroupRequest::default().with_group_id(self.group.clone()).with_members(vec![identity]);
        assert_eq!(self.wire.call(&request).unwrap().error_code, 0);
    }
}
