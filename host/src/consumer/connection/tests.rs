use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse, SyncGroupRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn settings(request_timeout: Duration) -> Rc<Settings> {
    Rc::new(Settings {
        client_id: "test".into(),
        connect_timeout: Duration::from_secs(5),
        request_timeout,
        caps: [("Heartbeat".to_owned(), 3)].into(),
    })
}

/// A broker that gives these answers in turn, whatever it is asked, to one connection.
async fn broker(answers: Vec<Vec<u8>>) -> (Address, tokio::task::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut requests = Vec::new();
        for answer in answers {
            let size = stream.read_i32().await.unwrap();
            let mut request = vec![0; usize::try_from(size).unwrap()];
            stream.read_exact(&mut request).await.unwrap();
            requests.push(request);
            stream.write_all(&answer).await.unwrap();
        }
        // Stays open until the client hangs up.
        let _ = stream.read(&mut [0]).await;
        requests
    });
    (Address { host: "127.0.0.1".into(), port }, served)
}

fn frame(body: &[u8]) -> Vec<u8> {
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

async fn beat(address: Address, limit: Duration) -> Result<HeartbeatResponse, RequestError> {
    Channel::new(address, settings(limit)).call(|_| HeartbeatRequest::default()).await
}

#[tokio::test]
async fn an_older_broker_is_asked_again_and_versions_are_capped() {
    let ok = frame(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 27]);
    let (address, served) = broker(vec![unsupported(), offers_heartbeat(), ok]).await;
    let answer = beat(address, Duration::from_secs(5)).await.unwrap();
    assert_eq!(answer.error_code, 27);
    let requests = served.await.unwrap();
    let versions: Vec<_> = requests.iter().map(|r| (r[1], r[3])).collect();
    assert_eq!(versions, [(18, 4), (18, 0), (12, 3)]);
}

#[tokio::test]
async fn a_frame_that_claims_too_much_is_refused_before_it_is_read() {
    for claim in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff]] {
        let (address, _served) = broker(vec![claim.to_vec()]).await;
        let error = beat(address, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(error, RequestError::FrameTooLarge { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_correlation_id_a_short_answer_and_garbage_are_errors() {
    for answer in
        [frame(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 27]), frame(&[0, 0, 0, 3, 0]), frame(&[]), frame(&[0xff; 3])]
    {
        let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), answer]).await;
        let error = beat(address, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(error, RequestError::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn no_answer_ends_in_a_time_out() {
    let (address, _served) = broker(vec![unsupported(), offers_heartbeat(), vec![]]).await;
    let error = beat(address, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, RequestError::Timeout { api: "Heartbeat", .. }), "{error}");
}

#[tokio::test]
async fn an_api_that_the_broker_does_not_offer_is_named() {
    let (address, _served) = broker(vec![unsupported(), offers_heartbeat()]).await;
    let channel = Channel::new(address, settings(Duration::from_secs(5)));
    let error = channel.call(|_| SyncGroupRequest::default()).await.unwrap_err();
    assert!(error.to_string().contains("SyncGroup"), "{error}");
}
