//! TLS and SASL on a real broker: what logs in, stays logged in, and what is refused and why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use assignor_host::consumer::{ConsumerConfig, ConsumerError, GroupEvent};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::broker::{Cluster, Options};
use crate::test_certificates::{Certificate, EXPIRED, VALID};
use crate::watched::{PATIENCE, Seen, Watched, properties};

const TOPIC: &str = "secret";
const PARTITIONS: u32 = 2;
const PASSWORD: &str = "ａlice's secret";

/// How long a login lasts at the listener SHORT.
const LOGIN: Duration = Duration::from_secs(4);

/// A broker with a listener of each kind, and the files to reach it with.
struct Stage {
    cluster: Cluster,
    files: tempfile::TempDir,
}

static STAGE: LazyLock<Stage> = LazyLock::new(Stage::new);

impl Stage {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let (brokers, clients) = (Certificate::authority("brokers"), Certificate::authority("clients"));
        let write = |name: &str, text: &str| -> PathBuf {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let pair = |certificate: &Certificate| format!("{}{}", certificate.key_pem(), certificate.pem());
        write("ca.pem", &brokers.pem());
        write("other-ca.pem", &Certificate::authority("others").pem());
        write("client.pem", &pair(&clients.issue(&["alice"], VALID)));
        write("stranger.pem", &pair(&brokers.issue(&["alice"], VALID)));
        let good = write("broker.pem", &pair(&brokers.issue(&["127.0.0.1"], VALID)));
        let expired = write("expired.pem", &pair(&brokers.issue(&["127.0.0.1"], EXPIRED)));
        let misnamed = write("misnamed.pem", &pair(&brokers.issue(&["broker.example"], VALID)));
        let clients = write("clients.pem", &clients.pem());

        let mut options = Options::nodes(1);
        let mut set = |key: String, value: &str| options = std::mem::take(&mut options).set(&key, value);
        let store = |path: &Path| path.to_str().unwrap().to_owned();
        for (listener, keys) in [
            ("tls", &good),
            ("mutual", &good),
            ("both", &good),
            ("expired", &expired),
            ("misnamed", &misnamed),
        ] {
            set(format!("listener.name.{listener}.ssl.keystore.type"), "PEM");
            set(format!("listener.name.{listener}.ssl.keystore.location"), &store(keys));
        }
        set("listener.name.mutual.ssl.client.auth".into(), "required");
        set("listener.name.mutual.ssl.truststore.type".into(), "PEM");
        set("listener.name.mutual.ssl.truststore.location".into(), &store(&clients));
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"{PASSWORD}\";"
        );
        for (listener, mechanisms) in [
            ("login", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
            ("both", "PLAIN,SCRAM-SHA-512"),
            ("short", "SCRAM-SHA-512"),
        ] {
            set(format!("listener.name.{listener}.sasl.enabled.mechanisms"), mechanisms);
            for mechanism in mechanisms.split(',') {
                let config = if mechanism == "PLAIN" { &plain } else { scram };
                let mechanism = mechanism.to_ascii_lowercase();
                set(format!("listener.name.{listener}.{mechanism}.sasl.jaas.config"), config);
                let short = format!("listener.name.{listener}.{mechanism}.connections.max.reauth.ms");
                set(short, &if listener == "short" { LOGIN.as_millis() } else { 0 }.to_string());
            }
        }
        for (name, protocol) in [
            ("TLS", "SSL"),
            ("MUTUAL", "SSL"),
            ("EXPIRED", "SSL"),
            ("MISNAMED", "SSL"),
            ("LOGIN", "SASL_PLAINTEXT"),
            ("SHORT", "SASL_PLAINTEXT"),
            ("BOTH", "SASL_SSL"),
        ] {
            options = options.listener(name, protocol);
        }
        for digest in ["256", "512"] {
            options = options.credential(&format!("SCRAM-SHA-{digest}=[name=alice,password=\"{PASSWORD}\"]"));
        }
        let cluster = Cluster::start(&options);
        cluster.admin().create_topic(TOPIC, PARTITIONS);
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", cluster.bootstrap()).create().unwrap();
        for partition in 0..i32::try_from(PARTITIONS).unwrap() {
            let record = BaseRecord::<(), str>::to(TOPIC).partition(partition).payload("told");
            producer.send(record).map_err(|(e, _)| e).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        Self { cluster, files }
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    fn watch(&self, group: &str, listener: &str, more: &[(&str, &str)]) -> Watched {
        let servers = self.cluster.servers(listener);
        Watched::new(properties(&servers, group, more), &[TOPIC])
    }

    /// The refusal that `poll` reports, as text, which holds no password.
    fn refusal(&self, group: &str, listener: &str, more: &[(&str, &str)]) -> String {
        let refused = self.watch(group, listener, more);
        let error = refused.wait("it is refused", |seen| seen.errors.first().cloned());
        assert!(matches!(error, ConsumerError::Authentication { .. }), "{error}");
        assert!(error.is_retriable() && refused.owned().is_empty());
        tells_no_secret(&refused, more);
        error.to_string()
    }

    /// What the consumer tells of a broker that hangs up, as it does on who speaks another protocol.
    fn trouble(&self, group: &str, listener: &str, more: &[(&str, &str)], advice: &str) {
        let refused = self.watch(group, listener, more);
        refused.wait(advice, |seen| {
            seen.group
                .iter()
                .find(|e| matches!(e, GroupEvent::Trouble { message } if message.contains(advice)))
                .cloned()
        });
        tells_no_secret(&refused, more);
    }
}

fn tells_no_secret(watched: &Watched, properties: &[(&str, &str)]) {
    let told = watched.look(|seen: &Seen| {
        let errors: Vec<String> = seen.errors.iter().map(ToString::to_string).collect();
        format!("{:?} {:?} {errors:?} {:?}", seen.group, seen.errors, seen.strategy)
    });
    for (key, secret) in properties {
        assert!(!key.ends_with("password") || !told.contains(secret), "{told}");
    }
}

const MECHANISM: &str = "sasl.mechanism";
const PROTOCOL: &str = "security.protocol";
const CA: &str = "ssl.truststore.location";
const USER: (&str, &str) = ("sasl.username", "alice");
const LOGGED: (&str, &str) = ("sasl.password", PASSWORD);

#[test]
fn records_come_through_every_protocol_and_mechanism_and_are_committed() {
    let stage = &*STAGE;
    let (ca, own) = (stage.file("ca.pem"), stage.file("client.pem"));
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"{PASSWORD}\";"
    );
    let ssl = [(PROTOCOL, "SSL"), ("ssl.truststore.type", "PEM"), (CA, &*ca)];
    let sasl = (PROTOCOL, "SASL_PLAINTEXT");
    let both = [(PROTOCOL, "SASL_SSL"), ("ssl.ca.location", &*ca)];
    let cases: [(&str, Vec<(&str, &str)>); 7] = [
        ("TLS", ssl.to_vec()),
        ("MUTUAL", [&ssl[..], &[("ssl.keystore.location", &*own)]].concat()),
        ("LOGIN", vec![sasl, (MECHANISM, "PLAIN"), USER, LOGGED]),
        ("LOGIN", vec![sasl, (MECHANISM, "SCRAM-SHA-256"), USER, LOGGED]),
        ("LOGIN", vec![sasl, (MECHANISM, "SCRAM-SHA-512"), USER, LOGGED]),
        ("BOTH", [&both[..], &[(MECHANISM, "SCRAM-SHA-512"), ("sasl.jaas.config", &*jaas)]].concat()),
        ("BOTH", [&both[..], &[("sasl.mechanisms", "PLAIN"), USER, LOGGED]].concat()),
    ];
    let groups: Vec<String> = (0..cases.len()).map(|number| format!("logged-in-{number}")).collect();
    let members: Vec<Watched> = groups
        .iter()
        .zip(&cases)
        .map(|(group, (listener, more))| stage.watch(group, listener, more))
        .collect();
    for (member, (listener, more)) in members.into_iter().zip(&cases) {
        member.wait(&format!("{listener} {more:?}"), |seen| {
            (seen.records == PARTITIONS as usize).then_some(())
        });
        member.consumer.commit().unwrap();
        member.look(|seen| assert_eq!(seen.errors, [], "{listener}"));
        tells_no_secret(&member, more);
        member.close();
    }
}

#[test]
fn kip_368_logins_are_renewed_on_the_connections_that_are_there() {
    let stage = &*STAGE;
    let more = [(PROTOCOL, "SASL_PLAINTEXT"), (MECHANISM, "SCRAM-SHA-512"), USER, LOGGED];
    let member = stage.watch("renewed", "SHORT", &more);
    member.wait("it reads", |seen| (seen.records == PARTITIONS as usize).then_some(()));
    let port: u16 = stage.cluster.servers("SHORT").rsplit(':').next().unwrap().parse().unwrap();
    // The broker closes a connection whose login is over at its next request; heartbeats and fetches go on all the time.
    let before = connections_to(port);
    let begun = Instant::now();
    while begun.elapsed() < LOGIN * 3 {
        std::thread::sleep(Duration::from_millis(100));
        member.consumer.commit().unwrap();
    }
    let after = connections_to(port);
    // Those for heartbeats and commits, for metadata and for records would all be others. On a busy machine one request may come too
    // late, once.
    let anew = before.difference(&after).count();
    assert!(before.len() > 2 && anew <= 1, "of {before:?} there are {after:?}");
    member.look(|seen| {
        assert_eq!(seen.errors, []);
        let lost =
            seen.group.iter().any(|e| matches!(e, GroupEvent::Lost { .. } | GroupEvent::Trouble { .. }));
        assert!(!lost, "{:?}", seen.group);
    });
    member.close();
}

/// The local ends of connections to this port of the loopback interface.
fn connections_to(port: u16) -> BTreeSet<String> {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&&*remote) && row.get(3) == Some(&ESTABLISHED))
        .map(|row| row[1].to_owned())
        .collect()
}

