//! SCRAM (RFC 5802, RFC 7677) on the client's side, without channel binding, as Kafka speaks it (KIP-84).
//!
//! Of our own, because the crate for it that is kept up (rsasl) panics on a salt that is not base64 and takes any number of iterations,
//! so that a broker could stop or stall the consumer, and prepares passwords (RFC 4013) where Kafka takes them as they are.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use zeroize::Zeroizing;

use crate::consumer::config::Secret;

/// Kafka: `ScramMechanism.minIterations`; fewer would make a stolen exchange cheap to guess the password from.
const MIN_ITERATIONS: usize = 4_096;

/// Kafka's brokers take up to 16,384. Many more would hold up heartbeats while they are computed.
const MAX_ITERATIONS: usize = 100_000;

/// No channel binding, no other identity.
const GS2_HEADER: &str = "n,,";

/// A number used once, printable and without a comma.
pub(super) fn nonce() -> Result<String, String> {
    let mut bytes = [0; 24];
    openssl::rand::rand_bytes(&mut bytes).map_err(|e| e.to_string())?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// The client's first message.
pub(super) struct First {
    nonce: String,
    bare: String,
}

impl First {
    pub(super) fn new(username: &str, nonce: String) -> Self {
        let username = username.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={username},r={nonce}");
        Self { nonce, bare }
    }

    pub(super) fn message(&self) -> Bytes {
        format!("{GS2_HEADER}{}", self.bare).into()
    }

    /// Reads the server's first message and proves to know the password.
    pub(super) fn answer(
        &self,
        digest: MessageDigest,
        server_first: &[u8],
        password: &Secret,
    ) -> Result<Last, String> {
        let challenge = std::str::from_utf8(server_first).map_err(|_| "the SCRAM challenge is no text")?;
        let wrong = || "the SCRAM challenge is malformed".to_owned();
        let mut attributes = challenge.split(',');
        let mut attribute =
            |name: &str| attributes.next().and_then(|a| a.strip_prefix(name)).ok_or_else(wrong);
        let nonce = attribute("r=")?;
        let salt = BASE64_STANDARD.decode(attribute("s=")?).map_err(|_| wrong())?;
        let iterations: usize = attribute("i=")?.parse().map_err(|_| wrong())?;
        if !nonce.starts_with(&self.nonce) {
            return Err("the SCRAM challenge belongs to another login".into());
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(format!(
                "the broker wants {iterations} SCRAM iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            ));
        }
        let without_proof = format!("c={},r={nonce}", BASE64_STANDARD.encode(GS2_HEADER));
        let exchange = format!("{},{challenge},{without_proof}", self.bare);
        let (proof, signature) =
            prove(digest, password, &salt, iterations, exchange.as_bytes()).map_err(|e| e.to_string())?;
        Ok(Last { message: format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)), signature })
    }
}

/// The client's last message, and what the server must answer.
pub(super) struct Last {
    message: String,
    signature: Vec<u8>,
}

impl Last {
    pub(super) fn message(&self) -> Bytes {
        self.message.clone().into()
    }

    /// Whether the server knows the password as well.
    pub(super) fn verify(&self, server_final: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(server_final).unwrap_or_default();
        if let Some(error) = text.strip_prefix("e=") {
            return Err(super::told(error));
        }
        let signature = text.split(',').next().and_then(|a| a.strip_prefix("v="));
        let signature = signature.and_then(|v| BASE64_STANDARD.decode(v).ok()).unwrap_or_default();
        // A comparison in constant time, which wants equal lengths.
        if signature.len() == self.signature.len() && openssl::memcmp::eq(&signature, &self.signature) {
            Ok(())
        } else {
            Err("the broker does not prove that it knows the password: it is not the one that it pretends to be".into())
        }
    }
}

/// The client's proof and the server's signature, in RFC 5802's terms.
fn prove(
    digest: MessageDigest,
    password: &Secret,
    salt: &[u8],
    iterations: usize,
    exchange: &[u8],
) -> Result<(Vec<u8>, Vec<u8>), ErrorStack> {
    let mut salted = Zeroizing::new(vec![0; digest.size()]);
    pbkdf2_hmac(password.reveal().as_bytes(), salt, iterations, digest, &mut salted)?;
    let client_key = Zeroizing::new(hmac(digest, &salted, b"Client Key")?);
    let stored_key = hash(digest, &client_key)?;
    let client_signature = hmac(digest, &stored_key, exchange)?;
    let proof = client_key.iter().zip(client_signature).map(|(key, signature)| key ^ signature).collect();
    let server_key = hmac(digest, &salted, b"Server Key")?;
    Ok((proof, hmac(digest, &server_key, exchange)?))
}

fn hmac(digest: MessageDigest, key: &[u8], data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    Signer::new(digest, &key)?.sign_oneshot_to_vec(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

    fn challenged(challenge: &str) -> Result<Last, String> {
        let first = First::new("user", NONCE.to_owned());
        first.answer(MessageDigest::sha256(), challenge.as_bytes(), &Secret::from("pencil".to_owned()))
    }

    fn refused(challenge: &str) -> String {
        challenged(challenge).err().unwrap_or_else(|| panic!("{challenge} must be refused"))
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_exchange_of_rfc_7677() {
        assert_eq!(First::new("user", NONCE.to_owned()).message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = challenged(challenge).unwrap();
        assert_eq!(
            last.message(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        last.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(last.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=").is_err());
        for broken in [&b""[..], b"v=", b"v=!!", b"\xff", b"v=6rriTRBi23WpRR/wtup+mMhUZUn"] {
            assert!(last.verify(broken).unwrap_err().contains("does not prove"));
        }
        assert_eq!(last.verify(b"e=other-error").unwrap_err(), "other-error");
    }

    #[test]
    fn a_name_with_signs_of_the_protocol_is_written_by_them() {
        assert_eq!(First::new("a=b,c", "n".into()).message(), "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn a_challenge_that_lies_is_refused_before_it_costs_anything() {
        let salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
        assert!(refused(&format!("r={NONCE}x,s={salt},i=1")).contains("iterations"));
        assert!(refused(&format!("r={NONCE}x,s={salt},i=4000000000")).contains("iterations"));
        assert!(refused(&format!("r={NONCE}x,s={salt},i=99999999999999999999999")).contains("malformed"));
        assert!(refused(&format!("r=other,s={salt},i=4096")).contains("another login"));
        for broken in
            ["", "r=", "m=ext,r=x", &format!("r={NONCE}x,s=%,i=4096"), &format!("r={NONCE}x,i=4096")]
        {
            assert!(refused(broken).contains("malformed"), "{broken}");
        }
    }

    #[test]
    fn nonces_are_printable_and_differ() {
        let (one, other) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(one, other);
        assert!(one.chars().all(|c| c.is_ascii_graphic() && c != ','));
    }
}
