//! Reads the fields of a form as bytes, because a message need not be UTF-8.
//!
//! No library reads it, for two reasons: the whole body is in memory anyway (a relay gets it
//! unchanged, a signature covers it), and every bound and every doubt must end in a refusal, lest
//! two readers find different messages in one body.

use bytes::Bytes;
use memchr::memmem::Finder;

use super::{Broken, OtherMode, Post, Refusal};

/// Providers post some twenty fields, and one per attachment in modes that are refused.
const MAX_FIELDS: usize = 1000;
/// Bytes of a name, and of the header section of a part.
const MAX_NAME: usize = 256;
const MAX_HEAD: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct Form(Vec<(Vec<u8>, Bytes)>);

impl Form {
    pub(super) fn read(post: &Post<'_>) -> Result<Self, Refusal> {
        let kind = post.header("content-type").unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let fields = match essence.as_str() {
            "application/x-www-form-urlencoded" => urlencoded(post.body),
            "multipart/form-data" => boundary(kind).and_then(|end| multipart(&end, post.body)),
            _ => return Err(OtherMode::NoForm.into()),
        };
        fields.map(Self).ok_or_else(|| Broken::Form.into())
    }

    /// Returns the field of this name; fails if there are two, because one could be judged and the
    /// other shown.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&Bytes>, Refusal> {
        let mut found = self.0.iter().filter(|(known, _)| known == name.as_bytes());
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Broken::Twice(name).into()),
            (found, None) => Ok(found.map(|(_, value)| value)),
        }
    }

    /// Returns the field of this name as text; fails if it is missing, twice there, or not UTF-8.
    pub(super) fn text(&self, name: &'static str) -> Result<&str, Refusal> {
        let value = self.one(name)?.and_then(|value| std::str::from_utf8(value).ok());
        value.ok_or_else(|| Broken::Field(name).into())
    }
}

/// WHATWG URL §5.1, with bytes instead of text.
fn urlencoded(body: &Bytes) -> Option<Vec<(Vec<u8>, Bytes)>> {
    let mut fields = Vec::new();
    for pair in body.split(|octet| *octet == b'&').filter(|pair| !pair.is_empty()) {
        let middle = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let (name, value) = pair.split_at(middle);
        if fields.len() == MAX_FIELDS || name.len() > MAX_NAME {
            return None;
        }
        fields.push((decoded(name), decoded(value.get(1..).unwrap_or_default()).into()));
    }
    Some(fields)
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |octet: Option<&u8>| char::from(*octet?).to_digit(16);
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                octets.push(u8::try_from(high << 4 | low).unwrap_or_default());
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', ..) => octets.push(b' '),
            (octet, ..) => octets.push(*octet),
        }
    }
    octets
}

/// The boundary of a multipart body: 1 to 70 characters (RFC 2046 §5.1.1).
fn boundary(kind: &str) -> Option<Vec<u8>> {
    let value = parameter(kind, "boundary")?;
    (1..=70).contains(&value.len()).then(|| value.into_bytes())
}

/// Returns a parameter of a field's value (RFC 2045 §5.1); None if the parameter is missing or
/// there twice, or a quote does not end. In a quoted value a backslash quotes the next character.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut found = None;
    let mut rest = value.split_once(';')?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (text, tail) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                let (token, tail) = after.split_at(end);
                (token.trim().to_owned(), tail)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) && found.replace(text).is_some() {
            return None;
        }
        match tail.trim_start().strip_prefix(';') {
            Some(more) if !more.trim().is_empty() => rest = more,
            _ => return found,
        }
    }
}

fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, quoted.get(at + 1..)?)),
            '\\' => text.push(characters.next()?.1),
            _ => text.push(character),
        }
    }
    None
}

/// Splits a multipart body (RFC 2046 §5.1.1, RFC 7578). Ignores bytes before the first boundary and
/// behind the last.
fn multipart(boundary: &[u8], body: &Bytes) -> Option<Vec<(Vec<u8>, Bytes)>> {
    let delimiter = [b"\r\n--", boundary].concat();
    let finder = Finder::new(&delimiter);
    let first = delimiter.get(2..)?;
    let mut at =
        if body.starts_with(first) { first.len() } else { finder.find(body)? + delimiter.len() };
    let mut fields = Vec::new();
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(b"--") {
            // A boundary behind the end means that the message holds the end of the form
            // (SendGrid's boundary is always xYzZY), which would hide the fields behind it.
            return finder.find(rest).is_none().then_some(fields);
        }
        let padding = rest.iter().take_while(|octet| matches!(octet, b' ' | b'\t')).count();
        rest.get(padding..)?.strip_prefix(b"\r\n")?;
        let start = at + padding + 2;
        // The line end before an empty part may also begin the next boundary.
        let end = start.checked_sub(2)? + finder.find(body.get(start - 2..)?)?;
        if fields.len() == MAX_FIELDS {
            return None;
        }
        fields.push(part(body, start, end)?);
        at = end + delimiter.len();
    }
}

