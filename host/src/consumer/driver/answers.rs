//! Answers what other threads ask about offsets: strategies while they assign, and who reads metrics.

use std::rc::Rc;
use std::time::Instant;

use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::Common;
use crate::consumer::lag::{self, Brokers, Found, Kind};
use crate::consumer::offsets::End;
use crate::consumer::services::Ask;

/// So many questions are under way at once.
const AT_ONCE: usize = 4;

/// Answers until nobody can ask any more. Each answer takes at most half of the time that is left to its question, so that a broker
/// which hangs uses up neither the time in which the partial answer is of use nor that of the questions after it.
pub(super) async fn serve(common: Rc<Common>, mut asked: Receiver<Ask>) {
    let brokers = Rc::new(Brokers::new(Rc::clone(&common.settings)));
    let mut tasks = JoinSet::new();
    while let Some(ask) = asked.recv().await {
        while tasks.len() >= AT_ONCE {
            tasks.join_next().await;
        }
        let (common, brokers) = (Rc::clone(&common), Rc::clone(&brokers));
        tasks.spawn_local(async move {
            let found = answer(&common, &brokers, &ask).await;
            // Who asked may have given up waiting.
            let _ = ask.reply.try_send(found);
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer(common: &Common, brokers: &Brokers, ask: &Ask) -> Found {
    let limit = ask.deadline.saturating_duration_since(Instant::now()) / 2;
    if limit.is_zero() {
        return Found::failed(&ask.wanted, "no time is left");
    }
    let ends = async |end| {
        let read_committed = common.config.read_committed;
        lag::ends(&common.metadata, brokers, read_committed, &ask.wanted, end, limit).await
    };
    match ask.kind {
        Kind::Begin => ends(End::First).await,
        Kind::End => ends(End::Last).await,
        Kind::Committed => {
            let coordinator = common.link().map(|link| link.rest.address().clone());
            match coordinator.as_ref().and_then(|address| brokers.channel(address)) {
                Some(channel) => lag::committed(&channel, &common.config.group_id, &ask.wanted, limit).await,
                None => {
                    Found::failed(&ask.wanted, "the coordinator is not known, or did not answer a moment ago")
                }
            }
        }
    }
}
