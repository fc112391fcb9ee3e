//! ARC: always recorded; it replaces a signature only if the operator trusts the sealer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::arc::ArcSealer;
use mail_auth::crypto::Ed25519Key;
use mail_auth::dkim::Signature;
use mail_auth::headers::HeaderWriter;
use mail_auth::{
    ArcOutput, AuthenticatedMessage, AuthenticationResults, DkimOutput, DkimResult, Error,
};

use super::forge::{Forge, relaxed_field, sign};
use super::{Bench, MAIL, NOW, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;
use crate::testkit::signer::Key;

const TRUSTED: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n\
    [authentication]\ntrusted_arc_sealers = [\"lists.example\"]\n";

/// A message whose signature a mailing list has broken, sealed by the list with a report of the
/// earlier result.
struct List {
    key: Key,
    sealer: &'static str,
    selector: &'static str,
    seen: DkimResult,
    domain: &'static str,
    headers: &'static [&'static str],
}

impl List {
    fn new() -> Self {
        Self {
            key: Key::generate_ed25519().unwrap(),
            sealer: "lists.example",
            selector: "arc",
            seen: DkimResult::Pass,
            domain: "good.example",
            headers: &["From", "To", "Subject", "Date"],
        }
    }

    fn publish(&self, bench: &Bench) {
        let name = format!("{}._domainkey.{}", self.selector, self.sealer);
        bench.txt(&name, &self.key.txt_record().unwrap());
    }

    fn send(&self, bench: &Bench) -> Vec<u8> {
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let changed = String::from_utf8(signed).unwrap().replace("Hello.", "Hello.\r\n-- \r\nList");
        self.seal(&changed, &ArcOutput::default())
    }

    /// Adds one more set to a message.
    async fn forward(&self, bench: &Bench, mail: &[u8]) -> Vec<u8> {
        let message = AuthenticatedMessage::parse(mail).unwrap();
        let chain = bench.authenticator.resolver.mail_auth().verify_arc(&message).await;
        assert_eq!(chain.result(), &DkimResult::Pass);
        self.seal(std::str::from_utf8(mail).unwrap(), &chain)
    }

    /// Builds the second set with times that mail-auth's sealer cannot write.
    fn set_by_hand(&self, mail: &str, signed: i64, expires: i64) -> String {
        let names = format!("d={}; s={};", self.sealer, self.selector);
        let tags = format!(
            "i=2; a=ed25519-sha256; c=relaxed/relaxed; {names} h=from:subject; t={signed}; x={expires};"
        );
        let forge = Forge {
            field: "ARC-Message-Signature",
            ..Forge::tagged(&self.key, &tags, &["from", "subject"])
        };
        let with_signature = String::from_utf8(forge.sign(mail)).unwrap();
        let report = "i=2; mx.lists.example; dkim=pass header.d=good.example";
        let seal = format!("i=2; a=ed25519-sha256; {names} t={signed}; cv=pass; b=");
        let header = with_signature.split("\r\n\r\n").next().unwrap().to_owned();
        let header = header.replace("\r\n ", " ").replace("\r\n\t", " ");
        let of = |set: &str, name: &str| {
            let fields = header.split("\r\n").filter_map(|field| field.split_once(':'));
            let (_, value) = fields
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .find(|(_, value)| value.contains(set))
                .unwrap();
            relaxed_field(name, value)
        };
        let data = [
            of("i=1;", "arc-authentication-results"),
            of("i=1;", "arc-message-signature"),
            of("i=1;", "arc-seal"),
            relaxed_field("arc-authentication-results", report),
            of("i=2;", "arc-message-signature"),
            relaxed_field("arc-seal", &seal),
        ];
        let signature = STANDARD.encode(sign(&self.key, data.join("\r\n").as_bytes()));
        let report = format!("ARC-Authentication-Results: {report}\r\n");
        format!("ARC-Seal: {seal}{signature}\r\n{report}{with_signature}")
    }

    fn seal(&self, changed: &str, chain: &ArcOutput<'_>) -> Vec<u8> {
        let message = AuthenticatedMessage::parse(changed.as_bytes()).unwrap();
        let signature = Signature { d: self.domain.into(), ..Signature::default() };
        let seen = DkimOutput::from(self.seen.clone()).with_signature(&signature);
        let results = AuthenticationResults::new("mx.lists.example")
            .with_dkim_result(&seen, "boss@good.example");
        let key = Ed25519Key::from_pkcs8_der(self.key.der()).unwrap();
        let set = ArcSealer::from_key(key)
            .domain(self.sealer)
            .selector(self.selector)
            .headers(self.headers.iter().copied())
            .seal(&message, &results, chain)
            .unwrap()
            .to_header();
        format!("{set}{changed}").into_bytes()
    }
}

#[tokio::test]
async fn a_chain_is_recorded_and_by_default_trusted_from_nobody() {
    let bench = Bench::new().await;
    let list = List::new();
    list.publish(&bench);
    let answer = bench.refuses(&list.send(&bench), Reason::DkimFailed, "body hash").await;
    let arc = &answer.summary["arc"];
    assert_eq!((arc["result"].as_str(), arc["standsIn"].as_bool()), (Some("pass"), Some(false)));
    assert_eq!(arc["sealer"], "lists.example");
    assert_eq!(step(&answer, "arc")["dns"][0]["name"], "arc._domainkey.lists.example");
}

#[tokio::test]
async fn a_trusted_sealer_stands_in_for_what_it_reports() {
    let bench = Bench::with(Zone::default(), TRUSTED).await;
    let list = List::new();
    list.publish(&bench);
    let answer = bench.accepts(&list.send(&bench)).await;
    assert_eq!(answer.detail, "vouched for by lists.example (ARC)");
    assert!(answer.signatures.is_empty());
    // The record says clearly what authenticated the message.
    let arc = step(&answer, "arc");
    assert_eq!((&arc["result"], &arc["inputs"]["standsIn"]), (&"pass".into(), &true.into()));
    assert_eq!(step(&answer, "alignment")["detail"], answer.detail);
    assert_eq!(step(&answer, "dkim")["result"], "fail");
    assert_eq!(answer.summary["alignedDomain"], serde_json::Value::Null);
}

/// The newest signature of the chain is the proof, not the broken one.
#[tokio::test]
async fn the_fields_that_the_chain_leaves_open_are_named() {
    for (headers, unsigned) in [
        (["From", "To", "Subject", "Date"].as_slice(), ["message-id"].as_slice()),
        (&["From"], &["date", "to", "message-id", "subject"]),
        (&["From", "Date", "To", "Subject", "Message-ID"], &[]),
    ] {
        let bench = Bench::with(Zone::default(), TRUSTED).await;
        let list = List { headers, ..List::new() };
        list.publish(&bench);
        let answer = bench.accepts(&list.send(&bench)).await;
        assert_eq!(answer.summary["unsignedHeaders"], serde_json::json!(unsigned));
        assert_eq!(answer.unsigned.len(), unsigned.len());
        // The chain has not signed a field that is added in front.
        let mail = String::from_utf8(list.send(&bench)).unwrap();
        let added = format!("Auto-Submitted: auto-replied\r\n{mail}");
        let answer = bench.accepts(added.as_bytes()).await;
        let found = answer.summary["unsignedHeaders"].as_array().unwrap().clone();
        assert_eq!(found.len(), unsigned.len() + 1, "{found:?}");
        assert!(found.contains(&"auto-submitted".into()), "{found:?}");
    }
}

/// The newest seal must be by a sealer that the operator trusts: a later one could have changed
/// anything.
#[tokio::test]
async fn only_the_newest_sealer_counts_and_only_its_own_report() {
    let fail = || DkimResult::Fail(Error::NotAligned);
    let stranger = || List { sealer: "other.example", ..List::new() };
    for (first, second, is_accepted) in [
        (List::new(), List::new(), true),
        (stranger(), List::new(), true),
        (List { seen: fail(), ..stranger() }, List::new(), true),
        // Trusted, but not the last.
        (List::new(), stranger(), false),
        // A forged set reports a result that the trusted sealer did not see.
        (stranger(), List { seen: fail(), ..List::new() }, false),
    ] {
        let second = List { selector: "arc2", ..second };
        let bench = Bench::with(Zone::default(), TRUSTED).await;
        first.publish(&bench);
        second.publish(&bench);
        let mail = second.forward(&bench, &first.send(&bench)).await;
        let answer = bench.check(&mail).await;
        let arc = &answer.summary["arc"];
        assert_eq!((&arc["result"], &arc["sets"]), (&"pass".into(), &2.into()), "{answer:#?}");
        assert_eq!(arc["sealer"], second.sealer);
        assert_eq!(arc["standsIn"], is_accepted);
        assert_eq!(answer.proof == Proof::Authenticated, is_accepted, "{answer:#?}");
    }
}

#[tokio::test]
async fn more_than_fifty_sets_are_not_looked_at() {
    let bench = Bench::with(Zone::default(), TRUSTED).await;
    let list = List::new();
    list.publish(&bench);
    let mail = String::from_utf8(list.send(&bench)).unwrap();
    for more in [49, 50] {
        let seals: String = (0..more)
            .map(|n| {
                format!("ARC-Seal: i={n}; a=rsa-sha256; d=d{n}.example; s=s; cv=pass; b=AAAA\r\n")
            })
            .collect();
        let before = bench.dns.queries();
        let answer =
            bench.refuses(format!("{seals}{mail}").as_bytes(), Reason::DkimFailed, "").await;
        let arc = step(&answer, "arc");
        assert_eq!(arc["result"], "fail");
        let is_over = arc["detail"].as_str().unwrap().contains("more than 50 sets");
        assert_eq!(is_over, more == 50, "{arc}");
        // No key of such a chain is queried; SPF, DMARC and PTR are cached the second time.
        assert!(bench.dns.queries() <= before + if is_over { 0 } else { 60 });
    }
}

#[tokio::test]
async fn a_trusted_sealer_must_have_seen_an_aligned_pass_and_sign_from() {
    let fail = DkimResult::Fail(Error::NotAligned);
    for list in [
        List { sealer: "other.example", ..List::new() },
        List { sealer: "sub.lists.example", ..List::new() },
        List { seen: fail, ..List::new() },
        List { domain: "evil.example", ..List::new() },
        List { headers: &["To", "Subject"], ..List::new() },
    ] {
        let bench = Bench::with(Zone::default(), TRUSTED).await;
        list.publish(&bench);
        bench.refuses(&list.send(&bench), Reason::DkimFailed, "").await;
    }
}

#[tokio::test]
async fn a_changed_or_incomplete_chain_stands_in_for_nothing() {
    let bench = Bench::with(Zone::default(), TRUSTED).await;
    let list = List::new();
    list.publish(&bench);
    let mail = String::from_utf8(list.send(&bench)).unwrap();
    for changed in [
        mail.replace("-- \r\nList", "-- \r\nPay"),
        mail.replace("From: Boss", "From: Chef"),
        mail.replace("ARC-Seal: ", "X-Seal: "),
        mail.replace("i=1; mx.lists", "i=1; my.lists"),
        mail.replace("cv=none", "cv=pass"),
        format!("ARC-Seal: i=1\r\n{mail}"),
    ] {
        assert_ne!(changed, mail);
        bench.refuses(changed.as_bytes(), Reason::DkimFailed, "").await;
    }
}

#[tokio::test]
async fn weak_keys_of_a_sealer_stand_in_for_nothing() {
    let bench = Bench::with(Zone::default(), TRUSTED).await;
    let list = List::new();
    let record = list.key.txt_record().unwrap().replace("v=DKIM1;", "v=DKIM1; t=y;");
    bench.txt("arc._domainkey.lists.example", &record);
    bench.refuses(&list.send(&bench), Reason::DkimFailed, "").await;
}

#[tokio::test]
async fn a_sealers_key_that_cannot_be_had_defers_only_where_it_is_trusted() {
    for (rules, proof) in [
        (TRUSTED, Proof::Undecidable(Reason::DnsUnavailable)),
        ("", Proof::Unproven(Reason::DkimFailed)),
    ] {
        let bench = Bench::with(Zone::default(), rules).await;
        bench.record("arc._domainkey.lists.example", "TXT", "SERVFAIL", "");
        let answer = bench.check(&List::new().send(&bench)).await;
        assert_eq!(answer.proof, proof);
        assert_eq!(answer.summary["arc"]["result"], "temperror");
        let causes = &step(&answer, "alignment")["inputs"]["causes"];
        let expected = if rules.is_empty() { "body_changed" } else { "chain_key_unavailable" };
        assert_eq!(*causes, serde_json::json!([expected]));
    }
}

/// `x=` is judged by the clock of the message, not by today's: a record is verified again as of its
/// day.
#[tokio::test]
async fn a_chain_expires_by_the_clock_of_the_message() {
    const THEN: i64 = 1_500_000_000;
    for (now, expires, body, result) in [
        (THEN, THEN + 100, "Hello.", "pass"),
        (THEN + 99, THEN + 100, "Hello.", "pass"),
        (THEN + 100, THEN + 100, "Hello.", "fail"),
        (THEN, THEN, "Hello.", "fail"),
        (THEN, THEN + 100, "Hallo.", "fail"),
        // Expired only by the clock of the message, or not at all.
        (NOW, NOW - 1, "Hello.", "fail"),
        (NOW, NOW + 1, "Hello.", "pass"),
    ] {
        let mut bench = Bench::with(Zone::default(), TRUSTED).await;
        bench.now = now;
        let (first, second) = (List::new(), List { selector: "arc2", ..List::new() });
        first.publish(&bench);
        second.publish(&bench);
        // The hand-made signature does not handle blanks at line ends.
        let mail = String::from_utf8(first.send(&bench)).unwrap().replace("-- \r", "--\r");
        let signed = now.min(expires) - 50 + if expires == THEN { 50 } else { 0 };
        let mail = second.set_by_hand(&mail, signed, expires).replace("Hello.", body);
        let answer = bench.check(mail.as_bytes()).await;
        let arc = step(&answer, "arc");
        assert_eq!(arc["result"], result, "{now} {expires} {body}: {arc:#}");
        assert_eq!(answer.proof == Proof::Authenticated, result == "pass", "{answer:#?}");
        // One byte of the older set, which the seals sign and the signature does not.
        let forged = mail.replace("i=1; mx.lists", "i=1; my.lists");
        assert_ne!(bench.check(forged.as_bytes()).await.proof, Proof::Authenticated);
    }
}

/// Like a signature, a chain that was sealed ahead of our clock defers.
#[tokio::test]
async fn a_chain_that_was_sealed_ahead_of_our_clock_waits() {
    for (ahead, proof, cause) in [
        (300, Proof::Authenticated, None),
        (3600, Proof::Undecidable(Reason::DkimNotYetValid), Some("chain_not_yet_valid")),
        (8 * 86_400, Proof::Unproven(Reason::DkimFailed), Some("body_changed")),
    ] {
        let bench = Bench::with(Zone::default(), TRUSTED).await;
        let (first, second) = (List::new(), List { selector: "arc2", ..List::new() });
        first.publish(&bench);
        second.publish(&bench);
        let mail = String::from_utf8(first.send(&bench)).unwrap().replace("-- \r", "--\r");
        let mail = second.set_by_hand(&mail, NOW + ahead, NOW + 100 * 86_400);
        let answer = bench.check(mail.as_bytes()).await;
        assert_eq!(answer.proof, proof, "{ahead}: {answer:#?}");
        let causes: Vec<&str> = cause.into_iter().collect();
        assert_eq!(step(&answer, "alignment")["inputs"]["causes"], serde_json::json!(causes));
    }
}

/// A sealer's report cannot allow a subdomain that the From domain forbids.
#[tokio::test]
async fn a_sealers_report_is_held_to_what_the_from_domain_publishes() {
    const OWN: &str = "_dmarc.good.example";
    for (rcode, record, itself, below) in [
        ("NOERROR", "v=DMARC1; p=none", Proof::Authenticated, Proof::Authenticated),
        (
            "NOERROR",
            "v=DMARC1; p=none; adkim=s",
            Proof::Authenticated,
            Proof::Unproven(Reason::DkimFailed),
        ),
        ("SERVFAIL", "", Proof::Authenticated, Proof::Undecidable(Reason::DnsUnavailable)),
    ] {
        for (domain, proof) in [("good.example", itself), ("sub.good.example", below)] {
            let bench = Bench::with(Zone::default(), TRUSTED).await;
            bench.record(OWN, "TXT", rcode, record);
            let list = List { domain, ..List::new() };
            list.publish(&bench);
            let answer = bench.check(&list.send(&bench)).await;
            assert_eq!(answer.proof, proof, "{rcode} {record} {domain}: {answer:#?}");
            let stands_in = &step(&answer, "arc")["inputs"]["standsIn"];
            assert_eq!(*stands_in, proof == Proof::Authenticated, "{rcode} {record} {domain}");
        }
    }
}
