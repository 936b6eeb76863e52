//! What members of Kafka's sticky strategies tell in their user data.
//!
//! ```text
//! previous assignment   [topic string, partitions [int32]]
//! generation            int32                              from version 1 (KIP-341)
//! ```
//!
//! The bytes carry no version: readers try version 1, then 0, and ignore what follows (Kafka: `StickyAssignor`). `sticky` is eager
//! and members revoke everything before they join, so this is where its leader reads what they owned.
//!
//! `cooperative-sticky` tells only a generation, and each client in its own way: [`cooperative_generation`] reads them all.
//!
//! # Example
//! ```
//! use assignor_host::{TopicPartitions, wire::sticky_user_data};
//!
//! let owned = [TopicPartitions { topic: "t".into(), partitions: vec![1, 0] }];
//! let bytes = sticky_user_data::encode(&owned, 7)?;
//! assert_eq!(bytes, b"\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x07");
//! let told = sticky_user_data::decode(&bytes)?;
//! assert_eq!((told.owned[0].partitions.as_slice(), told.generation), (&[0, 1][..], Some(7)));
//! # Ok::<(), assignor_host::wire::WireError>(())
//! ```

use super::read::{Reader, TopicFields};
use super::{WireError, write};
use crate::group::TopicPartitions;

const FIELDS: TopicFields = TopicFields {
    list: "the list of previously assigned partitions",
    topic: "the topic of previously assigned partitions",
    partitions: "the previously assigned partitions of a topic",
    partition: "a previously assigned partition",
};
const GENERATION: &str = "the generation of the previous assignment";

/// Kafka's number for a generation that isn't known (`AbstractStickyAssignor.DEFAULT_GENERATION`).
pub const NO_GENERATION: i32 = -1;

/// What a member of the `sticky` strategy owned, and since when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The partitions of its last assignment.
    pub owned: Vec<TopicPartitions>,
    /// The generation in which it got them; `None` if it doesn't say.
    pub generation: Option<i32>,
}

/// Writes version 1: topics and partitions ascending, so that the same assignment is always the same bytes.
///
/// # Errors
/// If a topic's name is longer than 32,767 bytes, or a list or a partition is above `i32::MAX`.
pub fn encode(owned: &[TopicPartitions], generation: i32) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    write::topic_partitions(&mut out, FIELDS, owned)?;
    out.extend_from_slice(&generation.to_be_bytes());
    Ok(out)
}

/// Reads version 1, or version 0 where no generation follows. Memory is bounded by the length of the blob, as in all of
/// [`wire`](super).
///
/// # Errors
/// If the bytes are neither.
pub fn decode(bytes: &[u8]) -> Result<Told, WireError> {
    let mut reader = Reader::new(bytes);
    let owned = reader.topic_partitions(FIELDS)?;
    // A version 1 cut short within its generation is a whole version 0, as in Kafka.
    Ok(Told { owned, generation: reader.i32(GENERATION).ok() })
}

/// What a member's user data says under `sticky` (Kafka: `StickyAssignor.memberData`): nothing owned and no generation if it is
/// missing or empty; nothing owned and [`NO_GENERATION`] if it can't be read.
pub fn sticky(user_data: Option<&[u8]>) -> Told {
    let Some(bytes) = user_data.filter(|bytes| !bytes.is_empty()) else { return Told::default() };
    decode(bytes).unwrap_or(Told { owned: Vec::new(), generation: Some(NO_GENERATION) })
}

/// The generation that a member's user data tells under `cooperative-sticky`; of use only where its subscription tells none, which
/// then still says what it owns (Kafka: `CooperativeStickyAssignor.memberData`). `None` if there is no user data, [`NO_GENERATION`]
/// if it can't be read.
///
/// | who | writes |
/// | --- | --- |
/// | Java | the generation, 4 bytes |
/// | librdkafka, franz-go | version 1 of `sticky`'s user data |
/// | librdkafka before its first assignment, kafka-python | no bytes |
///
/// Java reads the first 4 bytes of whatever there is, and so takes librdkafka's and franz-go's *number of topics* for a generation:
/// a member with many topics would win over one that owns a partition now. Here their generation is read as they meant it. The
/// first 4 bytes count only where the whole is no version 1, as what a later version of Java's may append to them.
pub fn cooperative_generation(user_data: Option<&[u8]>) -> Option<i32> {
    let bytes = user_data?;
    let (&first, rest) = bytes.split_first_chunk().unwrap_or((&NO_GENERATION.to_be_bytes(), &[]));
    let meant = if rest.is_empty() { None } else { whole_version_1(bytes) };
    Some(meant.unwrap_or(i32::from_be_bytes(first)))
}

