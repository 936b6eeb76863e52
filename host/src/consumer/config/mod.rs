//! The consumer's properties: Kafka's names, the Java client's defaults, checked as Kafka checks them.

use std::collections::BTreeMap;
use std::time::Duration;

mod address;
mod jaas;
mod pem;
mod properties;
mod secret;
mod security;

pub use address::Address;
use properties::{FETCH, Properties, api_versions};
pub(in crate::consumer) use secret::Secret;
#[cfg(test)]
pub(in crate::consumer) use security::Identity;
pub use security::Security;
pub(in crate::consumer) use security::{Mechanism, Sasl, Tls};

use super::error::ConsumerError;
use super::reset::OffsetReset;

/// `org.apache.kafka.clients.consumer.ConsumerConfig` where it applies, plus the keys that start with `assignor.`.
///
/// `partition.assignment.strategy` and other keys that start with `assignor.` are accepted and left to whom makes the
/// assignors. `key.deserializer` and `value.deserializer` are unknown: records are bytes until [`Consumer::typed`](super::Consumer::typed).
/// `fetch.*`, `max.partition.fetch.bytes` and `check.crcs` are librdkafka's under Kafka's names.
///
#[doc = include_str!("../../../docs/configuration.md")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// `bootstrap.servers`.
    pub bootstrap_servers: Vec<Address>,
    /// `group.id`.
    pub group_id: String,
    /// `group.instance.id`: makes this a static member, whose partitions wait for its return for `session.timeout.ms`.
    pub group_instance_id: Option<String>,
    /// `client.id`; if empty, [`Consumer::new`](super::Consumer::new) makes one.
    pub client_id: String,
    /// `client.rack`; `None` if empty.
    pub client_rack: Option<String>,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: also the group's rebalance time-out, as in Kafka.
    pub max_poll_interval: Duration,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
    /// `default.api.timeout.ms`: how long a call waits that asks brokers something and has no time-out of its own.
    pub default_api_timeout: Duration,
    /// `retry.backoff.ms`: the first pause before something is tried again; it doubles up to `retry_backoff_max`.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max: Duration,
    /// `reconnect.backoff.ms`: the first pause before a broker is connected to again; it doubles up to `reconnect_backoff_max`.
    pub reconnect_backoff: Duration,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Duration,
    /// `socket.connection.setup.timeout.ms`: for each of a broker's addresses, and for the TLS handshake; it doubles with each
    /// failure up to `connect_timeout_max`.
    pub connect_timeout: Duration,
    /// `socket.connection.setup.timeout.max.ms`.
    pub connect_timeout_max: Duration,
    /// `connections.max.idle.ms`: a connection that nobody has used for so long is made anew.
    pub connections_max_idle: Duration,
    /// `metadata.recovery.strategy` is `rebootstrap`: where none of the brokers known answers, `bootstrap.servers` are asked again
    /// (KIP-899).
    pub rebootstrap: bool,
    /// `metadata.recovery.rebootstrap.trigger.ms`: after so long without metadata `bootstrap.servers` are asked, though brokers
    /// can be connected to (KIP-1102).
    pub rebootstrap_trigger: Duration,
    /// `security.protocol`, `ssl.*` and `sasl.*`.
    pub security: Security,
    /// `metadata.max.age.ms`: how often the leader looks whether topics have changed.
    pub metadata_max_age: Duration,
    /// `auto.offset.reset`.
    pub auto_offset_reset: OffsetReset,
    /// `auto.commit.interval.ms`; `None` if `enable.auto.commit` is `false`.
    pub auto_commit_interval: Option<Duration>,
    /// `allow.auto.create.topics`.
    pub allow_auto_create_topics: bool,
    /// `exclude.internal.topics`: a pattern doesn't match Kafka's own topics.
    pub exclude_internal_topics: bool,
    /// `isolation.level` is `read_committed`.
    pub read_committed: bool,
    /// The highest version of an API that is used, whatever a broker advertises: some advertise what they can't parse.
    pub api_max_versions: BTreeMap<String, i16>,
    /// What the data path is configured with, besides: Kafka's names and values.
    pub fetch: BTreeMap<String, String>,
    /// `assignor.block-upgrade`: as leader, give every member assignment user data, so that no broker can turn the group into one of
    /// the new protocol (KIP-848), in which no strategy of its members is asked (KAFKA-18134).
    pub block_upgrade: bool,
    /// All properties as they were given, but for passwords and keys.
    pub properties: BTreeMap<String, String>,
}

