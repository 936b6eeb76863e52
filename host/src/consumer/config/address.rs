//! Where a broker listens.

/// A broker's host name and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Host name or IP address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not host:port");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}
