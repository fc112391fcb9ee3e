//! Threats G2 and G3, A3, A4, F1: the form of a header section.

use super::{crlf, limits, read, with_from};
use crate::domain::reason::Reason;
use crate::mail::fields::KnownField;
use crate::mail::scan::{SINGLE_FIELDS, scan, section};

fn refused(raw: &[u8]) -> (Reason, String, Option<String>) {
    let fault = scan(raw, &limits()).expect_err(&String::from_utf8_lossy(raw));
    assert!(fault.detail.is_ascii() && !fault.detail.contains(['\r', '\n']), "{fault}");
    (fault.reason, fault.detail, fault.from.map(|from| from.to_string()))
}

#[test]
fn a_section_is_read_as_received() {
    let raw =
        b"FROM: a@b.example\r\nsubject:\r\n  folded\r\n\tvalue \r\nX!#$~:\r\n\r\nbody\r\n\r\n";
    let headers = scan(raw, &limits()).unwrap();
    let fields: Vec<_> = headers.fields.iter().map(|f| (f.name, f.value)).collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"FROM", b" a@b.example"), (b"subject", b"\r\n  folded\r\n\tvalue "), (b"X!#$~", b"")];
    assert_eq!(fields, expected);
    assert_eq!(&raw[headers.body_at..], b"body\r\n\r\n");
    assert_eq!(headers.first(KnownField::Subject), Some(&b"\r\n  folded\r\n\tvalue "[..]));
    assert_eq!(headers.first(KnownField::To), None);
    assert_eq!(headers.all(KnownField::From).count(), 1);
}

#[test]
fn a_message_may_have_no_body() {
    for raw in [&b"From: a@b.example\r\n"[..], b"From: a@b.example\r\n\r\n"] {
        assert_eq!(scan(raw, &limits()).unwrap().body_at, raw.len());
        assert_eq!(read(raw, &limits()).unwrap().text, "");
    }
}

#[test]
fn raw_octets_in_values_are_fine() {
    let raw = b"From: B\xf6ss <a@b.example>\r\nSubject: \xe4\xff\x80\tx\r\n\r\n";
    let headers = scan(raw, &limits()).unwrap();
    assert_eq!(headers.from.name.as_deref(), Some("B\u{fffd}ss"));
    assert!(!headers.needs_smtputf8);
}

/// The variants of F1 that made two libraries see two senders, and all similar lines.
#[test]
fn a_line_that_is_no_field_is_malformed() {
    let evil = b"From: x@evil.example\r\n".as_slice();
    for line in [
        b":From: boss@good.example\r\n".as_slice(),
        b"\x0cFrom: boss@good.example\r\n",
        b"Fr\x0com: boss@good.example\r\n",
        b"From\x0c: boss@good.example\r\n",
        b"From:\x0c boss@good.example\r\n",
        b"garbage\r\nFrom: boss@good.example\r\n",
        b"garbage\r\n",
        b"From\r\n : boss@good.example\r\n",
        b"From\r\n boss@good.example\r\n",
        b"From : boss@good.example\r\n",
        b"From\t: boss@good.example\r\n",
        b"Fr om: boss@good.example\r\n",
        b"From\0: boss@good.example\r\n",
        b"From:\0 boss@good.example\r\n",
        b"\xef\xbb\xbfFrom: boss@good.example\r\n",
        b"\xc2\xa0From: boss@good.example\r\n",
        b"From\xc2\xa0: boss@good.example\r\n",
        b"\nFrom: boss@good.example\r\n",
        b"\rFrom: boss@good.example\r\n",
        b"X: y\nFrom: boss@good.example\r\n",
        b"X: y\rFrom: boss@good.example\r\n",
        b"X: y\r\rFrom: boss@good.example\r\n",
        b"X: y\n\r\nFrom: boss@good.example\r\n",
        b" \r\nFrom: boss@good.example\r\n",
        b"X: y\r\n\t\r\nFrom: boss@good.example\r\n",
        b"X: y\r\n \t \r\n",
        b"\r\r\nFrom: boss@good.example\r\n",
        b"\n\nFrom: boss@good.example\r\n",
        b"X: \x7f\r\n",
        b"X: \x1b[0m\r\n",
        b":\r\n",
        b": x\r\n",
        b"From\r\n",
    ] {
        for raw in [with_from(&[evil, line].concat()), with_from(&[line, evil].concat())] {
            let (reason, detail, _) = refused(&raw);
            assert_eq!(reason, Reason::Malformed, "{} {detail}", String::from_utf8_lossy(&raw));
        }
    }
}

#[test]
fn the_first_line_is_no_continuation() {
    for raw in [&b" From: a@b.example\r\n\r\n"[..], b"\tx\r\nFrom: a@b.example\r\n\r\n"] {
        let (reason, detail, _) = refused(raw);
        assert_eq!(
            (reason, detail.as_str()),
            (Reason::Malformed, "the message begins with a continuation line",)
        );
    }
}

