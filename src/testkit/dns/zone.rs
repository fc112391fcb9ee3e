//! The answers of a DNS server, as a test writes them down.
//!
//! A [`Zone`] is tab-separated text, one answer per line: name, type, rcode, value. Rcodes are
//! `NOERROR`, `NXDOMAIN`, `SERVFAIL`, `REFUSED` and three faults of ours: `TIMEOUT` (never
//! answers), `GARBAGE` (bytes that are no DNS message) and `TRUNCATE` (the TC bit over UDP, the
//! full answer over TCP).

use std::collections::HashMap;

use mail_auth::hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use mail_auth::hickory_resolver::proto::rr::rdata::tlsa::{CertUsage, Matching, Selector};
use mail_auth::hickory_resolver::proto::rr::rdata::{
    A, AAAA, CNAME, MX, NS, NULL, PTR, SOA, TLSA, TXT,
};
use mail_auth::hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

/// TTL of answers in seconds, unless [`Zone::with_ttl`] sets another.
const DEFAULT_TTL: u32 = 300;
/// CNAMEs followed per question.
const MAX_ALIASES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("line {0}: expected name, type, rcode and value, separated by tabs")]
    Columns(usize),
    #[error("{0:?} is not a domain name")]
    Name(String),
    #[error("{0:?} is not a record type of this server")]
    Type(String),
    #[error(
        "{0:?} is not an rcode: expected NOERROR, NXDOMAIN, SERVFAIL, REFUSED, TIMEOUT, GARBAGE \
         or TRUNCATE"
    )]
    Rcode(String),
    #[error("{value:?} is not the value of a {kind} record")]
    Value { kind: String, value: String },
}

#[derive(Clone, Debug)]
enum ScriptedAnswer {
    Records(Vec<RData>),
    Truncate(Vec<RData>),
    Code(ResponseCode),
    Timeout,
    Garbage,
}

/// Answers by name and type.
#[derive(Clone, Debug)]
pub struct Zone {
    answers: HashMap<(Name, RecordType), ScriptedAnswer>,
    ttl: u32,
}

impl Default for Zone {
    fn default() -> Self {
        Self { answers: HashMap::new(), ttl: DEFAULT_TTL }
    }
}

