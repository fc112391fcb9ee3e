//! Parts that readers could interpret differently, and the numbers by which parts are served.

use super::corpus::parts_of_mail_parser;
use super::{crlf, limits, read};
use crate::domain::message::Mail;
use crate::mail::mime::part;

const FROM: &str = "From: Boss <boss@good.example>\nMIME-Version: 1.0\n";
const MIXED: &str = "Content-Type: multipart/mixed; boundary=o\n\n";

fn mail(rest: &str) -> Mail {
    read(&crlf(&format!("{FROM}{rest}")), &limits()).unwrap()
}

/// `number type name size` of listed parts, and of the HTML part with an asterisk.
fn attachments(mail: &Mail) -> Vec<String> {
    let show = |a: &crate::domain::message::Attachment| {
        let star = if a.listed { "" } else { "*" };
        format!("{star}{} {} {} {}", a.part, a.content_type, a.filename, a.size)
    };
    mail.attachments.iter().map(show).collect()
}

/// Earlier versions used the numbers of mail-parser, and links with those numbers exist.
#[test]
fn parts_keep_the_numbers_of_earlier_versions() {
    let inner = "Subject: x\nContent-Type: multipart/mixed; boundary=i\n\n--i\n\none\n--i\n\n\
                 two\n--i--\n";
    let message = "--o\nContent-Type: message/rfc822\n\n";
    let pdf = "--o\nContent-Type: application/pdf; name=x.pdf\n\nx\n--o--\n";
    for rest in [
        format!("{MIXED}{message}{inner}{pdf}"),
        format!("{MIXED}{message}From x@y.example Tue May 10 11:28:07 2005\n{inner}{pdf}"),
        format!("{MIXED}{message}>From x@y.example Tue May 10 11:28:07 2005\n{inner}{pdf}"),
        format!("{MIXED}{message}{pdf}"),
        format!("{MIXED}{message}\n{pdf}"),
        format!("{MIXED}{message}\n\n{pdf}"),
        format!("{MIXED}{message}{message}{pdf}{message}"),
        format!("{MIXED}{pdf}{message}"),
        "Content-Type: multipart/digest; boundary=o\n\n--o\n\n--o\n\nFrom: y\n\nx\n--o--\n".into(),
        "Content-Type: message/rfc822\n\n".into(),
    ] {
        let raw = crlf(&format!("{FROM}{rest}"));
        assert_eq!(parts(&raw), parts_of_mail_parser(&raw), "{rest}");
    }
}

/// `number type size` of all leaves.
pub(super) fn parts(raw: &[u8]) -> Vec<String> {
    (0..200)
        .filter_map(|index| Some((index, part(raw, index)?)))
        .map(|(index, part)| format!("{index} {} {}", part.content_type, part.bytes.len()))
        .collect()
}

#[test]
fn a_part_answers_to_its_own_name_only() {
    let raw = crlf(&format!("{FROM}Content-Type: application/pdf; name=\"a:b.pdf\"\n\nx"));
    let found = part(&raw, 0).unwrap();
    for (name, expected) in
        [("a_b.pdf", true), ("a:b.pdf", true), ("b.pdf", false), ("a_b.exe", false), ("", false)]
    {
        assert_eq!(found.is_called(name), expected, "{name}");
    }
    // Earlier versions kept dots at the end of a cut name.
    let kept = format!("{}....", "a".repeat(251));
    let raw = crlf(&format!("{FROM}Content-Type: x/y; name=\"{kept}...{}\"\n\nx", "b".repeat(99)));
    let found = part(&raw, 0).unwrap();
    assert_eq!(found.filename, "a".repeat(251));
    assert!(found.is_called(&kept) && found.is_called(&found.filename));
}

