//! `unsignedHeaders` names every field that changes the shown or judged content (threats A23), and
//! the display name is read as people see it (A24).

use std::sync::LazyLock;

use super::{crlf, limits};
use crate::domain::automation::Automation;
use crate::domain::marker::Marker;
use crate::domain::message::Mail;
use crate::mail::fields::KnownField;
use crate::mail::machine::signs;
use crate::mail::scan::scan;
use crate::mail::{findings, summarise};
use crate::rules::IntakeLimits;

/// Everything derived from a message whose signature does not cover these fields.
fn made(text: &str, unsigned: &[KnownField]) -> (Mail, Automation, Vec<Marker>) {
    static LIMITS: LazyLock<IntakeLimits> = LazyLock::new(limits);
    let raw = crlf(text);
    let headers = scan(&raw, &LIMITS).unwrap();
    let signs = signs(&headers, false, &LIMITS);
    let mail = summarise(&raw, &headers, unsigned, &LIMITS).unwrap();
    (mail, signs.automation, signs.markers)
}

fn findings_of(text: &str, unsigned: &[KnownField]) -> Vec<(String, String)> {
    let found = made(text, unsigned).0.findings;
    let found: Vec<_> = found.into_iter().map(|one| (one.kind.to_string(), one.detail)).collect();
    assert!(found.iter().all(|(kind, _)| findings::KINDS.contains(&kind.as_str())), "{found:?}");
    found
}

/// Names from the IANA registry of message header fields that occur in mail, and some unregistered
/// ones.
const NAMES: &str = "Accept-Language Also-Control Alternate-Recipient Approved ARC-Authentication-Results \
    ARC-Message-Signature ARC-Seal Archive Archived-At Authentication-Results Auto-Submitted \
    Autoforwarded Autosubmitted Bcc Cc Comments Content-Alternative Content-Base \
    Content-Description Content-Disposition Content-Duration Content-features Content-ID \
    Content-Identifier Content-Language Content-Location Content-MD5 Content-Return \
    Content-Transfer-Encoding Content-Translation-Type Content-Type Conversion Date \
    Deferred-Delivery Delivered-To Delivery-Date Disposition-Notification-Options \
    Disposition-Notification-To Distribution DKIM-Signature Encoding Encrypted Errors-To Expires \
    Face Followup-To Importance In-Reply-To Jabber-ID Keywords Language Lines List-Archive \
    List-Help List-ID List-Owner List-Post List-Subscribe List-Unsubscribe List-Unsubscribe-Post \
    Mail-Followup-To Mail-Reply-To Message-Context Message-ID Message-Type MIME-Version \
    Newsgroups Obsoletes Organization Original-From Original-Message-ID Original-Recipient \
    Original-Subject Path Posting-Version Precedence Priority Received Received-SPF References \
    Relay-Version Reply-By Reply-To Require-Recipient-Valid-Since Resent-Bcc Resent-Cc \
    Resent-Date Resent-From Resent-Message-ID Resent-Reply-To Resent-Sender Resent-To Return-Path \
    Return-Receipt-To Sender Sensitivity Solicitation Status Subject Supersedes To User-Agent \
    X-Auto-Response-Suppress X-Autoreply X-Autorespond X-Envelope-From X-Forwarded-To \
    X-Gatepost-Delivered X-Loop X-Mailer X-MS-Has-Attach X-Original-To X-Priority X-Received \
    X-Spam-Flag X-TNEF";

/// Values that could have an effect.
const VALUES: &[&str] = &[
    "x",
    "<>",
    "<a@b.example>",
    "Eve <eve@evil.example>",
    "Mon, 05 Jan 2026 10:00:00 +0000",
    "1.0",
    "bulk",
    "auto-replied",
    "All",
    "base64",
    "attachment; filename=\"a.bin\"",
    "text/html; charset=utf-16; report-type=delivery-status",
];

