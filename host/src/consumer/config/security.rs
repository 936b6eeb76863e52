//! `security.protocol` and what belongs to it: TLS with PEM files, SASL with user name and password.

use std::collections::BTreeMap;

use super::properties::Properties;
use super::{Secret, jaas, pem};

/// How brokers are spoken to: encrypted or not, logged in or not.
///
/// Made by [`ConsumerConfig::from_properties`](super::ConsumerConfig::from_properties), which reads certificates and keys and refuses
/// what can't work. Its `Debug` shows no password and no key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    pub(in crate::consumer) tls: Option<Tls>,
    pub(in crate::consumer) sasl: Option<Sasl>,
}

/// For `SSL` and `SASL_SSL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Tls {
    /// The authorities that are trusted, in PEM; the system's if `None`.
    pub(in crate::consumer) authorities: Option<String>,
    /// Who this client is.
    pub(in crate::consumer) identity: Option<Identity>,
    /// Whether a broker's certificate must be for the name by which it was called.
    pub(in crate::consumer) check_names: bool,
}

/// A client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Identity {
    /// The certificate and what leads to its authority, in PEM.
    pub(in crate::consumer) chain: String,
    /// The key, in PEM and not encrypted.
    pub(in crate::consumer) key: Secret,
}

/// For `SASL_PLAINTEXT` and `SASL_SSL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::consumer) struct Sasl {
    pub(in crate::consumer) mechanism: Mechanism,
    pub(in crate::consumer) username: String,
    pub(in crate::consumer) password: Secret,
}

/// How a login proves that it knows the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    /// Its name in Kafka.
    pub(in crate::consumer) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// Java's class for it.
    fn login_module(self) -> &'static str {
        match self {
            Self::Plain => "PlainLoginModule",
            Self::ScramSha256 | Self::ScramSha512 => "ScramLoginModule",
        }
    }
}

/// The keys of this file.
pub(super) const KNOWN: &[&str] = &[
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Keys whose values nobody must see.
const SECRET: &[&str] = &[
    "sasl.jaas.config",
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
];

/// Whether a property's value must not be seen.
pub(super) fn is_secret(key: &str) -> bool {
    SECRET.contains(&key)
}

/// Why a key of Kafka's or librdkafka's can't be used here, if that is worth more words than that it is unknown.
pub(super) fn refused(key: &str) -> Option<&'static str> {
    if key.starts_with("sasl.oauthbearer.") || key == "enable.sasl.oauthbearer.unsecure.jwt" {
        return Some(OAUTHBEARER);
    }
    if key.starts_with("sasl.kerberos.") {
        return Some(KERBEROS);
    }
    (key == "enable.ssl.certificate.verification").then_some(
        "a broker's certificate is always verified; trust one that no known authority has signed by ssl.truststore.location",
    )
}

const OAUTHBEARER: &str = "OAUTHBEARER (OAuth, OIDC) is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or a client certificate";
const KERBEROS: &str =
    "GSSAPI (Kerberos) is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or a client certificate";

impl Security {
    /// `security.protocol`.
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }

    pub(super) fn read(p: &Properties<'_>) -> Result<Self, String> {
        let protocol = p.text("security.protocol").unwrap_or("PLAINTEXT");
        let (tls, sasl) = match protocol.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => {
                return Err(format!(
                    "security.protocol={protocol}: give PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
                ));
            }
        };
        // A forgotten security.protocol must not end in passwords that are never asked for, or in plain text.
        for (prefix, used, protocols) in
            [("ssl.", tls, "SSL or SASL_SSL"), ("sasl.", sasl, "SASL_SSL or SASL_PLAINTEXT")]
        {
            if let Some(key) = p.0.keys().find(|key| key.starts_with(prefix) && !used) {
                return Err(format!(
                    "{key} has no effect with security.protocol={protocol}: set that to {protocols}, or leave the key out"
                ));
            }
        }
        Ok(Self {
            tls: if tls { Some(Tls::read(p)?) } else { None },
            sasl: if sasl { Some(Sasl::read(p)?) } else { None },
        })
    }

    /// librdkafka's properties for the same.
    pub(in crate::consumer) fn data_path(&self) -> BTreeMap<&'static str, &str> {
        let mut properties = BTreeMap::from([("security.protocol", self.protocol())]);
        if let Some(tls) = &self.tls {
            let algorithm = if tls.check_names { "https" } else { "none" };
            properties.insert("ssl.endpoint.identification.algorithm", algorithm);
            properties.extend(tls.authorities.as_deref().map(|pem| ("ssl.ca.pem", pem)));
            if let Some(identity) = &tls.identity {
                properties.insert("ssl.certificate.pem", &identity.chain);
                properties.insert("ssl.key.pem", identity.key.reveal());
            }
        }
        if let Some(sasl) = &self.sasl {
            properties.insert("sasl.mechanism", sasl.mechanism.name());
            properties.insert("sasl.username", &sasl.username);
            properties.insert("sasl.password", sasl.password.reveal());
        }
        properties
    }
}

