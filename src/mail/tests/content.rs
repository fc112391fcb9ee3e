//! Shapes of content: text, HTML and attachments; charsets, names, bombs.

use super::{crlf, limits, read};
use crate::domain::message::Mail;
use crate::domain::reason::Reason;
use crate::mail::mime::part;

const FROM: &str = "From: Boss <boss@good.example>\nMIME-Version: 1.0\n";

fn mail(rest: &str) -> Mail {
    read(&crlf(&format!("{FROM}{rest}")), &limits()).unwrap()
}

/// `type filename size`, with an asterisk if the part is not listed.
fn attachments(mail: &Mail) -> Vec<String> {
    mail.attachments
        .iter()
        .map(|a| {
            let star = if a.listed { "" } else { "*" };
            format!("{star}{} {} {}", a.content_type, a.filename, a.size)
        })
        .collect()
}

#[test]
fn a_message_without_mime_is_its_text() {
    let mail = mail("Subject: x\n\nHello,\n\nworld \n\n");
    assert_eq!(mail.text, "Hello,\n\nworld");
    assert_eq!((mail.html(), attachments(&mail).len()), (None, 0));
    assert_eq!(mail.findings, []);
}

#[test]
fn header_values_are_for_people() {
    let mail = mail(
        "To: \"Doe, J\" <j@x.example>, k@x.example,\n =?utf-8?q?=C3=84?= <l@x.example>\n\
         Cc: team: a@x.example, b@x.example;\nReply-To: Boss <BOSS@good.example>\n\
         Subject: =?utf-8?q?Gr=C3=BC?=\n =?utf-8?q?=C3=9Fe=00=0A?= you\n\
         Message-ID: <1@x.example>\nIn-Reply-To: <2@x.example>\n\
         References: <3@x.example>\n <2@x.example>\nAuto-Submitted: auto-replied\n\
         Disposition-Notification-To: <j@x.example>\n\nx",
    );
    assert_eq!(mail.to, ["\"Doe, J\" <j@x.example>", "k@x.example", "Ä <l@x.example>"]);
    assert_eq!(mail.cc, ["a@x.example", "b@x.example"]);
    assert_eq!(mail.reply_to, ["Boss <BOSS@good.example>"]);
    assert_eq!(mail.subject.as_deref(), Some("Grüße you"));
    assert_eq!(mail.message_id.as_deref(), Some("1@x.example"));
    assert_eq!(mail.in_reply_to, ["2@x.example"]);
    assert_eq!(mail.references, ["3@x.example", "2@x.example"]);
    assert_eq!(mail.auto_submitted.as_deref(), Some("auto-replied"));
    assert_eq!(mail.disposition_notification_to.as_deref(), Some("<j@x.example>"));
    assert_eq!(mail.from.name.as_deref(), Some("Boss"));
    assert_eq!(mail.findings, []);
}

#[test]
fn header_values_are_bounded() {
    let to = "To: ".to_owned() + &"a@x.example,\n ".repeat(5000) + "b@x.example\n";
    let ids: String = (0..5000).map(|n| format!(" <{n}@x.example>\n")).collect();
    let long = "x".repeat(20_000);
    let mail = mail(&format!("{to}References:{ids}Subject: {long}\nMessage-ID: <{long}>\n\n"));
    assert_eq!((mail.to.len(), mail.references.len()), (100, 100));
    assert_eq!(mail.references.last().map(String::as_str), Some("4999@x.example"));
    assert_eq!((mail.subject.unwrap().len(), mail.message_id.unwrap().len()), (2048, 2048));
}

#[test]
fn a_name_cannot_pass_for_an_address() {
    let mail = mail("To: \"boss@good.example> <x\" <y@evil.example>\n\n");
    assert_eq!(mail.to, ["\"boss@good.example> <x\" <y@evil.example>"]);
}

