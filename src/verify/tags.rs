//! Tag lists (RFC 6376 §3.2): `name = value` pairs separated by semicolons, in `DKIM-Signature`
//! fields and key records.
//!
//! mail-auth parses them leniently (of repeated tags the last counts; names in any case). This
//! parser is strict, so that the judged values are the signed ones and no two readers differ.

/// Longest text of a DKIM, SPF or DMARC record; the largest RSA key takes about 1,500 bytes.
pub(super) const MAX_RECORD: usize = 8192;
/// Most tags of a list; no published list has more.
const MAX_TAGS: usize = 64;

/// A tag list, with the first defect found.
#[derive(Debug, Default)]
pub(super) struct TagList<'x> {
    tags: Vec<(&'x str, &'x str)>,
    defect: Option<String>,
}

impl<'x> TagList<'x> {
    /// Parses as much as possible. Empty entries (`;;`) are skipped; any other violation of the
    /// grammar is a defect.
    pub(super) fn read(octets: &'x [u8]) -> Self {
        let mut list = Self::default();
        let Ok(text) = std::str::from_utf8(octets) else {
            list.defect = Some("not valid UTF-8".into());
            return list;
        };
        for entry in text.split(';') {
            if trim(entry).is_empty() {
                continue;
            }
            let Some((name, value)) = entry.split_once('=') else {
                list.flaw("an entry has no =".into());
                continue;
            };
            let (name, value) = (trim(name), trim(value));
            if !is_name(name) {
                list.flaw("a tag has an invalid name".into());
            } else if list.tags.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                list.flaw(format!("the tag {name}= appears twice"));
            } else if list.tags.len() == MAX_TAGS {
                list.flaw("too many tags".into());
                break;
            } else {
                list.tags.push((name, value));
            }
        }
        list
    }

    fn flaw(&mut self, what: String) {
        self.defect.get_or_insert(what);
    }

    pub(super) fn defect(&self) -> Option<&str> {
        self.defect.as_deref()
    }

    /// Returns the value of a tag, trimmed. Letter case of the name counts (RFC 6376 §3.2).
    pub(super) fn get(&self, name: &str) -> Option<&'x str> {
        self.tags.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Tells whether the tag is present but not first.
    pub(super) fn is_behind_others(&self, name: &str) -> bool {
        self.tags.iter().skip(1).any(|(known, _)| *known == name)
    }

    /// Returns the number in a tag: None if absent, Err if it is not a decimal number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_| format!("{name}= is out of range"))
            }
            Some(_) => Err(format!("{name}= is not a number")),
        }
    }

    /// Returns the words of a tag, separated by colons, as written; none if absent.
    pub(super) fn listed(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).into_iter().flat_map(|value| value.split(':')).map(trim)
    }
}

/// Removes folding white space (RFC 6376 §2.8) at both ends.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_the_folding() {
        let list = TagList::read(b" v=1; d = good.example ;\r\n\th=From : to\r\n :Subject;l=12;");
        assert_eq!(list.defect(), None);
        assert_eq!(list.get("d"), Some("good.example"));
        assert_eq!(list.listed("h").collect::<Vec<_>>(), ["From", "to", "Subject"]);
        assert_eq!(list.number("l"), Ok(Some(12)));
        assert_eq!(list.number("x"), Ok(None));
        assert_eq!(list.get("D"), None);
    }

    #[test]
    fn defects_are_named() {
        for (text, defect) in [
            ("v=1; d=a; d=b", "the tag d= appears twice"),
            ("v=1; d=a; D=b", "the tag D= appears twice"),
            ("v=1; omgwhatsgoingon", "an entry has no ="),
            ("1v=1", "a tag has an invalid name"),
            ("=1", "a tag has an invalid name"),
        ] {
            assert_eq!(TagList::read(text.as_bytes()).defect(), Some(defect), "{text}");
        }
        assert!(TagList::read(b"v=\xff").defect().is_some());
        let many: String = (0..65).map(|n| format!("t{n}=1;")).collect();
        assert!(TagList::read(many.as_bytes()).defect().is_some());
    }

    #[test]
    fn numbers_are_digits() {
        for text in ["l=-1", "l=", "l=1 2", "l=0x1", "l=99999999999999999999999"] {
            assert!(TagList::read(text.as_bytes()).number("l").is_err(), "{text}");
        }
    }
}
