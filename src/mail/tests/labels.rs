//! Missing and wrong types, encodings and charsets (threats D11, D12).

use serde_json::json;

use super::{crlf, limits, read};
use crate::domain::message::Mail;
use crate::mail::mime::part;
use crate::mail::page::{PageBounds, PageContent, page};

const FROM: &str = "From: Boss <boss@good.example>\nMIME-Version: 1.0\n";
const MIXED: &str = "Content-Type: multipart/mixed; boundary=o\n\n";

fn raw(rest: &str) -> Vec<u8> {
    crlf(&format!("{FROM}{rest}"))
}

fn mail(rest: &str) -> Mail {
    read(&raw(rest), &limits()).unwrap()
}

fn kinds(mail: &Mail) -> Vec<&str> {
    mail.findings.iter().map(|found| &*found.kind).collect()
}

#[test]
fn a_type_that_nobody_can_read_is_plain_text() {
    for written in ["<html>", "html", "text\\plain", "text/plain,", "a b/c", "x", "", ";", "/"] {
        let field = format!("Content-Type: {written}\n");
        for rest in [
            format!("{field}\nHello <b>Al</b>"),
            format!("{MIXED}--o\n{field}\nHello <b>Al</b>\n--o--\n"),
        ] {
            let mail = mail(&rest);
            assert_eq!(mail.text, "Hello <b>Al</b>", "{rest}");
            assert_eq!((mail.attachments.len(), mail.html()), (0, None), "{rest}");
            assert_eq!(kinds(&mail), ["content_type_invalid"], "{rest}");
        }
    }
    let expected = json!([{
        "kind": "content_type_invalid", "field": "message", "start": null, "end": null,
        "detail": "part 0 has the unreadable type \"<html>\": it is read as text/plain",
    }]);
    assert_eq!(json!(mail("Content-Type: <html>\n\nHello").findings), expected);
    // Its other parameters count.
    let rest = "Content-Type: html; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n8NLJ\n";
    assert_eq!(mail(rest).text, "\u{41f}\u{440}\u{438}");
    // The type is shown without invisible characters, and cut.
    let long = format!("Content-Type: a\u{202e}{}\n\nx", "b".repeat(3000));
    let found = mail(&long).findings[0].detail.clone();
    assert!(found.len() < 200 && !found.contains('\u{202e}'), "{found}");
    // Readable types, carelessly written ones included.
    for written in ["text", "text/plain; charset", "TEXT/Plain (yes)", "text /plain"] {
        let mail = mail(&format!("Content-Type: {written}\n\nHello"));
        assert_eq!((mail.text.as_str(), kinds(&mail)), ("Hello", vec![]), "{written}");
    }
}

#[test]
fn a_file_of_no_type_stays_a_file() {
    let pdf = "Content-Transfer-Encoding: base64\n\nJVBERi0xLjQKAAAA\n";
    for (fields, before) in [
        ("Content-Type: pdf\nContent-Disposition: attachment\n\nx\n".to_owned(), ""),
        ("Content-Type: pdf; name=x.pdf\n\nx\n".to_owned(), "--o\n\nHello\n"),
        (format!("Content-Type: pdf\n{pdf}"), ""),
        (format!("Content-Type: pdf; name=x.pdf\n{pdf}"), "--o\n\nHello\n"),
    ] {
        let mail = mail(&format!("{MIXED}{before}--o\n{fields}--o--\n"));
        let types: Vec<_> = mail.attachments.iter().map(|a| a.content_type.as_str()).collect();
        assert_eq!((types, kinds(&mail)), (vec!["application/octet-stream"], vec![]), "{fields}");
    }
}

#[test]
fn a_multipart_without_parts_is_plain_text() {
    for (rest, expected) in [
        ("multipart/mixed; boundary=o\n\nno delimiter\n", "no delimiter"),
        ("multipart/alternative\n\n--o\n\nno boundary\n", "--o\n\nno boundary"),
        ("multipart/mixed; boundary=o\n\nonly the end\n--o--\n", "only the end\n--o--"),
        ("multipart\n\nno subtype\n", "no subtype"),
    ] {
        for rest in [
            format!("Content-Type: {rest}"),
            format!(
                "Content-Type: multipart/mixed; boundary=i\n\n--i\nContent-Type: {rest}--i--\n"
            ),
        ] {
            let mail = mail(&rest);
            assert_eq!((mail.text.as_str(), mail.attachments.len()), (expected, 0), "{rest}");
            assert_eq!(kinds(&mail), ["content_type_invalid"], "{rest}");
        }
    }
    let empty = mail("Content-Type: multipart/mixed; boundary=o\n\n\r\n");
    assert_eq!((empty.text.as_str(), kinds(&empty)), ("", vec![]));
    let file = mail(&format!(
        "{MIXED}--o\n\nHello\n--o\nContent-Type: multipart/signed\nContent-Disposition: \
         attachment\n\nx\n--o--\n"
    ));
    assert_eq!(file.attachments[0].content_type, "multipart/signed");
}

