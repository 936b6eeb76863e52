use openssl::symm::Cipher;

use super::*;
use crate::consumer::ConsumerConfig;
use crate::consumer::test_certificates::{Certificate, VALID};

fn read(pairs: &[(&str, &str)]) -> Result<ConsumerConfig, String> {
    let required = [("bootstrap.servers", "a:1"), ("group.id", "g")];
    let properties = required.iter().chain(pairs).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ConsumerConfig::from_properties(properties).map_err(|e| e.to_string())
}

fn refused(pairs: &[(&str, &str)]) -> String {
    read(pairs).expect_err("must be refused")
}

fn tls(pairs: &[(&str, &str)]) -> Tls {
    read(&[&[("security.protocol", "SSL")], pairs].concat()).unwrap().security.tls.unwrap()
}

fn tls_refused(pairs: &[(&str, &str)]) -> String {
    refused(&[&[("security.protocol", "ssl")], pairs].concat())
}

fn sasl(pairs: &[(&str, &str)]) -> Result<Sasl, String> {
    let config = read(&[&[("security.protocol", "SASL_PLAINTEXT")], pairs].concat())?;
    Ok(config.security.sasl.unwrap())
}

const ALICE: [(&str, &str); 2] = [("sasl.username", "alice"), ("sasl.password", "hunter2")];

#[test]
fn each_protocol_is_read_and_given_to_the_data_path() {
    assert_eq!(read(&[]).unwrap().security.data_path(), [("security.protocol", "PLAINTEXT")].into());
    let login = [("sasl.mechanism", "scram-sha-256"), ALICE[0], ALICE[1]];
    for protocol in ["SSL", "SASL_PLAINTEXT", "SASL_SSL"] {
        let login = if protocol == "SSL" { &[][..] } else { &login };
        let config = read(&[&[("security.protocol", protocol)], login].concat()).unwrap();
        assert_eq!(config.security.protocol(), protocol);
        let properties = config.security.data_path();
        assert_eq!(properties["security.protocol"], protocol);
        if protocol != "SSL" {
            assert_eq!(properties["sasl.mechanism"], "SCRAM-SHA-256");
            assert_eq!(properties["sasl.password"], "hunter2");
        }
    }
    assert!(refused(&[("security.protocol", "TLS")]).contains("SASL_SSL"));
}

#[test]
fn a_forgotten_protocol_is_told_rather_than_keys_ignored() {
    assert!(refused(&[("ssl.ca.location", "ca.pem")]).contains("security.protocol=PLAINTEXT"));
    assert!(refused(&[("sasl.mechanism", "PLAIN")]).contains("SASL_SSL"));
    assert!(tls_refused(&[ALICE[0]]).contains("security.protocol=ssl"));
}

#[test]
fn secrets_are_in_no_debug_output_and_no_property_that_is_kept() {
    let own = Certificate::authority("a");
    let (chain, key) = (own.pem(), own.key_pem());
    let config = read(&[
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.jaas.config", "PlainLoginModule required username=\"alice\" password=\"hunter2\";"),
        ("ssl.keystore.certificate.chain", &chain),
        ("ssl.keystore.key", &key),
        ("ssl.key.password", "hunter2"),
    ])
    .unwrap();
    let text = format!("{config:?}");
    assert!(text.contains("alice") && text.contains("[hidden]"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("PRIVATE KEY"), "{text}");
    assert!(!config.properties.keys().any(|key| is_secret(key)));
    assert!(config.properties.contains_key("sasl.mechanism"));
}