impl Tls {
    fn read(p: &Properties<'_>) -> Result<Self, String> {
        if let Some(text) = p.text("ssl.enabled.protocols") {
            let mut versions: Vec<&str> = text.split(',').map(str::trim).collect();
            versions.sort_unstable();
            if versions != ["TLSv1.2", "TLSv1.3"] {
                return Err(format!(
                    "ssl.enabled.protocols={text}: TLSv1.2 and TLSv1.3 are both on, and older versions off; \
                     to allow but one of them, set the brokers' ssl.enabled.protocols"
                ));
            }
        }
        let check_names = match p.given("ssl.endpoint.identification.algorithm") {
            None => true,
            Some(value) if value.eq_ignore_ascii_case("https") => true,
            // librdkafka's word for it.
            Some(value) if value.is_empty() || value.eq_ignore_ascii_case("none") => {
                tracing::warn!(
                    "ssl.endpoint.identification.algorithm is off: whoever has a certificate of a trusted authority can pass for a broker"
                );
                false
            }
            Some(value) => {
                return Err(format!(
                    "ssl.endpoint.identification.algorithm={value}: give https, or nothing to turn it off"
                ));
            }
        };
        Ok(Self { authorities: pem::authorities(p)?, identity: pem::identity(p)?, check_names })
    }
}

impl Sasl {
    fn read(p: &Properties<'_>) -> Result<Self, String> {
        let (key, name) = match p.one_of(&["sasl.mechanism", "sasl.mechanisms"])? {
            Some(given) => given,
            None => {
                return Err(
                    "sasl.mechanism is missing: give PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; Kafka's default, GSSAPI \
                     (Kerberos), is not supported"
                        .into(),
                );
            }
        };
        let mechanism = match name.to_ascii_uppercase().as_str() {
            "PLAIN" => Mechanism::Plain,
            "SCRAM-SHA-256" => Mechanism::ScramSha256,
            "SCRAM-SHA-512" => Mechanism::ScramSha512,
            "OAUTHBEARER" => return Err(format!("{key}: {OAUTHBEARER}")),
            "GSSAPI" => return Err(format!("{key}: {KERBEROS}")),
            _ => return Err(format!("{key}={name}: give PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")),
        };
        let (username, password) = match (p.text("sasl.username"), p.given("sasl.password")) {
            (None, None) => Self::from_jaas(p, mechanism)?,
            _ if p.text("sasl.jaas.config").is_some() => {
                return Err(
                    "both sasl.jaas.config and sasl.username or sasl.password are given: leave one out"
                        .into(),
                );
            }
            (Some(username), Some(password)) => (username.to_owned(), Secret::from(password.to_owned())),
            (Some(_), None) => return Err("sasl.password is missing".into()),
            (None, Some(_)) => return Err("sasl.username is missing".into()),
        };
        if username.contains('\0') || password.reveal().contains('\0') {
            return Err("a SASL user name or password can't hold a NUL character".into());
        }
        Ok(Self { mechanism, username, password })
    }

    fn from_jaas(p: &Properties<'_>, mechanism: Mechanism) -> Result<(String, Secret), String> {
        let (name, module) = (mechanism.name(), mechanism.login_module());
        let text = p.text("sasl.jaas.config").ok_or_else(|| {
            format!(
                "{name} needs a user name and a password: give sasl.jaas.config ({module} required username=\"…\" password=\"…\";), \
                 or sasl.username and sasl.password"
            )
        })?;
        let mut given = jaas::parse(text).map_err(|e| format!("sasl.jaas.config: {e}"))?;
        match given.class.as_str() {
            "OAuthBearerLoginModule" => return Err(format!("sasl.jaas.config: {OAUTHBEARER}")),
            "Krb5LoginModule" => return Err(format!("sasl.jaas.config: {KERBEROS}")),
            class if class == module => {}
            class => {
                return Err(format!("sasl.jaas.config: {class} is not for {name}, whose module is {module}"));
            }
        }
        if given.options.get("tokenauth").is_some_and(|v| v.reveal().eq_ignore_ascii_case("true")) {
            return Err("sasl.jaas.config: delegation tokens (tokenauth) are not supported".into());
        }
        let mut option = |key: &str| {
            given.options.remove(key).ok_or_else(|| format!("sasl.jaas.config: option {key} is missing"))
        };
        Ok((option("username")?.reveal().to_owned(), option("password")?))
    }
}

#[cfg(test)]
mod tests;
