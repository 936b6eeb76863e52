//! What strategies tell each other, as far as we know their format.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

use super::by_topic;
use crate::builtin::{COOPERATIVE_STICKY, STICKY};
use crate::wire::sticky_user_data;

/// User data of a member or of its assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UserData {
    /// Kafka's `sticky`, and some clients' `cooperative-sticky`: what the member owned, and since when.
    Sticky {
        /// What it owned.
        owned: BTreeMap<String, Vec<u32>>,
        /// Since which generation; `None` if it doesn't say.
        generation: Option<i32>,
    },
    /// Java's `cooperative-sticky`: the generation of its last assignment, -1 before the first.
    Generation(i32),
    /// Anything else: how many bytes, and the first of them in hexadecimal digits.
    Bytes {
        /// How many.
        length: usize,
        /// The first 32 of them.
        begins: String,
    },
}

/// So many bytes of what isn't known are shown.
const SHOWN: usize = 32;

impl UserData {
    /// Reads what a member of this strategy wrote.
    pub(super) fn read(strategy: &str, bytes: &[u8]) -> Self {
        let known = match strategy {
            STICKY => sticky(bytes),
            COOPERATIVE_STICKY => match bytes.try_into() {
                Ok(generation) => Some(Self::Generation(i32::from_be_bytes(generation))),
                Err(_) => sticky(bytes),
            },
            _ => None,
        };
        known.unwrap_or_else(|| {
            let begins = bytes.iter().take(SHOWN).fold(String::new(), |mut text, byte| {
                // Writing to a string can't fail.
                let _ = write!(text, "{byte:02x}");
                text
            });
            Self::Bytes { length: bytes.len(), begins }
        })
    }
}

fn sticky(bytes: &[u8]) -> Option<UserData> {
    let told = sticky_user_data::decode(bytes).ok()?;
    Some(UserData::Sticky { owned: by_topic(told.owned), generation: told.generation })
}

impl fmt::Display for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sticky { owned, generation } => {
                let count: usize = owned.values().map(Vec::len).sum();
                write!(f, "sticky: owned {count} partitions")?;
                generation.map_or(Ok(()), |g| write!(f, " of generation {g}"))
            }
            Self::Generation(generation) => write!(f, "generation {generation}"),
            Self::Bytes { length, begins } if *length > SHOWN => write!(f, "{length} bytes: {begins}…"),
            Self::Bytes { length, begins } => write!(f, "{length} bytes: {begins}"),
        }
    }
}
