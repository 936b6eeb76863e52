//! What both blobs are written with: big-endian, in canonical order.

use std::collections::BTreeMap;

use super::WireError;
use super::read::TopicFields;
use crate::group::{self, Group, Topic, TopicPartitions};

pub(super) fn string(out: &mut Vec<u8>, what: &'static str, text: &str) -> Result<(), WireError> {
    let most = i16::MAX as usize;
    let length =
        i16::try_from(text.len()).map_err(|_| WireError::TooLarge { what, size: text.len(), most })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

pub(super) fn nullable_string(
    out: &mut Vec<u8>,
    what: &'static str,
    text: Option<&str>,
) -> Result<(), WireError> {
    match text {
        Some(text) => string(out, what, text),
        None => {
            out.extend_from_slice(&(-1i16).to_be_bytes());
            Ok(())
        }
    }
}

pub(super) fn nullable_bytes(
    out: &mut Vec<u8>,
    what: &'static str,
    bytes: Option<&[u8]>,
) -> Result<(), WireError> {
    match bytes {
        Some(bytes) => {
            count(out, what, bytes.len())?;
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
    Ok(())
}

/// Ascending, each once.
pub(super) fn strings(
    out: &mut Vec<u8>,
    list: &'static str,
    each: &'static str,
    strings: &[String],
) -> Result<(), WireError> {
    let mut sorted: Vec<&str> = strings.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    count(out, list, sorted.len())?;
    sorted.into_iter().try_for_each(|text| string(out, each, text))
}

/// Topics and partitions ascending, each once; entries of one topic merged, topics without partitions left out.
pub(super) fn topic_partitions(
    out: &mut Vec<u8>,
    fields: TopicFields,
    list: &[TopicPartitions],
) -> Result<(), WireError> {
    // As plans and what members own mostly are already.
    let canonical = list.is_sorted_by(|a, b| a.topic < b.topic)
        && list.iter().all(|e| !e.partitions.is_empty() && e.partitions.is_sorted_by(|a, b| a < b));
    if canonical {
        count(out, fields.list, list.len())?;
        return list
            .iter()
            .try_for_each(|entry| topic(out, fields, &entry.topic, entry.partitions.iter().copied()));
    }
    let mut merged: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for entry in list.iter().filter(|entry| !entry.partitions.is_empty()) {
        merged.entry(&entry.topic).or_default().extend(&entry.partitions);
    }
    count(out, fields.list, merged.len())?;
    merged.into_iter().try_for_each(|(name, mut partitions)| {
        partitions.sort_unstable();
        partitions.dedup();
        topic(out, fields, name, partitions.into_iter())
    })
}

/// The topics and partitions of a plan's numbers, each number once.
pub(super) fn numbers(
    out: &mut Vec<u8>,
    fields: TopicFields,
    group: &Group,
    numbers: &[u32],
) -> Result<(), WireError> {
    let mut numbers = group::ascending(numbers);
    if !numbers.is_sorted_by(|a, b| a < b) {
        numbers.to_mut().dedup();
    }
    // How many topics there are is known only afterwards.
    let at = out.len();
    let mut topics = 0;
    count(out, fields.list, topics)?;
    for (Topic { name, first, .. }, mine) in group.by_topic(&numbers) {
        topic(out, fields, name, mine.iter().map(|number| number - first))?;
        topics += 1;
    }
    let mut length = Vec::new();
    count(&mut length, fields.list, topics)?;
    if let Some(written) = out.get_mut(at..at + length.len()) {
        written.copy_from_slice(&length);
    }
    Ok(())
}

fn topic(
    out: &mut Vec<u8>,
    fields: TopicFields,
    name: &str,
    mut partitions: impl ExactSizeIterator<Item = u32>,
) -> Result<(), WireError> {
    string(out, fields.topic, name)?;
    count(out, fields.partitions, partitions.len())?;
    partitions.try_for_each(|partition| count(out, fields.partition, partition as usize))
}

/// A number that Kafka writes as a signed 32-bit one and never lets be negative.
fn count(out: &mut Vec<u8>, what: &'static str, number: usize) -> Result<(), WireError> {
    let most = i32::MAX as usize;
    let number = i32::try_from(number).map_err(|_| WireError::TooLarge { what, size: number, most })?;
    out.extend_from_slice(&number.to_be_bytes());
    Ok(())
}
