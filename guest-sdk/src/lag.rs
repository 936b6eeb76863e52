//! Offsets and lag, fetched by the host on request: a strategy does no I/O. Answers come only while
//! [`assign`](crate::Strategy::assign) runs, and have one entry per partition of the topic, `None` where an offset is not
//! known. Waiting for them has a time budget of its own, by default 2 s in each call of `assign`.
//!
//! Who shares out lag: partitions without any are many, and make no member's sum grow. Break ties by count, or one member gets
//! them all.

use crate::cluster::Unavailable;
use crate::group::Topic;
use crate::imports::{Host, Imports};

/// The first offset of each partition.
///
/// # Errors
/// If the host can't tell.
pub fn begin_offsets(topic: Topic<'_>) -> Result<Vec<Option<i64>>, Unavailable> {
    Host::begin_offsets(topic.number()).map(known).map_err(Unavailable)
}

/// The offset after the last record of each partition.
///
/// # Errors
/// If the host can't tell.
pub fn end_offsets(topic: Topic<'_>) -> Result<Vec<Option<i64>>, Unavailable> {
    Host::end_offsets(topic.number()).map(known).map_err(Unavailable)
}

/// The group's committed offset of each partition; `None` where it has committed none.
///
/// # Errors
/// If the host can't tell.
pub fn committed_offsets(topic: Topic<'_>) -> Result<Vec<Option<i64>>, Unavailable> {
    Host::committed_offsets(topic.number()).map(known).map_err(Unavailable)
}

/// How many records of each partition the group has still to read: the end offset less the committed one, `None` unless both
/// are known.
///
/// # Errors
/// If the host can't tell.
pub fn of(topic: Topic<'_>) -> Result<Vec<Option<u64>>, Unavailable> {
    let (end, committed) = (end_offsets(topic)?, committed_offsets(topic)?);
    let lag = |(end, committed): (Option<i64>, Option<i64>)| {
        // A topic that was deleted and made again ends before what was committed: nothing is left to read then.
        Some(u64::try_from(end?.saturating_sub(committed?)).unwrap_or(0))
    };
    Ok(end.into_iter().zip(committed).map(lag).collect())
}

fn known(offsets: Vec<i64>) -> Vec<Option<i64>> {
    offsets.into_iter().map(|offset| Some(offset).filter(|&offset| offset >= 0)).collect()
}
