//! Header sections: scanned fields are the bytes that were sent, and the From that is judged is the
//! one that mail-parser shows, or the message is refused.

#![no_main]

use std::sync::LazyLock;

use gatepost_fuzz::domain::address::Address;
use gatepost_fuzz::domain::reason::Reason;
use gatepost_fuzz::mail::scan::{SINGLE_FIELDS, scan, section};
use gatepost_fuzz::mail::{headers, summarise};
use gatepost_fuzz::rules::{IntakeLimits, Rules};
use libfuzzer_sys::fuzz_target;
use mail_parser::MessageParser;

static LIMITS: LazyLock<IntakeLimits> = LazyLock::new(|| {
    let mut limits = Rules::defaults().expect("the defaults are valid").intake.limits;
    (limits.max_header_bytes, limits.max_header_fields) = (200, 12);
    (limits.max_received_fields, limits.max_shown_mailboxes) = (3, 3);
    limits.max_shown_bytes = 64;
    limits
});

fuzz_target!(|input: &[u8]| {
    let kept = section(input, 100);
    assert!(kept.len() <= 100 && input.starts_with(kept));
    let scanned = scan(input, &LIMITS);
    let Ok(found) = &scanned else {
        let fault = scanned.expect_err("it is a fault");
        assert!(!fault.detail.contains(['\r', '\n']) && fault.detail.is_ascii());
        return;
    };
    // Joined again, the fields are the section.
    let mut joined = Vec::new();
    for field in &found.fields {
        joined.extend_from_slice(&[field.name, b":", field.value, b"\r\n"].concat());
    }
    let head = &input[..found.body_at];
    assert!(head == joined || head == [joined.as_slice(), b"\r\n"].concat());
    assert!(head.len() <= 200 && found.fields.len() <= 12 && found.received <= 3);
    assert!(SINGLE_FIELDS.iter().all(|name| found.all(*name).count() <= 1));

    let from = &found.from.address;
    assert_eq!(Address::parse(&from.to_string()).as_ref(), Ok(from));
    let shown = headers::shown(found, &LIMITS);
    assert!(shown.to.len() <= 3 && shown.cc.len() <= 3 && shown.references.len() <= 3);
    let texts = [&shown.subject, &shown.message_id, &found.from.name];
    for text in texts.into_iter().flatten() {
        assert!(text.len() <= 64 && !text.is_empty() && !text.contains(char::is_control));
    }
    match summarise(input, found, &[], &LIMITS) {
        Ok(mail) => {
            assert_eq!(&mail.from.address, from);
            let message = MessageParser::new().parse_headers(input).expect("it was read");
            let list = message.headers().from().expect("there is a From");
            let other = list.first().and_then(|mailbox| mailbox.address()).expect("with a mailbox");
            assert_eq!(Address::parse(other).as_ref(), Ok(from));
        }
        Err(fault) => assert!(matches!(fault.reason, Reason::SenderInvalid | Reason::Malformed)),
    }
});