/// The generation of a version 1 after which nothing follows.
fn whole_version_1(bytes: &[u8]) -> Option<i32> {
    let mut reader = Reader::new(bytes);
    reader.topic_partitions(FIELDS).ok()?;
    let generation = reader.i32(GENERATION).ok()?;
    reader.is_at_end().then_some(generation)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests_support::{any_topic_partitions, canonical, owned};
    use super::*;

    /// Version 1 by hand: a-1, a-2, bc-0, generation 5.
    const V1: &[u8] = b"\x00\x00\x00\x02\
        \x00\x01a\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\
        \x00\x02bc\x00\x00\x00\x01\x00\x00\x00\x00\
        \x00\x00\x00\x05";
    const V0_END: usize = 31;

    fn example() -> Vec<TopicPartitions> {
        vec![owned("a", &[1, 2]), owned("bc", &[0])]
    }

    #[test]
    fn version_1_is_written_as_kafkas_schema_says_whatever_the_order() {
        assert_eq!(encode(&example(), 5).unwrap(), V1);
        let shuffled = [owned("bc", &[0]), owned("a", &[2, 1, 2]), owned("none", &[])];
        assert_eq!(encode(&shuffled, 5).unwrap(), V1);
        assert_eq!(encode(&[], -1).unwrap(), b"\x00\x00\x00\x00\xff\xff\xff\xff");
        assert_eq!(encode(&[owned("t", &[1 << 31])], 5).unwrap_err().code(), "wire-too-large");
    }

    #[test]
    fn version_1_is_tried_first_and_what_is_cut_within_its_generation_is_version_0() {
        assert_eq!(decode(V1).unwrap(), Told { owned: example(), generation: Some(5) });
        for end in V0_END..V1.len() {
            assert_eq!(decode(&V1[..end]).unwrap(), Told { owned: example(), generation: None });
        }
        for end in 0..V0_END {
            assert!(decode(&V1[..end]).is_err(), "{end}");
        }
        let followed = [V1, b"more"].concat();
        assert_eq!(decode(&followed).unwrap().generation, Some(5));
    }

    #[test]
    fn sticky_takes_missing_and_empty_for_nothing_told_and_the_unreadable_for_generation_minus_one() {
        assert_eq!(sticky(None), Told::default());
        assert_eq!(sticky(Some(b"")), Told::default());
        let unreadable = Told { owned: vec![], generation: Some(-1) };
        for bytes in [&b"\x07"[..], b"\xff\xff\xff\xff\x00\x00\x00\x05", &V1[..V0_END - 1]] {
            assert_eq!(sticky(Some(bytes)), unreadable);
        }
        assert_eq!(sticky(Some(V1)), Told { owned: example(), generation: Some(5) });
    }

    #[test]
    fn cooperative_sticky_reads_what_each_client_means() {
        assert_eq!(cooperative_generation(None), None);
        // Java, after its first assignment and before it.
        assert_eq!(cooperative_generation(Some(b"\x00\x00\x00\x09")), Some(9));
        assert_eq!(cooperative_generation(Some(b"\xff\xff\xff\xff")), Some(-1));
        assert_eq!(cooperative_generation(Some(b"\x00\x00\x00\x00")), Some(0));
        // librdkafka and franz-go: the generation stands last; Java would read 2 here, the number of topics.
        assert_eq!(cooperative_generation(Some(V1)), Some(5));
        assert_eq!(cooperative_generation(Some(b"\x00\x00\x00\x00\x00\x00\x00\x06")), Some(6));
        // kafka-python, and librdkafka before its first assignment.
        assert_eq!(cooperative_generation(Some(b"")), Some(-1));
        // Unreadable.
        assert_eq!(cooperative_generation(Some(b"\x00\x00\x09")), Some(-1));
        // What Java may append some day.
        assert_eq!(cooperative_generation(Some(b"\x00\x00\x00\x09\x00\x01r")), Some(9));
        assert_eq!(cooperative_generation(Some(&[V1, b"more"].concat())), Some(2));
    }

    #[test]
    fn a_few_bytes_that_claim_two_billion_elements_are_refused_before_anything_is_reserved() {
        assert_eq!(decode(b"\x7f\xff\xff\xff").unwrap_err().code(), "wire-count");
        let partitions = b"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff";
        assert_eq!(decode(partitions).unwrap_err().code(), "wire-count");
        assert_eq!(sticky(Some(partitions)).generation, Some(-1));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_in_canonical_form(
            owned in any_topic_partitions(),
            generation in any::<i32>(),
        ) {
            let bytes = encode(&owned, generation).unwrap();
            let told = Told { owned: canonical(&owned), generation: Some(generation) };
            prop_assert_eq!(sticky(Some(&bytes)), told);
            prop_assert_eq!(cooperative_generation(Some(&bytes)), Some(generation));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let told = sticky(Some(&bytes));
            let partitions: usize = told.owned.iter().map(|t| t.partitions.len()).sum();
            prop_assert!(told.owned.len() * 6 + partitions * 4 <= bytes.len());
            prop_assert!(bytes.len() >= 4 || cooperative_generation(Some(&bytes)) == Some(-1));
        }

        #[test]
        fn a_changed_byte_is_read_or_refused(at in 0..V1.len(), byte in any::<u8>()) {
            let mut bytes = V1.to_vec();
            bytes[at] = byte;
            if let Ok(Told { owned, generation }) = decode(&bytes) {
                prop_assert!(encode(&owned, generation.unwrap_or(-1)).is_ok());
            }
            let _ = cooperative_generation(Some(&bytes));
        }
    }
}
