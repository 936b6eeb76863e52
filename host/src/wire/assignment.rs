//! What the leader gives to a member (Kafka: `ConsumerProtocolAssignment.json`). Versions 0 to 3 are alike:
//!
//! ```text
//! version      int16
//! partitions   [topic string, partitions [int32]]
//! user data    nullable bytes
//! ```
//!
//! A member that the leader left out is sent no bytes at all by the broker. That is no assignment blob: [`decode`] refuses it,
//! and the caller decides what it means.

use super::read::{Reader, TopicFields};
use super::{HIGHEST_VERSION, WireError, write};
use crate::group::{Group, TopicPartitions};

const FIELDS: TopicFields = TopicFields {
    list: "the list of assigned partitions",
    topic: "the topic of assigned partitions",
    partitions: "the assigned partitions of a topic",
    partition: "an assigned partition",
};

/// Writes an assignment, in the version that Kafka's own client writes: [`HIGHEST_VERSION`].
///
/// # Errors
/// If a topic's name is longer than 32,767 bytes, the user data or a list is longer than `i32::MAX`, or a partition is above
/// `i32::MAX`.
pub fn encode(partitions: &[TopicPartitions], user_data: Option<&[u8]>) -> Result<Vec<u8>, WireError> {
    let mut out = HIGHEST_VERSION.to_be_bytes().to_vec();
    write::topic_partitions(&mut out, FIELDS, partitions)?;
    write::nullable_bytes(&mut out, "the user data", user_data)?;
    Ok(out)
}

/// Writes what a plan gives to a member: the same bytes as [`encode`] of [`Group::by_name`], without copying names.
///
/// # Errors
/// As [`encode`].
pub fn encode_numbers(
    group: &Group,
    partitions: &[u32],
    user_data: Option<&[u8]>,
) -> Result<Vec<u8>, WireError> {
    let mut out = HIGHEST_VERSION.to_be_bytes().to_vec();
    write::numbers(&mut out, FIELDS, group, partitions)?;
    write::nullable_bytes(&mut out, "the user data", user_data)?;
    Ok(out)
}

/// Reads an assignment of any version from 0: the partitions, in the order in which they were written, and the user data.
/// User data of no bytes stays distinct from no user data.
///
/// # Errors
/// If the bytes are no assignment; see the [module](super) for the rules.
pub fn decode(blob: &[u8]) -> Result<(Vec<TopicPartitions>, Option<Vec<u8>>), WireError> {
    let mut reader = Reader::new(blob);
    reader.version()?;
    let partitions = reader.topic_partitions(FIELDS)?;
    let user_data = reader.nullable_bytes("the user data")?;
    Ok((partitions, user_data))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests_support::{any_topic_partitions, canonical, owned};
    use super::*;

    /// By hand: a-1 and a-2, b-0, user data 0xff.
    const BLOB: &[u8] = b"\x00\x03\
        \x00\x00\x00\x02\
        \x00\x01a\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\
        \x00\x01b\x00\x00\x00\x01\x00\x00\x00\x00\
        \x00\x00\x00\x01\xff";

    fn example() -> (Vec<TopicPartitions>, Option<Vec<u8>>) {
        (vec![owned("a", &[1, 2]), owned("b", &[0])], Some(vec![0xff]))
    }

    #[test]
    fn it_is_written_and_read_as_kafkas_schema_says_in_every_version() {
        let (partitions, user_data) = example();
        assert_eq!(encode(&partitions, user_data.as_deref()).unwrap(), BLOB);
        for version in [0, 1, 2, 3, 77] {
            let mut blob = BLOB.to_vec();
            blob[1] = version;
            assert_eq!(decode(&blob).unwrap(), example());
            blob.extend_from_slice(b"fields of the future");
            assert_eq!(decode(&blob).unwrap(), example());
        }
        assert_eq!(decode(b"\x80\x00"), Err(WireError::Version { version: i16::MIN }));
    }

    #[test]
    fn the_same_assignment_in_another_order_is_the_same_bytes() {
        let shuffled = [owned("b", &[0]), owned("a", &[2, 1, 2]), owned("c", &[]), owned("b", &[0])];
        assert_eq!(encode(&shuffled, Some(&[0xff])).unwrap(), BLOB);
    }

    #[test]
    fn a_plans_numbers_are_written_as_their_names_are() {
        let counts = [("a", 3), ("b", 1), ("c", 2)].map(|(topic, n)| (topic.to_owned(), n)).into();
        let topics = ["a".to_owned(), "b".into(), "c".into()].into();
        let subscription = crate::Subscription { topics, ..Default::default() };
        let member = crate::MemberSubscription { subscription, ..Default::default() };
        let group = Group::new(&counts, vec![member]).unwrap();
        for numbers in [&[1, 2, 3][..], &[3, 2, 1, 2], &[], &[0, 5], &[4], &[5, 6, 7, u32::MAX]] {
            let named = group.by_name(numbers);
            let written = encode_numbers(&group, numbers, Some(&[0xff])).unwrap();
            assert_eq!(written, encode(&named, Some(&[0xff])).unwrap());
        }
        assert_eq!(encode_numbers(&group, &[1, 2, 3], Some(&[0xff])).unwrap(), BLOB);
    }

    #[test]
    fn nothing_assigned_is_written_and_read() {
        assert_eq!(encode(&[], None).unwrap(), b"\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff");
        assert_eq!(encode(&[], Some(&[])).unwrap(), b"\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00");
        assert_eq!(decode(&encode(&[], None).unwrap()).unwrap(), (vec![], None));
        assert_eq!(decode(&encode(&[], Some(&[])).unwrap()).unwrap(), (vec![], Some(vec![])));
    }

    #[test]
    fn every_short_blob_is_refused() {
        for end in 0..BLOB.len() {
            let e = decode(&BLOB[..end]).unwrap_err();
            assert!(["wire-short", "wire-count"].contains(&e.code()), "{end}: {e}");
        }
    }

    #[test]
    fn hostile_lengths_and_numbers_are_refused_where_they_stand() {
        let what = "the list of assigned partitions";
        let null = WireError::Null { what, offset: 2, length: -1 };
        assert_eq!(decode(b"\x00\x00\xff\xff\xff\xff"), Err(null));
        let count = WireError::Count { what, offset: 2, claimed: i32::MAX as usize, remaining: 7, most: 1 };
        assert_eq!(decode(b"\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00"), Err(count));
        let mut blob = BLOB.to_vec();
        blob[13..17].copy_from_slice(&i32::MIN.to_be_bytes());
        let what = "an assigned partition";
        let negative = WireError::NegativePartition { what, offset: 13, partition: i32::MIN };
        assert_eq!(decode(&blob), Err(negative));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_in_canonical_form(
            partitions in any_topic_partitions(),
            user_data in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            let read = decode(&encode(&partitions, user_data.as_deref()).unwrap()).unwrap();
            prop_assert_eq!(read, (canonical(&partitions), user_data));
        }

        #[test]
        fn any_bytes_are_read_or_refused(blob in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&blob);
        }
    }
}