#[test]
fn authorities_come_from_a_file_or_from_the_property_by_javas_names_and_by_librdkafkas() {
    let (a, b) = (Certificate::authority("a").pem(), Certificate::authority("b").pem());
    let both = format!("a comment\n{a}{b}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &both).unwrap();
    let path = file.path().to_str().unwrap();
    let expected = Some(format!("{a}{b}"));
    let pem = ("ssl.truststore.type", "PEM");
    assert_eq!(tls(&[]).authorities, None);
    assert_eq!(tls(&[pem, ("ssl.truststore.location", path)]).authorities, expected);
    assert_eq!(tls(&[("ssl.ca.location", path)]).authorities, expected);
    assert_eq!(tls(&[pem, ("ssl.truststore.certificates", &both)]).authorities, expected);
    // As in a properties file whose lines end in backslashes.
    let one_line = format!("{a}{b}").replace('\n', " ");
    assert_eq!(tls(&[("ssl.ca.pem", &one_line)]).authorities, expected);
    assert!(tls_refused(&[("ssl.ca.pem", &a), ("ssl.ca.location", path)]).contains("leave one out"));
    assert!(tls_refused(&[("ssl.ca.pem", "text")]).contains("BEGIN CERTIFICATE"));
    assert!(tls_refused(&[("ssl.ca.location", "/nowhere/ca.pem")]).contains("/nowhere/ca.pem"));
    assert!(tls_refused(&[pem, ("ssl.truststore.password", "x")]).contains("ssl.truststore.password"));
}

#[test]
fn javas_other_stores_are_refused_with_the_command_that_converts_them() {
    let e = tls_refused(&[("ssl.truststore.type", "JKS"), ("ssl.truststore.location", "a.jks")]);
    assert!(e.contains("keytool -importkeystore") && e.contains("-nokeys -out ca.pem"), "{e}");
    let e = tls_refused(&[("ssl.keystore.type", "PKCS12"), ("ssl.keystore.password", "x")]);
    assert!(!e.contains("keytool") && e.contains("openssl pkcs12 -in STORE.p12 -out client.pem"), "{e}");
    let file = tempfile::NamedTempFile::new().unwrap();
    for (bytes, kind) in [(&[0xfe, 0xed, 0xfe, 0xed, 0][..], "JKS"), (&[0x30, 0x82], "PKCS12")] {
        std::fs::write(file.path(), bytes).unwrap();
        let e = tls_refused(&[("ssl.truststore.location", file.path().to_str().unwrap())]);
        assert!(e.contains(kind) && e.contains("openssl pkcs12"), "{e}");
    }
}

#[test]
fn a_clients_key_is_read_decrypted_and_must_fit_its_certificate() {
    let authority = Certificate::authority("a");
    let own = authority.issue(&["client"], VALID);
    let chain = format!("{}{}", own.pem(), authority.pem());
    let expected = Some(Identity { chain: chain.clone(), key: own.key_pem().into() });
    let encrypted = own.key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), b"hunter2").unwrap();
    let encrypted = String::from_utf8(encrypted).unwrap();

    let with_chain =
        |more: &[(&str, &str)]| tls(&[&[("ssl.keystore.certificate.chain", chain.as_str())], more].concat());
    assert_eq!(with_chain(&[("ssl.keystore.key", &own.key_pem())]).identity, expected);
    let password = ("ssl.key.password", "hunter2");
    assert_eq!(with_chain(&[("ssl.key.pem", &encrypted), password]).identity, expected);
    let store = tempfile::NamedTempFile::new().unwrap();
    let path = store.path().to_str().unwrap();
    std::fs::write(path, format!("{encrypted}{chain}")).unwrap();
    assert_eq!(tls(&[("ssl.keystore.location", path), password]).identity, expected);
    assert_eq!(
        tls(&[("ssl.certificate.location", path), ("ssl.key.location", path), password]).identity,
        expected
    );
    // librdkafka finds the same in what it is given.
    let tls = with_chain(&[("ssl.key.pem", &encrypted), password]);
    let security = Security { tls: Some(tls), sasl: None };
    assert_eq!(security.data_path()["ssl.key.pem"], own.key_pem());

    let refused =
        |more: &[(&str, &str)]| tls_refused(&[&[("ssl.certificate.pem", chain.as_str())], more].concat());
    assert!(refused(&[("ssl.key.pem", &encrypted)]).contains("ssl.key.password is missing"));
    let e = refused(&[("ssl.key.pem", &encrypted), ("ssl.key.password", "hunter3")]);
    assert!(e.contains("does not decrypt") && !e.contains("hunter3"), "{e}");
    assert!(refused(&[("ssl.key.pem", &authority.key_pem())]).contains("does not belong"));
    assert!(refused(&[("ssl.key.pem", "text")]).contains("BEGIN PRIVATE KEY"));
    assert!(refused(&[]).contains("no key"));
    assert!(tls_refused(&[("ssl.key.pem", &own.key_pem())]).contains("no certificate"));
    assert!(tls_refused(&[password]).contains("no key"));
}