/// No field can be read unless it is in [`KnownField`]. This tests that exactly the fields marked there
/// have an effect.
#[test]
fn each_field_that_changes_anything_is_named() {
    let text = "From: boss@good.example\n\nHello, this is <b>text</b>.\n";
    let plain = made(text, &[]);
    let mut silent: Vec<KnownField> = Vec::new();
    for name in NAMES.split_ascii_whitespace() {
        let hex = "0123456789abcdef0123456789abcdef";
        let changes = |value: &&str| made(&format!("{name}: {value}\n{text}"), &[]) != plain;
        let is_read = VALUES.iter().chain([&hex]).any(changes);
        let known = KnownField::ALL.iter().find(|known| known.names(name.as_bytes()));
        let is_named = known.is_some_and(|known| known.says_something());
        assert!(is_named || !is_read, "{name} changes what is made of a message");
        silent.extend(known.filter(|_| is_named && !is_read));
    }
    // Nothing here depends on these alone, but readers see them or programs use them. HTML refers
    // to a part by its Content-ID.
    let shown = [
        KnownField::Bcc,
        KnownField::ContentId,
        KnownField::Date,
        KnownField::MimeVersion,
        KnownField::Sender,
    ];
    assert_eq!(silent, shown);
    for known in KnownField::ALL.iter().filter(|known| **known != KnownField::From) {
        let mut names = NAMES.split_ascii_whitespace();
        assert!(names.any(|name| known.names(name.as_bytes())), "{known:?} is not tried out");
    }
}

#[test]
fn what_an_unsigned_field_makes_of_the_body_is_named() {
    // Text by itself, and another text if decoded as base64.
    const TEXT: &str = "SGVsbG8sIHdvcmxkLCBhbmQgYWxsIHdobyByZWFkIHRoaXMu";
    let all = [
        KnownField::ContentType,
        KnownField::ContentTransferEncoding,
        KnownField::ContentDisposition,
    ];
    for (fields, unsigned, expected) in [
        ("Content-Disposition: attachment; filename=a.bin\n", &all[2..], "an attachment"),
        ("Content-Disposition: x-other\n", &all[2..], "an attachment"),
        ("Content-Disposition: inline\nContent-Disposition: attachment\n", &all[2..], "attachment"),
        ("Content-Transfer-Encoding: base64\n", &all[1..], "decoded as base64"),
        ("Content-Transfer-Encoding: Quoted-Printable\n", &all, "decoded as quoted-printable"),
        ("Content-Type: application/pdf\n", &all, "Content-Type is not signed, and makes"),
        // Without parts it is read as text anyway, with its own remark.
        ("Content-Type: multipart/mixed; boundary=x\n", &all, ""),
        ("Content-Type: message/rfc822\n", &all, "an attachment"),
        ("Content-Type: text/plain; charset=UTF-16\n", &all, "decoded as utf-16"),
        ("Content-Disposition: attachment\n", &all[..2], ""),
        ("Content-Transfer-Encoding: base64\n", &[], ""),
        ("Content-Transfer-Encoding: 8bit\nContent-Disposition: inline; filename=a\n", &all, ""),
        ("Content-Type: text/plain; charset=UTF-8\n", &all, ""),
        ("Content-Type: text/html\n", &all, "has the body read as HTML"),
        (
            "Content-Type: text/html; charset=koi8-r\n",
            &all,
            "read as HTML, and has the body decoded as koi8-r",
        ),
        ("Content-Type: text/html\n", &all[1..], ""),
        ("", &all, ""),
    ] {
        let found =
            findings_of(&format!("From: a@b.example\n{fields}Subject: x\n\n{TEXT}\n"), unsigned);
        let of_fields = |one: &&(String, String)| one.0 == "unsigned_content_field";
        let details: Vec<&str> = found.iter().filter(of_fields).map(|one| one.1.as_str()).collect();
        assert_eq!(details.len(), usize::from(!expected.is_empty()), "{fields}{found:?}");
        assert!(details.iter().all(|detail| detail.contains(expected)), "{fields}{details:?}");
    }
    // The signature covers the parts of a message and their fields.
    let parts = "From: a@b.example\nContent-Type: multipart/mixed; boundary=x\n\
                 Content-Transfer-Encoding: 8bit\n\n\
                 --x\nContent-Disposition: attachment\n\nHi\n--x--\n";
    assert_eq!(findings_of(parts, &all), []);
}

