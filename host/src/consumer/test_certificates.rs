//! Certificates to test with.

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

/// A certificate and its key.
pub(super) struct Certificate {
    pub(super) certificate: X509,
    pub(super) key: PKey<Private>,
}

/// When a certificate is valid, in days before or after today.
pub(super) const VALID: (i64, i64) = (-1, 10);
pub(super) const EXPIRED: (i64, i64) = (-10, -1);

impl Certificate {
    pub(super) fn authority(name: &str) -> Self {
        let key = new_key();
        let mut builder = builder(name, &key, VALID);
        builder.set_issuer_name(&name_of(name)).unwrap();
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }

    /// Signed by this authority, for these host names and IP addresses.
    pub(super) fn issue(&self, hosts: &[&str], valid: (i64, i64)) -> Self {
        let key = new_key();
        let mut builder = builder("issued", &key, valid);
        builder.set_issuer_name(self.certificate.subject_name()).unwrap();
        let mut names = SubjectAlternativeName::new();
        for host in hosts {
            if host.parse::<std::net::IpAddr>().is_ok() {
                names.ip(host)
            } else {
                names.dns(host)
            };
        }
        let names = names.build(&builder.x509v3_context(Some(&self.certificate), None)).unwrap();
        builder.append_extension(names).unwrap();
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }

    pub(super) fn pem(&self) -> String {
        String::from_utf8(self.certificate.to_pem().unwrap()).unwrap()
    }

    pub(super) fn key_pem(&self) -> String {
        String::from_utf8(self.key.private_key_to_pem_pkcs8().unwrap()).unwrap()
    }
}

fn new_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn name_of(name: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().unwrap();
    builder.append_entry_by_text("CN", name).unwrap();
    builder.build()
}

fn builder(name: &str, key: &PKey<Private>, (from, to): (i64, i64)) -> X509Builder {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let day = |days: i64| Asn1Time::from_unix(now.as_secs().cast_signed() + days * 86_400).unwrap();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(64, openssl::bn::MsbOption::MAYBE_ZERO, false).unwrap();
    builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&name_of(name)).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&day(from)).unwrap();
    builder.set_not_after(&day(to)).unwrap();
    builder
}
