//! A plain SMTP client: one transaction per connection; all replies are kept.
//!
//! For `gatepost send`, the demo and the tests. It sends a message byte for byte, broken or not; it
//! only stuffs dots and ends the data.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;

/// Longest wait for one reply (RFC 5321 §4.5.3.2.6: 10 minutes after the final dot).
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub struct Transaction<'a> {
    pub helo: &'a str,
    /// MAIL FROM; empty for the null reverse-path.
    pub from: &'a str,
    pub to: &'a [String],
    pub raw: &'a [u8],
}

/// Replies to the steps of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// The reply to MAIL.
    pub mail: String,
    /// The reply to each RCPT, in order.
    pub recipients: Vec<String>,
    /// The reply to the end of data, or to a refused DATA; None if no recipient was accepted.
    pub data: Option<String>,
}

impl Replies {
    /// The reply that decides: to the data, else the first refusal of a recipient, else to MAIL.
    pub fn settling(&self) -> &str {
        let refused = |reply: &&String| !reply.starts_with('2');
        self.data
            .as_deref()
            .or_else(|| self.recipients.iter().find(refused).map(String::as_str))
            .unwrap_or(&self.mail)
    }

    /// Whether the message was accepted.
    pub fn accepted(&self) -> bool {
        self.data.as_deref().is_some_and(|reply| reply.starts_with("250"))
    }
}

/// Delivers one message over one connection. Fails if the connection breaks, is silent for too
/// long, or begins without 220; refusals are returned as replies.
pub async fn deliver(
    server: impl ToSocketAddrs,
    transaction: &Transaction<'_>,
) -> io::Result<Replies> {
    timeout(PATIENCE, converse(server, transaction)).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time"))
    })
}

async fn converse(
    server: impl ToSocketAddrs,
    transaction: &Transaction<'_>,
) -> io::Result<Replies> {
    let mut connection = Connection::over(TcpStream::connect(server).await?);
    let banner = connection.reply().await?;
    if !banner.starts_with("220") {
        return Err(io::Error::other(format!("the server did not greet: {banner}")));
    }
    let greeting = connection.command(&format!("EHLO {}", transaction.helo)).await?;
    let size = if greeting.contains("SIZE") {
        format!(" SIZE={}", transaction.raw.len())
    } else {
        String::new()
    };
    // RFC 6531 §3.4: requested only if the envelope needs it. The message is sent unchanged.
    let is_ascii = transaction.from.is_ascii() && transaction.to.iter().all(|to| to.is_ascii());
    let wanted = !is_ascii && greeting.contains("SMTPUTF8");
    let smtputf8 = if wanted { " SMTPUTF8" } else { "" };
    let mail = format!("MAIL FROM:<{}>{size}{smtputf8}", transaction.from);
    let mail = connection.command(&mail).await?;
    let mut replies = Replies { mail, ..Replies::default() };
    if replies.mail.starts_with('2') {
        for recipient in transaction.to {
            let reply = connection.command(&format!("RCPT TO:<{recipient}>")).await?;
            replies.recipients.push(reply);
        }
    }
    if replies.recipients.iter().any(|reply| reply.starts_with('2')) {
        let go_ahead = connection.command("DATA").await?;
        if go_ahead.starts_with("354") {
            connection.data(transaction.raw).await?;
            replies.data = Some(connection.reply().await?);
        } else {
            replies.data = Some(go_ahead);
        }
    }
    // The transaction is over, whatever the reply to QUIT.
    let _farewell = connection.command("QUIT").await;
    Ok(replies)
}

/// A session over a stream, in clear or encrypted.
pub(super) struct Connection<S> {
    stream: BufReader<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Returns the stream, without what the server has sent already.
    pub(super) fn into_stream(self) -> S {
        self.stream.into_inner()
    }

    pub(super) async fn command(&mut self, line: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).await?;
        self.reply().await
    }

    /// Reads one reply, its lines joined by `\n`. The last line has no dash after its code.
    pub(super) async fn reply(&mut self) -> io::Result<String> {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            reply.push_str(line);
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(reply);
            }
            reply.push('\n');
        }
    }

    async fn data(&mut self, raw: &[u8]) -> io::Result<()> {
        let mut wire = Vec::with_capacity(raw.len() + 64);
        stuff(raw, &mut wire);
        self.stream.get_mut().write_all(&wire).await
    }
}

/// Stuffs dots at line starts, and ends the data (RFC 5321 §4.5.2).
fn stuff(raw: &[u8], wire: &mut Vec<u8>) {
    for line in raw.split_inclusive(|octet| *octet == b'\n') {
        let begins_line = wire.is_empty() || wire.ends_with(b"\r\n");
        if begins_line && line.first() == Some(&b'.') {
            wire.push(b'.');
        }
        wire.extend_from_slice(line);
    }
    if !wire.is_empty() && !wire.ends_with(b"\r\n") {
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b".\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_begin_lines_are_doubled() {
        for (raw, expected) in [
            ("", ".\r\n"),
            (".", "..\r\n.\r\n"),
            ("a\r\n.\r\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\n.b\r\n", "a\n.b\r\n.\r\n"),
            ("a.\r\n", "a.\r\n.\r\n"),
        ] {
            let mut wire = Vec::new();
            stuff(raw.as_bytes(), &mut wire);
            assert_eq!(String::from_utf8(wire).unwrap(), expected, "{raw:?}");
        }
    }
}
