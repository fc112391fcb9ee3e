//! Reads the client's address from a trusted proxy: the PROXY protocol, versions 1 and 2 (HAProxy,
//! "The PROXY protocol", 2.1 and 2.2).
//!
//! A header precedes everything else. It is read up to its end and no further: the rest, such as a
//! TLS handshake, stays in the socket. Anything not exactly a header is refused: a listener that
//! guesses can be lied to (threats B21).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Version 1: longest line in bytes, with CRLF (2.1). The shortest is `PROXY UNKNOWN`.
const LONGEST_LINE: usize = 107;
const SHORTEST_LINE: usize = 15;
const LINE_START: &[u8] = b"PROXY ";

/// Version 2: the signature, then version and command, family, and the length of the rest (2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED: usize = 16;
/// Senders must not rely on more than fits into the smallest segment (2.2): this leaves 484 bytes
/// for additions after the addresses.
const LONGEST_BLOCK: usize = 536;
/// Type of the addition with the CRC32c of the header (2.2.4).
const CHECKSUM: u8 = 0x03;

/// Networks of trusted proxies. All their connections, and no others, begin with a PROXY header.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies(Arc<[IpNet]>);

impl Proxies {
    pub(super) fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }

    /// Whether the peer at `address` is a trusted proxy.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("timed out waiting for the PROXY header")]
    Late,
    #[error("the connection closed before the PROXY header was complete")]
    Gone(#[source] Option<std::io::Error>),
    #[error("not a valid PROXY header: {0}")]
    Malformed(&'static str),
}

/// Reads the header within `patience`, and nothing after it. Returns the client's address, or None
/// if the proxy speaks for itself (a health check) or does not know the client.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<Option<IpAddr>, Fault> {
    let reading = async {
        let mut header = Vec::with_capacity(FIXED);
        loop {
            let more = match look(&header).map_err(Fault::Malformed)? {
                Progress::Whole(client) => return Ok(client.map(|client| client.to_canonical())),
                Progress::More(octets) => u64::try_from(octets).unwrap_or(0),
            };
            let read = (&mut *stream).take(more).read_buf(&mut header).await;
            if !matches!(read, Ok(1..)) {
                return Err(Fault::Gone(read.err()));
            }
        }
    };
    timeout(patience, reading).await.unwrap_or(Err(Fault::Late))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// At least this many more bytes belong to the header.
    More(usize),
    Whole(Option<IpAddr>),
}

/// Parses a header as far as it has come.
fn look(header: &[u8]) -> Result<Progress, &'static str> {
    let begins = |start: &[u8]| {
        let common = header.len().min(start.len());
        header.get(..common) == start.get(..common)
    };
    if header.is_empty() {
        Ok(Progress::More(SHORTEST_LINE.min(FIXED)))
    } else if begins(LINE_START) {
        line(header)
    } else if begins(SIGNATURE) {
        block(header)
    } else {
        Err("it starts neither with PROXY nor with the signature of version 2")
    }
}

/// Version 1. Never asks for bytes after the line end, so `header` ends where the line ends.
fn line(header: &[u8]) -> Result<Progress, &'static str> {
    if let Some(line) = header.strip_suffix(b"\r\n") {
        let line = line.strip_prefix(LINE_START).ok_or("the line is too short")?;
        let line = str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
        return client_of_line(line).map(Progress::Whole);
    }
    let (last, before) = header.split_last().ok_or("the line is empty")?;
    if before.iter().chain([last]).any(|octet| *octet == b'\n') || before.contains(&b'\r') {
        return Err("the line must end in <CR><LF>");
    }
    let more = if *last == b'\r' { 1 } else { 2 };
    if header.len() + more > LONGEST_LINE {
        return Err("the line is too long");
    }
    Ok(Progress::More(more.max(SHORTEST_LINE.saturating_sub(header.len()))))
}

