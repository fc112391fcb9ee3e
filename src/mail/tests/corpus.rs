//! Messages of other people, if a collection is given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::parts::parts;
use super::{limits, read};
use crate::mail::mime::part;
use crate::mail::scan::section;

/// Restores the line ends of mail. Collections keep messages with the line ends of their system,
/// and many begin with the "From " line of a mailbox file.
pub(super) fn on_the_wire(raw: &[u8]) -> Vec<u8> {
    let raw = match raw.strip_prefix(b"From ") {
        Some(rest) => rest.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default(),
        None => raw,
    };
    let mut out = Vec::with_capacity(raw.len());
    let mut before = 0;
    for &byte in raw {
        if byte == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(byte);
        before = byte;
    }
    out
}

pub(super) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            files(&path, found);
        } else if path
            .extension()
            .is_some_and(|ext| ["eml", "msg", "txt"].iter().any(|e| ext == *e))
        {
            found.push(path);
        }
    }
}

#[test]
fn every_message_of_the_corpus_gets_an_answer() {
    let Some(folder) = std::env::var_os("GATEPOST_CORPUS") else {
        say("mail: the corpus was not given (GATEPOST_CORPUS)");
        return;
    };
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    paths.sort();
    let (limits, mut readable) = (limits(), 0);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults: BTreeMap<String, usize> = BTreeMap::new();
    for path in &paths {
        let raw = std::fs::read(path).unwrap();
        // As stored, most have bare LFs: the scan must only return.
        let _ = read(&raw, &limits);
        let raw = on_the_wire(&raw);
        assert!(section(&raw, limits.max_header_bytes).len() <= raw.len());
        match read(&raw, &limits) {
            Ok(mail) => {
                readable += 1;
                for finding in &mail.findings {
                    *kinds.entry(finding.kind.to_string()).or_default() += 1;
                    println!("{} {finding:?}", path.file_name().unwrap().display());
                }
                for attachment in &mail.attachments {
                    let part = part(&raw, attachment.part).unwrap();
                    assert_eq!(part.bytes.len() as u64, attachment.size, "{}", path.display());
                    assert_eq!(part.filename, attachment.filename);
                    assert_eq!(part.content_type, attachment.content_type);
                }
            }
            Err(fault) => *faults.entry(fault.to_string()).or_default() += 1,
        }
    }
    for (fault, count) in faults.into_iter().chain(kinds) {
        say(&format!("{count:5} {fault}"));
    }
    say(&format!(
        "mail: ran over {} messages of other people; {readable} are readable",
        paths.len()
    ));
    assert!(!paths.is_empty(), "the corpus folder holds no messages");
}

/// The parts as mail-parser finds them, `number type/subtype size`; forwarded messages are not
/// opened.
pub(super) fn parts_of_mail_parser(raw: &[u8]) -> Vec<String> {
    let parser = mail_parser::MessageParser::new().max_encoded_nesting(0);
    let message = parser.parse(raw).unwrap();
    let leaf = |part: mail_parser::MessagePart<'_>| {
        let (number, size) = (part.id(), part.decoded_len());
        let plain = if part.is_message() { "message/rfc822" } else { "text/plain" };
        let found = part.content_type();
        let name = found.map_or(plain.to_owned(), |found| {
            format!("{}/{}", found.ctype(), found.subtype().unwrap_or_default())
        });
        let is_empty = part.is_multipart() && part.raw_body().is_empty();
        let is_leaf = !part.is_multipart() || (part.children().len() == 0 && !is_empty);
        is_leaf.then(|| format!("{number} {name} {size}").to_lowercase())
    };
    message.root().parts().filter_map(leaf).collect()
}

/// Messages whose parts mail-parser sees differently, by the ends of their paths, and why. In none
/// of them does a part with content have another number.
const SEEN_OTHERWISE: &[(&str, &str)] = &[
    ("cpython-3.11.7/test_email/msg_14.txt", "`Content-Type: text` is plain text to us"),
    ("cpython-3.11.7/test_email/msg_47.txt", "a line that is no field begins our body"),
    ("cpython-3.11.7/test_email/msg_17.txt", "a multipart without parts is plain text"),
    ("cpython-3.11.7/test_email/msg_31.txt", "a multipart without parts is plain text"),
    ("cpython-3.11.7/test_email/msg_41.txt", "a multipart without parts is plain text"),
    ("data/dkim/unsigned_header-content-type.eml", "a multipart without parts is plain text"),
    ("emails/error_emails/empty_in_reply_to.eml", "a multipart without a body is no file"),
    ("emails/error_emails/must_supply_encoding.eml", "a multipart without a body is no file"),
    ("emails/mime_emails/raw_email4.eml", "a delimiter with one hyphen behind it is none"),
];

#[test]
fn our_walk_and_mail_parser_find_the_same_parts() {
    let Some(folder) = std::env::var_os("GATEPOST_CORPUS") else {
        return say("mail: the corpus was not given (GATEPOST_CORPUS)");
    };
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    let (mut compared, mut excepted, mut different) = (0, 0, Vec::new());
    for path in &paths {
        let raw = on_the_wire(&std::fs::read(path).unwrap());
        if read(&raw, &limits()).is_err() {
            continue;
        }
        compared += 1;
        let (ours, theirs) = (parts(&raw), parts_of_mail_parser(&raw));
        let is_excepted = SEEN_OTHERWISE.iter().any(|(end, _)| path.ends_with(end));
        excepted += usize::from(is_excepted);
        if (ours == theirs) == is_excepted {
            different.push(format!("{}\n  {ours:?}\n  {theirs:?}", path.display()));
        }
    }
    say(&format!("mail: {excepted} of {compared} messages fall into other parts, as known"));
    assert!(compared > 0 && different.is_empty(), "{}", different.join("\n"));
}

/// Writes past the test harness, which hides the output of passing tests: a run must show which
/// files it covered.
fn say(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{line}").unwrap();
}
