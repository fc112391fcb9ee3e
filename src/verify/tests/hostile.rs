//! Hostile mail: differing parsers, poisoned names, cost.

use std::fmt::Write as _;
use std::time::Duration;

use mail_auth::dkim::Canonicalization::{Relaxed, Simple};

use super::forge::Forge;
use super::{Bench, MAIL, rsa_key, step};
use crate::domain::address::Address;
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;
use crate::testkit::signer::Key;

#[tokio::test]
async fn another_from_than_the_scanners_is_refused() {
    let bench = Bench::new().await;
    let signer = bench.rsa("evil.example");
    for from in [
        "From: x@evil.example\r\nFrom: boss@good.example\r\n",
        "From: boss@good.example\r\nFrom: x@evil.example\r\n",
        "From: x@evil.example, boss@good.example\r\n",
        "From: x@evil.example\r\n",
        "From: group: boss@good.example, x@evil.example;\r\n",
        "From: <x@good.example>boss@good.example\r\n",
        "From: <@good.example:x@evil.example>\r\n",
        "From: \"boss@good.example\" <x@evil.example>\r\n",
        "From:\r\n",
        "",
    ] {
        let mail = format!("{from}Subject: Hi\r\n\r\nHello.\r\n");
        let signed = signer.sign(mail.as_bytes()).unwrap();
        bench.refuses(&signed, Reason::SenderInvalid, "differently").await;
    }
    bench.refuses(b"", Reason::SenderInvalid, "").await;
    bench.refuses(b"\r\n\r\n", Reason::SenderInvalid, "").await;
}

#[tokio::test]
async fn every_spelling_of_the_same_mailbox_is_the_same() {
    for (from, sender, d) in [
        ("BOSS@GOOD.example", "boss@good.example", "good.example"),
        ("b\u{d6}ss@good.example", "b\u{d6}ss@good.example", "good.example"),
        ("boss@m\u{fc}nchen.example", "boss@xn--mnchen-3ya.example", "xn--mnchen-3ya.example"),
        ("boss@xn--mnchen-3ya.example", "boss@m\u{fc}nchen.example", "xn--mnchen-3ya.example"),
        // Their small letters differ, or depend on the next letter.
        ("BO\u{3a3}@good.example", "bo\u{3a3}@good.example", "good.example"),
        ("bo\u{3c2}@good.example", "bo\u{3c2}@good.example", "good.example"),
        ("\u{130}x@good.example", "\u{130}x@good.example", "good.example"),
        ("bo\u{1e9e}@good.example", "bo\u{1e9e}@good.example", "good.example"),
    ] {
        let bench = Bench::new().await;
        let mail = MAIL.replace("boss@good.example", from);
        let signed = bench.rsa(d).sign(mail.as_bytes()).unwrap();
        let answer = bench.check_from(&signed, sender).await;
        assert_eq!(answer.proof, Proof::Authenticated, "{from}: {answer:#?}");
    }
}

/// Mailboxes that become equal in lower case, and look-alikes.
#[tokio::test]
async fn different_mailboxes_are_different() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for (from, sender) in [
        ("\u{1e9e}", "\u{df}"),
        ("bo\u{3a3}", "bo\u{3c2}"),
        ("bo\u{3a3}", "bo\u{3c3}"),
        ("\u{130}", "i\u{307}"),
        ("\u{212a}", "k"),
        ("\u{d6}", "\u{f6}"),
    ] {
        for (from, sender) in [(from, sender), (sender, from)] {
            let mail = MAIL.replace("boss@", &format!("{from}@"));
            let signed = signer.sign(mail.as_bytes()).unwrap();
            // Invalid mailboxes never get this far.
            let Ok(sender) = Address::parse(&format!("{sender}@good.example")) else { continue };
            let proof = bench.check_from(&signed, &sender.to_string()).await.proof;
            assert_eq!(proof, Proof::Unproven(Reason::SenderInvalid), "{from} {sender}");
        }
    }
}

/// Threats F3: an answer for one purpose must not be used for another.
#[tokio::test]
async fn names_chosen_by_the_sender_poison_nothing() {
    let mut bench = Bench::new().await;
    bench.txt("_dmarc.good.example", "v=DMARC1; p=reject");
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    for poison in ["s1._domainkey.good.example", "_dmarc.good.example"] {
        bench.reverse_path = format!("x@{poison}");
        bench.client.helo = poison.into();
        bench.check(MAIL.as_bytes()).await;
        bench.reverse_path = String::new();
        bench.check(MAIL.as_bytes()).await;
    }
    let answer = bench.accepts(&signed).await;
    assert_eq!(answer.summary["dmarc"]["policy"], "reject");
    let spoof = bench.rsa("evil.example").sign(MAIL.as_bytes()).unwrap();
    bench.refuses(&spoof, Reason::DkimUnaligned, "").await;
}