#[test]
fn line_ends_are_crlf_to_the_end() {
    for raw in [
        &b"From: a@b.example"[..],
        b"From: a@b.example\r",
        b"From: a@b.example\n\nx",
        b"From: a@b.example\r\nX: y",
        b"From: a@b.example\r\n\r",
        b"From: a@b.example\r\n\n",
    ] {
        assert_eq!(refused(raw).0, Reason::Malformed, "{}", raw.escape_ascii());
    }
}

#[test]
fn the_first_blank_line_ends_the_section() {
    let raw = b"From: x@evil.example\r\n\r\nFrom: boss@good.example\r\n\0\n";
    assert_eq!(scan(raw, &limits()).unwrap().from.address.to_string(), "x@evil.example");
}

#[test]
fn size_and_count_are_bounded() {
    let mut limits = limits();
    limits.max_header_bytes = 4096;
    let fits = |total: usize| {
        let head = b"From: a@b.example\r\nX: ".as_slice();
        let fill = vec![b'x'; total - head.len() - 4];
        [head, &fill, b"\r\n\r\n", &[b'y'; 9000]].concat()
    };
    assert_eq!(scan(&fits(4096), &limits).unwrap().body_at, 4096);
    for total in [4097, 4098, 4099, 4100, 8000] {
        let fault = scan(&fits(total), &limits).unwrap_err();
        assert_eq!(fault.detail, "the header section is longer than 4096 bytes", "{total}");
        assert_eq!(fault.reason, Reason::Malformed);
        assert_eq!(fault.from.unwrap().to_string(), "a@b.example");
    }
    limits.max_header_fields = 5;
    let fields = |count| crlf(&("From: a@b.example\n".to_owned() + &"X: y\n".repeat(count) + "\n"));
    assert_eq!(scan(&fields(4), &limits).unwrap().fields.len(), 5);
    let fault = scan(&fields(5), &limits).unwrap_err();
    assert_eq!(fault.detail, "the header section has more than 5 fields");
    assert_eq!(fault.reason, Reason::Malformed);
}

#[test]
fn too_many_received_fields_are_a_loop() {
    let limit = limits().max_received_fields;
    let raw = |count| crlf(&("rEceived: x\n".repeat(count) + "From: a@b.example\n\n"));
    assert_eq!(scan(&raw(limit), &limits()).unwrap().received, limit);
    let (reason, detail, from) = refused(&raw(limit + 1));
    assert_eq!(reason, Reason::LoopDetected);
    assert_eq!(detail, "the message has 101 Received fields, more than 100");
    assert_eq!(from.as_deref(), Some("a@b.example"));
}

#[test]
fn single_fields_may_not_repeat() {
    for name in SINGLE_FIELDS.iter().map(|name| name.as_str()) {
        let repeated = format!("{name}: a@b.example\n{}: a@b.example\n", name.to_uppercase());
        let from = if name == "From" { "" } else { "From: a@b.example\n" };
        let (reason, detail, address) = refused(&crlf(&format!("{from}{repeated}\n")));
        assert_eq!(reason, Reason::SenderInvalid);
        assert_eq!(detail, format!("the message has more than one {name} field"));
        assert_eq!(address.as_deref(), Some("a@b.example"));
    }
    let many = "Received: x\nReceived: y\nDKIM-Signature: x\nDKIM-Signature: y\nX: 1\nX: 2\n";
    assert!(scan(&crlf(&format!("{many}From: a@b.example\n\n")), &limits()).is_ok());
}

#[test]
fn the_record_gets_the_section_and_never_the_body() {
    for (raw, expected) in [
        (&b"A: b\r\nC: d\r\n\r\nbody"[..], &b"A: b\r\nC: d\r\n"[..]),
        (b"A: b\nC: d\n\nbody", b"A: b\nC: d\n"),
        (b"A: b\n\r\nbody", b"A: b\n"),
        (b"A: b\r\n \t\r\nbody", b"A: b\r\n"),
        (b"A: b\r\n\r\r\nbody", b"A: b\r\n"),
        (b"\r\nbody", b""),
        (b"A: b\rC: d\r\rbody", b"A: b\rC: d\r"),
        (b"A: b\r\rbody\r\n", b"A: b\r"),
        (b"A: b\r\nDear Bob,\r\nbody", b"A: b\r\n"),
        (b"body", b""),
        (b" body: x", b""),
        (b"A: b\r\n\0\0body", b"A: b\r\n"),
        (b"A : b\r\n\tc\r\nD\t: e\r\n:body", b"A : b\r\n\tc\r\nD\t: e\r\n"),
        (b"A: b", b"A: b"),
        (b"", b""),
    ] {
        assert_eq!(section(raw, 100), expected, "{}", raw.escape_ascii());
    }
    assert_eq!(section(b"A: bcdef\r\n\r\nbody", 5), b"A: bc");
    assert_eq!(section(b"A: b\r\n\r\nbody", 0), b"");
}
