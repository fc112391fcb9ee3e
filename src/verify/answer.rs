//! DNS answers: as used for the verdict, and as kept in the record.
//!
//! Records are kept as zone files write them (RFC 1035 §5.1), so that any bytes can be read back
//! and the verdict can be reached again from the record alone.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::{DnsError, Error};

use super::key::Key;
use super::tags::MAX_RECORD;
use crate::domain::evidence::Word;
use crate::domain::evidence::dns::{self, DnsOutcome};

/// Bytes of answers kept per step: enough for ten keys of the largest size (`dkim`), or ten SPF
/// look-ups with ten mail exchangers each (RFC 7208 §4.6.4), many times over. Answers beyond that
/// are used but not kept, so that strangers cannot inflate records.
const MAX_KEPT: usize = 128 * 1024;
/// Bytes kept of one text: one more than allowed, so that a text that was too long still is when
/// read back.
pub(super) const MAX_TEXT: usize = MAX_RECORD + 1;

#[derive(Clone)]
pub(super) struct Answer {
    /// The name asked for, without its final dot.
    pub(super) name: String,
    pub(super) kind: RecordType,
    /// Seconds; None if unknown.
    pub(super) ttl: Option<u32>,
    /// Shared by all clones: a cached answer is not copied, and its key is parsed once.
    content: Arc<Content>,
}

struct Content {
    outcome: Outcome,
    /// Some records were dropped or cut.
    is_cut: bool,
    key: OnceLock<Result<Key, Error>>,
}

/// Result of a query.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// Records of the requested type; at least one.
    Records(Vec<RData>),
    /// No such record: a valid answer.
    Nothing(ResponseCode),
    /// The query failed for now.
    Temporary(String),
    /// Not a valid name to ask for.
    Unaskable,
}

impl Answer {
    /// `is_cut` tells that some records were dropped or cut.
    pub(super) fn new(
        name: String,
        kind: RecordType,
        ttl: Option<u32>,
        outcome: Outcome,
        is_cut: bool,
    ) -> Self {
        let content = Arc::new(Content { outcome, is_cut, key: OnceLock::new() });
        Self { name, kind, ttl, content }
    }

    pub(super) fn outcome(&self) -> &Outcome {
        &self.content.outcome
    }

    /// Returns the key among the TXT records, or the reason why there is none.
    pub(super) fn key(&self) -> Result<&Key, &Error> {
        let parse = || self.texts().and_then(|records| Key::choose(&records));
        self.content.key.get_or_init(parse).as_ref()
    }

    /// Returns the records that `read` accepts. Without records, fails with mail-auth's error for
    /// the reason.
    pub(super) fn records<'a, T>(
        &'a self,
        read: impl Fn(&'a RData) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        match self.outcome() {
            Outcome::Records(records) => Ok(records.iter().filter_map(read).collect()),
            Outcome::Nothing(code) => Err(Error::Dns(DnsError::RecordNotFound(*code))),
            Outcome::Temporary(why) => Err(Error::Dns(DnsError::Resolver(why.clone()))),
            Outcome::Unaskable => Err(Error::Parse),
        }
    }

    /// Upper estimate of its size in memory, in bytes.
    pub(super) fn octets(&self) -> usize {
        const EMPTY: usize = 512;
        // A record may hold the longest name.
        const RECORD: usize = size_of::<RData>() + 256;
        let heap = |data: &RData| match data {
            RData::TXT(txt) => txt.txt_data.iter().map(|text| text.len() + 32).sum(),
            _ => 0,
        };
        let (records, key) = match self.outcome() {
            Outcome::Records(records) => {
                let longest = records.iter().map(heap).max().unwrap_or(0);
                // Its text, its octets as published and as a library holds them, and its lists.
                let key = if longest > 0 { 1024 + 4 * longest.min(MAX_RECORD) } else { 0 };
                (records.iter().map(|data| RECORD + heap(data)).sum(), key)
            }
            _ => (0, 0),
        };
        EMPTY + 2 * self.name.len() + records + key
    }

    /// Tells whether there is no such name or no record of this type (RFC 7208 §4.6.4: a void
    /// look-up).
    pub(super) fn is_void(&self) -> bool {
        matches!(self.outcome(), Outcome::Nothing(_))
    }

    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.outcome(), Outcome::Temporary(_))
    }

    /// Returns the addresses of A and AAAA records; empty without records, for any reason.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let found = self.records(|data| match data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Returns the hosts of MX records with their preference, and of PTR records with 0. Names have
    /// no final dot, so `.` (RFC 7505) is empty.
    pub(super) fn hosts(&self) -> Vec<(u16, String)> {
        let found = self.records(|data| match data {
            RData::MX(mx) => Some((mx.preference, &mx.exchange)),
            RData::PTR(name) => Some((0, &name.0)),
            _ => None,
        });
        // Not escaped as in zone files, because the name may be queried next.
        let shown = |(preference, name): (u16, &Name)| {
            let name = name.to_lowercase();
            let labels: Vec<_> = name.iter().map(String::from_utf8_lossy).collect();
            (preference, labels.join("."))
        };
        found.unwrap_or_default().into_iter().map(shown).collect()
    }

    /// Returns the TXT records, each with its character strings joined.
    pub(super) fn texts(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.records(|data| match data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        })
    }
}

