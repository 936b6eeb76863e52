//! What the application asks of brokers, and waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;

use kafka_protocol::ResponseError;

use super::{Channel, Common, Coordinator, Rc, coordinator, work};
use crate::consumer::clock::Moment;
use crate::consumer::config::Address;
use crate::consumer::error::ConsumerError;
use crate::consumer::offsets::{self, At, Commits, OffsetError};
use crate::consumer::partition::OffsetAndTimestamp;
use crate::consumer::shared::Key;

/// Where an answer goes.
type Reply<T> = SyncSender<Result<T, ConsumerError>>;

/// A question, and until when an answer is waited for.
pub(in crate::consumer) enum Query {
    /// What the group has committed for these partitions.
    Committed { partitions: BTreeSet<Key>, deadline: Moment, reply: Reply<Commits> },
    /// Places in partitions. A time after the last record is none.
    Places {
        wanted: BTreeMap<Key, At>,
        deadline: Moment,
        reply: Reply<BTreeMap<Key, Option<OffsetAndTimestamp>>>,
    },
}

/// Answers, in any case within its time. Who asked may have given up waiting.
pub(super) async fn answer(common: &Common, query: Query) {
    match query {
        Query::Committed { partitions, deadline, reply } => {
            let answer = within(deadline, async |last| committed(common, &partitions, last).await).await;
            let _ = reply.send(answer);
        }
        Query::Places { wanted, deadline, reply } => {
            let answer = within(deadline, async |last| places(common, &wanted, last).await).await;
            let _ = reply.send(answer);
        }
    }
}

/// The answer, or what the last try said.
async fn within<T>(
    deadline: Moment,
    ask: impl AsyncFnOnce(&mut String) -> Result<T, ConsumerError>,
) -> Result<T, ConsumerError> {
    let mut last = String::from("no broker has answered");
    let limit = deadline.since(Moment::now());
    let answer = tokio::time::timeout(limit, ask(&mut last)).await;
    answer.unwrap_or_else(|_| Err(ConsumerError::Timeout(last)))
}

async fn committed(
    common: &Common,
    partitions: &BTreeSet<Key>,
    last: &mut String,
) -> Result<Commits, ConsumerError> {
    let mut pause = common.config.retry_backoff;
    loop {
        match committed_once(common, partitions).await {
            Ok(found) => return Ok(found),
            Err(problem) => *last = passing(common, problem)?,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(common.config.retry_backoff_max);
    }
}

async fn places(
    common: &Common,
    wanted: &BTreeMap<Key, At>,
    last: &mut String,
) -> Result<BTreeMap<Key, Option<OffsetAndTimestamp>>, ConsumerError> {
    let (mut missing, mut all) = (wanted.clone(), BTreeMap::new());
    let mut pause = common.config.retry_backoff;
    loop {
        let (found, problem) = work::places(common, &missing).await;
        missing.retain(|key, _| !found.contains_key(key));
        all.extend(found);
        if missing.is_empty() {
            return Ok(all);
        }
        let lacks = || OffsetError::NotNow("the answer lacks partitions".into());
        *last = passing(common, problem.unwrap_or_else(lacks))?;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(common.config.retry_backoff_max);
    }
}

/// What may pass; what an operator must heal is an error.
fn passing(common: &Common, problem: OffsetError) -> Result<String, ConsumerError> {
    match problem {
        OffsetError::NotNow(e) => Ok(e),
        OffsetError::TopicAuthorization(topic) => Err(ConsumerError::TopicAuthorization { topic }),
        OffsetError::GroupAuthorization => {
            Err(ConsumerError::GroupAuthorization { group: common.config.group_id.clone() })
        }
    }
}

/// Asks the coordinator, over a connection of its own where the membership has none: a consumer may ask before it joins.
async fn committed_once(common: &Common, partitions: &BTreeSet<Key>) -> Result<Commits, OffsetError> {
    let group = common.config.group_id.as_str();
    if let Some(link) = common.link() {
        return offsets::committed(&link.rest, group, partitions).await;
    }
    let answer = common.metadata.ask(|version| coordinator::find_request(group, version)).await;
    let Coordinator { error, host, port } = coordinator::found(answer.map_err(OffsetError::NotNow)?);
    match (ResponseError::try_from_code(error), u16::try_from(port)) {
        (None, Ok(port)) => {
            let channel = Channel::new(Address { host, port }, Rc::clone(&common.settings));
            offsets::committed(&channel, group, partitions).await
        }
        (Some(ResponseError::GroupAuthorizationFailed), _) => Err(OffsetError::GroupAuthorization),
        (error, _) => Err(OffsetError::NotNow(format!("the coordinator is not known ({error:?})"))),
    }
}
