//! What a member tells the group when it joins (Kafka: `ConsumerProtocolSubscription.json`).
//!
//! ```text
//! version      int16
//! topics       [string]
//! user data    nullable bytes
//! owned        [topic string, partitions [int32]]     from version 1 (KIP-429)
//! generation   int32, -1 where unknown                from version 2 (KIP-792)
//! rack         nullable string                        from version 3 (KIP-881)
//! ```
//!
//! # Example
//! ```
//! use assignor_host::{Subscription, wire::{self, subscription}};
//!
//! let mine = Subscription { topics: ["orders".into(), "clicks".into()].into(), generation: Some(7), ..Default::default() };
//! let bytes = subscription::encode(&mine, wire::HIGHEST_VERSION)?;
//! let read = subscription::decode(&bytes)?;
//! assert_eq!(read.topics[..], ["clicks", "orders"]);
//! assert_eq!(read.generation, Some(7));
//! # Ok::<(), wire::WireError>(())
//! ```

use std::sync::Arc;

use super::read::{Reader, TopicFields};
use super::{HIGHEST_VERSION, WireError, write};
use crate::group::Subscription;

const FIELDS: TopicFields = TopicFields {
    list: "the list of owned partitions",
    topic: "the topic of owned partitions",
    partitions: "the owned partitions of a topic",
    partition: "an owned partition",
};

/// A generation that a member does not know or has lost, on the wire.
const NO_GENERATION: i32 = -1;

/// Writes a subscription.
///
/// A version above [`HIGHEST_VERSION`] is written as that one. Fields that a lower version does not have are left out, as
/// in Kafka. An empty rack counts as none and a negative generation as unknown, as in Kafka.
///
/// # Errors
/// If the version is negative, a name or the rack is longer than 32,767 bytes, the user data or a list is longer than
/// `i32::MAX`, or a partition is above `i32::MAX`.
pub fn encode(subscription: &Subscription, version: i16) -> Result<Vec<u8>, WireError> {
    if version < 0 {
        return Err(WireError::Version { version });
    }
    let version = version.min(HIGHEST_VERSION);
    let mut out = version.to_be_bytes().to_vec();
    write::strings(&mut out, "the list of topics", "a topic", &subscription.topics)?;
    write::nullable_bytes(&mut out, "the user data", subscription.user_data.as_deref())?;
    if version >= 1 {
        write::topic_partitions(&mut out, FIELDS, &subscription.owned)?;
    }
    if version >= 2 {
        let generation = subscription.generation.filter(|&g| g >= 0).unwrap_or(NO_GENERATION);
        out.extend_from_slice(&generation.to_be_bytes());
    }
    if version >= 3 {
        let rack = subscription.rack.as_deref().filter(|rack| !rack.is_empty());
        write::nullable_string(&mut out, "the rack", rack)?;
    }
    Ok(out)
}

/// Reads a subscription of any version from 0.
///
/// Lists come in the order in which they were written and may hold duplicates; [`Group::new`](crate::Group::new) resolves
/// them. User data of no bytes stays distinct from no user data. A negative generation reads as `None`, an empty rack as
/// `None`, as in Kafka.
///
/// A blob that says version 1 or later and ends right before its owned partitions is read as version 0: some clients wrote
/// such blobs, and groups with them would otherwise never form.
///
/// # Errors
/// If the bytes are no subscription; see the [module](super) for the rules.
pub fn decode(blob: &[u8]) -> Result<Subscription, WireError> {
    Decoder::default().decode(blob)
}

/// Reads the subscriptions of a group's members, as [`decode`] does, and keeps equal lists of topics once: a group of
/// thousands of members mostly has few.
#[derive(Debug, Default)]
pub struct Decoder {
    lists: Vec<(Vec<u8>, Arc<[String]>)>,
}

impl Decoder {
    /// How many lists are remembered; members that ask for others don't share them.
    const MOST_LISTS: usize = 16;

