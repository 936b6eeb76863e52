//! The strategy's configuration: the consumer's properties `assignor.strategy.<name>.*`, without that prefix.
//!
//! ```
//! use assignor_guest_sdk::{config, testing::Host};
//!
//! let _host = Host::new().config("weight", "2.5").config("spare", "many").install();
//! assert_eq!(config::get::<f64>("weight"), Ok(Some(2.5)));
//! assert_eq!(config::get::<f64>("absent"), Ok(None));
//! assert_eq!(
//!     config::get::<u32>("spare").unwrap_err().to_string(),
//!     r#"the configuration key "spare" has the value "many": invalid digit found in string"#
//! );
//! ```

use std::fmt::Display;
use std::str::FromStr;

use crate::imports::{Host, Imports};

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value that does not parse, or is refused by the strategy.
    #[error("the configuration key {key:?} has the value {value:?}: {reason}")]
    Invalid {
        /// The key, without its prefix.
        key: String,
        /// The value as configured.
        value: String,
        /// Why not.
        reason: String,
    },
    /// A key that must be set and is not.
    #[error("the configuration key {key:?} is not set")]
    Missing {
        /// The key, without its prefix.
        key: String,
    },
}

impl ConfigError {
    /// For a value that parses and still can't be used; `reason` goes on from "the configuration key … has the value …:".
    pub fn invalid(key: &str, value: impl Display, reason: impl Display) -> Self {
        Self::Invalid { key: key.into(), value: value.to_string(), reason: reason.to_string() }
    }
}

/// The value of a key, parsed; `None` if it is not set. White space around it is ignored.
///
/// # Errors
/// [`ConfigError::Invalid`] if it does not parse.
pub fn get<T>(key: &str) -> Result<Option<T>, ConfigError>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(value) = text(key) else { return Ok(None) };
    match value.trim().parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(reason) => Err(ConfigError::invalid(key, value, reason)),
    }
}

/// The value of a key, parsed, or `default` if it is not set.
///
/// # Errors
/// [`ConfigError::Invalid`] if it is set and does not parse.
pub fn get_or<T>(key: &str, default: T) -> Result<T, ConfigError>
where
    T: FromStr,
    T::Err: Display,
{
    Ok(get(key)?.unwrap_or(default))
}

/// The value of a key that must be set, parsed.
///
/// # Errors
/// [`ConfigError::Missing`] if it is not set, [`ConfigError::Invalid`] if it does not parse.
pub fn require<T>(key: &str) -> Result<T, ConfigError>
where
    T: FromStr,
    T::Err: Display,
{
    get(key)?.ok_or_else(|| ConfigError::Missing { key: key.into() })
}

/// The value of a key as it was configured; `None` if it is not set.
pub fn text(key: &str) -> Option<String> {
    Host::get(key)
}

/// All keys that are set, ascending.
pub fn keys() -> Vec<String> {
    Host::keys()
}
