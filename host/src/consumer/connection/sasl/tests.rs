use std::cell::RefCell;
use std::rc::Rc;

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsResponse, HeartbeatResponse, SaslHandshakeResponse};
use kafka_protocol::protocol::Encodable;

use super::*;
use crate::consumer::config::ConsumerConfig;
use crate::consumer::connection::Channel;
use crate::consumer::connection::tests::{beat, broker, frame};
use crate::consumer::error::ConsumerError;

/// Frames of answers, none of a flexible version, to requests 1, 2, …
fn frames(answers: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let numbered = (1u8..).zip(answers);
    numbered.map(|(id, answer)| frame(&[vec![0, 0, 0, id], answer].concat())).collect()
}

fn body(answer: &impl Encodable, version: i16) -> Vec<u8> {
    let mut body = Vec::new();
    answer.encode(&mut body, version).unwrap();
    body
}

fn offers() -> Vec<u8> {
    let api = |key, most| ApiVersion::default().with_api_key(key).with_max_version(most);
    // Heartbeat, SaslHandshake, SaslAuthenticate.
    body(&ApiVersionsResponse::default().with_api_keys(vec![api(12, 3), api(17, 1), api(36, 1)]), 0)
}

fn handshake(code: i16) -> Vec<u8> {
    let offered = ["SCRAM-SHA-512", "OTHER\n"].map(StrBytes::from_static_str).to_vec();
    body(&SaslHandshakeResponse::default().with_error_code(code).with_mechanisms(offered), 1)
}

fn authenticated(lifetime_ms: i64) -> Vec<u8> {
    body(&SaslAuthenticateResponse::default().with_session_lifetime_ms(lifetime_ms), 1)
}

fn alive() -> Vec<u8> {
    body(&HeartbeatResponse::default(), 3)
}

/// A channel that logs in by PLAIN, and what it reports.
fn channel(address: crate::consumer::Address) -> (Channel, Rc<RefCell<Vec<ConsumerError>>>) {
    let properties = [
        ("bootstrap.servers", "a:1"),
        ("group.id", "g"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "alice"),
        ("sasl.password", "hunter2"),
        ("assignor.api.max.versions", "ApiVersions:0"),
    ];
    let properties = properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let config = ConsumerConfig::from_properties(properties).unwrap();
    let reported: Rc<RefCell<Vec<ConsumerError>>> = Rc::default();
    let reports = Rc::clone(&reported);
    let settings = Settings::new(&config, move |error| reports.borrow_mut().push(error)).unwrap();
    (Channel::new(address, settings), reported)
}

fn api_keys(requests: &[Vec<u8>]) -> Vec<u8> {
    requests.iter().map(|r| r[1]).collect()
}

#[tokio::test]
async fn a_connection_logs_in_before_its_first_request_and_once() {
    let answers = [offers(), handshake(0), authenticated(0), alive(), alive()];
    let (address, served) = broker(frames(answers)).await;
    let (channel, reported) = channel(address);
    beat(&channel).await.unwrap();
    beat(&channel).await.unwrap();
    drop(channel);
    let requests = served.await.unwrap();
    assert_eq!(api_keys(&requests), [18, 17, 36, 12, 12]);
    assert!(requests[2].ends_with(b"\0alice\0hunter2"));
    assert!(reported.borrow().is_empty());
}

#[tokio::test]
async fn kip_368_a_login_that_ends_is_renewed_on_its_connection_before_the_next_request() {
    let answers =
        [offers(), handshake(0), authenticated(1), handshake(0), authenticated(3_600_000), alive(), alive()];
    let (address, served) = broker(frames(answers)).await;
    let (channel, _) = channel(address);
    beat(&channel).await.unwrap();
    beat(&channel).await.unwrap();
    drop(channel);
    assert_eq!(api_keys(&served.await.unwrap()), [18, 17, 36, 17, 36, 12, 12]);
}

#[test]
fn a_login_is_renewed_after_85_to_95_percent_of_its_time() {
    let begun = Moment::default();
    for lifetime in [1_000, 3_600_000, i64::MAX] {
        let after = renewal(begun, lifetime).unwrap().since(begun).as_millis();
        let percent = after * 100 / u128::try_from(lifetime).unwrap();
        assert!((84..=95).contains(&percent), "{percent} of {lifetime}");
    }
    assert_eq!(renewal(begun, 0), None);
    assert_eq!(renewal(begun, -1), None);
}

/// The error of a login answered so, as it was reported, too.
async fn refusal(answers: Vec<Vec<u8>>) -> String {
    let (address, _served) = broker(frames(answers)).await;
    let (channel, reported) = channel(address);
    let error = beat(&channel).await.unwrap_err();
    assert!(matches!(&error, RequestError::Authentication { .. }), "{error}");
    let reported = reported.take();
    assert_eq!(reported.iter().map(ConsumerError::code).collect::<Vec<_>>(), ["authentication"]);
    let text = format!("{error:?} {error} {reported:?} {}", reported[0]);
    assert!(!text.contains("hunter2"), "{text}");
    text
}

#[tokio::test]
async fn refusals_are_told_and_reported_without_the_password() {
    let failed = SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some(StrBytes::from_string("no\u{7}such user".repeat(100))));
    let text = refusal(vec![offers(), handshake(0), body(&failed, 1)]).await;
    assert!(text.contains("no such user") && text.len() < 3_000, "{text}");
    let silent = SaslAuthenticateResponse::default().with_error_code(58);
    assert!(refusal(vec![offers(), handshake(0), body(&silent, 1)]).await.contains("error 58"));
    let text = refusal(vec![offers(), handshake(33)]).await;
    assert!(text.contains("PLAIN is not enabled there, but SCRAM-SHA-512, OTHER "), "{text}");
    assert!(refusal(vec![offers(), handshake(34)]).await.contains("asks for no login"));
}
