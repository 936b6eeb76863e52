//! TLS by OpenSSL, which librdkafka uses for the data path as well: both trust the same certificates, and read the same keys.
//! What goes wrong is told in words, with the property that mends it.

use std::io;
use std::pin::Pin;

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{Error, SslConnector, SslMethod, SslVersion};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509VerifyResult};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use crate::consumer::config::Tls;

/// Makes TLS connections as the configuration says.
pub(super) struct Connector {
    connector: SslConnector,
    check_names: bool,
}

/// Why there is no TLS connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// One side does not accept the other: trying again does not help.
    Refused(String),
    /// The connection broke.
    Broken(String),
}

impl Connector {
    pub(super) fn new(tls: &Tls) -> Result<Self, String> {
        Self::build(tls).map_err(|e| e.to_string())
    }

    fn build(tls: &Tls) -> Result<Self, ErrorStack> {
        // Verifies certificates, by the system's authorities.
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        if let Some(pem) = &tls.authorities {
            let mut store = X509StoreBuilder::new()?;
            for authority in X509::stack_from_pem(pem.as_bytes())? {
                store.add_cert(authority)?;
            }
            builder.set_cert_store(store.build());
        }
        if let Some(identity) = &tls.identity {
            let mut chain = X509::stack_from_pem(identity.chain.as_bytes())?.into_iter();
            if let Some(own) = chain.next() {
                builder.set_certificate(&own)?;
            }
            for authority in chain {
                builder.add_extra_chain_cert(authority)?;
            }
            builder.set_private_key(&*PKey::private_key_from_pem(identity.key.reveal().as_bytes())?)?;
        }
        Ok(Self { connector: builder.build(), check_names: tls.check_names })
    }

    /// Shakes hands with the broker of this name.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<SslStream<TcpStream>, Failure> {
        let internal = |e: ErrorStack| Failure::Broken(format!("TLS: {e}"));
        let mut configuration = self.connector.configure().map_err(internal)?;
        configuration.set_verify_hostname(self.check_names);
        let ssl = configuration.into_ssl(host).map_err(internal)?;
        let mut stream = SslStream::new(ssl, stream).map_err(internal)?;
        match Pin::new(&mut stream).connect().await {
            Ok(()) => Ok(stream),
            Err(e) => Err(explain(host, &e, stream.ssl().verify_result())),
        }
    }
}

/// OpenSSL: `x509_vfy.h`.
mod verify {
    pub(super) const NOT_YET_VALID: i32 = 9;
    pub(super) const EXPIRED: i32 = 10;
    pub(super) const SELF_SIGNED: i32 = 18;
    pub(super) const SELF_SIGNED_IN_CHAIN: i32 = 19;
    pub(super) const NO_ISSUER: i32 = 20;
    pub(super) const NO_FIRST: i32 = 21;
    pub(super) const HOSTNAME: i32 = 62;
    pub(super) const IP_ADDRESS: i32 = 64;
}

fn explain(host: &str, e: &Error, verified: X509VerifyResult) -> Failure {
    if let Some(reason) = refusal(e) {
        return Failure::Refused(reason);
    }
    let said = verified.error_string();
    match verified.as_raw() {
        // Not refused by us.
        0 => {}
        verify::HOSTNAME | verify::IP_ADDRESS => {
            return Failure::Refused(format!(
                "its certificate is not for {host} ({said}): call it by a name in its certificate, or see \
                 ssl.endpoint.identification.algorithm"
            ));
        }
        verify::EXPIRED => return Failure::Refused(format!("its certificate has expired ({said})")),
        verify::NOT_YET_VALID => {
            return Failure::Refused(format!(
                "its certificate is not valid yet ({said}): is the clock right?"
            ));
        }
        verify::SELF_SIGNED | verify::SELF_SIGNED_IN_CHAIN | verify::NO_ISSUER | verify::NO_FIRST => {
            return Failure::Refused(format!(
                "no trusted authority has signed its certificate ({said}): see ssl.truststore.location"
            ));
        }
        _ => return Failure::Refused(format!("its certificate is not accepted ({said})")),
    }
    if let Some(e) = e.io_error() {
        return Failure::Broken(format!("in the TLS handshake: {e}{NO_TLS}"));
    }
    match reason(e) {
        None => Failure::Broken(format!("it hung up in the TLS handshake{NO_TLS}")),
        Some("unexpected eof while reading") => {
            Failure::Broken(format!("it hung up in the TLS handshake{NO_TLS}"))
        }
        Some(reason @ ("wrong version number" | "packet length too long" | "http request")) => {
            Failure::Refused(format!("its answer is not TLS ({reason}){NO_TLS}"))
        }
        Some(reason) => Failure::Refused(format!("the TLS handshake failed: {reason}")),
    }
}

const NO_TLS: &str = "; if the listener does not use TLS, security.protocol is PLAINTEXT or SASL_PLAINTEXT";

/// What a broker has told by an alert: in TLS 1.3 what it thinks of a client's certificate comes after the handshake, by the first
/// read.
pub(super) fn told(e: &io::Error) -> Option<String> {
    e.get_ref().and_then(|e| e.downcast_ref::<Error>()).and_then(refusal)
}

fn refusal(e: &Error) -> Option<String> {
    let reason = reason(e).filter(|reason| reason.contains("alert"))?;
    let advice = if reason.contains("protocol version") {
        "its TLS versions are not TLSv1.2 or TLSv1.3"
    } else if reason.contains("certificate") || reason.contains("unknown ca") {
        "it does not accept this client's certificate, or lack of one: see ssl.keystore.location"
    } else if reason.contains("handshake failure") {
        "it wants a client's certificate (see ssl.keystore.location), or other ciphers"
    } else {
        "it ends TLS"
    };
    Some(format!("{advice} ({reason})"))
}

fn reason(e: &Error) -> Option<&'static str> {
    e.ssl_error()?.errors().iter().filter_map(openssl::error::Error::reason).next_back()
}

/// Whether this is TLS where something else was expected: the beginning of an alert.
pub(super) fn looks_like_alert(start: [u8; 4]) -> bool {
    matches!(start, [0x15, 0x03, 0..=4, _])
}

#[cfg(test)]
mod tests;
