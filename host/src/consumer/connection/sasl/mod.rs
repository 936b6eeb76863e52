//! Logging in: SaslHandshake and SaslAuthenticate, again before a login ends (KIP-368).

mod scram;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use openssl::hash::MessageDigest;

use super::Settings;
use super::call::{Call, RequestError};
use super::exchange::Connection;
use crate::consumer::clock::Moment;
use crate::consumer::config::{Mechanism, Sasl};

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;

/// So many characters of what a broker says are told.
const TOLD: usize = 300;

impl Connection {
    /// Logs in, for the first time or again, if the configuration says so. Between requests only.
    pub(super) async fn log_in(&mut self, settings: &Settings) -> Result<(), RequestError> {
        let Some(sasl) = &settings.sasl else { return Ok(()) };
        let begun = Moment::now();
        self.propose(sasl, settings).await?;
        let answer = match sasl.mechanism {
            Mechanism::Plain => {
                let token = format!("\0{}\0{}", sasl.username, sasl.password.reveal());
                self.authenticate(token.into(), settings).await?
            }
            Mechanism::ScramSha256 => self.scram(MessageDigest::sha256(), sasl, settings).await?,
            Mechanism::ScramSha512 => self.scram(MessageDigest::sha512(), sasl, settings).await?,
        };
        self.log_in_again = renewal(begun, answer.session_lifetime_ms);
        tracing::debug!(
            broker = %self.address,
            mechanism = sasl.mechanism.name(),
            lifetime_ms = answer.session_lifetime_ms,
            "logged in"
        );
        Ok(())
    }

    /// Names the mechanism.
    async fn propose(&mut self, sasl: &Sasl, settings: &Settings) -> Result<(), RequestError> {
        let name = sasl.mechanism.name();
        let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(name));
        let answer = self.sasl_exchange(&request, settings).await?;
        match answer.error_code {
            0 => Ok(()),
            UNSUPPORTED_SASL_MECHANISM => {
                let offered: Vec<String> = answer.mechanisms.iter().take(10).map(|m| told(m)).collect();
                let offered = offered.join(", ");
                Err(self.refused(format!("sasl.mechanism={name} is not enabled there, but {offered}")))
            }
            ILLEGAL_SASL_STATE => Err(self.refused(
                "the listener asks for no login: security.protocol is PLAINTEXT or SSL, or the port is another".into(),
            )),
            code => Err(self.refused(format!("SaslHandshake was answered with error {code}"))),
        }
    }

    async fn scram(
        &mut self,
        digest: MessageDigest,
        sasl: &Sasl,
        settings: &Settings,
    ) -> Result<SaslAuthenticateResponse, RequestError> {
        let nonce = scram::nonce().map_err(|e| self.refused(e))?;
        let first = scram::First::new(&sasl.username, nonce);
        let answer = self.authenticate(first.message(), settings).await?;
        let last = first.answer(digest, &answer.auth_bytes, &sasl.password).map_err(|e| self.refused(e))?;
        let answer = self.authenticate(last.message(), settings).await?;
        last.verify(&answer.auth_bytes).map_err(|e| self.refused(e))?;
        Ok(answer)
    }

    async fn authenticate(
        &mut self,
        token: Bytes,
        settings: &Settings,
    ) -> Result<SaslAuthenticateResponse, RequestError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token);
        let answer = self.sasl_exchange(&request, settings).await?;
        if answer.error_code == 0 {
            return Ok(answer);
        }
        let reason = match answer.error_message.as_deref() {
            Some(message) if !message.is_empty() => told(message),
            _ => format!("SaslAuthenticate was answered with error {}", answer.error_code),
        };
        Err(self.refused(reason))
    }

    async fn sasl_exchange<R: Call>(
        &mut self,
        request: &R,
        settings: &Settings,
    ) -> Result<R::Answer, RequestError> {
        let version = self.version::<R>(settings.cap(R::NAME))?;
        self.exchange(version, request, &settings.client_id).await
    }

    fn refused(&self, reason: String) -> RequestError {
        RequestError::Authentication { address: self.address.clone(), reason }
    }
}

/// When to log in again, of a login that lasts so long from then on; never, if that is not limited. As in Java after 85 to 95 percent of
/// the time, so that not all do so at once.
fn renewal(begun: Moment, lifetime_ms: i64) -> Option<Moment> {
    let lifetime = u64::try_from(lifetime_ms).ok().filter(|&ms| ms > 0)?;
    let percent = RandomState::new().hash_one(lifetime) % 11 + 85;
    Some(begun + Duration::from_millis(lifetime / 100 * percent + lifetime % 100 * percent / 100))
}

/// What a broker says, short and on one line.
fn told(text: &str) -> String {
    text.chars().take(TOLD).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