const ALTERNATIVE: &str = "Content-Type: multipart/mixed; boundary=o\n\npreamble\n\
    --o\nContent-Type: multipart/related; boundary=r\n\n\
    --r\nContent-Type: multipart/alternative; boundary=i\n\n\
    --i\nContent-Type: text/plain\n\nHello Al, see the report\n\
    --i\nContent-Type: text/html\n\n<p>Hello <b>Al</b>, see the report</p>\n\
    --i\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\n--i--\n\
    --r\nContent-Type: image/png; name=logo.png\nContent-ID: <l>\n\
    Content-Transfer-Encoding: base64\n\niVBORw==\n--r--\n\
    --o\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=\"../r.pdf\"\n\
    Content-Transfer-Encoding: base64\n\nJVBERi0xLjQK\n\
    --o\nContent-Type: message/rfc822\n\nFrom: c@d.example\nContent-Type: multipart/mixed;\n \
    boundary=n\n\n--n\n\ninner\n--n\nContent-Type: image/gif\n\nx\n--n--\n\
    --o\nContent-Type: text/plain; name=notes.txt\nContent-Disposition: attachment\n\nnotes\n\
    --o--\nepilogue\n";

#[test]
fn every_leaf_has_its_place() {
    let mail = mail(ALTERNATIVE);
    assert_eq!(mail.text, "Hello Al, see the report");
    assert_eq!(
        attachments(&mail),
        [
            "*text/html attachment.html 38",
            "text/calendar attachment.ics 15",
            "image/png logo.png 4",
            "application/pdf r.pdf 9",
            "message/rfc822 attachment.eml 120",
            "text/plain notes.txt 5",
        ]
    );
    assert_eq!(mail.html(), Some(&mail.attachments[0]));
    assert_eq!(mail.findings, []);
}

#[test]
fn a_part_is_served_by_its_number() {
    let raw = crlf(&format!("{FROM}{ALTERNATIVE}"));
    let mail = read(&raw, &limits()).unwrap();
    for attachment in &mail.attachments {
        let part = part(&raw, attachment.part).unwrap();
        assert_eq!(part.bytes.len() as u64, attachment.size);
        assert_eq!(part.content_type, attachment.content_type);
        assert_eq!(part.filename, attachment.filename);
    }
    let pdf = &mail.attachments[3];
    assert_eq!(part(&raw, pdf.part).unwrap().bytes, b"%PDF-1.4\n");
    // Containers, parts of forwarded messages and missing numbers are not served.
    let served: Vec<u32> = (0..40).filter(|index| part(&raw, *index).is_some()).collect();
    assert_eq!(served.len(), mail.attachments.len() + 1, "the text part besides: {served:?}");
    assert_eq!(part(&raw, u32::MAX), None);
    assert_eq!(part(b"", 1), None);
}

#[test]
fn html_alone_is_rendered() {
    let mail = mail("Content-Type: text/html; charset=UTF-8\n\n<p>Hello</p><p>w\u{f6}rld</p>");
    assert_eq!(mail.text, "Hello\n\nwörld");
    assert_eq!(attachments(&mail), ["*text/html attachment.html 25"]);
    assert_eq!(mail.html(), Some(&mail.attachments[0]));
}

#[test]
fn blank_plain_text_counts_as_none() {
    let mail = mail(
        "Content-Type: multipart/alternative; boundary=i\n\n--i\n\n \n\
         --i\nContent-Type: text/html\n\n<b>Hello</b>\n--i--\n",
    );
    assert_eq!(mail.text, "Hello");
}

#[test]
fn text_in_several_parts_is_joined() {
    let mail = mail(
        "Content-Type: multipart/mixed; boundary=o\n\n--o\n\none\n\
         --o\nContent-Type: image/png\n\nx\n--o\nContent-Type: text/html\n\n<b>two</b>\n--o--\n",
    );
    assert_eq!(mail.text, "one\n\ntwo");
    assert_eq!(attachments(&mail), ["image/png attachment.png 1", "*text/html attachment.html 10"]);
}

#[test]
fn a_message_that_is_one_attachment_has_no_text() {
    let mail = mail(
        "Content-Type: application/pdf; name=x.pdf\n\
         Content-Transfer-Encoding: base64\n\nJVBERi0xLjQK",
    );
    assert_eq!(
        (mail.text.as_str(), attachments(&mail)),
        ("", vec!["application/pdf x.pdf 9".into()])
    );
}

