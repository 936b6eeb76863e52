/// Why a blob could not be decoded or encoded.
///
/// `what` names the field, `offset` is in bytes from the start of the blob, version included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The version is below 0.
    #[error("version {version} is not supported; versions start at 0")]
    Version {
        /// The version.
        version: i16,
    },
    /// The blob ends within a field.
    #[error("{what} at byte {offset} needs {needed} bytes, but only {remaining} are left")]
    Short {
        /// The field.
        what: &'static str,
        /// Where it starts.
        offset: usize,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        remaining: usize,
    },
    /// A length is negative, which means null, where the field can't be null.
    #[error("{what} at byte {offset} has the length {length}, but can't be null")]
    Null {
        /// The field.
        what: &'static str,
        /// Where its length stands.
        offset: usize,
        /// The length.
        length: i32,
    },
    /// An array claims more elements than the rest of the blob can hold.
    #[error(
        "{what} at byte {offset} claims {claimed} elements, but the {remaining} bytes left hold {most} at most"
    )]
    Count {
        /// The field.
        what: &'static str,
        /// Where its count stands.
        offset: usize,
        /// The count.
        claimed: usize,
        /// Bytes left after the count.
        remaining: usize,
        /// How many elements of the smallest size those are.
        most: usize,
    },
    /// A string is no UTF-8.
    #[error("{what} at byte {offset} is no UTF-8")]
    Utf8 {
        /// The field.
        what: &'static str,
        /// Where its first bad byte stands.
        offset: usize,
    },
    /// A partition's index is negative.
    #[error("{what} at byte {offset} is {partition}; partitions are not negative")]
    NegativePartition {
        /// The field.
        what: &'static str,
        /// Where it stands.
        offset: usize,
        /// The partition.
        partition: i32,
    },
    /// Something to be encoded has no room in its field.
    #[error("{what} of {size} can't be encoded, the most is {most}")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// Its bytes or elements, or for a partition its index.
        size: usize,
        /// What the field has room for.
        most: usize,
    },
}

impl WireError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Version { .. } => "wire-version",
            Self::Short { .. } => "wire-short",
            Self::Null { .. } => "wire-null",
            Self::Count { .. } => "wire-count",
            Self::Utf8 { .. } => "wire-utf8",
            Self::NegativePartition { .. } => "wire-negative-partition",
            Self::TooLarge { .. } => "wire-too-large",
        }
    }
}
