//! From an address to a stream of bytes: names, TCP, TLS.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::call::RequestError;
use super::tls::{Connector, Failure};
use crate::consumer::config::Address;

/// A connection, encrypted or not.
pub(super) type Socket = Box<dyn Stream>;

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Connects to the first of a name's addresses that takes the connection (`client.dns.lookup=use_all_dns_ips`), with so much time for
/// each of them, and for TLS.
pub(super) async fn connect(
    address: &Address,
    tls: Option<&Connector>,
    limit: Duration,
) -> Result<Socket, RequestError> {
    let failed = |reason: String| RequestError::Connect { address: address.clone(), reason };
    let late = |what: &str| failed(format!("{what} within {limit:?}"));
    let stream = tcp(address, limit).await.map_err(failed)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    match timeout(limit, tls.connect(&address.host, stream)).await {
        Err(_) => Err(late("no end of the TLS handshake")),
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(Failure::Broken(reason))) => Err(failed(reason)),
        Ok(Err(Failure::Refused(reason))) => {
            Err(RequestError::Authentication { address: address.clone(), reason })
        }
    }
}

async fn tcp(address: &Address, limit: Duration) -> Result<TcpStream, String> {
    let found = timeout(limit, lookup_host((address.host.as_str(), address.port)));
    let found: Vec<SocketAddr> = match found.await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(e)) => return Err(format!("the name is not found: {e}")),
        Err(_) => return Err(format!("the name is not found within {limit:?}")),
    };
    let several = found.len() > 1;
    let mut problems = Vec::new();
    for ip in found {
        let problem = match timeout(limit, TcpStream::connect(ip)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(|e| e.to_string())?;
                return Ok(stream);
            }
            Ok(Err(e)) => e.to_string(),
            Err(_) => format!("no answer within {limit:?}"),
        };
        problems.push(if several { format!("{}: {problem}", ip.ip()) } else { problem });
    }
    Err(if problems.is_empty() { "its name has no address".to_owned() } else { problems.join("; ") })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn each_address_of_a_name_is_tried_until_one_takes_the_connection() {
        // The name has ::1 as well, where there is IPv6, and nobody listens there.
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address { host: "localhost".into(), port };
        connect(&address, None, LIMIT).await.unwrap();
        drop(listener);
        let text = connect(&address, None, LIMIT).await.err().unwrap().to_string();
        assert!(text.contains("localhost") && text.contains("refused"), "{text}");
    }

    #[tokio::test]
    async fn a_name_that_is_not_found_is_told() {
        let address = Address { host: "nowhere.invalid".into(), port: 1 };
        let text = connect(&address, None, LIMIT).await.err().unwrap().to_string();
        assert!(text.contains("the name is not found"), "{text}");
    }
}
