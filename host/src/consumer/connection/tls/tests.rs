use openssl::ssl::{SslAcceptor, SslVerifyMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::consumer::config::Identity;
use crate::consumer::test_certificates::{Certificate, EXPIRED, VALID};

/// A server with this certificate, which wants a client's from `clients` if that is given. It sends back one byte.
async fn server(own: Certificate, clients: Option<&Certificate>) -> TcpStream {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
    builder.set_private_key(&own.key).unwrap();
    builder.set_certificate(&own.certificate).unwrap();
    if let Some(authority) = clients {
        let mut store = X509StoreBuilder::new().unwrap();
        store.add_cert(authority.certificate.clone()).unwrap();
        builder.set_verify_cert_store(store.build()).unwrap();
        builder.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    }
    let acceptor = builder.build();
    serve(async move |stream: TcpStream| {
        let mut stream = SslStream::new(openssl::ssl::Ssl::new(acceptor.context()).unwrap(), stream).unwrap();
        if Pin::new(&mut stream).accept().await.is_ok() {
            let byte = stream.read_u8().await.unwrap();
            stream.write_u8(byte).await.unwrap();
        }
    })
    .await
}

/// A connection to what serves it.
async fn serve<F: Future<Output = ()> + 'static>(server: impl FnOnce(TcpStream) -> F + 'static) -> TcpStream {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move { server(listener.accept().await.unwrap().0).await });
    TcpStream::connect(address).await.unwrap()
}

fn trusting(authority: &Certificate) -> Tls {
    Tls { authorities: Some(authority.pem()), identity: None, check_names: true }
}

async fn connect(tls: &Tls, host: &str, stream: TcpStream) -> Result<SslStream<TcpStream>, Failure> {
    Connector::new(tls).unwrap().connect(host, stream).await
}

async fn refused(tls: &Tls, host: &str, stream: TcpStream) -> String {
    match connect(tls, host, stream).await.err() {
        Some(Failure::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

async fn echoes(mut stream: SslStream<TcpStream>) -> io::Result<()> {
    stream.write_u8(7).await?;
    assert_eq!(stream.read_u8().await?, 7);
    Ok(())
}

fn local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_broker_of_a_trusted_authority_is_reached_by_each_name_in_its_certificate() {
    local(async {
        let authority = Certificate::authority("a");
        for host in ["broker.example", "127.0.0.1"] {
            let stream = server(authority.issue(&["broker.example", "127.0.0.1"], VALID), None).await;
            echoes(connect(&trusting(&authority), host, stream).await.unwrap()).await.unwrap();
        }
    });
}

#[test]
fn a_certificate_that_is_not_accepted_is_explained() {
    local(async {
        let (authority, other) = (Certificate::authority("a"), Certificate::authority("b"));
        let tls = trusting(&authority);

        let unknown = server(other.issue(&["host"], VALID), None).await;
        assert!(refused(&tls, "host", unknown).await.contains("ssl.truststore.location"));
        let by_the_system = Tls { authorities: None, ..tls.clone() };
        let unknown = server(authority.issue(&["host"], VALID), None).await;
        assert!(refused(&by_the_system, "host", unknown).await.contains("ssl.truststore.location"));
        let expired = server(authority.issue(&["host"], EXPIRED), None).await;
        assert!(refused(&tls, "host", expired).await.contains("has expired"));
        for host in ["other", "127.0.0.1"] {
            let misnamed = server(authority.issue(&["host"], VALID), None).await;
            let reason = refused(&tls, host, misnamed).await;
            assert!(reason.contains("ssl.endpoint.identification.algorithm"), "{reason}");
            assert!(reason.contains(host), "{reason}");
        }
    });
}

#[test]
fn names_may_be_left_unchecked_and_authorities_never() {
    local(async {
        let authority = Certificate::authority("a");
        let tls = Tls { check_names: false, ..trusting(&authority) };
        let misnamed = server(authority.issue(&["host"], VALID), None).await;
        echoes(connect(&tls, "other", misnamed).await.unwrap()).await.unwrap();
        let unknown = server(Certificate::authority("b").issue(&["other"], VALID), None).await;
        refused(&tls, "other", unknown).await;
    });
}

#[test]
fn a_certificate_that_is_trusted_itself_is_accepted_as_by_java() {
    local(async {
        let alone = Certificate::authority("host");
        let tls = Tls { check_names: false, ..trusting(&alone) };
        let stream = server(alone, None).await;
        echoes(connect(&tls, "host", stream).await.unwrap()).await.unwrap();
    });
}

#[test]
fn a_clients_certificate_is_shown_and_its_lack_is_explained() {
    local(async {
        let (brokers, clients) = (Certificate::authority("a"), Certificate::authority("c"));
        let own = clients.issue(&["client"], VALID);
        let identity = Identity { chain: own.pem(), key: own.key_pem().into() };
        let known = Tls { identity: Some(identity), ..trusting(&brokers) };
        let stream = server(brokers.issue(&["host"], VALID), Some(&clients)).await;
        echoes(connect(&known, "host", stream).await.unwrap()).await.unwrap();

        // In TLS 1.3 the broker says so after the handshake.
        let stream = server(brokers.issue(&["host"], VALID), Some(&clients)).await;
        let stream = connect(&trusting(&brokers), "host", stream).await.unwrap();
        let reason = told(&echoes(stream).await.unwrap_err()).unwrap();
        assert!(reason.contains("ssl.keystore.location"), "{reason}");
    });
}

#[test]
fn a_listener_without_tls_is_recognised() {
    local(async {
        let tls = trusting(&Certificate::authority("a"));
        let hangs_up = serve(async |mut stream: TcpStream| {
            stream.read_u8().await.unwrap();
        })
        .await;
        match connect(&tls, "host", hangs_up).await.err() {
            Some(Failure::Broken(reason)) => assert!(reason.contains("SASL_PLAINTEXT"), "{reason}"),
            other => panic!("{other:?}"),
        }
        let talks = serve(async |mut stream: TcpStream| {
            stream.write_all(&[0, 0, 0, 10, 0, 0, 0, 1, 0, 35, 0, 0, 0, 0]).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await;
        let reason = refused(&tls, "host", talks).await;
        assert!(reason.contains("SASL_PLAINTEXT"), "{reason}");
    });
}