#[tokio::test]
async fn domains_and_selectors_that_are_no_host_names() {
    let bench = Bench::new().await;
    let key = rsa_key("good.example");
    let record = key.txt_record().unwrap();
    for selector in ["s1._domainkey", "under_score._domainkey", "s1._domainkey._x"] {
        let name = &format!("{selector}.good.example");
        bench.txt(name, &record);
    }
    for (d, s, fine) in [
        ("good.example", "s1", true),
        ("GOOD.Example", "S1", true),
        ("good.example", "under_score", true),
        ("good.example.", "s1", false),
        ("_x.good.example", "s1", false),
        ("good.example\\", "s1", false),
        ("good.example\0", "s1", false),
        ("\"good.example\"", "s1", false),
        ("(x)good.example", "s1", false),
        ("good. example", "s1", false),
        ("g\u{43e}od.example", "s1", false),
        ("good.example", "s1..", false),
        ("good.example", "s1._domainkey", false),
        ("good.example", "x.good.example. s1", false),
        ("good.example", "-s1", false),
    ] {
        let tags = format!("v=1; a=rsa-sha256; c=relaxed/relaxed; d={d}; s={s}; h=from;");
        let mail = Forge::tagged(&key, &tags, &["from"]).sign(MAIL);
        let proof = bench.check(&mail).await.proof;
        assert_eq!(proof == Proof::Authenticated, fine, "d={d:?} s={s:?}: {proof:?}");
    }
}

/// Threats B10 and F7: only the first signatures are examined, whatever they contain.
#[tokio::test]
async fn the_eleventh_signature_is_not_looked_at() {
    let bench = Bench::new().await;
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    let signed = String::from_utf8(signed).unwrap();
    let nine = "DKIM-Signature: junk\r\n".repeat(9);
    bench.accepts(format!("{nine}{signed}").as_bytes()).await;
    let before = bench.dns.queries();
    let mail = format!("{nine}DKIM-Signature: junk\r\n{signed}");
    let answer = bench.refuses(mail.as_bytes(), Reason::DkimFailed, "unreadable").await;
    assert_eq!(answer.summary["dkim"].as_array().unwrap().len(), 10);
    // Only SPF and DMARC, and those from the cache.
    assert!(bench.dns.queries() <= before + 4);
}

/// Strangers' keys may be of any size, and come before the one that decided.
#[tokio::test]
async fn the_key_that_decided_is_kept_whatever_others_publish() {
    let bench = Bench::new().await;
    let good = bench.rsa("good.example");
    let key = Key::generate_ed25519().unwrap();
    let mut mail = String::from_utf8(good.sign(MAIL.as_bytes()).unwrap()).unwrap();
    for n in 0..9 {
        let tags =
            format!("v=1; a=ed25519-sha256; c=relaxed/relaxed; d=e{n}.example; s=s; h=from;");
        mail = String::from_utf8(Forge::tagged(&key, &tags, &["from"]).sign(&mail)).unwrap();
        for letter in ["a", "b", "c", "d"] {
            bench.txt(&format!("s._domainkey.e{n}.example"), &letter.repeat(8000));
        }
    }
    let answer = bench.accepts(mail.as_bytes()).await;
    let dkim = step(&answer, "dkim");
    assert_eq!(dkim["dns"].as_array().unwrap().len(), 10);
    assert_eq!(dkim["dns"][0]["name"], "s1._domainkey.good.example");
    assert_eq!(dkim["dns"][0]["answer"][0], good.key().txt_record().unwrap());
    assert!(dkim.to_string().len() < 128 * 1024 + 10_000);
}