impl ConsumerConfig {
    /// Reads properties.
    ///
    /// # Errors
    /// [`ConsumerError::Config`] if a required key is missing, a value is wrong, keys contradict each other, a certificate or key
    /// can't be read, or a key is unknown; the text then names the nearest known one.
    pub fn from_properties(mut properties: BTreeMap<String, String>) -> Result<Self, ConsumerError> {
        let config = Self::read(&properties).map_err(ConsumerError::Config)?;
        properties.retain(|key, _| !security::is_secret(key));
        Ok(Self { properties, ..config })
    }

    fn read(properties: &BTreeMap<String, String>) -> Result<Self, String> {
        let p = Properties(properties);
        for key in properties.keys() {
            p.known(key)?;
        }
        if let Some(protocol) = p.text("group.protocol").filter(|v| !v.eq_ignore_ascii_case("classic")) {
            return Err(format!(
                "group.protocol={protocol}: only \"classic\" works here, because a group of the new protocol (KIP-848) is \
                 assigned by the broker and has no client-side assignors"
            ));
        }
        if let Some(other) = p.text("client.dns.lookup").filter(|v| *v != "use_all_dns_ips") {
            return Err(format!(
                "client.dns.lookup={other}: only use_all_dns_ips, Kafka's default, is supported; canonical names are for Kerberos"
            ));
        }
        let group_instance_id = p.text("group.instance.id").map(str::to_owned);
        if let Some(id) = group_instance_id.as_ref().filter(|id| !is_legal_name(id)) {
            return Err(format!(
                "group.instance.id={id}: up to 249 letters, digits, dots, underscores and hyphens are legal, and neither . nor .."
            ));
        }

        let bootstrap_servers = p
            .text("bootstrap.servers")
            .ok_or("bootstrap.servers is missing: give it one or more host:port, separated by commas")?
            .split(',')
            .map(str::trim)
            .filter(|s| !s.is_empty())
            .map(|s| s.parse().map_err(|e| format!("bootstrap.servers: {e}")))
            .collect::<Result<Vec<Address>, String>>()?;
        if bootstrap_servers.is_empty() {
            return Err("bootstrap.servers names no server".into());
        }

        let fetch = FETCH
            .iter()
            .map(|(key, default)| ((*key).to_owned(), p.text(key).unwrap_or(default).to_owned()))
            .collect();
        let config = Self {
            bootstrap_servers,
            group_id: p.text("group.id").ok_or("group.id is missing: name the group to join")?.to_owned(),
            group_instance_id,
            client_id: p.text("client.id").unwrap_or_default().to_owned(),
            client_rack: p.text("client.rack").map(str::to_owned),
            session_timeout: p.ms("session.timeout.ms", 45_000, 1)?,
            heartbeat_interval: p.ms("heartbeat.interval.ms", 3_000, 1)?,
            max_poll_interval: p.ms("max.poll.interval.ms", 300_000, 1)?,
            max_poll_records: p.number("max.poll.records", 500, 1, i32::MAX as u64)? as usize,
            request_timeout: p.ms("request.timeout.ms", 30_000, 1)?,
            default_api_timeout: p.ms("default.api.timeout.ms", 60_000, 1)?,
            retry_backoff: p.ms("retry.backoff.ms", 100, 1)?,
            retry_backoff_max: p.ms("retry.backoff.max.ms", 1_000, 1)?,
            connect_timeout: p.ms("socket.connection.setup.timeout.ms", 10_000, 1)?,
            connect_timeout_max: p.ms("socket.connection.setup.timeout.max.ms", 30_000, 1)?,
            reconnect_backoff: p.ms("reconnect.backoff.ms", 50, 0)?,
            reconnect_backoff_max: p.ms("reconnect.backoff.max.ms", 1_000, 0)?,
            connections_max_idle: p.ms("connections.max.idle.ms", 540_000, 1)?,
            rebootstrap: match p.text("metadata.recovery.strategy") {
                None => true,
                Some(text) if text.eq_ignore_ascii_case("rebootstrap") => true,
                Some(text) if text.eq_ignore_ascii_case("none") => false,
                Some(other) => {
                    return Err(format!("metadata.recovery.strategy={other}: give rebootstrap or none"));
                }
            },
            rebootstrap_trigger: p.ms("metadata.recovery.rebootstrap.trigger.ms", 300_000, 0)?,
            security: Security::read(&p)?,
            metadata_max_age: p.ms("metadata.max.age.ms", 300_000, 1)?,
            auto_offset_reset: p.text("auto.offset.reset").unwrap_or("latest").parse()?,
            auto_commit_interval: if p.flag("enable.auto.commit", true)? {
                Some(p.ms("auto.commit.interval.ms", 5_000, 1)?)
            } else {
                None
            },
            allow_auto_create_topics: p.flag("allow.auto.create.topics", true)?,
            exclude_internal_topics: p.flag("exclude.internal.topics", true)?,
            read_committed: match p.text("isolation.level") {
                None | Some("read_uncommitted") => false,
                Some("read_committed") => true,
                Some(other) => {
                    return Err(format!("isolation.level={other}: give read_uncommitted or read_committed"));
                }
            },
            api_max_versions: api_versions(p.text("assignor.api.max.versions").unwrap_or_default())?,
            fetch,
            block_upgrade: p.flag("assignor.block-upgrade", false)?,
            properties: BTreeMap::new(),
        };
        config.agree()
    }