#[test]
fn a_login_that_is_refused_is_told_by_the_broker_in_words() {
    let stage = &*STAGE;
    let sasl = (PROTOCOL, "SASL_PLAINTEXT");
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for (name, password) in [("alice", "hunter2"), ("mallory", "hunter2")] {
            let more = [sasl, (MECHANISM, mechanism), ("sasl.username", name), ("sasl.password", password)];
            let text = stage.refusal("wrong", "LOGIN", &more);
            assert!(text.contains("Authentication failed"), "{text}");
        }
    }
    let ca = stage.file("ca.pem");
    let more = [(PROTOCOL, "SASL_SSL"), (CA, &*ca), (MECHANISM, "SCRAM-SHA-256"), USER, LOGGED];
    let text = stage.refusal("disabled", "BOTH", &more);
    assert!(text.contains("sasl.mechanism=SCRAM-SHA-256 is not enabled there, but "), "{text}");
    assert!(text.contains("SCRAM-SHA-512") && text.contains("PLAIN"), "{text}");
}

#[test]
fn a_certificate_that_is_refused_by_either_side_is_explained() {
    let stage = &*STAGE;
    let (ca, other, stranger) =
        (stage.file("ca.pem"), stage.file("other-ca.pem"), stage.file("stranger.pem"));
    let ssl = (PROTOCOL, "SSL");
    let text = stage.refusal("unknown", "TLS", &[ssl, (CA, &other)]);
    assert!(text.contains("ssl.truststore.location"), "{text}");
    let text = stage.refusal("unknown", "TLS", &[ssl]);
    assert!(text.contains("ssl.truststore.location"), "{text}");
    let text = stage.refusal("expired", "EXPIRED", &[ssl, (CA, &ca)]);
    assert!(text.contains("has expired"), "{text}");
    let text = stage.refusal("misnamed", "MISNAMED", &[ssl, (CA, &ca)]);
    assert!(text.contains("not for 127.0.0.1"), "{text}");
    let text = stage.refusal("anonymous", "MUTUAL", &[ssl, (CA, &ca)]);
    assert!(text.contains("ssl.keystore.location"), "{text}");
    let text = stage.refusal("stranger", "MUTUAL", &[ssl, (CA, &ca), ("ssl.keystore.location", &stranger)]);
    assert!(text.contains("ssl.keystore.location"), "{text}");

    let unchecked = [ssl, (CA, &ca), ("ssl.endpoint.identification.algorithm", "")];
    let member = stage.watch("unchecked", "MISNAMED", &unchecked);
    member.wait("it reads", |seen| (seen.records == PARTITIONS as usize).then_some(()));
    member.close();
}

