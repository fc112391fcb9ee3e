//! Random bytes and damaged messages: every run returns, and always the same result.

use proptest::prelude::*;

use super::{limits, read};
use crate::mail::mime::part;
use crate::mail::scan::{scan, section};

const REAL: &str = "Received: from a.example by b.example; Mon, 1 Jan 2024 00:00:00 +0000\r\n\
    From: =?utf-8?q?B=C3=B6ss?= <boss@good.example>\r\n\
    To: \"Agent, The\" <agent@gw.example>, x@y.example\r\nReply-To: z@y.example\r\n\
    Subject: =?iso-8859-1?q?Gr=FC=DFe?=\r\n from us\r\nMessage-ID: <1@good.example>\r\n\
    MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"o\"\r\n\r\n\
    --o\r\nContent-Type: multipart/alternative; boundary=i\r\n\r\n\
    --i\r\nContent-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B$3$s\x1b(B\r\n\
    --i\r\nContent-Type: text/html; charset=windows-1252\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\n\
    <p style=3D\"display:none\">h</p><a href=3D\"https://a.example\">b.example</a>=80\r\n--i--\r\n\
    --o\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntext\r\n\
    --o\r\nContent-Type: application/pdf; name*0*=utf-8''a%2F; name*1=b.pdf\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nJVBERi0xLjQK\r\n--o--\r\n";

/// Runs the whole room; the result may be any, but must not change.
fn exercise(raw: &[u8]) -> Result<(), TestCaseError> {
    let limits = limits();
    let outcome = read(raw, &limits);
    prop_assert_eq!(&outcome, &read(raw, &limits));
    prop_assert!(section(raw, 100).len() <= 100);
    if let Ok(headers) = scan(raw, &limits) {
        prop_assert!(headers.body_at <= raw.len());
    }
    if let Ok(mail) = outcome {
        prop_assert!(!mail.text.contains(['\0', '\r']) && mail.text.len() <= limits.max_text_bytes);
        prop_assert!(mail.text.trim().is_empty() || !mail.stripped_text.is_empty());
        for attachment in &mail.attachments {
            let served = part(raw, attachment.part);
            prop_assert_eq!(served.map(|part| part.bytes.len() as u64), Some(attachment.size));
            prop_assert!((1..=255).contains(&attachment.filename.len()));
        }
    }
    Ok(())
}

#[test]
fn the_real_message_reads_well() {
    let mail = read(REAL.as_bytes(), &limits()).unwrap();
    assert_eq!(mail.attachments.len(), 3);
    exercise(REAL.as_bytes()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn random_octets_get_an_answer(raw in proptest::collection::vec(any::<u8>(), 0..600)) {
        exercise(&raw)?;
    }

    #[test]
    fn random_values_of_from_get_an_answer(
        value in proptest::collection::vec(
            proptest::sample::select(b"ab@.,:;<>()\"\\ \t=?\xc3\xbc[]".to_vec()), 0..40),
    ) {
        let raw = [b"From:".as_slice(), &value, b"\r\n\r\nx\r\n"].concat();
        exercise(&raw)?;
    }

    #[test]
    fn random_html_gets_an_answer(html in "[<>/!a-z\"'=:;& \\-\u{e4}]{0,300}") {
        let head = "From: a@b.example\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";
        exercise(format!("{head}{html}").as_bytes())?;
    }

    #[test]
    fn random_octets_get_an_answer_whatever_they_are_called(
        kind in proptest::sample::select(vec!["text/plain", "text/html", "<html>", "multipart/x"]),
        charset in proptest::sample::select(vec![
            "utf-7", "hz-gb-2312", "iso-2022-kr", "cp437", "cp857", "utf-16", "x-unknown", "utf-8"]),
        encoding in proptest::sample::select(vec!["base64", "quoted-printable", "8bit"]),
        body in proptest::collection::vec(prop_oneof![
            any::<u8>(),
            proptest::sample::select(b"+-~{}=\x1b$)C\x0e\x0f \r\n<p>AGBhello/".to_vec()),
        ], 0..300),
    ) {
        let head = format!(
            "From: a@b.example\r\nContent-Type: {kind}; charset={charset}\r\n\
             Content-Transfer-Encoding: {encoding}\r\n\r\n");
        exercise(&[head.as_bytes(), &body].concat())?;
    }

    #[test]
    fn damaged_messages_get_an_answer(
        edits in proptest::collection::vec((0..REAL.len(), 0_u8..4, any::<u8>()), 1..12),
    ) {
        let mut raw = REAL.as_bytes().to_vec();
        for (at, kind, byte) in edits {
            let at = at.min(raw.len() - 1);
            match kind {
                0 => raw[at] = byte,
                1 => raw.insert(at, byte),
                2 => { raw.remove(at); }
                _ => {
                    let piece = raw[at..raw.len().min(at + usize::from(byte))].to_vec();
                    raw.extend(piece);
                }
            }
            if raw.is_empty() {
                raw.push(byte);
            }
        }
        exercise(&raw)?;
    }
}
