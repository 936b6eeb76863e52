//! A reader that never reserves more than the blob's own length justifies.

use super::{HIGHEST_VERSION, WireError};
use crate::group::TopicPartitions;

/// Bytes of the shortest string: its length.
const MIN_STRING: usize = 2;
/// Bytes of the shortest list of a topic's partitions: an empty name and no partitions.
const MIN_TOPIC_PARTITIONS: usize = MIN_STRING + 4;

/// The names that errors give to the fields of a list of topics with partitions.
#[derive(Clone, Copy)]
pub(super) struct TopicFields {
    pub(super) list: &'static str,
    pub(super) topic: &'static str,
    pub(super) partitions: &'static str,
    pub(super) partition: &'static str,
}

/// The rest of a blob, and how far it has been read.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(blob: &'a [u8]) -> Self {
        Self { rest: blob, offset: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The version, lowered to the highest that is known.
    pub(super) fn version(&mut self) -> Result<i16, WireError> {
        let version = self.i16("the version")?;
        if version < 0 {
            return Err(WireError::Version { version });
        }
        Ok(version.min(HIGHEST_VERSION))
    }

    /// Goes on after these bytes, if they come next.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(bytes);
        if let Some(rest) = rest {
            self.rest = rest;
            self.offset += bytes.len();
        }
        rest.is_some()
    }

    /// What is read, and the bytes that it was read from.
    pub(super) fn with_bytes<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<(&'a [u8], T), WireError> {
        let before = self.rest;
        let value = read(self)?;
        let bytes = before.get(..before.len() - self.rest.len()).unwrap_or_default();
        Ok((bytes, value))
    }

    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, WireError> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub(super) fn string(&mut self, what: &'static str) -> Result<String, WireError> {
        let offset = self.offset;
        let length = self.i16(what)?;
        let null = WireError::Null { what, offset, length: length.into() };
        self.text(what, usize::try_from(length).map_err(|_| null)?)
    }

    pub(super) fn nullable_string(&mut self, what: &'static str) -> Result<Option<String>, WireError> {
        let Ok(length) = usize::try_from(self.i16(what)?) else { return Ok(None) };
        self.text(what, length).map(Some)
    }

    fn text(&mut self, what: &'static str, length: usize) -> Result<String, WireError> {
        let offset = self.offset;
        let text = std::str::from_utf8(self.take(what, length)?)
            .map_err(|e| WireError::Utf8 { what, offset: offset + e.valid_up_to() })?;
        Ok(text.to_owned())
    }

    pub(super) fn nullable_bytes(&mut self, what: &'static str) -> Result<Option<Vec<u8>>, WireError> {
        let Ok(length) = usize::try_from(self.i32(what)?) else { return Ok(None) };
        Ok(Some(self.take(what, length)?.to_vec()))
    }

    pub(super) fn strings(
        &mut self,
        list: &'static str,
        each: &'static str,
    ) -> Result<Vec<String>, WireError> {
        let count = self.count(list, MIN_STRING)?;
        let mut strings = Vec::with_capacity(count);
        for _ in 0..count {
            strings.push(self.string(each)?);
        }
        Ok(strings)
    }

    pub(super) fn topic_partitions(
        &mut self,
        fields: TopicFields,
    ) -> Result<Vec<TopicPartitions>, WireError> {
        let count = self.count(fields.list, MIN_TOPIC_PARTITIONS)?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let topic = self.string(fields.topic)?;
            let partitions = self.partitions(fields)?;
            list.push(TopicPartitions { topic, partitions });
        }
        Ok(list)
    }

    fn partitions(&mut self, fields: TopicFields) -> Result<Vec<u32>, WireError> {
        let count = self.count(fields.partitions, size_of::<i32>())?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            let offset = self.offset;
            let partition = self.i32(fields.partition)?;
            let negative = WireError::NegativePartition { what: fields.partition, offset, partition };
            partitions.push(u32::try_from(partition).map_err(|_| negative)?);
        }
        Ok(partitions)
    }

    /// The count of an array whose elements take at least `min_size` bytes each: never more than the rest can hold, so that
    /// room may be reserved for it.
    fn count(&mut self, what: &'static str, min_size: usize) -> Result<usize, WireError> {
        let offset = self.offset;
        let length = self.i32(what)?;
        let claimed = usize::try_from(length).map_err(|_| WireError::Null { what, offset, length })?;
        let remaining = self.rest.len();
        let most = remaining / min_size;
        if claimed > most {
            return Err(WireError::Count { what, offset, claimed, remaining, most });
        }
        Ok(claimed)
    }

    fn i16(&mut self, what: &'static str) -> Result<i16, WireError> {
        self.array(what).map(i16::from_be_bytes)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let short = WireError::Short { what, offset: self.offset, needed: N, remaining: self.rest.len() };
        let (&taken, rest) = self.rest.split_first_chunk().ok_or(short)?;
        self.rest = rest;
        self.offset += N;
        Ok(taken)
    }

    fn take(&mut self, what: &'static str, length: usize) -> Result<&'a [u8], WireError> {
        let short =
            WireError::Short { what, offset: self.offset, needed: length, remaining: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(short)?;
        self.rest = rest;
        self.offset += length;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_never_more_than_the_rest_can_hold() {
        for claimed in [0, 1, 2, 3, 4, 1000, i32::MAX] {
            for min_size in [2, 4, 6] {
                for rest in 0..20 {
                    let mut blob = claimed.to_be_bytes().to_vec();
                    blob.resize(4 + rest, 0);
                    match Reader::new(&blob).count("things", min_size) {
                        Ok(count) => assert!(count * min_size <= rest && count == claimed as usize),
                        Err(e) => {
                            assert_eq!(e.code(), "wire-count");
                            assert!(claimed as usize * min_size > rest);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn errors_tell_the_offset_from_the_start_of_the_blob() {
        let mut reader = Reader::new(b"\x00\x01\x00\x03ab\xff");
        reader.version().unwrap();
        let e = reader.string("a name").unwrap_err();
        assert_eq!(e, WireError::Utf8 { what: "a name", offset: 6 });
        assert_eq!(e.to_string(), "a name at byte 6 is no UTF-8");
    }
}
