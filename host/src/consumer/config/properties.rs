//! Reading single properties: which keys there are, numbers, times, flags.

use std::collections::BTreeMap;
use std::time::Duration;

use super::security;

/// Passed to the data path as they are, with the Java client's defaults (`None`: no default).
pub(super) const FETCH: &[(&str, &str)] = &[
    ("check.crcs", "true"),
    ("fetch.max.bytes", "52428800"),
    ("fetch.max.wait.ms", "500"),
    ("fetch.min.bytes", "1"),
    ("max.partition.fetch.bytes", "1048576"),
];

/// Every other key that is known.
const KNOWN: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.auto.commit",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "partition.assignment.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
];

/// Every key, but for those that start with `assignor.`.
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> + Clone {
    KNOWN.iter().chain(security::KNOWN).copied().chain(FETCH.iter().map(|(key, _)| *key))
}

pub(super) struct Properties<'a>(pub(super) &'a BTreeMap<String, String>);

impl<'a> Properties<'a> {
    pub(super) fn known(&self, key: &str) -> Result<(), String> {
        if let Some(why) = security::refused(key) {
            return Err(format!("{key}: {why}"));
        }
        let mut known = known_keys();
        if key.starts_with("assignor.") || known.clone().any(|k| k == key) {
            return Ok(());
        }
        let first = known.next().unwrap_or_default();
        let nearest = known.fold((first, strsim::levenshtein(key, first)), |best, k| {
            let distance = strsim::levenshtein(key, k);
            if distance < best.1 { (k, distance) } else { best }
        });
        Err(format!("unknown key {key:?}, did you mean {:?}?", nearest.0))
    }

    /// The value, if it is there and not empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    /// The value, if it is there, empty or not.
    pub(super) fn given(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|v| v.trim())
    }

    /// The one of these keys that has a value, and the value.
    pub(super) fn one_of(&self, keys: &[&'static str]) -> Result<Option<(&'static str, &'a str)>, String> {
        let mut given = keys.iter().filter_map(|key| Some((*key, self.text(key)?)));
        match (given.next(), given.next()) {
            (Some((one, _)), Some((other, _))) => {
                Err(format!("both {one} and {other} are given: leave one out"))
            }
            (one, _) => Ok(one),
        }
    }

    pub(super) fn number(&self, key: &str, default: u64, min: u64, max: u64) -> Result<u64, String> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let in_range = text.parse().ok().filter(|n| (min..=max).contains(n));
        in_range.ok_or_else(|| format!("{key}={text}: give a number from {min} to {max}"))
    }

    pub(super) fn ms(&self, key: &str, default: u64, min: u64) -> Result<Duration, String> {
        self.number(key, default, min, i32::MAX as u64).map(Duration::from_millis)
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, String> {
        match self.text(key) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(format!("{key}={text}: give true or false")),
        }
    }
}

/// `assignor.api.max.versions`.
pub(super) fn api_versions(text: &str) -> Result<BTreeMap<String, i16>, String> {
    let mut caps = BTreeMap::new();
    for item in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let cap = item.split_once(':').and_then(|(api, version)| {
            let version = version.trim().parse().ok().filter(|v: &i16| *v >= 0)?;
            crate::consumer::connection::is_api(api.trim()).then(|| (api.trim().to_owned(), version))
        });
        let Some((api, version)) = cap else {
            return Err(format!(
                "assignor.api.max.versions: {item:?} is not API:VERSION with one of the APIs {}",
                crate::consumer::connection::API_NAMES.join(", ")
            ));
        };
        caps.insert(api, version);
    }
    Ok(caps)
}