fn part(body: &Bytes, start: usize, end: usize) -> Option<(Vec<u8>, Bytes)> {
    let octets = body.get(start..end)?;
    let head = memchr::memmem::find(octets, b"\r\n\r\n").filter(|head| *head <= MAX_HEAD)?;
    let text = std::str::from_utf8(octets.get(..head)?).ok()?;
    let mut name = None;
    for line in text.split("\r\n") {
        let (field, value) = line.split_once(':')?;
        if field.eq_ignore_ascii_case("content-disposition") {
            name = Some(parameter(value, "name").filter(|name| name.len() <= MAX_NAME)?);
        }
        // RFC 7578 §4.7: parts are not encoded any more; decoding one would make another message.
        let plain = ["7bit", "8bit", "binary"];
        if field.eq_ignore_ascii_case("content-transfer-encoding")
            && !plain.iter().any(|known| value.trim().eq_ignore_ascii_case(known))
        {
            return None;
        }
    }
    let content = body.slice(start + head + 4..end);
    Some((name?.into_bytes(), content))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(kind: &str, body: &[u8]) -> Option<Vec<(String, String)>> {
        let headers = [("Content-Type".to_owned(), kind.as_bytes().to_vec())];
        let body = Bytes::copy_from_slice(body);
        let form = Form::read(&Post { headers: &headers, body: &body }).ok()?;
        let shown = |octets: &[u8]| octets.escape_ascii().to_string();
        Some(form.0.iter().map(|(name, value)| (shown(name), shown(value))).collect())
    }

    fn pairs(fields: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
    }

    #[test]
    fn octets_of_a_form_are_what_was_sent() {
        let kind = "application/x-www-form-urlencoded; charset=utf-8";
        let body = b"a=%00%fF+x%0D%0A&&b=1=2&c&%61=%4&d=%zz%";
        let fields = pairs(&[
            ("a", "\\x00\\xff x\\r\\n"),
            ("b", "1=2"),
            ("c", ""),
            ("a", "%4"),
            ("d", "%zz%"),
        ]);
        assert_eq!(read(kind, body), fields);
    }

    #[test]
    fn parts_end_at_the_boundary_and_nowhere_else() {
        let kind = "multipart/form-data; boundary=\"x\\y\"";
        let body = b"before\r\n--xy \r\nContent-Disposition: form-data; name=\"a;\\\"b\"; x=1\r\n\
            Content-Type: text/plain\r\n\r\none\r\n-xy\r\n--x\r\n\r\n--xy\r\n\
            content-disposition: form-data; name=c\r\n\r\n\r\n--xy--behind";
        assert_eq!(
            read(kind, body),
            pairs(&[("a;\\\"b", "one\\r\\n-xy\\r\\n--x\\r\\n"), ("c", "")])
        );
        let begin = "--z\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx";
        let kind = "multipart/form-data; boundary=z";
        assert_eq!(read(kind, format!("{begin}\r\n--z--").as_bytes()), pairs(&[("a", "x")]));
        for wrong in [
            begin.to_owned(),
            format!("{begin}\r\n--z"),
            format!("{begin}\r\n--z?\r\n"),
            format!("{begin}\r\n--z\r\n--z--"),
            format!("{begin}\r\n--z--\r\n--z\r\n{}\r\n--z--", &begin[5..]),
            format!("{begin}\r\n--z--\r\n\r\n--z--"),
            format!("{begin}\r\n--z--").replace("name=", "nane="),
            format!("{begin}\r\n--z--").replace("name=", "name=b; name="),
            format!("{begin}\r\n--z--")
                .replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n"),
            format!("{begin}\r\n--z--")
                .replace("Content", &format!("X: {}\r\nC", "y".repeat(9000))),
        ] {
            assert_eq!(read(kind, wrong.as_bytes()), None, "{wrong}");
        }
        for kind in ["multipart/form-data", "multipart/form-data; boundary=", "text/plain", ""] {
            assert_eq!(read(kind, format!("{begin}\r\n--z--").as_bytes()), None, "{kind}");
        }
    }

    #[test]
    fn what_is_there_twice_is_not_read_and_fields_are_bounded() {
        let body = Bytes::from_static(b"a=1&b=2&a=3");
        let headers = [("content-type".to_owned(), b"application/x-www-form-urlencoded".to_vec())];
        let form = Form::read(&Post { headers: &headers, body: &body }).unwrap();
        assert!(form.one("a").is_err() && form.text("a").is_err());
        assert_eq!((form.text("b").unwrap(), form.one("c").unwrap()), ("2", None));
        let kind = "application/x-www-form-urlencoded";
        assert!(read(kind, "a=1&".repeat(MAX_FIELDS).as_bytes()).is_some());
        assert!(read(kind, "a=1&".repeat(MAX_FIELDS + 1).as_bytes()).is_none());
        assert!(read(kind, "a".repeat(MAX_NAME + 1).as_bytes()).is_none());
    }

    proptest! {
        #[test]
        fn never_panics(body in "(--z|\r\n|--|name=|\"|:|;|[a-z%=&]){0,60}", kind in "[a-z/;= \"]{0,40}") {
            read(&kind, body.as_bytes());
            read("multipart/form-data; boundary=z", body.as_bytes());
            read("application/x-www-form-urlencoded", body.as_bytes());
        }

        #[test]
        fn what_is_written_is_read(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut body = b"--z\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n".to_vec();
            body.extend_from_slice(&value);
            body.extend_from_slice(b"\r\n--z--\r\n");
            let shown = value.escape_ascii().to_string();
            let holds = [b"\r\n", value.as_slice()].concat().windows(5).any(|w| w == b"\r\n--z");
            prop_assume!(!holds);
            assert_eq!(read("multipart/form-data; boundary=z", &body), pairs(&[("a", &shown)]));
        }
    }
}