#[tokio::test]
async fn many_signatures_with_many_lengths_cost_little() {
    // All on this thread, whose processor time does not depend on other work.
    let bench =
        Bench::with(Zone::default(), "[authentication]\noffload_above_bytes = 1073741824\n").await;
    let mut mail = String::new();
    for length in 900_001..900_480 {
        write!(
            mail,
            "DKIM-Signature: v=1; a=rsa-sha256; d=d{length}.example; s=s; h=from; l={length}; \
             bh=AAAA; b=AAAA\r\n"
        )
        .unwrap();
        write!(
            mail,
            "ARC-Message-Signature: i=1; a=rsa-sha256; d=good.example; s=s; h=from; l={length}; \
             bh=AAAA; b=AAAA\r\n"
        )
        .unwrap();
    }
    write!(mail, "{MAIL}{}", "0123456789abcde\r\n".repeat(60_000)).unwrap();
    let start = processor_time();
    let answer = bench.refuses(mail.as_bytes(), Reason::DkimFailed, "").await;
    assert_eq!(answer.summary["arc"]["result"], "fail");
    // Unoptimised 0.2 s; a hash per length took 12 s.
    let took = processor_time() - start;
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// Each different hash is a pass over the body; 24 MB with ten of them took 11 s unoptimised.
#[tokio::test]
async fn only_so_many_different_hashes_of_the_body_are_made() {
    for (hashes, proof) in [(1, Proof::Unproven(Reason::DkimUnaligned)), (2, Proof::Authenticated)]
    {
        let rules = format!("[authentication]\nmax_body_hashes = {hashes}\n");
        let bench = Bench::with(Zone::default(), &rules).await;
        let good = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let other = bench.rsa("list.example").canonicalization(Relaxed, Simple);
        let answer = bench.check(&other.sign(&good).unwrap()).await;
        assert_eq!(answer.proof, proof);
        let [first, second] = [0, 1].map(|nth| &answer.summary["dkim"][nth]);
        assert_eq!(first["result"], "pass", "{first}");
        if hashes == 1 {
            assert_eq!(second["reason"], "beyond the limits of this server");
        }
        // One more signature with the same parameters costs nothing.
        let third = bench.signer(rsa_key("list.example"), "good.example", "s3");
        let third = third.canonicalization(Relaxed, Simple);
        bench.accepts(&other.sign(&third.sign(&good).unwrap()).unwrap()).await;
    }
}

#[tokio::test]
async fn too_many_names_in_h_do_not_count_and_cost_little() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for (names, proof) in [
        (97, Proof::Authenticated),
        (98, Proof::Unproven(Reason::DkimFailed)),
        (30_000, Proof::Unproven(Reason::DkimFailed)),
    ] {
        let extra: String = (0..names).fold(String::new(), |mut text, n| {
            write!(text, ":x{n}").unwrap();
            text
        });
        let tags = format!(
            "v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1; \
             h=from:to:subject{extra};"
        );
        let mail = Forge::tagged(signer.key(), &tags, &["from", "to", "subject"]).sign(MAIL);
        let start = processor_time();
        assert_eq!(bench.check(&mail).await.proof, proof, "{names}");
        assert!(processor_time() - start < Duration::from_secs(5));
    }
}

/// RFC 6541 and RFC 6651 would let the sender choose further names for queries.
#[tokio::test]
async fn no_further_names_are_asked_for() {
    let bench = Bench::new().await;
    let signer = bench.rsa("evil.example");
    let tags = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=evil.example; s=s1; h=from; \
                atps=good.example; atpsh=none; r=y;";
    bench.txt("evil.example._atps.good.example", "v=ATPS1");
    bench.txt("_report._domainkey.evil.example", "ra=x");
    let mail = Forge::tagged(signer.key(), tags, &["from"]).sign(MAIL);
    assert_ne!(bench.check(&mail).await.proof, Proof::Authenticated);
    for name in ["evil.example._atps.good.example", "_report._domainkey.evil.example"] {
        assert_eq!(bench.dns.queries_for(name), 0, "{name}");
    }
    // The request for more look-ups does not hide a good signature.
    let good = bench.rsa("good.example");
    bench.accepts(&good.sign(&mail).unwrap()).await;
    let broken = Forge::tagged(signer.key(), tags, &["from", "subject"]).sign(MAIL);
    bench.accepts(&good.sign(&broken).unwrap()).await;
    // Nor does the tag in the good signature itself.
    let own = tags.replace("d=evil.example", "d=good.example");
    bench.accepts(&Forge::tagged(good.key(), &own, &["from"]).sign(MAIL)).await;
}

/// mail-auth reads `X=` as `x=`, unlike RFC 6376 §3.2; our own check must not overlook it.
#[tokio::test]
async fn a_tag_in_capitals_is_no_way_around_its_rule() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for tag in ["X=1700000000", "T=1700000000", "L=1"] {
        let tags =
            format!("v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1; h=from; {tag};");
        let mail = Forge::tagged(signer.key(), &tags, &["from"]).sign(MAIL);
        assert_ne!(bench.check(&mail).await.proof, Proof::Authenticated, "{tag}");
    }
}

#[tokio::test]
async fn what_the_sender_wrote_cannot_leave_its_place() {
    let mut bench = Bench::new().await;
    bench.client.helo = "x; dkim=pass header.d=good.example (\r\n".into();
    bench.reverse_path = "\"a\r\nX: y\"@evil.example; dmarc=pass".into();
    let junk =
        "DKIM-Signature: v=1; a=rsa-sha256; d=\u{202e}[31m(x\"; s=\u{9b}; h=from; bh=AAAA; b=AAAA";
    let answer = bench.check(format!("{junk}\r\n{MAIL}").as_bytes()).await;
    assert_eq!(answer.proof, Proof::Unproven(Reason::DkimFailed));
    let results = ["spf", "dmarc", "arc"].map(|name| &answer.summary[name]["result"]);
    assert_eq!(results, ["none", "none", "none"]);
    // People read the record of a step line by line.
    for step in answer.steps.as_array().unwrap() {
        let detail = step["detail"].as_str().unwrap();
        assert!(!detail.contains(|c: char| c.is_control()), "{detail:?}");
    }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}