    /// Reads a member's subscription.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn decode(&mut self, blob: &[u8]) -> Result<Subscription, WireError> {
        let mut reader = Reader::new(blob);
        let version = reader.version()?;
        let topics = self.topics(&mut reader)?;
        let user_data = reader.nullable_bytes("the user data")?;
        let mut subscription = Subscription { topics, user_data, ..Subscription::default() };
        if version == 0 || reader.is_at_end() {
            return Ok(subscription);
        }
        subscription.owned = reader.topic_partitions(FIELDS)?;
        if version >= 2 {
            subscription.generation = Some(reader.i32("the generation")?).filter(|&g| g >= 0);
        }
        if version >= 3 {
            subscription.rack = reader.nullable_string("the rack")?.filter(|rack| !rack.is_empty());
        }
        Ok(subscription)
    }

    fn topics(&mut self, reader: &mut Reader<'_>) -> Result<Arc<[String]>, WireError> {
        // A list says how long it is, so the same bytes are the same list.
        if let Some((_, list)) = self.lists.iter().find(|(bytes, _)| reader.skip(bytes)) {
            return Ok(Arc::clone(list));
        }
        let (bytes, list) = reader.with_bytes(|reader| reader.strings("the list of topics", "a topic"))?;
        let list: Arc<[String]> = list.into();
        if self.lists.len() < Self::MOST_LISTS {
            self.lists.push((bytes.to_vec(), Arc::clone(&list)));
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests_support::{any_topic_partitions, canonical, owned};
    use super::*;

    /// Version 3 by hand: topics a and bc, user data 0xff, owned a-1 and a-2, generation 5, rack r.
    const V3: &[u8] = b"\x00\x03\
        \x00\x00\x00\x02\x00\x01a\x00\x02bc\
        \x00\x00\x00\x01\xff\
        \x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\
        \x00\x00\x00\x05\
        \x00\x01r";
    /// Where each version's fields end in [`V3`].
    const END: [usize; 4] = [18, 37, 41, 44];

    fn example() -> Subscription {
        Subscription {
            topics: ["a".into(), "bc".into()].into(),
            user_data: Some(vec![0xff]),
            owned: vec![owned("a", &[1, 2])],
            generation: Some(5),
            rack: Some("r".into()),
        }
    }

    fn of_version(version: u8) -> (Vec<u8>, Subscription) {
        let mut blob = V3[..END[usize::from(version)]].to_vec();
        blob[1] = version;
        let mut subscription = example();
        if version < 3 {
            subscription.rack = None;
        }
        if version < 2 {
            subscription.generation = None;
        }
        if version < 1 {
            subscription.owned.clear();
        }
        (blob, subscription)
    }

    #[test]
    fn each_version_is_written_and_read_as_kafkas_schema_says() {
        for version in 0..=3 {
            let (blob, subscription) = of_version(version);
            assert_eq!(encode(&example(), i16::from(version)).unwrap(), blob);
            assert_eq!(decode(&blob).unwrap(), subscription);
        }
    }

    #[test]
    fn a_member_without_anything_is_all_nulls_and_minus_one() {
        let blob = b"\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff";
        assert_eq!(encode(&Subscription::default(), 3).unwrap(), blob);
        assert_eq!(decode(blob).unwrap(), Subscription::default());
    }

    #[test]
    fn a_newer_version_is_read_as_the_highest_known_and_what_follows_is_ignored() {
        let mut blob = V3.to_vec();
        blob[1] = 9;
        blob.extend_from_slice(b"fields of the future");
        assert_eq!(decode(&blob).unwrap(), example());
        assert_eq!(encode(&example(), 9).unwrap(), V3);
        let (mut old, subscription) = of_version(0);
        old.push(7);
        assert_eq!(decode(&old).unwrap(), subscription);
    }

    #[test]
    fn members_that_ask_for_the_same_topics_share_the_list() {
        let blob = |topics: &[&str], version| {
            let topics = topics.iter().map(|t| (*t).to_owned()).collect();
            encode(&Subscription { topics, ..example() }, version).unwrap()
        };
        let mut decoder = Decoder::default();
        let mut read = |topics: &[&str], version| decoder.decode(&blob(topics, version)).unwrap().topics;
        let (a, _, again) = (read(&["a", "b"], 3), read(&["a"], 1), read(&["a", "b"], 0));
        assert!(Arc::ptr_eq(&a, &again));
        let many: Vec<_> = (0..100).map(|n| read(&[&format!("t{n}")], 3)).collect();
        assert!(many.iter().enumerate().all(|(n, topics)| topics[..] == [format!("t{n}")]));
        assert!(Arc::ptr_eq(&a, &read(&["a", "b"], 2)), "the first lists stay");
    }

    #[test]
    fn a_negative_version_is_refused_both_ways() {
        let refused = Err(WireError::Version { version: -1 });
        assert_eq!(decode(b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff"), refused);
        assert_eq!(encode(&example(), -1).map(drop), refused.map(drop));
    }

    #[test]
    fn a_blob_that_ends_before_its_owned_list_is_read_as_version_0_and_no_other_short_one_is() {
        let (_, v0) = of_version(0);
        for version in 1..=3 {
            let (blob, whole) = of_version(version);
            for end in 0..blob.len() {
                match decode(&blob[..end]) {
                    Ok(read) => assert_eq!((end, read), (END[0], v0.clone()), "version {version}"),
                    Err(e) => assert!(["wire-short", "wire-count"].contains(&e.code()), "{end}: {e}"),
                }
            }
            assert_eq!(decode(&blob).unwrap(), whole);
        }
    }

    #[test]
    fn user_data_of_no_bytes_is_not_no_user_data() {
        for user_data in [None, Some(vec![])] {
            let subscription = Subscription { user_data, ..Subscription::default() };
            assert_eq!(decode(&encode(&subscription, 3).unwrap()).unwrap(), subscription);
        }
        let written = |user_data| encode(&Subscription { user_data, ..Subscription::default() }, 0).unwrap();
        assert_eq!(written(None), b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff");
        assert_eq!(written(Some(vec![])), b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00");
    }

    #[test]
    fn an_empty_rack_and_a_negative_generation_are_none_both_ways() {
        let odd = Subscription { generation: Some(-7), rack: Some(String::new()), ..Subscription::default() };
        assert_eq!(encode(&odd, 3).unwrap(), encode(&Subscription::default(), 3).unwrap());
        let blob = b"\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xf9\x00\x00";
        assert_eq!(decode(blob).unwrap(), Subscription::default());
    }

    #[test]
    fn kafka_12898_the_same_subscription_in_another_order_is_the_same_bytes() {
        let shuffled = Subscription {
            topics: ["bc".into(), "a".into(), "bc".into()].into(),
            owned: vec![owned("a", &[2]), owned("none", &[]), owned("a", &[1, 2])],
            ..example()
        };
        assert_eq!(encode(&shuffled, 3).unwrap(), V3);
    }

    #[test]
    fn a_few_bytes_that_claim_two_billion_elements_are_refused_before_anything_is_reserved() {
        let head = b"\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff";
        let claims: [&[u8]; 4] = [
            b"\x00\x00\x7f\xff\xff\xff",
            b"\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
            &[head.as_slice(), b"\x7f\xff\xff\xff"].concat(),
            &[head.as_slice(), b"\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff"].concat(),
        ];
        let codes = claims.map(|blob| decode(blob).unwrap_err().code());
        assert_eq!(codes, ["wire-count", "wire-short", "wire-count", "wire-count"]);
    }

    #[test]
    fn nulls_bad_text_and_negative_partitions_are_refused_where_they_stand() {
        let null = WireError::Null { what: "the list of topics", offset: 2, length: -1 };
        assert_eq!(decode(b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"), Err(null));
        let null = WireError::Null { what: "a topic", offset: 6, length: -1 };
        assert_eq!(decode(b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff"), Err(null));
        let text = WireError::Utf8 { what: "a topic", offset: 8 };
        assert_eq!(decode(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff"), Err(text));
        let mut blob = V3.to_vec();
        blob[29..33].copy_from_slice(&(-3i32).to_be_bytes());
        let what = "an owned partition";
        assert_eq!(decode(&blob), Err(WireError::NegativePartition { what, offset: 29, partition: -3 }));
    }

    #[test]
    fn what_has_no_room_in_its_field_is_not_written() {
        let topics = ["t".repeat(32_768)].into();
        let e = encode(&Subscription { topics, ..Subscription::default() }, 3).unwrap_err();
        assert_eq!(e, WireError::TooLarge { what: "a topic", size: 32_768, most: 32_767 });
        let owned = vec![owned("t", &[1 << 31])];
        let e = encode(&Subscription { owned, ..Subscription::default() }, 3).unwrap_err();
        assert_eq!(e.code(), "wire-too-large");
        let longest = Subscription { rack: Some("r".repeat(32_767)), ..Subscription::default() };
        assert_eq!(decode(&encode(&longest, 3).unwrap()).unwrap(), longest);
    }

    fn any_subscription() -> impl Strategy<Value = Subscription> {
        let topics = prop::collection::vec("[a-c]{0,3}|\\PC{0,8}", 0..6);
        let user_data = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        let generation = prop::option::of(any::<i32>());
        let rack = prop::option::of("\\PC{0,4}");
        (topics, user_data, any_topic_partitions(), generation, rack).prop_map(
            |(topics, user_data, owned, generation, rack)| Subscription {
                topics: topics.into(),
                user_data,
                owned,
                generation,
                rack,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_in_canonical_form(subscription in any_subscription()) {
            let read = decode(&encode(&subscription, HIGHEST_VERSION).unwrap()).unwrap();
            let mut expected = subscription;
            let topics: std::collections::BTreeSet<String> = expected.topics.iter().cloned().collect();
            expected.topics = topics.into_iter().collect();
            expected.owned = canonical(&expected.owned);
            expected.generation = expected.generation.filter(|&g| g >= 0);
            expected.rack = expected.rack.filter(|rack| !rack.is_empty());
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_read_or_refused(blob in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&blob);
        }

        #[test]
        fn a_subscription_is_read_the_same_whatever_was_read_before(
            blobs in prop::collection::vec(("[ab]{0,2}", any::<Option<i32>>(), any::<bool>()), 0..30),
        ) {
            let mut decoder = Decoder::default();
            for (topics, generation, whole) in blobs {
                let topics = topics.chars().map(String::from).collect();
                let subscription = Subscription { topics, generation, ..Subscription::default() };
                let mut blob = encode(&subscription, HIGHEST_VERSION).unwrap();
                blob.truncate(if whole { blob.len() } else { blob.len() / 2 });
                prop_assert_eq!(decoder.decode(&blob), decode(&blob));
            }
        }

        #[test]
        fn a_changed_byte_is_read_or_refused(at in 0..V3.len(), byte in any::<u8>()) {
            let mut blob = V3.to_vec();
            blob[at] = byte;
            if let Ok(read) = decode(&blob) {
                prop_assert!(encode(&read, HIGHEST_VERSION).is_ok());
            }
        }
    }
}