#[test]
fn a_multipart_without_parts_loses_nothing() {
    for rest in [
        "Content-Type: multipart/mixed; boundary=o\n\nno delimiter\n",
        "Content-Type: multipart/mixed\n\nno boundary\n",
        "Content-Type: multipart/mixed; boundary=o\n\nonly the end\n--o--\n",
    ] {
        let mail = mail(rest);
        assert!(mail.text.contains('n') || !mail.attachments.is_empty(), "{rest}");
    }
}

#[test]
fn charsets_become_utf8() {
    for (charset, octets, expected) in [
        ("iso-2022-jp", &b"\x1b$B$3$s$K$A$O\x1b(B"[..], "こんにちは"),
        ("windows-1252", b"5 \x80 \x93x\x94", "5 € “x”"),
        ("iso-8859-1", b"Gr\xfc\xdfe", "Grüße"),
        ("utf-7", b"+AGEA5A-", "a\u{e4}"),
        ("hz-gb-2312", b"~{<:Ky2;~}", "\u{5df1}\u{6240}\u{4e0d}"),
        ("iso-2022-kr", b"\x1b$)C\r\n\x0e0!\x0f.", "\u{ac00}."),
        ("ibm850", b"Gr\x81\xe1e", "Gr\u{fc}\u{df}e"),
        ("cp437", b"Gr\x81\xe1e", "Gr\u{fc}\u{df}e"),
        ("gb2312", b"\xc4\xe3\xba\xc3", "你好"),
        ("koi8-r", b"\xf0\xd2\xc9", "При"),
        ("utf-8", b"a\xffb\0c", "a\u{fffd}bc"),
        ("x-unknown", b"abc", "abc"),
        ("", "ä".as_bytes(), "ä"),
    ] {
        let head = format!("{FROM}Content-Type: text/plain; charset=\"{charset}\"\n\n");
        let raw = [&crlf(&head), octets].concat();
        assert_eq!(read(&raw, &limits()).unwrap().text, expected, "{charset}");
    }
}

#[test]
fn encoded_names_are_decoded_and_cleaned() {
    for (parameter, expected) in [
        ("filename*=utf-8''na%C3%AFve%2Fa.txt", "a.txt"),
        ("filename*0*=utf-8''na%C3; filename*1*=%AFve; filename*2=.txt", "naïve.txt"),
        ("filename=\"=?utf-8?q?na=C3=AFve.txt?=\"", "naïve.txt"),
        ("filename=\"a\\\\b\\\"c.txt\"", "b_c.txt"),
        ("filename=\"..\"", "attachment.bin"),
        ("filename=\"\"", "attachment.bin"),
        ("filename*=utf-8''x%E2%80%AEtxt.exe", "xtxt.exe"),
        ("filename*=utf-8''a%0D%0AX:%20y%00", "aX_ y"),
        ("filename=CON", "_CON"),
        ("filename*=shift_jis''%82%B1.txt", "\u{3053}.txt"),
        ("filename*=KOI8-R'ru'%F0.txt", "\u{41f}.txt"),
        ("filename*=iso-2022-jp''%1B%24B%243%1B%28B.txt", "\u{3053}.txt"),
        ("filename*=utf-8''%FF.txt", "\u{fffd}.txt"),
        ("filename*=UTF-7''%2BAGE-.txt", "+AGE-.txt"),
        ("filename=\"=?gb2312?b?xOM=?=.txt\"", "\u{4f60}.txt"),
    ] {
        let mail = mail(&format!(
            "Content-Type: application/x\nContent-Disposition: attachment; {parameter}\n\nx"
        ));
        assert_eq!(mail.attachments[0].filename, expected, "{parameter}");
    }
}

#[test]
fn strange_types_are_octets() {
    for declared in ["a b/c", "x/y\u{e4}", "x", "<script>/x", "/"] {
        let mail = mail(&format!("Content-Type: {declared}\nContent-Disposition: attachment\n\nx"));
        let found = &mail.attachments[0].content_type;
        assert!(found.is_ascii() && !found.contains([' ', '<']), "{declared}: {found}");
    }
}

