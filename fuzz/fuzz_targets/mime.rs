//! Whole messages: reading is deterministic and bounded, shows only what was sent, and findings
//! point into the text.

#![no_main]

use std::sync::LazyLock;

use encoding_rs::{Encoding, REPLACEMENT};
use gatepost_fuzz::domain::message::Mail;
use gatepost_fuzz::mail::fields::KnownField;
use gatepost_fuzz::mail::mime::part;
use gatepost_fuzz::mail::scan::scan;
use gatepost_fuzz::mail::summarise;
use gatepost_fuzz::rules::{IntakeLimits, Rules};
use libfuzzer_sys::fuzz_target;

static LIMITS: LazyLock<IntakeLimits> = LazyLock::new(|| {
    let mut limits = Rules::defaults().expect("the defaults are valid").intake.limits;
    (limits.max_parts, limits.max_depth, limits.max_findings) = (8, 4, 5);
    (limits.max_text_bytes, limits.max_html_bytes) = (300, 600);
    limits
});

fuzz_target!(|input: &[u8]| {
    // A valid From and CRLF line ends; the rest is the fuzzer's input.
    let mut raw = b"From: Boss <boss@good.example>\r\n".to_vec();
    for octet in input {
        if *octet == b'\n' && !raw.ends_with(b"\r") {
            raw.push(b'\r');
        }
        raw.push(*octet);
    }
    let Ok(headers) = scan(&raw, &LIMITS) else { return };
    // Nothing is signed, so every field that changes the reading is named.
    let outcome = summarise(&raw, &headers, KnownField::ALL, &LIMITS);
    assert_eq!(outcome, summarise(&raw, &headers, KnownField::ALL, &LIMITS));
    let Ok(mail) = outcome else { return };
    check_text(&mail);
    assert!(mail.attachments.len() <= 8 && mail.html().is_none_or(|html| !html.listed));
    for attachment in &mail.attachments {
        let served = part(&raw, attachment.part).expect("what is listed is served");
        assert_eq!(served.bytes.len() as u64, attachment.size);
        assert_eq!(served.content_type, attachment.content_type);
        assert_eq!(served.filename, attachment.filename);
        assert!((1..=255).contains(&served.filename.len()));
        assert!(served.content_type.is_ascii() && served.bytes.len() <= raw.len());
    }
    check_findings(&mail, &raw);
});

fn check_text(mail: &Mail) {
    assert!(mail.text.len() <= 300 && !mail.text.contains(['\0', '\r', '\u{1b}']));
    assert!(mail.text.contains(&mail.stripped_text));
    assert_eq!(mail.stripped_text.is_empty(), mail.text.trim().is_empty());
}

fn check_findings(mail: &Mail, raw: &[u8]) {
    assert!(mail.findings.len() <= 5);
    for finding in &mail.findings {
        assert!(!finding.kind.is_empty() && finding.detail.len() <= 4000);
        let length = match &*finding.field {
            "message" => mail.text.chars().count(),
            "emailSubject" => mail.subject.as_deref().unwrap_or_default().chars().count(),
            "emailHtml" => {
                let html = part(raw, mail.html().expect("there is HTML").part).expect("served");
                // In a charset outside the standard each byte is one character at most.
                let charset = finding.charset.as_deref().expect("the one that it is counted in");
                let charset = Encoding::for_label(charset.as_bytes());
                let known = charset.filter(|charset| *charset != REPLACEMENT);
                let length =
                    |charset: &'static Encoding| charset.decode(&html.bytes).0.chars().count();
                known.map_or(html.bytes.len(), length)
            }
            "emailReplyTo" | "fromUser" => 0,
            other => panic!("an unknown field: {other}"),
        };
        match (finding.start, finding.end) {
            (Some(start), Some(end)) => assert!(start < end && end <= length as u64, "{finding:?}"),
            (None, None) => {}
            _ => panic!("half a place: {finding:?}"),
        }
    }
}
