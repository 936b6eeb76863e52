//! Decoding of brokers' answers, which believes no length.
//!
//! kafka-protocol's own decoding reserves room for as many elements as an array claims to have: a few bytes ask for gigabytes, and
//! the process ends. Here an array must be backed by as many bytes as it has elements, and what all arrays of an answer take in
//! memory is limited by [`ROOM`]. Strings and bytes are slices of the frame and take nothing. The types are kafka-protocol's, so
//! that requests and answers are of one kind; `answers` tells which fields they have in which versions.

mod answers;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::{BrokerId, GroupId, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// What the arrays of one answer may take in memory. A million partitions in an answer to Metadata take less.
pub(super) const ROOM: usize = 256 * 1024 * 1024;

/// Why an answer can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::consumer) enum DecodeError {
    #[error("it ends {missing} bytes too early")]
    Short { missing: usize },
    #[error("an array claims {count} elements, with {bytes} bytes left")]
    Count { count: usize, bytes: usize },
    #[error("its arrays take more than {ROOM} bytes of memory")]
    TooLarge,
    #[error("the length {0} is negative")]
    Negative(i32),
    #[error("what can't be null is null")]
    Null,
    #[error("a string is no UTF-8")]
    Utf8,
    #[error("a varint takes more than 32 bits")]
    Varint,
}

/// Reads the header of an answer, in the header's version 0 or 1, and returns the correlation id.
pub(super) fn header(frame: &mut Bytes, version: i16) -> Result<i32, DecodeError> {
    let mut reader = Reader { rest: std::mem::take(frame), version, flexible: version >= 1, room: ROOM };
    let id = i32::read(&mut reader)?;
    reader.skip_tagged()?;
    *frame = reader.rest;
    Ok(id)
}

/// Reads an answer of this version, which is flexible or not (KIP-482), and leaves what comes after it.
pub(super) fn answer<T: Field>(body: &mut Bytes, version: i16, flexible: bool) -> Result<T, DecodeError> {
    answer_within(ROOM, body, version, flexible)
}

fn answer_within<T: Field>(
    room: usize,
    body: &mut Bytes,
    version: i16,
    flexible: bool,
) -> Result<T, DecodeError> {
    let mut reader = Reader { rest: std::mem::take(body), version, flexible, room };
    let answer = T::read(&mut reader)?;
    *body = reader.rest;
    Ok(answer)
}

/// The rest of an answer.
pub(in crate::consumer) struct Reader {
    rest: Bytes,
    version: i16,
    /// Lengths are varints, and structures end with tagged fields.
    flexible: bool,
    /// What arrays may still take in memory.
    room: usize,
}

/// What an answer is made of.
pub(in crate::consumer) trait Field: Sized {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError>;

    /// Any value, to test with.
    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, version: i16) -> Self;
}

/// How many bytes a length takes in versions that are not flexible.
#[derive(Clone, Copy)]
enum Width {
    Two,
    Four,
}

impl Reader {
    fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        match length.checked_sub(self.rest.len()) {
            None | Some(0) => Ok(self.rest.split_to(length)),
            Some(missing) => Err(DecodeError::Short { missing }),
        }
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let short = DecodeError::Short { missing: N.saturating_sub(self.rest.len()) };
        let chunk = *self.rest.first_chunk().ok_or(short)?;
        self.rest.advance(N);
        Ok(chunk)
    }

    fn varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.chunk()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| DecodeError::Varint);
            }
        }
        Err(DecodeError::Varint)
    }

    /// The length of a string, of bytes or of an array; `None` is null.
    fn length(&mut self, width: Width) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            // One more than the length.
            return Ok((self.varint()? as usize).checked_sub(1));
        }
        let length = match width {
            Width::Two => i32::from(i16::read(self)?),
            Width::Four => i32::read(self)?,
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(DecodeError::Negative(length)),
        }
    }

    /// Fields that are optional in Kafka: nothing of what we ask for is among them.
    fn skip_tagged(&mut self) -> Result<(), DecodeError> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.varint()? {
            let _tag = self.varint()?;
            let size = self.varint()?;
            self.take(size as usize)?;
        }
        Ok(())
    }

    /// Ids that nobody here uses.
    fn skip_uuid(&mut self) -> Result<(), DecodeError> {
        self.chunk::<16>().map(drop)
    }
}

impl Field for Uuid {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.chunk().map(Self::from_bytes)
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, version: i16) -> Self {
        Self::from_u64_pair(u64::from(i32::sample(dice, version).unsigned_abs()), 1)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Field for $number {
            fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
                reader.chunk().map(<$number>::from_be_bytes)
            }

            #[cfg(test)]
            fn sample(dice: &mut tests::Dice, _: i16) -> Self {
                // Truncated on purpose: any bits will do.
                dice.roll() as $number
            }
        })*
    };
}

numbers! { i16 i32 i64 }

impl Field for bool {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.chunk().map(|[byte]| byte != 0)
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, _: i16) -> Self {
        dice.below(2) == 0
    }
}

impl Field for Option<StrBytes> {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let Some(length) = reader.length(Width::Two)? else { return Ok(None) };
        let text = StrBytes::try_from(reader.take(length)?).map_err(|_| DecodeError::Utf8)?;
        Ok(Some(text))
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, version: i16) -> Self {
        (dice.below(3) > 0).then(|| Field::sample(dice, version))
    }
}

impl Field for StrBytes {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Option::read(reader)?.ok_or(DecodeError::Null)
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, _: i16) -> Self {
        let length = dice.below(20);
        Self::from_string((0..length).map(|_| ['a', 'Z', '0', 'ä', '🦀'][dice.below(5)]).collect())
    }
}

/// Some brokers send null along with an error: null is read as empty.
impl Field for Bytes {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.length(Width::Four)? {
            Some(length) => reader.take(length),
            None => Ok(Self::new()),
        }
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, _: i16) -> Self {
        let length = dice.below(40);
        (0..length).map(|_| dice.roll() as u8).collect()
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let count = reader.length(Width::Four)?.ok_or(DecodeError::Null)?;
        // Every element takes at least a byte.
        let bytes = reader.rest.len();
        if count > bytes {
            return Err(DecodeError::Count { count, bytes });
        }
        let size = count.saturating_mul(size_of::<T>());
        reader.room = reader.room.checked_sub(size).ok_or(DecodeError::TooLarge)?;
        let mut list = Self::with_capacity(count);
        for _ in 0..count {
            list.push(T::read(reader)?);
        }
        Ok(list)
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, version: i16) -> Self {
        let count = dice.below(4);
        (0..count).map(|_| T::sample(dice, version)).collect()
    }
}

macro_rules! wrappers {
    ($($wrapper:ident $inner:ty,)*) => {
        $(impl Field for $wrapper {
            fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
                <$inner>::read(reader).map($wrapper)
            }

            #[cfg(test)]
            fn sample(dice: &mut tests::Dice, version: i16) -> Self {
                $wrapper(<$inner>::sample(dice, version))
            }
        })*
    };
}

wrappers! {
    BrokerId i32,
    GroupId StrBytes,
    TopicName StrBytes,
}

impl Field for Option<TopicName> {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Option::read(reader)?.map(TopicName))
    }

    #[cfg(test)]
    fn sample(dice: &mut tests::Dice, version: i16) -> Self {
        Option::sample(dice, version).map(TopicName)
    }
}

#[cfg(test)]
mod tests;