#[test]
fn a_listener_that_speaks_another_protocol_is_told_with_the_property_to_set() {
    let stage = &*STAGE;
    let ca = stage.file("ca.pem");
    let login = [(MECHANISM, "PLAIN"), USER, LOGGED];
    // Some a broker answers, so that there is no doubt; on others it hangs up.
    let text =
        stage.refusal("no-login", "PLAINTEXT", &[&[(PROTOCOL, "SASL_PLAINTEXT")], &login[..]].concat());
    assert!(text.contains("asks for no login"), "{text}");
    stage.trouble("no-tls", "PLAINTEXT", &[(PROTOCOL, "SSL"), (CA, &ca)], "PLAINTEXT or SASL_PLAINTEXT");
    stage.trouble("login", "LOGIN", &[], "SASL_SSL or SASL_PLAINTEXT");
    stage.trouble("login-by-tls", "BOTH", &[(PROTOCOL, "SSL"), (CA, &ca)], "SASL_SSL or SASL_PLAINTEXT");
    let plain = stage.watch("tls", "TLS", &[]);
    plain.wait("the property is named", |seen| {
        let errors = seen.errors.iter().map(ToString::to_string);
        let told = errors.chain(seen.group.iter().map(|e| format!("{e:?}")));
        told.into_iter().find(|text| text.contains("SSL or SASL_SSL"))
    });
}

#[test]
fn one_living_server_of_several_is_enough() {
    let stage = &*STAGE;
    let servers = format!("127.0.0.1:1,nowhere.invalid:9092,{}", stage.cluster.bootstrap());
    let member = Watched::new(properties(&servers, "several", &[]), &[TOPIC]);
    member.wait("it reads", |seen| (seen.records == PARTITIONS as usize).then_some(()));
    member.close();
}

#[test]
fn a_configuration_that_can_not_work_is_refused_before_anything_is_connected() {
    let ca = STAGE.file("no-such-file.pem");
    let given = properties("127.0.0.1:1", "g", &[(PROTOCOL, "SSL"), (CA, &ca)]);
    let error = ConsumerConfig::from_properties(given).unwrap_err();
    assert!(error.to_string().contains("no-such-file.pem"), "{error}");
}
