//! Values that must not be seen.

use zeroize::Zeroizing;

/// A password or a key: not in `Debug`, and wiped from memory when it is dropped. What libraries make of it, they wipe or not.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Secret(Zeroizing<String>);

impl Secret {
    /// The value, for whom it is meant.
    pub(in crate::consumer) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl std::fmt::Debug for Secret {
    /// As Kafka's `Password` prints itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}
