//! `gatepost mcp`: carries MCP between standard input and output and a server's `/mcp`, for programs
//! that start their MCP servers themselves.
//!
//! One message a line, both ways. Each request is one POST, answered by JSON or by a stream of
//! messages. Standard output has nothing but the protocol; everything else goes to standard error.

mod relay;
mod stream;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use self::relay::{Relay, Sent, print, refusal};
use super::Failure;

/// Longest line in bytes: more than any request that a server takes.
const MAX_LINE: u64 = 4 << 20;
/// Requests under way at the same time.
const AT_ONCE: usize = 64;
/// How long requests under way may take once the input has ended.
const GRACE: Duration = Duration::from_secs(10);
/// Invalid JSON (JSON-RPC 2.0 §5.1).
const PARSE_ERROR: i64 = -32_700;

#[derive(Args, Debug)]
#[command(
    after_help = "Prints the messages of the protocol, one a line, and nothing else. The key \
                        comes from the variable or the file: flags are seen by everybody on the \
                        machine."
)]
pub(super) struct Mcp {
    /// The server, like https://mail.example.com
    // Read by `endpoint`: errors of a parser of clap repeat the value.
    #[arg(long, env = "GATEPOST_MCP_URL", value_name = "URL", hide_env_values = true)]
    url: String,
    /// An API key; better by its variable
    #[arg(long, env = "GATEPOST_MCP_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<ApiKey>,
    /// A file whose only line is the API key
    #[arg(long, env = "GATEPOST_MCP_KEY_FILE", value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
}

/// An API key; Debug hides it.
#[derive(Clone)]
struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl From<&str> for ApiKey {
    fn from(key: &str) -> Self {
        Self(key.trim().to_owned())
    }
}

/// The words do not repeat the URL: it may hold a key.
#[derive(Debug, thiserror::Error)]
enum WrongUrl {
    #[error("--url must begin with https:// or http://, like https://mail.example.com")]
    NotWeb,
    #[error(
        "--url must have no name, password, ? or #: a key has its place in GATEPOST_MCP_KEY, or in \
         the file of --key-file"
    )]
    NotBare,
}

/// The URL of the MCP server, below the one that names the gateway. Errors of requests show it.
fn endpoint(text: &str) -> Result<Url, WrongUrl> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
    let mut url = url.ok_or(WrongUrl::NotWeb)?;
    let is_named = !url.username().is_empty() || url.password().is_some();
    if is_named || url.query().is_some() || url.fragment().is_some() {
        return Err(WrongUrl::NotBare);
    }
    if !url.path().trim_end_matches('/').ends_with("/mcp") {
        // Only a URL without a host has no segments.
        url.path_segments_mut().map_err(|()| WrongUrl::NotWeb)?.pop_if_empty().push("mcp");
    }
    Ok(url)
}

impl Mcp {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let relay = Arc::new(Relay::new(endpoint(&self.url)?, &self.key()?.0)?);
        carry(&relay, BufReader::new(tokio::io::stdin())).await?;
        Ok(ExitCode::SUCCESS)
    }

    fn key(&self) -> Result<ApiKey, Failure> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let missing = "a key is missing: set GATEPOST_MCP_KEY, or name a file by --key-file";
        let path = self.key_file.as_ref().ok_or(missing)?;
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("--key-file: cannot read {}: {error}", path.display()))?;
        Ok(ApiKey::from(text.as_str()))
    }
}

/// Carries each line of the input to the server, until the input ends or nobody reads the output.
async fn carry(relay: &Arc<Relay>, mut input: impl AsyncBufRead + Unpin) -> Result<(), Failure> {
    let mut under_way = JoinSet::new();
    while let Some(line) = line(&mut input).await? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            print(&refusal(&Value::Null, PARSE_ERROR, "a line of the input is not JSON"))?;
            continue;
        };
        while under_way.try_join_next().is_some() {}
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        match Sent::of(message) {
            Sent::Cancelled(id) => relay.cancel(&id),
            Sent::Request(request) => {
                let (relay, place) = (Arc::clone(relay), relay.begin(&request));
                under_way.spawn(async move { place.unless_cancelled(relay.ask(&request)).await });
            }
            // In order: a notification may change what the next request means.
            Sent::Other(message) => relay.tell(message).await,
        }
    }
    // Requests that are not answered within it are cut off.
    let finishing = async { while under_way.join_next().await.is_some() {} };
    let _in_time = timeout(GRACE, finishing).await;
    Ok(())
}

/// The next line; None at the end of the input.
async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let read = input.take(MAX_LINE).read_until(b'\n', &mut line).await;
    let read = read.map_err(|error: io::Error| format!("cannot read the input: {error}"))?;
    if u64::try_from(read).is_ok_and(|read| read >= MAX_LINE) && !line.ends_with(b"\n") {
        return Err(format!("a line of the input is longer than {MAX_LINE} bytes").into());
    }
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_made_of_the_url_whatever_its_end() {
        for (text, expected) in [
            ("https://a.example", "https://a.example/mcp"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/mcp"),
            ("https://a.example/mail", "https://a.example/mail/mcp"),
            ("https://a.example/mcp", "https://a.example/mcp"),
        ] {
            assert_eq!(endpoint(text).unwrap().as_str(), expected);
        }
        for wrong in ["", "a.example", "ftp://a.example", "mailto:a@b.example"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
        for secret in
            ["gp_x@a.example", "u:gp_x@a.example", "a.example/?token=gp_x", "a.example#gp_x"]
        {
            let wrong = endpoint(&format!("https://{secret}")).unwrap_err().to_string();
            assert!(wrong.contains("--key-file") && !wrong.contains("gp_x"), "{wrong}");
        }
        assert_eq!(format!("{:?}", ApiKey::from("gp_secret")), "ApiKey(…)");
    }

    #[tokio::test]
    async fn lines_come_one_by_one_and_one_without_an_end_is_bounded() {
        let mut input = BufReader::new(&b"one\n\ntwo"[..]);
        let mut lines = Vec::new();
        while let Some(line) = line(&mut input).await.unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one\n", "\n", "two"]);
        let endless = tokio::io::repeat(b'x');
        assert!(line(&mut BufReader::new(endless)).await.is_err());
    }
}