#[test]
fn text_in_another_encoding_than_it_says_is_read() {
    for (encoding, body, expected) in [
        ("base64", "Hello Al, how are you?", "Hello Al, how are you?"),
        ("base64", "SGVsbG8gQWwuCg==\n____\nlist of x", "Hello Al.\n____\nlist of x"),
        ("quoted-printable", "x=1, y = 2", "x=1, y = 2"),
    ] {
        for kind in ["plain", "html"] {
            let rest = format!(
                "Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: {encoding}\n\n\
                 {body}"
            );
            let mail = mail(&rest);
            assert_eq!(kinds(&mail), ["encoding_mislabelled"], "{rest}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&mail.text), words(expected), "{rest}");
            for attachment in &mail.attachments {
                let part = part(&raw(&rest), attachment.part).unwrap();
                assert_eq!(part.bytes.len() as u64, attachment.size);
                assert_eq!(mail.findings[0].field, "emailHtml");
                assert_eq!(mail.findings[0].charset.as_deref(), Some("UTF-8"));
            }
        }
    }
    // A file keeps its decoded bytes.
    let file = raw(&format!(
        "{MIXED}--o\n\nHello\n--o\nContent-Type: text/plain\nContent-Disposition: attachment\n\
         Content-Transfer-Encoding: base64\n\nHello Al.\n--o--\n"
    ));
    let found = read(&file, &limits()).unwrap();
    assert_eq!((found.attachments[0].size, kinds(&found)), (5, vec![]));
}

/// A byte order mark overrides any label, so nothing is guessed.
#[test]
fn text_with_a_byte_order_mark_is_text_whatever_its_label() {
    for charset in ["x-unknown", "iso-2022-cn", "utf-8", "koi8-r"] {
        for octets in ["//5IAGkA", "/v8ASABp", "77u/SGk="] {
            for kind in ["plain", "html"] {
                let mail = mail(&format!(
                    "Content-Type: text/{kind}; charset={charset}\n\
                     Content-Transfer-Encoding: base64\n\n{octets}\n"
                ));
                assert_eq!(
                    (mail.text.as_str(), kinds(&mail)),
                    ("Hi", vec![]),
                    "{charset} {octets}"
                );
                let files = mail.attachments.iter().filter(|file| file.listed).count();
                assert_eq!(files, 0, "{charset} {octets}");
            }
        }
    }
}

#[test]
fn a_charset_that_cannot_be_obeyed_is_named() {
    let plain = |charset: &str, octets: &[u8]| {
        let head = raw(&format!("Content-Type: text/plain; charset={charset}\n\n"));
        read(&[&head, octets].concat(), &limits()).unwrap()
    };
    for (charset, octets, text, kind, files) in [
        ("x-unknown", &b"Gr\xfc\xdfe"[..], "Gr\u{fc}\u{df}e", "charset_unknown", 1),
        ("x-unknown", "Gr\u{fc}\u{df}e".as_bytes(), "Gr\u{fc}\u{df}e", "charset_unknown", 0),
        ("utf-32", b"Hello", "Hello", "charset_unknown", 0),
        ("iso-2022-cn", b"\x1b$)A\x0e0!", "\u{fffd}", "charset_unknown", 1),
        ("utf-16", b"Hello Al", "Hello Al", "charset_mislabelled", 0),
    ] {
        let mail = plain(charset, octets);
        assert_eq!((mail.text.as_str(), mail.attachments.len()), (text, files), "{charset}");
        assert_eq!(kinds(&mail), [kind], "{charset}");
        assert!(mail.findings[0].detail.contains(&format!("{charset:?}")));
    }
    for charset in ["utf-8", "\"\"", "ibm850", "cp437", "utf-7", "hz-gb-2312", "iso-2022-kr"] {
        assert_eq!(kinds(&plain(charset, b"Hello")), [""; 0], "{charset}");
    }
    assert_eq!(
        plain("x-unknown", b"\xfc").findings[0].detail,
        "part 0 names the charset \"x-unknown\", which is unknown: it is read as windows-1252"
    );
}

/// Markup that a filter of plain letters would miss is recognised, and the page shows none that
/// runs.
#[test]
fn markup_in_utf7_is_markup() {
    let raw = raw("Content-Type: text/html; charset=utf-7\n\n\
         <p>Hello +AOQ-</p>+ADw-script+AD4-alert(1)+ADw-/script+AD4-\
         +ADw-p hidden+AD4-obey me+ADw-/p+AD4-");
    let mail = read(&raw, &limits()).unwrap();
    assert_eq!(mail.text, "Hello \u{e4}");
    assert_eq!(kinds(&mail), ["hidden_text"]);
    assert_eq!(mail.findings[0].charset.as_deref(), Some("UTF-7"));
    let bounds = PageBounds { html_bytes: 9999, tags: 99, picture_bytes: 0 };
    let PageContent::Html(html) = page(&raw, 0, bounds).unwrap().shown else { panic!("no page") };
    assert!(html.contains("Hello \u{e4}") && !html.contains("script"), "{html}");
    assert!(!html.contains("+ADw-"), "{html}");
}
