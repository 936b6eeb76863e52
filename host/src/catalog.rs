//! Names to assignors: the strategy list of a consumer's configuration, and everything that configures its strategies.
//!
//! | key | default | meaning |
//! | --- | --- | --- |
//! | `partition.assignment.strategy` | `range` | a list, most wanted first: built-ins by name or Java class name, plugins as a path ending in `.wasm` or as `name=path` |
//! | `assignor.strategy.<name>.<key>` | – | configuration of a plugin, which sees `<key>` |
//! | `assignor.strategy.<name>.protocols` | – | for a plugin given as `name=path`: the protocols to join with when its file can't be loaded |
//! | `assignor.fallback` | `keep` | `keep`, `range`, `cooperative-sticky` or `hold`: what decides when a strategy fails |
//! | `assignor.bench.after` | 3 | failures in a row after which a strategy is not asked for a while |
//! | `assignor.bench.pause.ms`, `assignor.bench.pause.max.ms` | 30000, 600000 | for how long, at first and at most |
//! | `assignor.cache.dir` | none | a private folder for compiled components |
//! | `assignor.limit.*` | see [`Limits`] | what a plugin may use |

mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::assignor::{Assignor, Protocol};
use crate::builtin::{self, Builtin};
use crate::cause::LoadError;
use crate::fallback::{Fallback, FallbackPolicy, Observer, Strategy};
use crate::names;
use crate::plugin::{Component, Limits, Plugin, Runtime, RuntimeOptions, read_component};

/// The key of the strategy list.
pub const STRATEGY_LIST: &str = "partition.assignment.strategy";
const STRATEGY_PREFIX: &str = "assignor.strategy.";
const PROTOCOLS: &str = "protocols";

/// Why a configuration gives no strategies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A value that can't be used.
    #[error("{key}={value}: {reason}")]
    Invalid {
        /// The property.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that means nothing.
    #[error("{0}: no such property")]
    UnknownKey(String),
    /// A plugin that can't be loaded, and that has no name to join under without it.
    #[error("{path} cannot be loaded ({}): {cause}", .cause.code())]
    Load {
        /// The file.
        path: String,
        /// Why.
        cause: LoadError,
    },
    /// Strategies might take so long that the session is lost.
    #[error(
        "a strategy may take up to {budget:?} in one rebalance, but it must be done within {allowed:?}, half of the shorter of session.timeout.ms and max.poll.interval.ms: lower assignor.limit.assign.ms and assignor.limit.host.wait.ms, or raise the time-outs"
    )]
    TooSlow {
        /// All attempts together.
        budget: Duration,
        /// What the session allows.
        allowed: Duration,
    },
}

/// A consumer's strategies, most wanted first.
#[derive(Debug, Clone)]
pub struct Catalog {
    strategies: Vec<Strategy>,
}

impl Catalog {
    /// Makes the strategies that the properties name. Properties of other concerns are ignored.
    ///
    /// A plugin given as `name=path` whose file can't be loaded is degraded, not an error: the member joins under that name
    /// and falls back, so that a broken file on one machine does not split the group.
    ///
    /// # Errors
    /// If a value can't be used, two strategies have one name (KAFKA-13204), or a plugin without a configured name can't be
    /// loaded.
    pub fn from_properties(
        properties: &BTreeMap<String, String>,
        observer: &Observer,
    ) -> Result<Self, CatalogError> {
        let limits = limits(properties)?;
        let list = properties.get(STRATEGY_LIST).map_or(builtin::RANGE, String::as_str);
        // A native strategy has no limits to wait for.
        if entries(list).any(|entry| names::reserved(entry).is_none()) {
            check_times(properties, &limits)?;
        }
        let loader = Loader {
            properties,
            list,
            policy: policy(properties)?,
            runtime: Runtime::new(RuntimeOptions {
                limits,
                cache: properties.get("assignor.cache.dir").map(Into::into),
            })
            .map_err(|cause| CatalogError::Load { path: "assignor.cache.dir".into(), cause })?,
            observer,
        };
        let invalid =
            |reason: String| CatalogError::Invalid { key: STRATEGY_LIST.into(), value: list.into(), reason };
        let mut strategies: Vec<Strategy> = Vec::new();
        for entry in entries(list) {
            let strategy = loader.entry(entry, &invalid)?;
            if strategies.iter().any(|other| other.name() == strategy.name()) {
                return Err(invalid(LoadError::DuplicateName(strategy.name().into()).to_string()));
            }
            strategies.push(strategy);
        }
        if strategies.is_empty() {
            return Err(invalid("no strategy is named".into()));
        }
        unknown_keys(properties, &strategies)?;
        Ok(Self { strategies })
    }

    /// The strategies, most wanted first.
    pub fn strategies(&self) -> &[Strategy] {
        &self.strategies
    }

