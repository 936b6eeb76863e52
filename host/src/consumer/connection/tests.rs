use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse, SyncGroupRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Properties by which a connection is made, besides those that are required.
pub(super) fn settings(properties: &[(&str, &str)]) -> Rc<Settings> {
    settings_of(&[&[("assignor.api.max.versions", "Heartbeat:3")], properties].concat())
}

fn settings_of(properties: &[(&str, &str)]) -> Rc<Settings> {
    let required = [("bootstrap.servers", "a:1"), ("group.id", "g"), ("client.id", "test")];
    let properties = required.iter().chain(properties).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let config = ConsumerConfig::from_properties(properties.collect()).unwrap();
    Settings::new(&config, |_| {}).unwrap()
}

/// Gives these answers in turn, whatever is asked; then it stays until the client hangs up. Returns the requests.
async fn serve(mut stream: TcpStream, answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    for answer in answers {
        requests.push(read_request(&mut stream).await);
        stream.write_all(&answer).await.unwrap();
    }
    let _ = stream.read(&mut [0]).await;
    requests
}

async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let size = stream.read_i32().await.unwrap();
    let mut request = vec![0; usize::try_from(size).unwrap()];
    stream.read_exact(&mut request).await.unwrap();
    request
}

/// A broker that serves one connection.
pub(super) async fn broker(answers: Vec<Vec<u8>>) -> (Address, tokio::task::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, answers).await
    });
    (Address { host: "127.0.0.1".into(), port }, served)
}

pub(super) fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// The answer to the first request: ApiVersions is not known in the version asked.
fn unsupported() -> Vec<u8> {
    frame(&[0, 0, 0, 1, 0, 35, 0, 0, 0, 0])
}

/// The answer to the second: Heartbeat in versions 0 to 4.
fn offers_heartbeat() -> Vec<u8> {
    frame(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 12, 0, 0, 0, 4])
}

fn channel(address: Address) -> Channel {
    Channel::new(address, settings(&[]))
}

pub(super) async fn beat(channel: &Channel) -> Result<HeartbeatResponse, RequestError> {
    channel.call(|_| HeartbeatRequest::default()).await
}

#[tokio::test]
async fn an_older_broker_is_asked_again_and_versions_are_capped() {
    let ok = frame(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 27]);
    let (address, served) = broker(vec![unsupported(), offers_heartbeat(), ok]).await;
    let answer = beat(&channel(address)).await.unwrap();
    assert_eq!(answer.error_code, 27);
    let requests = served.await.unwrap();
    let versions: Vec<_> = requests.iter().map(|r| (r[1], r[3])).collect();
    assert_eq!(versions, [(18, 4), (18, 0), (12, 3)]);
}

#[tokio::test]
async fn a_frame_that_claims_too_much_is_refused_before_it_is_read() {
    for claim in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff]] {
        let (address, _served) = broker(vec![claim.to_vec()]).await;
        let error = beat(&channel(address)).await.unwrap_err();
        assert!(matches!(error, RequestError::FrameTooLarge { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_correlation_id_a_short_answer_and_garbage_are_errors() {
    for answer in
        [frame(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 27]), frame(&[0, 0, 0, 3, 0]), frame(&[]), frame(&[0xff; 3])]
    {
        let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), answer]).await;
        let error = beat(&channel(address)).await.unwrap_err();
        assert!(matches!(error, RequestError::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn no_answer_ends_in_a_time_out() {
    let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), vec![]]).await;
    let hurried = Channel::new(address, settings(&[("request.timeout.ms", "50")]));
    let error = beat(&hurried).await.unwrap_err();
    assert!(matches!(error, RequestError::Timeout { api: "Heartbeat", .. }), "{error}");
}

#[tokio::test]
async fn an_api_that_the_broker_does_not_offer_is_named() {
    let (address, _served) = broker(vec![unsupported(), offers_heartbeat()]).await;
    let error = channel(address).call(|_| SyncGroupRequest::default()).await.unwrap_err();
    assert!(error.to_string().contains("SyncGroup"), "{error}");
}

#[tokio::test]
async fn kip_219_a_throttled_client_waits_before_its_next_request() {
    let throttled = |id, ms: u8| frame(&[0, 0, 0, id, 0, 0, 0, ms, 0, 0]);
    let answers = vec![unsupported(), offers_heartbeat(), throttled(3, 200), throttled(4, 0)];
    let (address, _served) = broker(answers).await;
    let channel = channel(address);
    beat(&channel).await.unwrap();
    let answered = Moment::now();
    beat(&channel).await.unwrap();
    assert!(Moment::now().since(answered) >= Duration::from_millis(195), "the clock may be coarse");
}

#[tokio::test]
async fn a_broker_of_before_kip_219_has_waited_itself() {
    let throttled = HeartbeatResponse::default().with_throttle_time_ms(60_000);
    let waits = |version| <HeartbeatRequest as Call>::throttled(&throttled, version);
    assert_eq!((waits(1), waits(2)), (Duration::ZERO, Duration::from_secs(60)));
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_made_anew() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let answers = [unsupported(), offers_heartbeat(), frame(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 0])];
    tokio::spawn(async move {
        // Each connection counts its requests anew.
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answers.to_vec()));
        }
    });
    let channel = Channel::new(address, settings(&[("connections.max.idle.ms", "1")]));
    for _ in 0..3 {
        beat(&channel).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn what_a_listener_may_want_instead_is_told() {
    // It hangs up on the first request, and on the first after ApiVersions.
    for (answers, advice) in [
        (vec![], "SSL or SASL_SSL"),
        (vec![frame(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 12, 0, 0, 0, 4])], "SASL_SSL or SASL_PLAINTEXT"),
    ] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in answers {
                read_request(&mut stream).await;
                stream.write_all(&answer).await.unwrap();
            }
            read_request(&mut stream).await;
        });
        let caps = [("assignor.api.max.versions", "ApiVersions:0,Heartbeat:3")];
        let error = beat(&Channel::new(address, settings_of(&caps))).await.unwrap_err();
        assert!(matches!(&error, RequestError::Broken { .. }), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[tokio::test]
async fn a_tls_alert_is_recognised_where_an_answer_should_be() {
    let alert = vec![0x15, 0x03, 0x03, 0, 2, 2, 80];
    let (address, _served) = broker(vec![alert]).await;
    let error = beat(&channel(address)).await.unwrap_err();
    assert!(matches!(&error, RequestError::Authentication { .. }), "{error}");
    assert!(error.to_string().contains("SSL or SASL_SSL"), "{error}");
}