impl Zone {
    /// Parses tab-separated lines `name, type, rcode, value`. Further columns, empty lines and
    /// lines that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        let mut zone = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let mut columns = line.split('\t');
            let (Some(name), Some(kind), Some(rcode)) =
                (columns.next(), columns.next(), columns.next())
            else {
                return Err(ZoneError::Columns(index + 1));
            };
            zone.insert(name, kind, rcode, columns.next().unwrap_or_default())?;
        }
        Ok(zone)
    }

    /// Returns the zone with this TTL, in seconds, on all answers, negative ones included.
    #[must_use]
    pub fn with_ttl(mut self, seconds: u32) -> Self {
        self.ttl = seconds;
        self
    }

    /// Adds an answer. Values with rcode `NOERROR` or `TRUNCATE` accumulate per name and type; any
    /// other rcode replaces them.
    pub fn insert(
        &mut self,
        name: &str,
        kind: &str,
        rcode: &str,
        value: &str,
    ) -> Result<(), ZoneError> {
        let name = fqdn(name)?;
        let record_type: RecordType = kind.parse().map_err(|_| ZoneError::Type(kind.to_owned()))?;
        let key = (name, record_type);
        let answer = match rcode {
            "NOERROR" | "TRUNCATE" => {
                let mut records = match self.answers.get(&key) {
                    Some(ScriptedAnswer::Records(known) | ScriptedAnswer::Truncate(known)) => {
                        known.clone()
                    }
                    _ => Vec::new(),
                };
                if !value.is_empty() || record_type == RecordType::TXT {
                    records.push(rdata(record_type, value)?);
                }
                match rcode {
                    "NOERROR" => ScriptedAnswer::Records(records),
                    _ => ScriptedAnswer::Truncate(records),
                }
            }
            "NXDOMAIN" => ScriptedAnswer::Code(ResponseCode::NXDomain),
            "SERVFAIL" => ScriptedAnswer::Code(ResponseCode::ServFail),
            "REFUSED" => ScriptedAnswer::Code(ResponseCode::Refused),
            "TIMEOUT" => ScriptedAnswer::Timeout,
            "GARBAGE" => ScriptedAnswer::Garbage,
            other => return Err(ZoneError::Rcode(other.to_owned())),
        };
        self.answers.insert(key, answer);
        Ok(())
    }

    /// Replaces the TXT records of a name by these, which need not be text; none means no such
    /// record.
    pub fn insert_texts(&mut self, name: &str, texts: &[Vec<u8>]) -> Result<(), ZoneError> {
        let records = texts.iter().map(|octets| text(octets)).collect();
        self.answers.insert((fqdn(name)?, RecordType::TXT), ScriptedAnswer::Records(records));
        Ok(())
    }

    /// Replaces the TXT records of a name by one record of these character strings.
    pub fn insert_strings(&mut self, name: &str, strings: &[&[u8]]) -> Result<(), ZoneError> {
        let record = RData::TXT(TXT::from_bytes(strings.to_vec()));
        self.answers.insert((fqdn(name)?, RecordType::TXT), ScriptedAnswer::Records(vec![record]));
        Ok(())
    }

    /// Removes all answers of this name and type.
    pub fn remove(&mut self, name: &str, kind: &str) -> Result<(), ZoneError> {
        let record_type: RecordType = kind.parse().map_err(|_| ZoneError::Type(kind.to_owned()))?;
        self.answers.remove(&(fqdn(name)?, record_type));
        Ok(())
    }

    /// Answers one question, following CNAMEs inside the zone. None means silence.
    pub(super) fn answer(&self, request: &Message, over_tcp: bool) -> Option<Vec<u8>> {
        let id = request.metadata.id;
        let query = request.queries.first()?;
        let mut reply = Message::response(id, OpCode::Query);
        reply.metadata.recursion_desired = request.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        reply.add_query(query.clone());
        // The owner is echoed as in the question, letter case included.
        let mut owner = query.name().clone();
        for _ in 0..MAX_ALIASES {
            match self.find(&owner, query.query_type()) {
                Found::Answer(ScriptedAnswer::Truncate(_)) if !over_tcp => {
                    reply.metadata.truncation = true;
                    break;
                }
                Found::Answer(
                    ScriptedAnswer::Records(records) | ScriptedAnswer::Truncate(records),
                ) => {
                    for data in records {
                        reply.add_answer(Record::from_rdata(owner.clone(), self.ttl, data.clone()));
                    }
                    break;
                }
                Found::Alias(target) => {
                    let data = RData::CNAME(CNAME(target.clone()));
                    reply.add_answer(Record::from_rdata(owner, self.ttl, data));
                    owner = target.clone();
                }
                Found::Answer(ScriptedAnswer::Code(code)) => {
                    reply.metadata.response_code = *code;
                    break;
                }
                Found::Nothing(code) => {
                    reply.metadata.response_code = code;
                    break;
                }
                Found::Answer(ScriptedAnswer::Timeout) => return None,
                Found::Answer(ScriptedAnswer::Garbage) => {
                    let mut octets = id.to_be_bytes().to_vec();
                    octets.extend_from_slice(b"\xff\xff\xff\xffthis is no DNS message");
                    return Some(octets);
                }
            }
        }
        if reply.answers.is_empty()
            && matches!(
                reply.metadata.response_code,
                ResponseCode::NoError | ResponseCode::NXDomain
            )
        {
            reply.add_authority(self.start_of_authority(&owner));
        }
        let octets = reply.to_vec().ok()?;
        if over_tcp || octets.len() <= usize::from(request.max_payload()) {
            return Some(octets);
        }
        let mut short = Message::response(id, OpCode::Query);
        short.metadata.truncation = true;
        short.add_query(query.clone());
        short.to_vec().ok()
    }

    fn find(&self, name: &Name, kind: RecordType) -> Found<'_> {
        let name = name.to_lowercase();
        if let Some(answer) = self.answers.get(&(name.clone(), kind)) {
            return Found::Answer(answer);
        }
        if let Some(ScriptedAnswer::Records(records)) =
            self.answers.get(&(name.clone(), RecordType::CNAME))
            && let Some(RData::CNAME(target)) = records.first()
        {
            return Found::Alias(&target.0);
        }
        // A name exists if a record is at or below it (RFC 8020).
        let exists = self.answers.keys().any(|(known, _)| name.zone_of(known));
        // A wildcard answers for names that do not (RFC 4592).
        let wildcard = || Name::from_ascii("*").ok()?.append_domain(&name.base_name()).ok();
        if !exists
            && let Some(wildcard) = wildcard()
            && let Some(answer) = self.answers.get(&(wildcard, kind))
        {
            return Found::Answer(answer);
        }
        Found::Nothing(if exists { ResponseCode::NoError } else { ResponseCode::NXDomain })
    }

    fn start_of_authority(&self, name: &Name) -> Record {
        let apex = name.trim_to(2);
        let ttl = i32::try_from(self.ttl).unwrap_or(i32::MAX);
        let soa = SOA::new(apex.clone(), apex.clone(), 1, ttl, ttl, ttl, self.ttl);
        Record::from_rdata(apex, self.ttl, RData::SOA(soa))
    }
}