    /// The strategies as a consumer takes them: one consumer, for they remember what it was assigned. Another one wants a catalog of
    /// its own.
    pub fn assignors(&self) -> Vec<Box<dyn Assignor>> {
        self.strategies.iter().cloned().map(|strategy| Box::new(strategy) as Box<dyn Assignor>).collect()
    }

    /// The strategy of that name.
    pub fn get(&self, name: &str) -> Option<&Strategy> {
        self.strategies.iter().find(|strategy| strategy.name() == name)
    }
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

struct Loader<'a> {
    properties: &'a BTreeMap<String, String>,
    /// The strategy list.
    list: &'a str,
    policy: FallbackPolicy,
    runtime: Runtime,
    observer: &'a Observer,
}

impl Loader<'_> {
    fn entry(&self, entry: &str, invalid: &dyn Fn(String) -> CatalogError) -> Result<Strategy, CatalogError> {
        if let Some((name, path)) = entry.split_once('=') {
            names::check(name).map_err(|e| invalid(e.to_string()))?;
            return self.named(name, path);
        }
        if let Some(name) = names::reserved(entry) {
            let native = Builtin::by_name(name)
                .ok_or_else(|| invalid(format!("the built-in {name} is not part of this version")))?;
            return Ok(Strategy::native(Box::new(native), self.observer.clone()));
        }
        if !Path::new(entry).extension().is_some_and(|e| e.eq_ignore_ascii_case("wasm")) {
            return Err(invalid(format!(
                "{entry} is no built-in ({}), and a plugin is given as the path of its .wasm file, or as name=path",
                builtin::NAMES.join(", ")
            )));
        }
        let failed = |cause| CatalogError::Load { path: entry.into(), cause };
        let component = self.component(entry).map_err(failed)?;
        let name = Plugin::name_of(&component).map_err(failed)?;
        let plugin = Plugin::new(&component, self.config(&name)).map_err(failed)?;
        Ok(Strategy::plugin(plugin, self.policy.clone(), self.observer.clone()))
    }

    fn named(&self, name: &str, path: &str) -> Result<Strategy, CatalogError> {
        let loaded = self
            .component(path)
            .and_then(|component| Plugin::new(&component, self.config(name)))
            .and_then(|plugin| plugin.take_name(name).map(|()| plugin));
        match loaded {
            Ok(plugin) => Ok(Strategy::plugin(plugin, self.policy.clone(), self.observer.clone())),
            Err(cause) => {
                let Some(protocols) = self.configured_protocols(name)? else {
                    return Err(CatalogError::Invalid {
                        key: STRATEGY_LIST.into(),
                        value: format!("{name}={path}"),
                        reason: format!(
                            "it cannot be loaded ({}): {cause}; to join without it, say in {STRATEGY_PREFIX}{name}.{PROTOCOLS} which protocols it supports",
                            cause.code()
                        ),
                    });
                };
                tracing::error!(strategy = name, code = cause.code(), "joins degraded, {path}: {cause}");
                Ok(Strategy::degraded(
                    &self.runtime,
                    name,
                    &protocols,
                    self.config(name),
                    cause,
                    self.policy.clone(),
                    self.observer.clone(),
                ))
            }
        }
    }

    fn component(&self, path: &str) -> Result<Arc<Component>, LoadError> {
        let limit = self.runtime.limits().component_bytes;
        read_component(Path::new(path), limit).and_then(|bytes| self.runtime.compile(&bytes))
    }

    /// The strategy's own keys, without their prefix: all that it sees.
    fn config(&self, name: &str) -> BTreeMap<String, String> {
        let prefix = format!("{STRATEGY_PREFIX}{name}.");
        // Names may hold dots: keys of a strategy "a.b" are not those of a strategy "a".
        let others: Vec<&str> = entries(self.list)
            .filter_map(|entry| entry.split_once('=')?.0.strip_prefix(name)?.strip_prefix('.'))
            .collect();
        let another = |key: &str| {
            others.iter().any(|other| key.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')))
        };
        self.properties
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value)))
            .filter(|(key, _)| *key != PROTOCOLS && !another(key))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    }

    fn configured_protocols(&self, name: &str) -> Result<Option<Vec<Protocol>>, CatalogError> {
        let key = format!("{STRATEGY_PREFIX}{name}.{PROTOCOLS}");
        let Some(value) = self.properties.get(&key) else { return Ok(None) };
        let mut protocols = Vec::new();
        for protocol in value.split(',').map(str::trim) {
            let known = [Protocol::Eager, Protocol::Cooperative];
            let Some(found) = known.into_iter().find(|p| p.to_string() == protocol) else {
                let reason = format!("{protocol:?} is no protocol; there are eager and cooperative");
                return Err(CatalogError::Invalid { key, value: value.clone(), reason });
            };
            protocols.push(found);
        }
        Ok(Some(protocols))
    }
}

