//! The requests that describe groups, and their answers as plain values.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use kafka_protocol::ResponseError as E;
use kafka_protocol::messages::{DescribeGroupsRequest, ListGroupsRequest, ListGroupsResponse};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{DescribeError, GroupList, GroupListing};
use crate::consumer::config::{Address, ConsumerConfig};
use crate::consumer::connection::{Channel, RequestError, Settings};
use crate::consumer::coordinator::{find_request, found, text};
use crate::consumer::metadata::Metadata;

/// The protocol type of consumer groups.
pub(super) const CONSUMER: &str = "consumer";

/// What DescribeGroups tells of a group.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) state: String,
    pub(super) protocol_type: String,
    pub(super) strategy: String,
    pub(super) members: Vec<ToldMember>,
}

#[derive(Debug, Default)]
pub(super) struct ToldMember {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) host: String,
    pub(super) metadata: Bytes,
    pub(super) assignment: Bytes,
}

fn unreachable(e: RequestError) -> DescribeError {
    DescribeError::Unreachable(e.to_string())
}

/// Finds the coordinator and asks it, for `request.timeout.ms` at most as long as it is moving or loading.
pub(super) async fn describe(
    config: &ConsumerConfig,
    settings: &Rc<Settings>,
    metadata: &Metadata,
    group: &str,
) -> Result<(Address, Told), DescribeError> {
    let deadline = Instant::now() + config.request_timeout;
    loop {
        let (refused, error) = match coordinator(metadata, group).await? {
            Ok(address) => {
                let channel = Channel::new(address, Rc::clone(settings));
                match described(&channel, group).await? {
                    Ok(told) => return Ok((channel.address().clone(), told)),
                    Err(refused) => refused,
                }
            }
            Err(error) => (format!("{error:?}"), error),
        };
        match error {
            E::CoordinatorNotAvailable | E::CoordinatorLoadInProgress | E::NotCoordinator
                if Instant::now() + config.retry_backoff_max < deadline =>
            {
                sleep(config.retry_backoff_max).await;
            }
            E::GroupAuthorizationFailed => return Err(DescribeError::Authorization(group.to_owned())),
            E::GroupIdNotFound => return Err(DescribeError::NotFound(group.to_owned())),
            _ => return Err(DescribeError::Refused { group: group.to_owned(), reason: refused }),
        }
    }
}

async fn coordinator(metadata: &Metadata, group: &str) -> Result<Result<Address, E>, DescribeError> {
    let answer = metadata.ask(|version| find_request(group, version)).await;
    let coordinator = found(answer.map_err(DescribeError::Unreachable)?);
    if let Some(error) = E::try_from_code(coordinator.error) {
        return Ok(Err(error));
    }
    let port = u16::try_from(coordinator.port).map_err(|_| {
        DescribeError::Unreachable(format!("the coordinator's port {} is none", coordinator.port))
    })?;
    Ok(Ok(Address { host: coordinator.host, port }))
}

/// What the coordinator tells, or the error that it refuses with, in words and as it is.
async fn described(channel: &Channel, group: &str) -> Result<Result<Told, (String, E)>, DescribeError> {
    let request = DescribeGroupsRequest::default().with_groups(vec![text(group).into()]);
    let answer = channel.call(|_| request).await.map_err(unreachable)?;
    let Some(told) = answer.groups.into_iter().find(|g| g.group_id.as_str() == group) else {
        let reason = "the answer lacks the group".to_owned();
        return Err(DescribeError::Refused { group: group.to_owned(), reason });
    };
    let error = E::try_from_code(told.error_code);
    // Versions up to 5 tell of a group that is none, or is of another protocol, as one that is dead.
    if error == Some(E::GroupIdNotFound) || (error.is_none() && &*told.group_state == "Dead") {
        return Err(not_classic(channel, group).await);
    }
    if let Some(error) = error {
        let said = told.error_message.map(|m| m.to_string()).filter(|m| !m.is_empty());
        return Ok(Err((said.unwrap_or_else(|| format!("{error:?}")), error)));
    }
    let members = told.members.into_iter().map(|m| ToldMember {
        id: m.member_id.to_string(),
        instance_id: m.group_instance_id.map(|i| i.to_string()),
        client_id: m.client_id.to_string(),
        host: m.client_host.to_string(),
        metadata: m.member_metadata,
        assignment: m.member_assignment,
    });
    Ok(Ok(Told {
        state: told.group_state.to_string(),
        protocol_type: told.protocol_type.to_string(),
        strategy: told.protocol_data.to_string(),
        members: members.collect(),
    }))
}

/// No classic group: of another type, or none at all.
async fn not_classic(channel: &Channel, group: &str) -> DescribeError {
    let not_found = || DescribeError::NotFound(group.to_owned());
    let Ok(answer) = channel.call(|_| ListGroupsRequest::default()).await else { return not_found() };
    let listed = answer.groups.into_iter().find(|g| g.group_id.as_str() == group);
    match listed.map(|g| g.group_type.to_string()) {
        Some(kind) if !kind.is_empty() && !kind.eq_ignore_ascii_case("classic") => {
            DescribeError::OtherType { group: group.to_owned(), kind }
        }
        _ => not_found(),
    }
}

/// The groups of all brokers: each knows those that it coordinates.
pub(super) async fn list(settings: &Rc<Settings>, metadata: &Metadata) -> Result<GroupList, DescribeError> {
    metadata.refresh(&BTreeSet::new()).await.map_err(DescribeError::Unreachable)?;
    let mut requests = JoinSet::new();
    for address in metadata.with(|cluster| cluster.brokers()) {
        let channel = Channel::new(address, Rc::clone(settings));
        requests.spawn_local(async move {
            let answer = channel.call(|_| ListGroupsRequest::default()).await;
            (channel.address().to_string(), answer)
        });
    }
    let mut list = GroupList::default();
    while let Some(answered) = requests.join_next().await {
        let Ok((broker, answer)) = answered else { continue };
        match answer {
            Ok(answer) => listed(&mut list, &broker, answer),
            Err(e) => list.problems.push(e.to_string()),
        }
    }
    list.groups.sort();
    list.problems.sort();
    Ok(list)
}

fn listed(list: &mut GroupList, broker: &str, answer: ListGroupsResponse) {
    if let Some(error) = E::try_from_code(answer.error_code) {
        list.problems.push(format!("{broker} does not tell its groups: {error:?}"));
    }
    let told = |text: kafka_protocol::protocol::StrBytes| Some(text.to_string()).filter(|t| !t.is_empty());
    list.groups.extend(answer.groups.into_iter().map(|g| GroupListing {
        group_id: g.group_id.to_string(),
        protocol_type: g.protocol_type.to_string(),
        state: told(g.group_state),
        kind: told(g.group_type),
        coordinator: broker.to_owned(),
    }));
}
