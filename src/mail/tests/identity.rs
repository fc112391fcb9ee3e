//! Threats A1–A22, F2, F11 and G4, as far as the header section decides them: the sender of a
//! message, or that there is none.

use super::{crlf, limits, read, with_from};
use crate::domain::reason::Reason;
use crate::mail::scan::scan;
use crate::mail::summarise;

/// The sender that both the scanner and mail-parser see.
fn sender(from: &[u8]) -> Result<String, Reason> {
    let mail = read(&with_from(from), &limits()).map_err(|fault| fault.reason)?;
    Ok(mail.from.address.to_string())
}

#[test]
fn honest_senders_are_read_alike_by_both_scanners() {
    for (from, expected) in [
        // A7: a comment never yields the address.
        ("From: (boss@good.example) x@evil.example\r\n", "x@evil.example"),
        ("From: boss@good.example (x@evil.example)\r\n", "boss@good.example"),
        // A8: an encoded word is a name.
        ("From: =?utf-8?q?=3Cboss=40good.example=3E?= <x@evil.example>\r\n", "x@evil.example"),
        ("From: =?utf-8?b?PGJvc3NAZ29vZC5leGFtcGxlPg==?= <x@evil.example>\r\n", "x@evil.example"),
        // A9: so is a quoted address.
        ("From: \"boss@good.example\" <x@evil.example>\r\n", "x@evil.example"),
        ("From: \"<boss@good.example>\" <x@evil.example>\r\n", "x@evil.example"),
        ("From: \"boss@good.example,\" <x@evil.example>\r\n", "x@evil.example"),
        // A14, A15, A16.
        ("From: boss@xn--mnchen-3ya.example\r\n", "boss@xn--mnchen-3ya.example"),
        ("From: boss@m\u{fc}nchen.example\r\n", "boss@xn--mnchen-3ya.example"),
        ("From: BOSS@GOOD.EXAMPLE\r\n", "boss@good.example"),
        ("From: boss+x@good.example\r\n", "boss+x@good.example"),
        ("From: b.o.s.s@good.example\r\n", "b.o.s.s@good.example"),
        // A18: only From counts.
        (
            "From: x@evil.example\r\nSender: boss@good.example\r\nReply-To: boss@good.example\r\n\
             Resent-From: boss@good.example\r\nReturn-Path: <boss@good.example>\r\n\
             X-Original-From: boss@good.example\r\n",
            "x@evil.example",
        ),
        // A22: folding is legal outside the address.
        ("From:\r\n x@evil.example\r\n", "x@evil.example"),
        ("From: The\r\n Boss\r\n\t<x@evil.example>\r\n", "x@evil.example"),
        // Ordinary mail.
        ("from: \"Doe, Jane\" <jane@good.example>\r\n", "jane@good.example"),
        ("From: Jane Q. Doe <jane@good.example>\r\n", "jane@good.example"),
        ("From: jane@good.example <jane@good.example>\r\n", "jane@good.example"),
        ("From: [List] Jane <jane@good.example>\r\n", "jane@good.example"),
        ("From: =?iso-8859-1?q?J=E4ne?= <jane@good.example>\r\n", "jane@good.example"),
        ("From: \"Jane \\\"J\\\" Doe\" <jane@good.example>\r\n", "jane@good.example"),
        ("From: <o'neil=x/y_z@good.example>\r\n", "o'neil=x/y_z@good.example"),
        ("From: J\u{e4}ne <jane@good.example>\r\n", "jane@good.example"),
    ] {
        assert_eq!(sender(from.as_bytes()), Ok(expected.to_owned()), "{from}");
    }
}

#[test]
fn nobody_is_the_sender_where_readers_could_disagree() {
    for from in [
        // A1, A2, F2: repeated fields.
        "From: x@evil.example\r\nFrom: boss@good.example\r\n",
        "From: boss@good.example\r\nfrom: x@evil.example\r\n",
        "From: a@good.example\r\nFrom: b@good.example\r\n",
        "From: a@good.example\r\nFrom: a@good.example\r\n",
        // A5, F2: lists.
        "From: x@evil.example, boss@good.example\r\n",
        "From: <x@evil.example>, <boss@good.example>\r\n",
        "From: boss@good.example,<x@evil.example>\r\n",
        "From: =?utf-8?b?PGJvc3NAZ29vZC5leGFtcGxlPg==?=,<x@evil.example>\r\n",
        "From: <boss@good.example>\\,<x@evil.example>\r\n",
        "From: , x@evil.example\r\n",
        // A6: groups and nothing.
        "From: team: boss@good.example;\r\n",
        "From: nobody:;\r\n",
        "From:\r\n",
        "From: \r\n",
        "From: <>\r\n",
        "From: Boss\r\n",
        "From: \"boss@good.example\"\r\n",
        "From: (boss@good.example)\r\n",
        "",
        // A8, F11: inside the address nothing is decoded.
        "From: =?utf-8?q?boss?=@good.example\r\n",
        "From: <=?utf-8?b?Ym9zc0Bnb29kLmV4YW1wbGU=?=>\r\n",
        "From: =?utf-8?b?Ym9zc0Bnb29kLmV4YW1wbGU=?=\r\n",
        // A10.
        "From: \"boss \"@good.example\r\n",
        "From: \"bo\\ss\"@good.example\r\n",
        "From: \"b@ss\"@good.example\r\n",
        // A11, F11.
        "From: <@good.example:x@evil.example>\r\n",
        "From: <@evil.example,@any.example:boss@good.example>\r\n",
        "From: <boss@good.example>x@evil.example\r\n",
        "From: <x@evil.example> boss@good.example\r\n",
        "From: <x@evil.example>boss@good.example\r\n",
        "From: boss@good.example <x@evil.example>\r\n",
        "From: <<boss@good.example>>\r\n",
        "From: <boss@good.example\r\n",
        "From: boss@good.example>\r\n",
        "From: boss@good.example@evil.example\r\n",
        "From: boss@good.example x@evil.example\r\n",
        "From: <boss@good.example> <x@evil.example>\r\n",
        "From: \"<boss@good.example> x@evil.example\r\n",
        "From: boss@good (x@evil.example).example\r\n",
        // A13.
        "From: boss@good\u{ff0e}example\r\n",
        "From: boss@\u{ff47}ood.example\r\n",
        "From: bo\u{200b}ss@good.example\r\n",
        "From: boss@go\u{200d}od.example\r\n",
        "From: boss@mu\u{308}nchen.example\r\n",
        // A17 and other invalid hosts.
        "From: boss@good.example.\r\n",
        "From: boss@[192.0.2.1]\r\n",
        "From: boss@192.0.2.1\r\n",
        "From: boss@-good.example\r\n",
        // A22: not inside the address.
        "From: boss@\r\n good.example\r\n",
        "From: <bo\r\n ss@good.example>\r\n",
    ] {
        assert_eq!(sender(from.as_bytes()), Err(Reason::SenderInvalid), "{from}");
    }
    assert_eq!(sender(b"From: b\xf6ss@good.example\r\n"), Err(Reason::SenderInvalid));
}

