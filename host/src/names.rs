//! Names of strategies: which are legal, and which are taken.

use crate::assignor::Protocol;
use crate::builtin;
use crate::cause::LoadError;

/// Names that Kafka's own assignors and ours go by, and the Java classes that stand for them in a configuration.
const RESERVED: [(&str, Option<&str>); 5] = [
    (builtin::RANGE, Some("org.apache.kafka.clients.consumer.RangeAssignor")),
    (builtin::ROUNDROBIN, Some("org.apache.kafka.clients.consumer.RoundRobinAssignor")),
    (builtin::STICKY, Some("org.apache.kafka.clients.consumer.StickyAssignor")),
    (builtin::COOPERATIVE_STICKY, Some("org.apache.kafka.clients.consumer.CooperativeStickyAssignor")),
    (builtin::KEEP, None),
];

/// The longest name of a strategy, in bytes.
const MAX_LENGTH: usize = 64;

/// The name of a built-in, given by its name or by its Java class name.
pub(crate) fn reserved(name: &str) -> Option<&'static str> {
    RESERVED.iter().find(|(short, class)| *short == name || *class == Some(name)).map(|(short, _)| *short)
}

/// Checks that a name can be a plugin's.
///
/// # Errors
/// If it is not 1 to 64 legal characters, or a built-in's.
pub fn check(name: &str) -> Result<(), LoadError> {
    let legal = (1..=MAX_LENGTH).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if !legal {
        return Err(LoadError::BadName(name.chars().take(MAX_LENGTH).collect()));
    }
    if reserved(name).is_some() {
        return Err(LoadError::ReservedName(name.into()));
    }
    Ok(())
}

/// Protocols as a list for people.
pub(crate) fn protocols(protocols: &[Protocol]) -> String {
    protocols.iter().map(Protocol::to_string).collect::<Vec<_>>().join(", ")
}
