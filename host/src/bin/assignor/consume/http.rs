//! Serves one text over HTTP, for Prometheus to fetch.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at once; more wait.
const CONNECTIONS: usize = 16;

/// For a whole exchange, so that nobody holds a connection for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Serves at `/metrics`, on a thread of its own, as long as the process runs. Gives the address, whose port may have been 0.
///
/// # Errors
/// If the address can't be listened on, or no thread be started.
pub(super) fn serve(
    address: SocketAddr,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> anyhow::Result<SocketAddr> {
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("cannot serve metrics at {address}"))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name("assignor-metrics".into()).spawn(move || {
        runtime.block_on(async {
            if let Err(e) = accept(listener, Arc::new(text)).await {
                tracing::error!(error = %e, "metrics are not served any more");
            }
        });
    })?;
    Ok(address)
}

async fn accept(
    listener: std::net::TcpListener,
    text: Arc<impl Fn() -> String + Send + Sync + 'static>,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                // Such as no free file descriptor: that passes.
                tracing::debug!(error = %e, "metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let text = Arc::clone(&text);
        tokio::spawn(async move {
            let _permit = permit;
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.method(), request.uri().path(), &*text);
                async move { Ok::<_, Infallible>(answer) }
            });
            let exchange = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(LIMIT, exchange).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::debug!(error = %e, "metrics"),
                Err(_) => tracing::debug!("a reader of metrics was too slow"),
            }
        });
    }
}

fn answer(method: &Method, path: &str, text: &impl Fn() -> String) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text())
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "metrics are at /metrics\n".into())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "GET only\n".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn fetch(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_text_is_served_as_it_is_now_and_nothing_else_is() {
        let count = std::sync::atomic::AtomicU32::new(0);
        let text = move || format!("n {}\n", count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let address = serve("127.0.0.1:0".parse().unwrap(), text).unwrap();
        for n in 0..2 {
            let answer = fetch(address, "GET /metrics");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(
                answer.contains("openmetrics-text") && answer.ends_with(&format!("\r\n\r\nn {n}\n")),
                "{answer}"
            );
        }
        assert!(fetch(address, "GET /").starts_with("HTTP/1.1 404"));
        assert!(fetch(address, "POST /metrics").starts_with("HTTP/1.1 405"));
        // Who connects and says nothing holds up nobody.
        let _mute: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        assert!(fetch(address, "GET /metrics").ends_with("n 2\n"));
        let taken = serve(address, String::new).unwrap_err();
        assert!(taken.to_string().contains(&address.to_string()), "{taken:#}");
    }
}