#[test]
fn text_is_bounded() {
    let mut limits = limits();
    limits.max_text_bytes = 1024;
    for (kind, encoding) in [("plain", "8bit"), ("html", "8bit"), ("plain", "quoted-printable")] {
        let raw = format!(
            "{FROM}Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: \
             {encoding}\n\n{}",
            "äöü ".repeat(50_000)
        );
        let text = read(&crlf(&raw), &limits).unwrap().text;
        assert!((1000..=1024).contains(&text.len()), "{kind} {encoding} {}", text.len());
    }
}

fn malformed(raw: &[u8]) {
    let fault = read(raw, &limits()).unwrap_err();
    assert_eq!(fault.reason, Reason::Malformed);
    assert_eq!(fault.from.unwrap().to_string(), "boss@good.example");
}

#[test]
fn too_many_parts_are_refused() {
    let head = format!("{FROM}Content-Type: multipart/mixed; boundary=o\n\n");
    let message = |parts| crlf(&format!("{head}{}--o--\n", "--o\n\nx\n".repeat(parts)));
    assert!(read(&message(999), &limits()).is_ok());
    malformed(&message(1000));
    malformed(&message(100_000));
}

#[test]
fn too_deep_nesting_is_refused() {
    let nested = |levels: usize| {
        let level = |n| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n");
        crlf(&format!("{FROM}{}\nx\n", (0..levels).map(level).collect::<String>()))
    };
    assert!(read(&nested(50), &limits()).is_ok());
    malformed(&nested(51));
    malformed(&nested(100_000));
    let forwarded = |levels: usize| {
        crlf(&format!("{FROM}{}\nx\n", "Content-Type: message/rfc822\n\n".repeat(levels)))
    };
    assert!(read(&forwarded(50), &limits()).is_ok());
    malformed(&forwarded(5000));
}

#[test]
fn the_text_of_a_bomb_is_bounded() {
    for bomb in [
        "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n".to_owned()
            + &"=".repeat(2_000_000),
        "Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n".to_owned()
            + &"=".repeat(2_000_000),
        format!("Content-Type: multipart/mixed; boundary=\"{}\"\n\nx", "b".repeat(200_000)),
        "Content-Type: multipart/mixed; boundary=b\n\n".to_owned() + &"--b5".repeat(300_000),
        "Subject: ".to_owned() + &"=?utf-8?q?a?= ".repeat(15_000) + "\n\n",
        "To: ".to_owned() + &"(".repeat(200_000) + "\n\n",
        "To: ".to_owned() + &"a:".repeat(100_000) + "\n\n",
        "Content-Type: application/x".to_owned()
            + &(0..9000).map(|n| format!(";\n name*{n}*=%41")).collect::<String>()
            + "\n\nx",
        "Content-Type: text/html\n\n".to_owned() + &"<div><p>".repeat(200_000),
    ] {
        let raw = crlf(&format!("{FROM}{bomb}"));
        if let Ok(mail) = read(&raw, &limits()) {
            assert!(mail.text.len() <= limits().max_text_bytes);
        }
    }
}

#[test]
fn remarks_reach_the_message() {
    let mail = mail(
        "Reply-To: x@evil.example\nSubject: a\u{202e}b\nContent-Type: text/html; charset=utf-8\n\n\
         <p hidden>obey me</p><a href=\"https://evil.example\">https://good.example</a>",
    );
    let kinds: Vec<_> = mail.findings.iter().map(|one| &*one.kind).collect();
    let expected = ["reply_to_differs", "bidi_characters", "link_text_differs", "hidden_text"];
    assert_eq!(kinds, expected);
    assert!(!mail.text.contains("obey"));
}

#[test]
fn the_answer_is_taken_from_its_history() {
    let mail = mail("Subject: Re: x\n\nYes.\n\nOn Mon, Bob <b@x.example> wrote:\n> ok?\n");
    assert_eq!(mail.stripped_text, "Yes.");
    assert!(mail.text.ends_with("> ok?"));
}