/// A10, F11: the quotation marks change nothing, so they are dropped. But mail-parser reads a bare
/// quoted local part as a name and an address without one, and where readers disagree the message
/// is refused.
#[test]
fn a_quoted_local_part_is_the_plain_one_or_refused() {
    let in_brackets = b"From: Boss <\"boss\"@good.example>\r\n";
    assert_eq!(sender(in_brackets), Ok("boss@good.example".to_owned()));
    let bare = with_from(b"From: \"boss\"@good.example\r\n");
    let scanned = scan(&bare, &limits()).unwrap();
    assert_eq!(scanned.from.address.to_string(), "boss@good.example");
    assert_eq!(read(&bare, &limits()).unwrap_err().reason, Reason::SenderInvalid);
}

/// A13: look-alikes are other addresses.
#[test]
fn homoglyphs_are_not_the_boss() {
    for from in ["From: b\u{43e}ss@good.example\r\n", "From: boss@g\u{43e}od.example\r\n"] {
        if let Ok(address) = sender(from.as_bytes()) {
            assert_ne!(address, "boss@good.example");
        }
    }
}

/// A12: an address outside ASCII needs SMTPUTF8.
#[test]
fn an_international_address_needs_smtputf8() {
    let raw = with_from("From: b\u{f6}ss@good.example\r\n".as_bytes());
    let headers = scan(&raw, &limits()).unwrap();
    assert!(headers.needs_smtputf8);
    assert_eq!(headers.permit(true), Ok(()));
    let fault = headers.permit(false).unwrap_err();
    assert_eq!(fault.reason, Reason::SenderInvalid);
    assert!(fault.detail.is_ascii());
    let raw = with_from("From: B\u{f6}ss <boss@good.example>\r\n".as_bytes());
    assert_eq!(scan(&raw, &limits()).unwrap().permit(false), Ok(()));
}

/// A8: no part of a name can become a line of its own in an event or a header.
#[test]
fn names_are_one_line() {
    let raw = with_from(b"From: =?utf-8?q?a=0D=0ABcc:_b=00=E2=80=AEc?= <x@evil.example>\r\n");
    let name = scan(&raw, &limits()).unwrap().from.name.unwrap();
    assert_eq!(name, "a Bcc: b c");
}

#[test]
fn a_fault_names_the_sender_only_where_one_is_clear() {
    let from = |raw: &[u8]| scan(raw, &limits()).unwrap_err().from.map(|from| from.to_string());
    let repeated = "From: a@b.example\nSubject: x\nSubject: y\n\n";
    assert_eq!(from(&crlf(repeated)).as_deref(), Some("a@b.example"));
    assert_eq!(from(b"From: a@b.example\r\nbroken\r\n\r\n").as_deref(), Some("a@b.example"));
    assert_eq!(from(&crlf("From: a@b.example\nFrom: c@d.example\n\n")), None);
    assert_eq!(from(&crlf("From: a@b.example, c@d.example\n\n")), None);
    assert_eq!(from(b""), None);
    assert_eq!(from(b"broken\r\nFrom: a@b.example\r\n\r\n"), None);
}

/// F1 (d): the library must read exactly the header section that was scanned.
#[test]
fn a_library_that_sees_another_message_is_not_believed() {
    let raw = with_from(b"From: x@evil.example\r\n");
    let headers = scan(&raw, &limits()).unwrap();
    assert!(summarise(&raw, &headers, &[], &limits()).is_ok());
    for other in [
        with_from(b"From: boss@good.example\r\n"),
        with_from(b"From: x@evil.example\r\nFrom: x@evil.example\r\n"),
        with_from(b"From: x@evil.example, boss@good.example\r\n"),
        with_from(b"From: x@evil.example\r\nX: y\r\n"),
        with_from(b""),
    ] {
        let fault = summarise(&other, &headers, &[], &limits()).unwrap_err();
        assert_eq!(fault.reason, Reason::SenderInvalid, "{fault}");
        assert!(fault.detail.starts_with("scanners disagree"), "{fault}");
    }
}