    /// What Kafka checks across keys, and what its broker would refuse.
    fn agree(self) -> Result<Self, String> {
        let ms = |d: Duration| d.as_millis();
        if self.heartbeat_interval >= self.session_timeout {
            return Err(format!(
                "heartbeat.interval.ms ({}) must be lower than session.timeout.ms ({}), at most a third of it as a rule",
                ms(self.heartbeat_interval),
                ms(self.session_timeout)
            ));
        }
        if self.retry_backoff > self.retry_backoff_max {
            return Err(format!(
                "retry.backoff.ms ({}) must not be higher than retry.backoff.max.ms ({})",
                ms(self.retry_backoff),
                ms(self.retry_backoff_max)
            ));
        }
        Ok(self)
    }
}

/// A name of a topic or of a static member (Kafka: `Topic.validate`, `JoinGroupRequest.validateGroupInstanceId`).
pub(super) fn is_legal_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !matches!(name, "" | "." | "..") && name.len() <= 249 && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<ConsumerConfig, String> {
        let required = [("bootstrap.servers", "a:1"), ("group.id", "g")];
        let properties =
            required.iter().chain(pairs).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ConsumerConfig::from_properties(properties).map_err(|e| e.to_string())
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        read(pairs).expect_err("must be refused")
    }

    #[test]
    fn the_defaults_are_those_of_the_java_client() {
        let config = read(&[]).unwrap();
        assert_eq!(config.session_timeout, Duration::from_secs(45));
        assert_eq!(config.heartbeat_interval, Duration::from_secs(3));
        assert_eq!(config.max_poll_interval, Duration::from_secs(300));
        assert_eq!(config.max_poll_records, 500);
        assert_eq!(config.auto_offset_reset, OffsetReset::Latest);
        assert_eq!(config.auto_commit_interval, Some(Duration::from_secs(5)));
        assert!(!config.read_committed);
        assert!(config.allow_auto_create_topics);
        assert_eq!(config.fetch["fetch.max.bytes"], "52428800");
    }

    #[test]
    fn several_servers_and_ipv6_addresses_are_read() {
        let config = read(&[("bootstrap.servers", "a.example:9092, [::1]:9093")]).unwrap();
        let servers: Vec<_> = config.bootstrap_servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["a.example:9092", "[::1]:9093"]);
        assert!(refused(&[("bootstrap.servers", "a.example")]).contains("host:port"));
        assert!(refused(&[("bootstrap.servers", "a.example:99999")]).contains("host:port"));
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest_one() {
        assert!(refused(&[("session.timeout", "1")]).contains("session.timeout.ms"));
        assert!(refused(&[("fetch.max.byte", "1")]).contains("fetch.max.bytes"));
    }

    #[test]
    fn keys_of_assignors_are_left_to_them() {
        let config = read(&[
            ("partition.assignment.strategy", "weighted"),
            ("assignor.strategy.weighted.weight", "3"),
        ]);
        assert_eq!(config.unwrap().properties["assignor.strategy.weighted.weight"], "3");
    }

    #[test]
    fn what_this_version_can_not_do_is_refused_in_words() {
        assert!(refused(&[("group.protocol", "consumer")]).contains("KIP-848"));
        assert!(
            refused(&[("client.dns.lookup", "resolve_canonical_bootstrap_servers_only")])
                .contains("Kerberos")
        );
    }

    #[test]
    fn names_are_legal_as_in_kafka() {
        for legal in ["a", "A.b_c-1", &"x".repeat(249)] {
            assert!(is_legal_name(legal), "{legal}");
            assert_eq!(
                read(&[("group.instance.id", legal)]).unwrap().group_instance_id.as_deref(),
                Some(legal)
            );
        }
        for illegal in ["", ".", "..", "a b", "a/b", "ä", &"x".repeat(250)] {
            assert!(!is_legal_name(illegal), "{illegal}");
        }
        assert!(refused(&[("group.instance.id", "a b")]).contains("group.instance.id=a b"));
    }

    #[test]
    fn values_that_contradict_each_other_are_refused() {
        assert!(refused(&[("heartbeat.interval.ms", "45000")]).contains("heartbeat.interval.ms"));
        assert!(refused(&[("retry.backoff.ms", "5000")]).contains("retry.backoff.max.ms"));
        assert!(refused(&[("max.poll.records", "0")]).contains("max.poll.records"));
        assert!(refused(&[("enable.auto.commit", "yes")]).contains("true or false"));
        assert!(refused(&[("group.id", "")]).contains("group.id"));
    }

    /// The keys of a row's first column, and what the second one says, if that is a value.
    fn rows(page: &str) -> Vec<(Vec<&str>, Option<&str>)> {
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        rows.map(|(keys, rest)| {
            let default = rest.split(" | ").next().unwrap_or_default();
            (keys.split("`, `").collect(), default.strip_prefix('`').and_then(|d| d.strip_suffix('`')))
        })
        .collect()
    }

    #[test]
    fn the_page_has_every_key_with_its_default_and_no_other() {
        let rows = rows(include_str!("../../../docs/configuration.md"));
        let told: std::collections::BTreeSet<&str> =
            rows.iter().flat_map(|(keys, _)| keys.iter().copied()).filter(|key| !key.contains('<')).collect();
        assert_eq!(told, properties::known_keys().chain(crate::catalog::known_keys()).collect());

        let without = |config: ConsumerConfig| ConsumerConfig { properties: BTreeMap::new(), ..config };
        for (keys, default) in rows {
            let Some(default) = default.filter(|default| !default.contains('<')) else { continue };
            for key in keys {
                let defaults = without(read(&[]).unwrap());
                match key.starts_with("assignor.") {
                    false if key.starts_with("ssl.") => {
                        let tls = [("security.protocol", "SSL"), (key, default)];
                        let (with, plain) = (read(&tls).unwrap(), read(&tls[..1]).unwrap());
                        assert_eq!(without(with), without(plain), "{key}");
                    }
                    false => assert_eq!(without(read(&[(key, default)]).unwrap()), defaults, "{key}"),
                    true => crate::catalog::assert_default(key, default),
                }
            }
        }
    }

    #[test]
    fn api_versions_can_be_capped() {
        let config = read(&[("assignor.api.max.versions", "JoinGroup:5, SyncGroup:3")]).unwrap();
        assert_eq!(
            config.api_max_versions,
            [("JoinGroup".to_owned(), 5), ("SyncGroup".to_owned(), 3)].into()
        );
        assert!(refused(&[("assignor.api.max.versions", "Join:5")]).contains("JoinGroup"));
        assert!(refused(&[("assignor.api.max.versions", "JoinGroup:x")]).contains("JoinGroup:x"));
    }
}