enum Found<'z> {
    Answer(&'z ScriptedAnswer),
    Alias(&'z Name),
    /// No answer of this type.
    Nothing(ResponseCode),
}

pub(super) fn fqdn(text: &str) -> Result<Name, ZoneError> {
    let refuse = || ZoneError::Name(text.to_owned());
    // A name that is no text is taken as raw bytes.
    let octets = || Name::from_labels(text.split('.').map(str::as_bytes));
    let mut name = Name::from_str_relaxed(text).or_else(|_| octets()).map_err(|_| refuse())?;
    name.set_fqdn(true);
    Ok(name.to_lowercase())
}

/// A character string holds at most 255 octets (RFC 1035 §3.3); a record has at least one string.
fn text(octets: &[u8]) -> RData {
    let strings = if octets.is_empty() { vec![octets] } else { octets.chunks(255).collect() };
    RData::TXT(TXT::from_bytes(strings))
}

/// Decodes text of zone files: `\\DDD` is a byte in decimal, and a backslash before any other
/// character stands for that character (RFC 1035 §5.1). None if an escape is incomplete.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'\\' => match rest.next()? {
                first if first.is_ascii_digit() => {
                    let digits = [first, rest.next()?, rest.next()?];
                    std::str::from_utf8(&digits).ok()?.parse().ok()?
                }
                other => other,
            },
            _ => octet,
        });
    }
    Some(octets)
}

fn rdata(kind: RecordType, value: &str) -> Result<RData, ZoneError> {
    let refuse = || ZoneError::Value { kind: kind.to_string(), value: value.to_owned() };
    Ok(match kind {
        RecordType::TXT => text(value.as_bytes()),
        RecordType::A => RData::A(A(value.parse().map_err(|_| refuse())?)),
        RecordType::AAAA => RData::AAAA(AAAA(value.parse().map_err(|_| refuse())?)),
        RecordType::CNAME => RData::CNAME(CNAME(fqdn(value)?)),
        RecordType::NS => RData::NS(NS(fqdn(value)?)),
        RecordType::PTR => RData::PTR(PTR(fqdn(value)?)),
        RecordType::MX => {
            let (preference, host) = value.split_once(' ').ok_or_else(refuse)?;
            RData::MX(MX::new(preference.parse().map_err(|_| refuse())?, fqdn(host)?))
        }
        RecordType::TLSA => {
            let mut parts = value.split(' ');
            let mut number = || parts.next()?.parse::<u8>().ok();
            let (usage, selector, matching) = (number(), number(), number());
            let hex = parts.next().unwrap_or_default();
            let hash: Option<Vec<u8>> = (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok())
                .collect();
            let (Some(usage), Some(selector), Some(matching), Some(hash)) =
                (usage, selector, matching, hash)
            else {
                return Err(refuse());
            };
            let (usage, selector) = (CertUsage::from(usage), Selector::from(selector));
            RData::TLSA(TLSA::new(usage, selector, Matching::from(matching), hash))
        }
        // The value stands for the bytes of a key.
        RecordType::DNSKEY => {
            let octets = [&[1, 1, 3, 8], value.as_bytes()].concat();
            RData::Unknown { code: kind, rdata: NULL::with(octets) }
        }
        _ => return Err(ZoneError::Type(kind.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_zone_are_named() {
        for (text, expected) in [
            ("a.example\tTXT", "line 1"),
            ("# fine\n\na.example TXT NOERROR x", "line 3"),
            ("a.example\tTEXT\tNOERROR\tx", "TEXT"),
            ("a.example\tTXT\tOK\tx", "OK"),
            ("a.example\tA\tNOERROR\tx", "value of a A record"),
            ("a.example\tMX\tNOERROR\tmail.example", "value of a MX record"),
        ] {
            let error = Zone::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        Zone::parse("a.example\tMX\tNOERROR\t10 mail.example\tsource\n").unwrap();
    }
}