fn positive<T>(key: &str, value: &str, fits: impl FnOnce(u64) -> Option<T>) -> Result<T, CatalogError> {
    let number = value.trim().parse::<u64>().ok().filter(|&n| n > 0);
    number.and_then(fits).ok_or_else(|| CatalogError::Invalid {
        key: key.into(),
        value: value.into(),
        reason: "a positive whole number is wanted, and none too large".into(),
    })
}

fn number<T: TryFrom<u64>>(
    properties: &BTreeMap<String, String>,
    key: &str,
    default: T,
) -> Result<T, CatalogError> {
    properties.get(key).map_or(Ok(default), |value| positive(key, value, |n| T::try_from(n).ok()))
}

fn millis(
    properties: &BTreeMap<String, String>,
    key: &str,
    default: Duration,
) -> Result<Duration, CatalogError> {
    let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
    number(properties, key, default).map(Duration::from_millis)
}

fn policy(properties: &BTreeMap<String, String>) -> Result<FallbackPolicy, CatalogError> {
    let default = FallbackPolicy::default();
    let fallback = match properties.get("assignor.fallback") {
        None => default.fallback,
        Some(name) => Fallback::by_name(name).ok_or_else(|| CatalogError::Invalid {
            key: "assignor.fallback".into(),
            value: name.clone(),
            reason: "there are keep, range, cooperative-sticky and hold".into(),
        })?,
    };
    Ok(FallbackPolicy {
        fallback,
        bench_after: number(properties, "assignor.bench.after", default.bench_after)?,
        bench_pause: millis(properties, "assignor.bench.pause.ms", default.bench_pause)?,
        bench_pause_max: millis(properties, "assignor.bench.pause.max.ms", default.bench_pause_max)?,
    })
}

/// Keys that are neither a strategy's own nor a limit's. `assignor.api.max.versions` and
/// `assignor.block-upgrade` are the consumer's.
const KEYS: [&str; 7] = [
    "assignor.api.max.versions",
    "assignor.bench.after",
    "assignor.bench.pause.max.ms",
    "assignor.bench.pause.ms",
    "assignor.block-upgrade",
    "assignor.cache.dir",
    "assignor.fallback",
];

/// Every key that starts with `assignor.`, but for strategies' own.
#[cfg(all(test, feature = "consumer"))]
pub(crate) fn known_keys() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().chain(limits::KEYS.iter().map(|(key, _)| *key))
}

fn limits(properties: &BTreeMap<String, String>) -> Result<Limits, CatalogError> {
    let mut limits = Limits::default();
    for (key, set) in limits::KEYS {
        if let Some(value) = properties.get(key) {
            positive(key, value, |n| set(&mut limits, n))?;
        }
    }
    Ok(limits)
}

/// A member that has not synced within the rebalance time-out is removed, so everything that a strategy may take must fit well
/// inside: an instance made anew, told the last assignment, and asked; twice where a kept one ran out of memory.
fn check_times(properties: &BTreeMap<String, String>, limits: &Limits) -> Result<(), CatalogError> {
    let session = millis(properties, "session.timeout.ms", Duration::from_secs(45))?;
    let rebalance = millis(properties, "max.poll.interval.ms", Duration::from_secs(300))?;
    let allowed = session.min(rebalance) / 2;
    let budget = (limits.call_time * 2 + limits.assign_time + limits.host_wait) * 2;
    if budget >= allowed {
        return Err(CatalogError::TooSlow { budget, allowed });
    }
    Ok(())
}

fn unknown_keys(properties: &BTreeMap<String, String>, strategies: &[Strategy]) -> Result<(), CatalogError> {
    let known: BTreeSet<&str> = KEYS.into_iter().chain(limits::KEYS.map(|(key, _)| key)).collect();
    let own: Vec<String> = strategies.iter().map(|s| format!("{STRATEGY_PREFIX}{}.", s.name())).collect();
    let unknown = properties
        .keys()
        .filter(|key| key.starts_with("assignor."))
        .find(|key| !known.contains(key.as_str()) && !own.iter().any(|own| key.starts_with(own)));
    unknown.map_or(Ok(()), |key| Err(CatalogError::UnknownKey(key.clone())))
}