#[test]
fn names_are_checked_unless_turned_off() {
    let key = "ssl.endpoint.identification.algorithm";
    assert!(tls(&[]).check_names && tls(&[(key, "HTTPS")]).check_names);
    for off in ["", " ", "none"] {
        let tls = tls(&[(key, off)]);
        assert!(!tls.check_names);
        let security = Security { tls: Some(tls), sasl: None };
        assert_eq!(security.data_path()[key], "none");
    }
    assert!(tls_refused(&[(key, "ldaps")]).contains("https"));
    tls(&[("ssl.enabled.protocols", "TLSv1.3, TLSv1.2")]);
    assert!(tls_refused(&[("ssl.enabled.protocols", "TLSv1.3")]).contains("brokers'"));
}

#[test]
fn logins_are_read_by_javas_names_and_by_librdkafkas() {
    let jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"hunter2\";";
    let expected = Sasl {
        mechanism: Mechanism::ScramSha512,
        username: "alice".into(),
        password: "hunter2".to_owned().into(),
    };
    let mechanism = ("sasl.mechanism", "SCRAM-SHA-512");
    assert_eq!(sasl(&[mechanism, ("sasl.jaas.config", jaas)]).unwrap(), expected);
    assert_eq!(sasl(&[("sasl.mechanisms", "SCRAM-SHA-512"), ALICE[0], ALICE[1]]).unwrap(), expected);

    let refused = |pairs: &[(&str, &str)]| sasl(pairs).expect_err("must be refused");
    assert!(refused(&[mechanism, ("sasl.jaas.config", jaas), ALICE[0]]).contains("leave one out"));
    assert!(refused(&[mechanism, ("sasl.mechanisms", "PLAIN")]).contains("leave one out"));
    assert!(refused(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", jaas)]).contains("PlainLoginModule"));
    assert!(refused(&[mechanism]).contains("sasl.jaas.config"));
    assert!(refused(&[mechanism, ALICE[0]]).contains("sasl.password is missing"));
    assert!(refused(&[mechanism, ALICE[1]]).contains("sasl.username is missing"));
    assert!(
        refused(&[mechanism, ("sasl.jaas.config", "ScramLoginModule required username=a;")])
            .contains("password")
    );
    let token = jaas.replace("required", "required tokenauth=true");
    assert!(refused(&[mechanism, ("sasl.jaas.config", &token)]).contains("delegation tokens"));
}

#[test]
fn what_is_not_supported_is_refused_in_words() {
    let refused = |pairs: &[(&str, &str)]| sasl(pairs).expect_err("must be refused");
    assert!(refused(&[]).contains("Kerberos"));
    assert!(refused(&[("sasl.mechanism", "GSSAPI")]).contains("Kerberos"));
    assert!(refused(&[("sasl.mechanism", "OAUTHBEARER")]).contains("OAuth"));
    assert!(refused(&[("sasl.mechanism", "DIGEST-MD5")]).contains("SCRAM-SHA-256"));
    assert!(refused(&[("sasl.kerberos.service.name", "kafka")]).contains("Kerberos"));
    assert!(refused(&[("sasl.oauthbearer.token.endpoint.url", "x")]).contains("OAuth"));
    assert!(refused(&[("enable.ssl.certificate.verification", "false")]).contains("always verified"));
    let oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;";
    assert!(refused(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", oauth)]).contains("OAuth"));
}
