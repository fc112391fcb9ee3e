//! A host and a port. A host name is looked up once, when the server starts.

use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

use super::ConfigError;

/// HOST:PORT as given.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct HostPort {
    text: String,
    is_number: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, like 127.0.0.1:2525")]
pub struct NotHostPort;

impl FromStr for HostPort {
    type Err = NotHostPort;

    fn from_str(text: &str) -> Result<Self, NotHostPort> {
        let is_number = text.parse::<SocketAddr>().ok();
        if is_number.is_none() {
            let (host, port) = text.rsplit_once(':').ok_or(NotHostPort)?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            // No resolver knows a host without a letter: it was meant to be an address.
            let has_letter = host.contains(|c: char| c.is_ascii_alphabetic());
            if !host.chars().all(is_name) || !has_letter || port.parse::<u16>().is_err() {
                return Err(NotHostPort);
            }
        }
        Ok(Self { text: text.to_owned(), is_number })
    }
}

impl TryFrom<String> for HostPort {
    type Error = NotHostPort;

    fn try_from(text: String) -> Result<Self, NotHostPort> {
        text.parse()
    }
}

/// Returns the address of a setting, if it is given. For a name with both families, the IPv4
/// address: clients and examples that say `127.0.0.1` expect it of `localhost`.
pub(super) async fn find(
    setting: &'static str,
    given: Option<&HostPort>,
) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(HostPort { text, is_number }) = given else { return Ok(None) };
    if let Some(address) = is_number {
        return Ok(Some(*address));
    }
    let invalid = |detail: String| ConfigError::Invalid { setting, detail };
    let found = tokio::net::lookup_host(text).await;
    let found: Vec<_> =
        found.map_err(|error| invalid(format!("cannot resolve {text}: {error}")))?.collect();
    let first = found.iter().find(|one| one.is_ipv4()).or(found.first());
    first.copied().map(Some).ok_or_else(|| invalid(format!("{text} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for good in ["127.0.0.1:0", "[::1]:25", "localhost:2625", "mx.example.com:65535"] {
            assert!(good.parse::<HostPort>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "25",
            ":25",
            "localhost",
            "localhost:",
            "localhost:65536",
            "::1:25x",
            "256.0.0.1:25",
            "http://localhost:25",
            "a b:25",
            "localhost:+",
        ] {
            assert_eq!(bad.parse::<HostPort>(), Err(NotHostPort), "{bad}");
        }
    }

    #[tokio::test]
    async fn localhost_is_looked_up_and_ipv4_comes_first() {
        let given = "localhost:2625".parse().unwrap();
        let found = find("--smtp", Some(&given)).await.unwrap().unwrap();
        assert_eq!(found.port(), 2625);
        assert!(found.ip().is_loopback());
        let unknown = "nowhere.invalid:25".parse().unwrap();
        let error = find("--smtp", Some(&unknown)).await.unwrap_err().to_string();
        assert!(error.starts_with("--smtp: cannot resolve nowhere.invalid:25"), "{error}");
        assert_eq!(find("--smtp", None).await.unwrap(), None);
    }
}
