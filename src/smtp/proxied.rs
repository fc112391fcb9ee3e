//! Whose connection a trusted proxy passes on: the PROXY protocol, versions 1 and 2 (HAProxy, "The
//! PROXY protocol", 2.1 and 2.2).
//!
//! A header stands before everything else, so it is read octet by octet as far as it goes and no
//! further: what follows, a TLS handshake for one, is left in the socket. Whatever is not exactly a
//! header is none: a listener that guesses can be told lies (threats B21).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Version 1: a line of at most so many octets with CRLF (2.1), and at least those of
/// `PROXY UNKNOWN`.
const LONGEST_LINE: usize = 107;
const SHORTEST_LINE: usize = 15;
const LINE_START: &[u8] = b"PROXY ";

/// Version 2: these, then version and command, family, and the length of the rest (2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED: usize = 16;
/// Senders must not count on more than fits into the smallest segment (2.2): with addresses it
/// leaves 484 octets for what may be added.
const LONGEST_BLOCK: usize = 536;
/// An addition that is the CRC32c of the header (2.2.4).
const CHECKSUM: u8 = 0x03;

/// The networks whose connections begin with a PROXY header, all of them, and nobody else's.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies(Arc<[IpNet]>);

impl Proxies {
    pub(super) fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }

    /// Whether the peer at `address` is one of them.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// Why there is no header.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("no PROXY header came in time")]
    Late,
    #[error("the connection ended before its PROXY header did")]
    Gone(#[source] Option<std::io::Error>),
    #[error("what came is no PROXY header: {0}")]
    Malformed(&'static str),
}

/// Reads the header, which must be there within `patience`, and nothing behind it. Answers the
/// client's address; `None` where the proxy speaks for itself (a health check) or says that it
/// does not know.
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
    /// So many octets more belong to the header in any case.
    More(usize),
    Whole(Option<IpAddr>),
}

/// Looks at what has come of a header.
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
        Err("it begins otherwise")
    }
}

/// Version 1. Nothing behind its end is ever asked for, so that its end is that of `header`.
fn line(header: &[u8]) -> Result<Progress, &'static str> {
    if let Some(line) = header.strip_suffix(b"\r\n") {
        let line = line.strip_prefix(LINE_START).ok_or("the line is too short")?;
        let line = str::from_utf8(line).map_err(|_| "the line is not text")?;
        return client_of_line(line).map(Progress::Whole);
    }
    let (last, before) = header.split_last().ok_or("the line is empty")?;
    if before.iter().chain([last]).any(|octet| *octet == b'\n') || before.contains(&b'\r') {
        return Err("a line ends in <CR><LF>");
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
        // What follows is not to be looked at.
        Some("UNKNOWN") => return Ok(None),
        Some("TCP4") => pair::<Ipv4Addr>(&mut words)?.into(),
        Some("TCP6") => pair::<Ipv6Addr>(&mut words)?.into(),
        _ => return Err("neither TCP4 nor TCP6 nor UNKNOWN"),
    };
    for _ in 0..2 {
        let port: Option<u16> = words
            .next()
            .and_then(|word| word.parse().ok().filter(|port: &u16| port.to_string() == *word));
        port.ok_or("a port is none")?;
    }
    if words.next().is_none() { Ok(Some(client)) } else { Err("the line goes on") }
}

/// The source; the destination is of the same kind.
fn pair<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Result<T, &'static str> {
    let mut next = || words.next().and_then(|word| word.parse::<T>().ok());
    let source = next().ok_or("the source is no such address")?;
    next().ok_or("the destination is no such address")?;
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
    // The family of what is a proxy's own is not to be looked at.
    let addresses = match (command, family) {
        (0x20, _) | (0x21, 0x00) => None,
        (0x21, 0x11) => Some(12),
        (0x21, 0x21) => Some(36),
        // A Unix socket of the proxy's machine.
        (0x21, 0x31) => Some(216),
        (0x21, _) => return Err("the family is not that of a stream"),
        _ => return Err("version and command are unknown"),
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

/// What is added must fill the block exactly; of all that it may say, the checksum counts.
fn check_additions(header: &[u8], mut added: &[u8]) -> Result<(), &'static str> {
    let cut_off = "an addition is cut off";
    while let Some((kind, rest)) = added.split_first() {
        let (length, rest) = rest.split_first_chunk().ok_or(cut_off)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (value, rest) = rest.split_at_checked(length).ok_or(cut_off)?;
        if *kind == CHECKSUM {
            let at = header.len() - rest.len() - length;
            let sum: [u8; 4] = value.try_into().map_err(|_| "the checksum is none")?;
            if crc32c(header, at..at + length) != u32::from_be_bytes(sum) {
                return Err("the checksum is wrong");
            }
        }
        added = rest;
    }
    Ok(())
}

/// Castagnoli's CRC (RFC 3720 appendix B.4), with the octets of the sum itself as zeros.
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