fn client_of_line(line: &str) -> Result<Option<IpAddr>, &'static str> {
    let mut words = line.split(' ');
    let client: IpAddr = match words.next() {
        // The rest of the line must be ignored.
        Some("UNKNOWN") => return Ok(None),
        Some("TCP4") => pair::<Ipv4Addr>(&mut words)?.into(),
        Some("TCP6") => pair::<Ipv6Addr>(&mut words)?.into(),
        _ => return Err("the protocol is not TCP4, TCP6 or UNKNOWN"),
    };
    for _ in 0..2 {
        let port: Option<u16> = words
            .next()
            .and_then(|word| word.parse().ok().filter(|port: &u16| port.to_string() == *word));
        port.ok_or("a port is not a number from 0 to 65535")?;
    }
    if words.next().is_none() { Ok(Some(client)) } else { Err("the line has surplus words") }
}

/// Returns the source, after checking that the destination is of the same kind.
fn pair<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Result<T, &'static str> {
    let mut next = || words.next().and_then(|word| word.parse::<T>().ok());
    let source = next().ok_or("the source is not an address of the protocol")?;
    next().ok_or("the destination is not an address of the protocol")?;
    Ok(source)
}

/// Version 2.
fn block(header: &[u8]) -> Result<Progress, &'static str> {
    let Some((fixed, rest)) = header.split_first_chunk::<FIXED>() else {
        return Ok(Progress::More(FIXED.saturating_sub(header.len())));
    };
    let [.., command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if FIXED + length > LONGEST_BLOCK {
        return Err("the block is too long");
    }
    // For LOCAL the family must be ignored.
    let addresses = match (command, family) {
        (0x20, _) | (0x21, 0x00) => None,
        (0x21, 0x11) => Some(12),
        (0x21, 0x21) => Some(36),
        // A Unix socket of the proxy's machine.
        (0x21, 0x31) => Some(216),
        (0x21, _) => return Err("the address family is not that of a stream"),
        _ => return Err("unknown version or command"),
    };
    if rest.len() < length {
        return Ok(Progress::More(length - rest.len()));
    }
    let Some(addresses) = addresses else { return Ok(Progress::Whole(None)) };
    let (addresses, added) = rest.split_at_checked(addresses).ok_or("the addresses are cut off")?;
    check_additions(header, added)?;
    let octets = addresses.first_chunk::<16>().filter(|_| family == 0x21);
    let v6 = octets.map(|octets| IpAddr::from(Ipv6Addr::from(*octets)));
    let octets = addresses.first_chunk::<4>().filter(|_| family == 0x11);
    let v4 = octets.map(|octets| IpAddr::from(Ipv4Addr::from(*octets)));
    Ok(Progress::Whole(v4.or(v6)))
}

/// Additions must fill the block exactly. Only the checksum is interpreted.
fn check_additions(header: &[u8], mut added: &[u8]) -> Result<(), &'static str> {
    let cut_off = "a TLV is cut off";
    while let Some((kind, rest)) = added.split_first() {
        let (length, rest) = rest.split_first_chunk().ok_or(cut_off)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (value, rest) = rest.split_at_checked(length).ok_or(cut_off)?;
        if *kind == CHECKSUM {
            let at = header.len() - rest.len() - length;
            let sum: [u8; 4] = value.try_into().map_err(|_| "the checksum is not 4 bytes")?;
            if crc32c(header, at..at + length) != u32::from_be_bytes(sum) {
                return Err("the checksum is wrong");
            }
        }
        added = rest;
    }
    Ok(())
}

/// CRC-32C (RFC 3720 appendix B.4), with the bytes of the checksum itself as zeros.
fn crc32c(octets: &[u8], zeros: std::ops::Range<usize>) -> u32 {
    let mut sum = u32::MAX;
    for (at, octet) in octets.iter().enumerate() {
        sum ^= if zeros.contains(&at) { 0 } else { u32::from(*octet) };
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests;
