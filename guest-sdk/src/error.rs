//! Why a strategy declines.

use std::fmt;

/// Why a strategy declines a call: a text that the host reports. From [`assign`](crate::Strategy::assign) it makes the host's
/// native fallback decide once; no state is lost, and the strategy is asked again the next time.
///
/// Every error converts into it by `?`; [`Error::new`] makes one from a text.
///
/// ```
/// use assignor_guest_sdk::Error;
///
/// fn parse(text: &str) -> Result<u32, Error> {
///     if text.is_empty() {
///         return Err(Error::new("nothing to parse"));
///     }
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("").unwrap_err().to_string(), "nothing to parse");
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
// It does not implement std::error::Error itself: only so can it convert from every type that does.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error of this text.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}