/// That a key's default is this value.
#[cfg(all(test, feature = "consumer"))]
pub(crate) fn assert_default(key: &str, value: &str) {
    let set = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let told = |result: Result<Limits, CatalogError>| result.map_err(|e| e.to_string());
    assert_eq!(told(limits(&set)), Ok(Limits::default()), "{key}");
    let told = |result: Result<FallbackPolicy, CatalogError>| result.map_err(|e| e.to_string());
    assert_eq!(told(policy(&set)), Ok(FallbackPolicy::default()), "{key}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(properties: &[(&str, &str)]) -> Result<Catalog, CatalogError> {
        let properties =
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let observer: Observer = Arc::new(|_| {});
        Catalog::from_properties(&properties, &observer)
    }

    fn refused(properties: &[(&str, &str)]) -> String {
        catalog(properties).unwrap_err().to_string()
    }

    #[test]
    fn built_ins_go_by_their_names_and_by_their_java_class_names() {
        let list = "org.apache.kafka.clients.consumer.RoundRobinAssignor, range";
        let catalog = catalog(&[(STRATEGY_LIST, list)]).unwrap();
        let names: Vec<_> = catalog.strategies().iter().map(Strategy::name).collect();
        assert_eq!(names, ["roundrobin", "range"]);
    }

    #[test]
    fn a_session_may_be_short_unless_a_plugin_is_waited_for() {
        let short = ("session.timeout.ms", "2000");
        assert!(catalog(&[(STRATEGY_LIST, "cooperative-sticky,range"), short]).is_ok());
        assert!(catalog(&[short]).is_ok());
        let told = refused(&[(STRATEGY_LIST, "range,x=nothing.wasm"), short]);
        assert!(told.contains("half of the shorter of session.timeout.ms"), "{told}");
    }

    #[test]
    fn sticky_strategies_go_by_their_java_class_names_too() {
        let list = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, org.apache.kafka.clients.consumer.StickyAssignor, keep";
        let catalog = catalog(&[(STRATEGY_LIST, list), ("assignor.fallback", "cooperative-sticky")]).unwrap();
        let strategies = catalog.strategies().iter();
        let told: Vec<_> = strategies.map(|s| (s.name(), names::protocols(s.protocols()))).collect();
        let both = "eager, cooperative".to_owned();
        let expected = [("cooperative-sticky", both.clone()), ("sticky", "eager".into()), ("keep", both)];
        assert_eq!(told, expected);
    }

    #[test]
    fn kafka_13204_two_strategies_of_one_name_are_refused() {
        let list = "range,org.apache.kafka.clients.consumer.RangeAssignor";
        assert!(refused(&[(STRATEGY_LIST, list)]).contains("two strategies are named \"range\""));
    }

    #[test]
    fn a_broken_file_degrades_only_where_its_name_and_protocols_are_configured() {
        let list = (STRATEGY_LIST, "mine=/nonexistent/mine.wasm");
        assert!(refused(&[list]).contains("assignor.strategy.mine.protocols"), "{}", refused(&[list]));
        let catalog = catalog(&[list, ("assignor.strategy.mine.protocols", "eager")]).unwrap();
        assert_eq!(catalog.get("mine").unwrap().name(), "mine");
        assert!(refused(&[(STRATEGY_LIST, "/nonexistent/mine.wasm")]).contains("unreadable"));
    }

    #[test]
    fn keys_belong_to_the_longest_name_that_they_begin_with() {
        let properties = [("a.weight", "1"), ("a.b.weight", "2"), ("a.bc", "3"), ("ab.weight", "4")]
            .map(|(key, value)| (format!("{STRATEGY_PREFIX}{key}"), value.to_owned()))
            .into();
        let loader = Loader {
            properties: &properties,
            list: "a=a.wasm, a.b=b.wasm",
            policy: FallbackPolicy::default(),
            runtime: Runtime::new(RuntimeOptions::default()).unwrap(),
            observer: &(Arc::new(|_: &_| {}) as Observer),
        };
        let config = |name: &str| loader.config(name).into_iter().collect::<Vec<_>>();
        assert_eq!(config("a"), [("bc".into(), "3".into()), ("weight".into(), "1".into())]);
        assert_eq!(config("a.b"), [("weight".into(), "2".into())]);
    }

    #[test]
    fn what_is_misspelt_or_out_of_range_is_named() {
        assert!(refused(&[(STRATEGY_LIST, "rnge")]).contains("rnge is no built-in"));
        assert!(refused(&[(STRATEGY_LIST, " , ")]).contains("no strategy is named"));
        assert!(refused(&[(STRATEGY_LIST, "range=x.wasm")]).contains("reserved"));
        assert!(refused(&[("assignor.falback", "keep")]).contains("assignor.falback"));
        assert!(
            refused(&[("assignor.fallback", "kep")]).contains("keep, range, cooperative-sticky and hold")
        );
        assert!(refused(&[("assignor.limit.assign.ms", "-1")]).contains("positive whole number"));
        assert!(
            refused(&[("assignor.strategy.other.weight", "1")]).contains("assignor.strategy.other.weight")
        );
        assert!(
            refused(&[(STRATEGY_LIST, "x=x.wasm"), ("session.timeout.ms", "6000")])
                .contains("assignor.limit.assign.ms")
        );
    }
}