#[derive(Debug)]
pub(super) struct EvidenceAnswers {
    left: usize,
    /// Most bytes per answer.
    share: usize,
    answers: Vec<dns::UsedAnswer>,
}

impl Default for EvidenceAnswers {
    fn default() -> Self {
        Self::of(1)
    }
}

impl EvidenceAnswers {
    /// Divides the room equally among this many answers.
    pub(super) fn of(answers: usize) -> Self {
        Self { left: MAX_KEPT, share: MAX_KEPT / answers.max(1), answers: Vec::new() }
    }

    /// Keeps an answer. Marks it as truncated if parts of it, or any later answer, do not fit.
    pub(super) fn keep(&mut self, answer: &Answer) {
        self.keep_first(answer, 0, usize::MAX);
    }

    /// Like [`Self::keep`], but keeps at most `most` records, the one at `place` first.
    pub(super) fn keep_first(&mut self, answer: &Answer, place: usize, most: usize) {
        let mut left = self.share.min(self.left);
        let Some(after_name) = left.checked_sub(written(&answer.name)) else {
            if let Some(last) = self.answers.last_mut() {
                last.truncated = true;
            }
            return;
        };
        self.left -= left - after_name;
        left = after_name;
        let mut truncated = answer.content.is_cut;
        let told = match answer.outcome() {
            Outcome::Records(records) => {
                truncated |= records.len() > most;
                let mut records: Vec<_> = records.iter().take(most).collect();
                if let Some(before) = records.get_mut(..=place) {
                    before.rotate_right(1);
                }
                let mut kept = Vec::new();
                for (text, whole) in records.into_iter().filter_map(shown) {
                    let octets = text.len();
                    if octets > left {
                        truncated = true;
                        break;
                    }
                    left -= octets;
                    self.left -= octets;
                    truncated |= !whole;
                    kept.push(text);
                }
                DnsOutcome::Records(kept)
            }
            Outcome::Nothing(ResponseCode::NXDomain) => DnsOutcome::NAME_UNKNOWN,
            Outcome::Nothing(_) => DnsOutcome::NO_RECORD,
            Outcome::Temporary(why) => DnsOutcome::temporary(why),
            Outcome::Unaskable => DnsOutcome::UNASKABLE,
        };
        let (name, kind) = (answer.name.clone(), Word::Borrowed(answer.kind.into()));
        self.answers.push(dns::UsedAnswer { name, kind, ttl: answer.ttl, told, truncated });
    }

    pub(super) fn into_answers(self) -> Vec<dns::UsedAnswer> {
        self.answers
    }

    pub(super) fn all<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> Vec<dns::UsedAnswer> {
        let mut used = Self::default();
        for answer in answers {
            used.keep(answer);
        }
        used.into_answers()
    }
}

/// Upper estimate of a name's bytes in JSON; an escaped character takes up to six.
fn written(name: &str) -> usize {
    name.chars()
        .map(|c| if c.is_control() || matches!(c, '"' | '\\') { 6 } else { c.len_utf8() })
        .sum()
}