/// An added or changed type can show markup as text, or leave out text of a signed body: a line
/// that looks like a delimiter may be a line of the author.
#[test]
fn what_an_unsigned_type_shows_or_leaves_out_is_named() {
    let part = |before: &str, behind: &str| format!("{before}--x\n\nPay all.\n--x--\n{behind}");
    let nested = "--x\nContent-Type: multipart/mixed; boundary=y\n\nNot here.\n\
                  --y\n\nHi\n--y--\nNor here.\n--x--\n";
    let old = "Do not pay.\n-----Original Message-----\n\nPay all.\n";
    for (kind, body, expected) in [
        (
            "text/plain",
            "<html><p>Hello <b>Al</b>".to_owned(),
            "read as plain text, with HTML in it",
        ),
        ("text/plain", "Hello<br>Al".to_owned(), "read as plain text, with HTML in it"),
        ("text/plain", "a <b, <https://x.example/>, <al@x.example> <x>".to_owned(), ""),
        ("multipart/mixed; boundary=x", part("", ""), ""),
        ("multipart/mixed; boundary=x", part("\n \n", "\n\n"), ""),
        ("multipart/mixed; boundary=x", part("Pay nothing.\n", ""), "text before its parts"),
        ("multipart/mixed; boundary=x", part("", "Pay nothing.\n"), "text behind its parts"),
        ("multipart/mixed; boundary=x", part("Pay\n", "nothing.\n"), "before and behind its"),
        ("multipart/mixed; boundary=x", format!("--x\n\nHi\n--x--\n{nested}"), "behind its parts"),
        ("multipart/mixed; boundary=x", nested.to_owned(), ""),
        ("multipart/mixed; boundary=y", nested.to_owned(), "before and behind its parts"),
        ("multipart/mixed; boundary=\"---Original Message-----\"", old.to_owned(), "before its"),
        // Programs write this notice for readers without MIME.
        (
            "multipart/mixed; boundary=x",
            part("This is a multi-part message in MIME format.\n\n", ""),
            "",
        ),
        (
            "multipart/mixed; boundary=x",
            part("This is a multi-part message in MIME format.\nPay nothing.\n", ""),
            "before its parts",
        ),
    ] {
        let text = format!("From: a@b.example\nContent-Type: {kind}\n\n{body}");
        let found = findings_of(&text, &[KnownField::ContentType]);
        let of_fields = |one: &&(String, String)| one.0 == "unsigned_content_field";
        let details: Vec<&str> = found.iter().filter(of_fields).map(|one| one.1.as_str()).collect();
        assert_eq!(details.len(), usize::from(!expected.is_empty()), "{text}{found:?}");
        assert!(details.iter().all(|detail| detail.contains(expected)), "{text}{details:?}");
        let signed = findings_of(&text, &[KnownField::ContentTransferEncoding]);
        assert!(signed.iter().all(|one| one.0 != "unsigned_content_field"), "{text}{signed:?}");
    }
}

/// Names as written in a From field, with encoded words.
#[test]
fn a_display_name_that_deceives_is_found_however_it_is_written() {
    for (name, deceives) in [
        ("\"admin@legitimate.com\"", true),
        ("=?utf-8?q?admin=40legitimate=2Ecom?=", true),
        ("=?utf-8?q?admin=40legit?= =?utf-8?b?aW1hdGUuY29t?=", true),
        ("=?utf-8?q?admin=E2=80=8B=40legitimate=2Ecom?=", true),
        ("=?utf-8?q?admin=EF=BC=A0legitimate=2Ecom?=", true),
        ("\"admin\u{200b}@legitimate.com\"", true),
        ("=?utf-8?q?b=D0=BEb=40other=2Eexample?=", true),
        ("\"bob@other.example via List\"", true),
        ("m@attack.com", false),
        ("=?utf-8?q?M=40ATTACK=2Ecom?=", false),
        ("=?utf-8?q?=D0=91=D0=BE=D1=80=D0=B8=D1=81?=", false),
        ("Admin", false),
        ("", false),
    ] {
        let text = format!("From: {name} <m@attack.com>\n\nHello.\n");
        let expected: &[&str] = if deceives { &["display_name_deceives"] } else { &[] };
        let found = findings_of(&text, &[]);
        let kinds: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
        assert_eq!(kinds, expected, "{name}");
    }
}
