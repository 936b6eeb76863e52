//! Certificates and keys in PEM, from files or from properties.
//!
//! They are read once, when the configuration is: both the coordinator's connections and the data path get what was read, and a
//! file that is missing or broken is an error at once.

use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;

use super::Secret;
use super::properties::Properties;
use super::security::Identity;

/// The authorities that are trusted.
///
/// # Errors
/// If a store is of another kind, can't be read or has no certificate.
pub(super) fn authorities(p: &Properties<'_>) -> Result<Option<String>, String> {
    let conversion = "openssl pkcs12 -in STORE.p12 -nokeys -out ca.pem";
    only_pem(p, "ssl.truststore", conversion)?;
    let keys = ["ssl.truststore.certificates", "ssl.ca.pem", "ssl.truststore.location", "ssl.ca.location"];
    let Some((key, value)) = p.one_of(&keys)? else { return Ok(None) };
    let pem = text(key, value, conversion)?;
    certificates(key, &pem).map(Some)
}

/// The client's certificate and key.
///
/// # Errors
/// If one is there without the other, they don't belong together, a store is of another kind, or something can't be read.
pub(super) fn identity(p: &Properties<'_>) -> Result<Option<Identity>, String> {
    let conversion = "openssl pkcs12 -in STORE.p12 -out client.pem";
    only_pem(p, "ssl.keystore", conversion)?;
    let chain = p.one_of(&[
        "ssl.keystore.certificate.chain",
        "ssl.certificate.pem",
        "ssl.certificate.location",
        "ssl.keystore.location",
    ])?;
    let key = p.one_of(&["ssl.keystore.key", "ssl.key.pem", "ssl.key.location", "ssl.keystore.location"])?;
    let ((chain_from, chain), (key_from, key)) = match (chain, key) {
        (None, None) if p.text("ssl.key.password").is_some() => {
            return Err("ssl.key.password is given, but no key: see ssl.keystore.location".into());
        }
        (None, None) => return Ok(None),
        (Some(chain), Some(key)) => (chain, key),
        (Some((given, _)), None) => {
            return Err(format!("{given} is given, but no key: see ssl.keystore.key"));
        }
        (None, Some((given, _))) => {
            return Err(format!("{given} is given, but no certificate: see ssl.keystore.certificate.chain"));
        }
    };
    let chain = text(chain_from, chain, conversion)?;
    let chain = certificates(chain_from, &chain)?;
    let key = text(key_from, key, conversion).map(Secret::from)?;
    let key = private_key(key_from, &key, p.text("ssl.key.password"))?;
    let unreadable = |e: ErrorStack| format!("{key_from}: {}", reason(&e));
    let certificate = X509::from_pem(chain.as_bytes()).and_then(|c| c.public_key()).map_err(unreadable)?;
    if !certificate.public_eq(&key) {
        return Err(format!("{key_from}: the key does not belong to the certificate of {chain_from}"));
    }
    let pem = key.private_key_to_pem_pkcs8().map_err(unreadable)?;
    let key = String::from_utf8(pem).map_err(|e| e.to_string())?;
    Ok(Some(Identity { chain, key: key.into() }))
}

/// Refuses Java's other kinds of stores in words.
fn only_pem(p: &Properties<'_>, store: &str, conversion: &str) -> Result<(), String> {
    let kind = p.text(&format!("{store}.type")).unwrap_or("PEM");
    if !kind.eq_ignore_ascii_case("PEM") {
        return Err(format!("{store}.type={kind}: only PEM is read; {}", convert(kind, conversion)));
    }
    // As Java says it.
    match p.text(&format!("{store}.password")) {
        Some(_) => Err(format!(
            "{store}.password: a PEM store has no password, a key in it may have one: ssl.key.password"
        )),
        None => Ok(()),
    }
}

fn convert(kind: &str, conversion: &str) -> String {
    let first = if kind.eq_ignore_ascii_case("PKCS12") {
        ""
    } else {
        "keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, then "
    };
    format!("convert it with: {first}{conversion}")
}

/// The value, or the file that it names.
fn text(key: &str, value: &str, conversion: &str) -> Result<String, String> {
    if !key.ends_with(".location") {
        return Ok(lines(value));
    }
    let bytes = std::fs::read(value).map_err(|e| format!("{key}: can't read {value}: {e}"))?;
    let looks_like = match bytes.as_slice() {
        [0xfe, 0xed, 0xfe, 0xed, ..] => Some("JKS"),
        [0x30, ..] => Some("PKCS12"),
        _ => None,
    };
    if let Some(kind) = looks_like {
        let how = convert(kind, conversion);
        return Err(format!("{key}: {value} looks like {kind}; only PEM is read; {how}"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{key}: {value} is not PEM"))
}

/// PEM in a property may have blanks where a file has line ends; OpenSSL wants lines.
fn lines(pem: &str) -> String {
    if pem.trim().contains('\n') {
        return pem.to_owned();
    }
    let mut text = String::new();
    // Marks and what is between them, in turn.
    for (index, part) in pem.split("-----").enumerate() {
        if index % 2 == 1 {
            text.extend(["-----", part, "-----\n"]);
        } else {
            let body: Vec<char> = part.chars().filter(|c| !c.is_whitespace()).collect();
            for line in body.chunks(64) {
                text.extend(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The certificates in this text, and nothing else of it.
fn certificates(key: &str, pem: &str) -> Result<String, String> {
    let failed = |e: ErrorStack| format!("{key}: {}", reason(&e));
    let certificates = X509::stack_from_pem(pem.as_bytes()).map_err(failed)?;
    if certificates.is_empty() {
        return Err(format!("{key} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"));
    }
    let mut text = String::new();
    for certificate in certificates {
        let pem = certificate.to_pem().map_err(failed)?;
        text.push_str(&String::from_utf8_lossy(&pem));
    }
    Ok(text)
}

fn private_key(key: &str, pem: &Secret, password: Option<&str>) -> Result<PKey<Private>, String> {
    let mut asked = false;
    // Without this OpenSSL would ask at the terminal.
    let password_callback = |room: &mut [u8]| {
        asked = true;
        let password = password.unwrap_or_default().as_bytes();
        match room.get_mut(..password.len()) {
            Some(place) => place.copy_from_slice(password),
            None => return Ok(0),
        }
        Ok(password.len())
    };
    match PKey::private_key_from_pem_callback(pem.reveal().as_bytes(), password_callback) {
        Ok(key) => Ok(key),
        Err(_) if asked && password.is_none() => {
            Err(format!("{key}: the key is encrypted and ssl.key.password is missing"))
        }
        Err(_) if asked => Err(format!("{key}: ssl.key.password does not decrypt the key")),
        Err(_) => Err(format!("{key} holds no private key in PEM (-----BEGIN PRIVATE KEY-----)")),
    }
}

/// What OpenSSL says, without its places in code.
fn reason(e: &ErrorStack) -> String {
    e.errors().iter().filter_map(|e| e.reason()).next_back().unwrap_or("OpenSSL gives no reason").to_owned()
}
