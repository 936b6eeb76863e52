//! Typed user data: serde types as bytes, by bincode's standard configuration.
//!
//! Bytes from other members are hostile input: another version of the strategy wrote them, or something else did. Decoding
//! reads at most [`MAX_BYTES`], must use all bytes, and answers with an error to everything else. To let versions live side by
//! side, send an enum with one variant per version.
//!
//! Of serde's attributes those that need self-describing data (`flatten`, `skip*`, `tag`, `untagged`) don't work with bincode.
//!
//! ```
//! use assignor_guest_sdk::user_data;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! enum Capacity {
//!     V1 { cores: u32 },
//! }
//!
//! let bytes = user_data::encode(&Capacity::V1 { cores: 8 })?;
//! assert_eq!(user_data::decode::<Capacity>(&bytes)?, Capacity::V1 { cores: 8 });
//! assert!(user_data::decode::<Capacity>(b"garbage").is_err());
//! # Ok::<(), assignor_guest_sdk::Error>(())
//! ```

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::EncodeError as BincodeEncode;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes that user data may have: what the contract allows.
pub const MAX_BYTES: usize = 1 << 20;

/// Why a value can't be user data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Larger than [`MAX_BYTES`].
    #[error("the user data has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The type can't be encoded.
    #[error("the user data can't be encoded: {0}")]
    Unsupported(String),
}

/// Why bytes are not the user data that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Larger than [`MAX_BYTES`].
    #[error("the user data has {bytes} bytes, more than {MAX_BYTES}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// Not of the expected type.
    #[error("the user data is not of the expected type: {0}")]
    Malformed(String),
    /// Of the expected type, with bytes behind it.
    #[error("the user data has {unused} bytes behind its end")]
    Trailing {
        /// How many.
        unused: usize,
    },
}

/// Encodes a value.
///
/// # Errors
/// If it takes more than [`MAX_BYTES`], or its type can't be encoded.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Bounded { bytes: Vec::new(), full: false };
    match bincode::serde::encode_into_writer(value, &mut writer, CONFIG) {
        Ok(()) => Ok(writer.bytes),
        Err(_) if writer.full => Err(EncodeError::TooLarge),
        Err(error) => Err(EncodeError::Unsupported(error.to_string())),
    }
}

/// Decodes a value from all the bytes.
///
/// # Errors
/// If the bytes are too many, not of this type, or not used up.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > MAX_BYTES {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    let (value, used) = bincode::serde::decode_from_slice(bytes, CONFIG)
        .map_err(|error| DecodeError::Malformed(error.to_string()))?;
    match bytes.len() - used {
        0 => Ok(value),
        unused => Err(DecodeError::Trailing { unused }),
    }
}

/// What bincode may claim while it decodes: it counts an integer by its size in memory, up to 16 bytes, however few bytes
/// encode it. It makes bincode refuse an absurd length before it allocates for it.
const MAX_CLAIM: usize = 17 * MAX_BYTES;

const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_CLAIM>> =
    bincode::config::standard().with_limit::<MAX_CLAIM>();

/// Stops at [`MAX_BYTES`]: bincode applies its limit to decoding only.
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl Writer for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BincodeEncode> {
        if bytes.len() > MAX_BYTES - self.bytes.len() {
            self.full = true;
            return Err(BincodeEncode::UnexpectedEnd);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Sample {
        Weight(f64),
        Owned { generation: i32, partitions: Vec<(String, Vec<u32>)> },
        Note(Option<String>),
    }

    fn sample() -> impl Strategy<Value = Sample> {
        prop_oneof![
            (-1e9..1e9).prop_map(Sample::Weight),
            (any::<i32>(), prop::collection::vec((".*", prop::collection::vec(any::<u32>(), 0..9)), 0..9))
                .prop_map(|(generation, partitions)| Sample::Owned { generation, partitions }),
            prop::option::of(".*").prop_map(Sample::Note),
        ]
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(value in sample()) {
            prop_assert_eq!(decode::<Sample>(&encode(&value).unwrap()), Ok(value));
        }

        #[test]
        fn random_bytes_are_decoded_or_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(value) = decode::<Sample>(&bytes) {
                encode(&value).unwrap();
            }
        }

        #[test]
        fn bytes_behind_the_value_are_refused(value in sample(), behind in 1usize..9) {
            let mut bytes = encode(&value).unwrap();
            bytes.resize(bytes.len() + behind, 0);
            prop_assert_eq!(decode::<Sample>(&bytes), Err(DecodeError::Trailing { unused: behind }));
        }

        #[test]
        fn a_value_cut_short_is_refused(value in sample(), cut in any::<prop::sample::Index>()) {
            let bytes = encode(&value).unwrap();
            prop_assert!(decode::<Sample>(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn a_length_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated() {
        // 253 announces a length of 8 bytes.
        let claim = [[253].as_slice(), &(1u64 << 40).to_le_bytes()].concat();
        assert!(matches!(decode::<Vec<u8>>(&claim), Err(DecodeError::Malformed(_))));
        assert!(matches!(decode::<String>(&claim), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn more_than_the_limit_is_neither_encoded_nor_decoded() {
        assert_eq!(encode(&"x".repeat(MAX_BYTES)), Err(EncodeError::TooLarge));
        let most = "x".repeat(MAX_BYTES - 5);
        assert!(decode::<String>(&encode(&most).unwrap()) == Ok(most));
        let smallest_integers = vec![0u128; MAX_BYTES - 5];
        assert!(decode::<Vec<u128>>(&encode(&smallest_integers).unwrap()) == Ok(smallest_integers));
        assert_eq!(
            decode::<String>(&vec![0; MAX_BYTES + 1]),
            Err(DecodeError::TooLarge { bytes: MAX_BYTES + 1 })
        );
    }
}