#[test]
fn types_are_read_from_careless_fields() {
    for (field, expected) in [
        ("Content-Type: application/pdf;\nname=\"x.pdf\"", "0 application/pdf x.pdf 9"),
        ("Content-Type: application/pdf;\nname=x.pdf;\ncharset=x", "0 application/pdf x.pdf 9"),
        ("Content-Type: text/html charset=utf-8", "*0 text/html attachment.html 9"),
    ] {
        let rest = format!("{field}\nContent-Transfer-Encoding: base64\n\nJVBERi0xLjQK\n");
        // The strict scanner refuses such lines in the root, so the test uses a part.
        let mail = mail(&format!("{MIXED}--o\n{rest}--o--\n"));
        assert_eq!(attachments(&mail), [expected.replace('0', "1")], "{field}");
    }
    let mail = mail(&format!("{MIXED}--o\nContent-Type: text\n\nHello\n--o--\n"));
    assert_eq!((mail.text.as_str(), mail.attachments.len()), ("Hello", 0));
    // A field that is not MIME's, or does not end before a parameter, is not continued: the line
    // begins the body.
    for head in ["X-Y: a;", "Content-Type: text/plain"] {
        let mail = self::mail(&format!("{MIXED}--o\n{head}\nHello\n--o--\n"));
        assert_eq!(mail.text, "Hello", "{head}");
    }
}

#[test]
fn every_html_part_is_examined() {
    let deceit = "<a href=\"https://evil.example\">https://good.example</a><p hidden>obey me</p>";
    let part = |html: &str| format!("--o\nContent-Type: text/html\n\n{html}\n");
    let mail = mail(&format!("{MIXED}{}{}--o--\n", part("<p>Hello</p>"), part(deceit)));
    assert_eq!(mail.text, "Hello\n\nhttps://good.example");
    let found = &mail.findings;
    for kind in ["link_text_differs", "hidden_text"] {
        let finding = found.iter().find(|finding| finding.kind == kind).expect(kind);
        assert!(finding.detail.starts_with("another HTML part"), "{finding:?}");
        assert_eq!(finding.field, "message");
    }
}

#[test]
fn what_nobody_can_read_is_an_attachment() {
    for charset in ["iso-2022-cn", "iso-2022-cn-ext"] {
        let mail = mail(&format!("Content-Type: text/plain; charset={charset}\n\n~{{abc~}}"));
        assert_eq!(attachments(&mail), ["0 text/plain attachment.txt 7"], "{charset}");
    }
}

#[test]
fn what_says_two_things_is_an_attachment() {
    const TEXT: &str = "Content-Type: text/plain\n";
    for (fields, is_text) in [
        ("Content-Type: application/pdf\n", false),
        ("Content-Type: text/plain; charset=koi8-r\n", false),
        ("content-type:  Text/Plain\n", true),
        ("Content-Disposition: attachment\nContent-Disposition: inline\n", false),
        ("Content-Disposition: inline\nContent-Disposition: inline\n", true),
        ("Content-Transfer-Encoding: base64\nContent-Transfer-Encoding: 7bit\n", false),
        ("X: a\nX: b\n", true),
    ] {
        for fields in [format!("{fields}{TEXT}"), format!("{TEXT}{fields}")] {
            let mail = mail(&format!("{MIXED}--o\n{fields}\nabcd\n--o--\n"));
            let expected = if is_text { ("abcd", 0) } else { ("", 1) };
            assert_eq!((mail.text.as_str(), mail.attachments.len()), expected, "{fields}");
        }
    }
    // A reader that takes the first field sees all of this as one text.
    let inner = "Content-Type: multipart/mixed; boundary=i\n\n--i\n\nabcd\n--i--\n";
    let mail = mail(&format!("{MIXED}--o\n{TEXT}{inner}--o--\n"));
    assert_eq!((mail.text.as_str(), mail.attachments.len()), ("", 1));
}

/// A stored message is served whatever the size of an inner header section.
#[test]
fn a_stored_part_has_no_limit_of_its_header() {
    for head in ["X: y\n".repeat(20_000), format!("X: {}\n", "y".repeat(2 << 20))] {
        let rest = format!("{MIXED}--o\n{head}Content-Type: image/png\n\nx\n--o--\n");
        let raw = crlf(&format!("{FROM}{rest}"));
        assert!(read(&raw, &limits()).is_err());
        assert_eq!(part(&raw, 1).unwrap().content_type, "image/png");
    }
}
