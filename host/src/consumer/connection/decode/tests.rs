//! Held against kafka-protocol's encoding and decoding, then against answers that lie.

use std::fmt::Debug;

use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

use super::*;
use crate::consumer::connection::call::{Call, Visitor, every_call};

/// Chance that can be repeated.
pub(in crate::consumer) struct Dice(u64);

impl Dice {
    /// xorshift64.
    pub(in crate::consumer) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(in crate::consumer) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }
}

/// Of each answer and version.
const ROUNDS: usize = 100;

/// Less than honest samples may take, for the limit to be met.
const ROOM_TO_TEST: usize = 16 * 1024;

/// An answer of this version, and its bytes as kafka-protocol writes them.
fn sample<R: Call>(dice: &mut Dice, version: i16) -> (R::Answer, Bytes)
where
    R::Answer: Encodable,
{
    let answer = R::Answer::sample(dice, version);
    let mut bytes = Vec::new();
    answer.encode(&mut bytes, version).unwrap_or_else(|e| panic!("{} {version}: {e}", R::NAME));
    (answer, bytes.into())
}

fn flexible<R: Call>(version: i16) -> bool {
    <R as HeaderVersion>::header_version(version) >= 2
}

struct ReadAsWritten(Dice);

impl Visitor for ReadAsWritten {
    fn visit<R: Call>(&mut self)
    where
        R::Answer: Encodable + Decodable + PartialEq + Debug,
    {
        for version in (R::VERSIONS.0..=R::VERSIONS.1).flat_map(|v| [v; ROUNDS]) {
            let (answer, bytes) = sample::<R>(&mut self.0, version);
            let mut ours = bytes.clone();
            let read: R::Answer = super::answer(&mut ours, version, flexible::<R>(version)).unwrap();
            assert_eq!(read, answer, "{} {version}", R::NAME);
            assert!(ours.is_empty(), "{} {version}: {} bytes left", R::NAME, ours.len());
            let theirs = R::Answer::decode(&mut bytes.clone(), version).unwrap();
            assert_eq!(read, theirs, "{} {version}", R::NAME);
        }
    }
}

#[test]
fn answers_are_read_as_kafka_protocol_writes_and_reads_them_in_every_version_in_use() {
    every_call(&mut ReadAsWritten(Dice(1)));
}

/// What decoding may allocate besides the arrays: small change, such as the room of an error.
const CHANGE: u64 = 4096;

/// Decodes, and fails if that takes more memory than there is room.
fn stays_within<R: Call>(room: usize, mut bytes: Bytes, version: i16) -> Option<DecodeError> {
    let mut outcome = None;
    let memory = allocation_counter::measure(|| {
        let read = answer_within::<R::Answer>(room, &mut bytes, version, flexible::<R>(version));
        outcome = read.err();
    });
    assert!(memory.bytes_max <= room as u64 + CHANGE, "{} {version} took {}", R::NAME, memory.bytes_max);
    outcome
}

struct Lies(Dice);

impl Visitor for Lies {
    fn visit<R: Call>(&mut self)
    where
        R::Answer: Encodable + Decodable + PartialEq + Debug,
    {
        let dice = &mut self.0;
        for version in (R::VERSIONS.0..=R::VERSIONS.1).flat_map(|v| [v; ROUNDS]) {
            let (_, bytes) = sample::<R>(dice, version);
            let mut lying = bytes.to_vec();
            for _ in 0..=dice.below(3) {
                let Some(last) = lying.len().checked_sub(1) else { break };
                let at = dice.below(lying.len());
                match dice.below(5) {
                    0 => lying[at] ^= 1 << dice.below(8),
                    1 => lying.truncate(at),
                    // The largest length, in either way of writing it.
                    2 => drop(lying.splice(at..=last.min(at + 3), [0x7f, 0xff, 0xff, 0xff])),
                    3 => drop(lying.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
                    _ => lying[at] = 0xff,
                }
            }
            // With much to follow, an array may claim much.
            lying.resize(lying.len() + dice.below(2) * 100_000, 0);
            stays_within::<R>(ROOM_TO_TEST, lying.into(), version);
        }
    }
}

#[test]
fn answers_that_lie_take_no_more_memory_than_there_is_room() {
    every_call(&mut Lies(Dice(2)));
}

#[test]
fn an_array_is_backed_by_bytes_and_by_room() {
    use kafka_protocol::messages::HeartbeatRequest;
    type Ids = Vec<BrokerId>;
    let read = |room, bytes: &'static [u8], flexible| {
        let mut bytes = Bytes::from_static(bytes);
        answer_within::<Ids>(room, &mut bytes, 0, flexible)
    };
    let lie = DecodeError::Count { count: i32::MAX as usize, bytes: 4 };
    assert_eq!(read(ROOM, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1], false), Err(lie));
    let lie = DecodeError::Count { count: u32::MAX as usize - 1, bytes: 4 };
    assert_eq!(read(ROOM, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1], true), Err(lie));
    assert_eq!(read(ROOM, &[0xff; 9], true), Err(DecodeError::Varint));
    assert_eq!(read(8, &[3, 0, 0, 0, 1, 0, 0, 0, 2], true), Ok(vec![BrokerId(1), BrokerId(2)]));
    assert_eq!(read(7, &[3, 0, 0, 0, 1, 0, 0, 0, 2], true), Err(DecodeError::TooLarge));
    assert_eq!(read(ROOM, &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0], false), Err(DecodeError::Short { missing: 2 }));
    assert_eq!(read(ROOM, &[0xff, 0xff, 0xff, 0xfe], false), Err(DecodeError::Negative(-2)));
    assert_eq!(read(ROOM, &[0], true), Err(DecodeError::Null));
    // Tagged fields claim lengths, too.
    let tagged = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let e = stays_within::<HeartbeatRequest>(0, tagged, 4);
    assert_eq!(e, Some(DecodeError::Short { missing: 1 }));
}

#[test]
fn null_bytes_are_empty_for_brokers_send_them_along_with_errors() {
    use kafka_protocol::messages::SyncGroupResponse;
    let mut body = Bytes::from_static(&[0, 0, 0, 0, 0, 27, 0xff, 0xff, 0xff, 0xff]);
    let answer: SyncGroupResponse = super::answer(&mut body, 3, false).unwrap();
    assert_eq!((answer.error_code, answer.assignment), (27, Bytes::new()));
}