/// Returns a record as text, and whether that is all of it.
fn shown(data: &RData) -> Option<(String, bool)> {
    let text = match data {
        RData::TXT(txt) => {
            let octets = txt.txt_data.concat();
            let kept = octets.get(..MAX_TEXT).unwrap_or(&octets);
            return Some((escaped(kept), kept.len() == octets.len()));
        }
        RData::A(address) => address.to_string(),
        RData::AAAA(address) => address.to_string(),
        RData::MX(mx) => format!("{} {}", mx.preference, mx.exchange.to_lowercase().to_ascii()),
        RData::PTR(name) => name.to_lowercase().to_ascii(),
        _ => return None,
    };
    Some((text, true))
}

/// Escapes bytes as in zone files: `\\` for a backslash, `\DDD` for bytes that are not printable
/// ASCII.
fn escaped(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    for octet in octets {
        match octet {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*octet)),
            _ => text.push_str(&format!("\\{octet:03}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use mail_auth::hickory_resolver::proto::rr::rdata::TXT;
    use serde_json::json;

    use super::*;
    use crate::testkit::dns::unescaped;

    fn answer(texts: &[&[u8]]) -> Answer {
        let records = texts.iter().map(|text| {
            let chunks = text.chunks(255).collect::<Vec<_>>();
            RData::TXT(TXT::from_bytes(chunks))
        });
        let outcome = Outcome::Records(records.collect());
        Answer::new("a.example".into(), RecordType::TXT, Some(5), outcome, false)
    }

    fn records(answer: &dns::UsedAnswer) -> &[String] {
        match &answer.told {
            DnsOutcome::Records(texts) => texts,
            DnsOutcome::Nothing(why) => panic!("{why}"),
        }
    }

    #[test]
    fn any_octets_can_be_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        for octets in [&all[..], b"", b"v=spf1 -all", b"\\065\\", b"\\\\"] {
            let text = escaped(octets);
            assert!(text.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{text}");
            assert_eq!(unescaped(&text).unwrap(), octets, "{text}");
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        let mut answers = EvidenceAnswers::default();
        answers.keep(&answer(&[b"short", &vec![b'x'; MAX_TEXT]]));
        answers.keep(&answer(&[&vec![b'x'; MAX_TEXT + 1]]));
        for _ in 0..20 {
            answers.keep(&answer(&[&vec![b'x'; MAX_TEXT], b"second"]));
        }
        let answers = answers.into_answers();
        assert!(!answers[0].truncated && answers[1].truncated && answers[21].truncated);
        assert_eq!(records(&answers[1])[0].len(), MAX_TEXT);
        assert_eq!(answers.len(), 22);
        assert_eq!(records(&answers[21]), [""; 0]);
        assert!(json!(answers).to_string().len() < MAX_KEPT + 22 * 100);
    }

    #[test]
    fn names_count_and_the_first_that_has_no_room_ends_it() {
        let mut answers = EvidenceAnswers::default();
        for _ in 0..1000 {
            answers.keep(&Answer { name: "\r".repeat(253), ..answer(&[b"x"]) });
        }
        let answers = answers.into_answers();
        assert!(json!(answers).to_string().len() < MAX_KEPT + 100 * 100, "{}", answers.len());
        let marked: Vec<_> = answers.iter().map(|one| one.truncated).collect();
        let last = marked.len() - 1;
        assert!(marked[last] && !marked[..last].contains(&true));
    }

    #[test]
    fn each_answer_has_its_share_and_what_was_used_comes_first() {
        let mut answers = EvidenceAnswers::of(16);
        let filler = vec![b'x'; 4000];
        for place in 0..16 {
            let mut texts = vec![&filler[..]; 16];
            texts[place.min(9)] = b"the key";
            answers.keep_first(&answer(&texts), place.min(9), 10);
        }
        for answer in answers.into_answers() {
            assert_eq!((&*records(&answer)[0], records(&answer).len()), ("the key", 3));
            assert!(answer.truncated);
        }
    }
}
