use super::*;
use crate::app::intake::sha256;
use crate::domain::automation::Automation;
use crate::domain::policy::Proof;
use crate::mail::machine::{Signs, signs};
use crate::mail::scan::scan;
use crate::mail::summarise;
use crate::rules::{IntakeLimits, Rules};

fn limits() -> IntakeLimits {
    Rules::defaults().unwrap().intake.limits
}

fn examination(raw: &[u8], automation: Automation) -> Examination {
    Examination {
        proof: Proof::Authenticated,
        looping: false,
        sender: None,
        automation: Some(automation),
        markers: Vec::new(),
        mail: None,
        detail: None,
        explanation: None,
        size: 0,
        digest: sha256(raw),
        headers: Vec::new(),
        arrival_keys: Vec::new(),
        signatures: Vec::new(),
        results: None,
        steps: std::sync::Arc::default(),
    }
}

/// Returns the keys of a message with these signatures; `null` is for the null reverse-path.
fn keys_from(null: bool, signatures: &[&str], text: &str) -> Vec<[u8; 32]> {
    let raw = text.as_bytes();
    let headers = scan(raw, &limits()).unwrap();
    let automation = signs(&headers, null, &limits()).automation;
    let signatures: Vec<String> = signatures.iter().map(ToString::to_string).collect();
    let body = sha256(&raw[headers.body_at..]);
    keys(&signatures, &headers, body, &examination(raw, automation))
}

fn keys_of(signatures: &[&str], text: &str) -> Vec<[u8; 32]> {
    keys_from(false, signatures, text)
}

fn same(one: &[[u8; 32]], other: &[[u8; 32]]) -> bool {
    one.iter().any(|key| other.contains(key))
}

const TEXT: &str = "From: a@b.example\r\nSubject: x\r\nX-Way: 1\r\n\r\nHello.\r\n";

const TRACED: &[&str] = &[
    "Received: from a by b; Mon, 05 Jan 2026 10:00:00 +0000\r\n",
    "X-Received: by 2002:a05:6402:1::1\r\n",
    "Return-Path: <a@b.example>\r\n",
    "Delivered-To: agent@agents.example\r\n",
    "Authentication-Results: mx.example; dkim=pass header.d=b.example\r\n",
    "Received-SPF: pass\r\n",
    "ARC-Seal: i=1; cv=none; d=c.example; s=s; a=rsa-sha256; b=AAAA\r\n",
    "ARC-Message-Signature: i=1; d=c.example; s=s; a=rsa-sha256; bh=AAAA; b=AAAA; h=from\r\n",
    "ARC-Authentication-Results: i=1; mx.example; dkim=pass\r\n",
    "DKIM-Signature: v=1; d=c.example; s=s; a=rsa-sha256; h=from; bh=AAAA; b=AAAA\r\n",
    "dkim-signature: v=1; d=notb.example\r\n",
];

#[test]
fn a_signature_and_all_that_is_not_a_trace_make_a_message() {
    let first = keys_of(&["AAAA"], TEXT);
    assert!(same(&first, &keys_of(&["BBBB", "AAAA"], &TEXT.replace("From", "from"))));
    assert!(!same(&first, &keys_of(&["BBBB"], &TEXT.replace("From", "from"))));
    assert!(!same(&first, &keys_of(&[], &TEXT.replace("From", "from"))));
    for field in TRACED {
        assert!(same(&first, &keys_of(&["AAAA"], &format!("{field}{TEXT}"))), "{field}");
    }
    for other in [
        TEXT.replace(": x", ":  x"),
        TEXT.replace(": x", ":\r\n x"),
        TEXT.replace("X-Way: 1", "X-Way: 2"),
        TEXT.replace("X-Way: 1\r\n", ""),
        TEXT.replace("Hello.", "Hello. "),
        TEXT.replace("Subject: x\r\nX-Way: 1", "X-Way: 1\r\nSubject: x"),
        format!("{TEXT}\r\n"),
        format!("X-Received-By: x\r\n{TEXT}"),
        format!("DKIM-Signature: v=1\r\n{TEXT}"),
        format!("DKIM-Signature: v=1; d=c.example; d=c.example\r\n{TEXT}"),
        format!("DKIM-Signature: v=1; d=mail.b.example\r\n{TEXT}"),
    ] {
        assert!(!same(&first, &keys_of(&["AAAA"], &other)), "{other}");
    }
    // A field moved into the value of the one before is another header section.
    let moved = TEXT.replace(" x\r\nX-Way: 1", " x\r\n X-Way: 1");
    assert!(!same(&first, &keys_of(&["AAAA"], &moved)));
}

/// A signature of the sender's own domain belongs to the message. Its folding does not matter, as
/// long as the signature still verifies.
#[test]
fn the_signature_itself_may_be_folded_in_another_way() {
    let signed = |form: &str, fold: &str, inside: &str| {
        format!("DKIM-Signature: v=1;{form} d=b.example;{fold}b=AA{inside}AA\r\n{TEXT}")
    };
    let folded = |form| {
        let first = keys_of(&["AAAA"], &signed(form, " ", " "));
        same(&first, &keys_of(&["AAAA"], &signed(form, "\r\n\t", "\r\n\t")))
    };
    assert!(folded(" c=relaxed/simple;"));
    assert!(!folded(" c=simple/relaxed;") && !folded(""), "it does not hold any more");
    let first = keys_of(&["AAAA"], &signed("", " ", " "));
    // A signature does not cover its own `b=`.
    assert!(same(&first, &keys_of(&["AAAA"], &signed("", " ", "\r\n\t"))));
    assert!(!same(&first, &keys_of(&["AAAA"], TEXT)), "one is missing");
}

/// An added blank can break a signature, and the other one then proves the message. That one may
/// leave more fields open, which changes the fields that are named as unsigned.
#[test]
fn a_copy_with_one_of_two_signatures_broken_is_another_message() {
    let signed = |names: &str, b: &str| {
        let rest = "s=s; bh=AAAA";
        format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=b.example; {rest};\r\n\
             \th={names}; b={b}\r\n\
             DKIM-Signature: v=1; a=rsa-sha256; c=relaxed; d=b.example; {rest}; h=from; b=BBBB\r\n\
             {TEXT}"
        )
    };
    let first = keys_of(&["AAAA", "BBBB"], &signed("from:subject", "AAAA"));
    for again in [signed("from:subject", "AA\r\n AA"), signed("from:subject", " AAAA")] {
        assert!(same(&first, &keys_of(&["AAAA", "BBBB"], &again)), "{again}");
    }
    for broken in [signed("from: subject", "AAAA"), signed("from:subject", "AAAB")] {
        assert!(!same(&first, &keys_of(&["BBBB"], &broken)), "{broken}");
    }
}

/// Tags behind `b=` are not read as a part of its value.
#[test]
fn what_is_behind_a_signature_is_not_taken_for_a_part_of_it() {
    let signed = |tags: &str| format!("DKIM-Signature: v=1; d=b.example; {tags}\r\n{TEXT}");
    let first = keys_of(&["AAAA"], &signed("b=ABCD;"));
    assert!(!same(&first, &keys_of(&["AAAA"], &signed("b=CD;AB"))));
    let first = keys_of(&["AAAA"], &signed("b=AAAA; h=from"));
    assert!(!same(&first, &keys_of(&["AAAA"], &signed("b=AA; h=fromAA"))));
}

#[test]
fn the_same_bytes_are_the_same_message_whichever_signature_verified() {
    assert!(same(&keys_of(&["AAAA"], TEXT), &keys_of(&["BBBB"], TEXT)));
    assert!(same(&keys_of(&["AAAA"], TEXT), &keys_of(&[], TEXT)));
}

/// A message that one signature alone can prove has one key: its bytes bring that signature again.
/// If another proof may bring the same bytes, the bytes are a key too.
#[test]
fn the_bytes_are_a_key_only_where_another_proof_may_bring_them_again() {
    let own = |b: &str| format!("DKIM-Signature: v=1; d=b.example; s=s; b={b}\r\n");
    let seal = "ARC-Seal: i=1; cv=none; d=c.example; s=s; a=rsa-sha256; b=AAAA\r\n";
    let foreign = "DKIM-Signature: v=1; d=c.example; s=s; b=CCCC\r\n";
    let [a, b, none]: [&[&str]; 3] = [&["AAAA"], &["BBBB"], &[]];
    for (front, proofs, by_bytes) in [
        (own("AAAA"), vec![a], false),
        (own("AA\r\n AA"), vec![a], false),
        (format!("{}{foreign}", own("AAAA")), vec![a], false),
        (format!("{}{}", own("AAAA"), own("BBBB")), vec![a, b], true),
        (format!("{seal}{}", own("AAAA")), vec![a, none], true),
        (seal.to_owned(), vec![none], true),
    ] {
        let text = format!("{front}{TEXT}");
        let every: Vec<_> = proofs.iter().map(|proof| keys_of(proof, &text)).collect();
        for one in &every {
            assert!(every.iter().all(|other| same(one, other)), "{front}");
            assert_eq!(same(one, &keys_of(none, &text)), by_bytes, "{front}");
        }
        assert_eq!(every[0].len(), if proofs.len() > 1 { 2 } else { 1 }, "{front}");
    }
}

/// The null reverse-path makes the message a bounce, in the envelope or in Return-Path.
#[test]
fn what_is_judged_otherwise_is_another_message() {
    let first = keys_of(&["AAAA"], TEXT);
    assert!(!same(&first, &keys_from(true, &["AAAA"], TEXT)));
    assert!(!same(&first, &keys_of(&["AAAA"], &format!("Return-Path: <>\r\n{TEXT}"))));
    assert!(same(&keys_from(true, &["AAAA"], TEXT), &keys_from(true, &[], TEXT)));
}

/// A trace may be left out of the comparison only because nothing is read from it.
#[test]
fn a_trace_changes_nothing_that_is_shown_or_judged() {
    let read = |text: &str| {
        let headers = scan(text.as_bytes(), &limits()).unwrap();
        let Signs { automation, markers, .. } = signs(&headers, false, &limits());
        let mail = summarise(text.as_bytes(), &headers, &[], &limits()).unwrap();
        (automation, markers, mail)
    };
    let plain = read(TEXT);
    for name in TRACES {
        assert!(TRACED.iter().any(|field| field.starts_with(name)), "{name}");
    }
    for field in TRACED {
        assert_eq!(read(&format!("{field}{TEXT}")), plain, "{field}");
    }
}
