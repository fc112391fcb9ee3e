//! The From that is authenticated is the From that is judged, stored and shown. Whatever is done
//! to a header section, all who read it name the same sender, or the message is refused
//! (threats F1, F2, F11, G2, G4, A1 to A22).

use std::collections::BTreeMap;

use gatepost::app::intake::Examination;
use gatepost::domain::address::Address;
use gatepost::domain::policy::Proof;
use gatepost::domain::reason::Reason;
use gatepost::mail::scan::scan;
use gatepost::testkit::case::{self, Case};
use gatepost::testkit::dns::Zone;
use gatepost::testkit::signer::{Key, Signer};
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::Value;

use crate::support::examiner::Examiner;
use crate::support::readers::{self, by_python};
use crate::support::{PATIENCE, TestGateway};

/// The real author, and the pretended one.
const EVE: &str = "eve@evil.example";
const BOSS: &str = "boss@good.example";

/// Where Python's parser fails: on a line end that an encoded word decodes to.
const UNREAD_BY_PYTHON: [&str; 1] = ["refused/sender_not_allowed/encoded_name_with_line_end"];

/// Made-up messages, and what became of them.
struct Trial {
    examiner: Examiner,
    key: Key,
    accepted: BTreeMap<String, Vec<u8>>,
    refused: usize,
    wrong: Vec<String>,
}

impl Trial {
    async fn new() -> Self {
        Self {
            examiner: Examiner::over(Zone::default()).await,
            key: Key::generate_ed25519().unwrap(),
            accepted: BTreeMap::new(),
            refused: 0,
            wrong: Vec::new(),
        }
    }

    /// A signer of this domain, whose key is published.
    fn signer(&self, domain: &str) -> Signer {
        let signer = Signer::new(self.key.clone(), domain, "s1");
        let (name, record) = (signer.key_name(), signer.key().txt_record().unwrap());
        let publish = |zone: &mut Zone| {
            zone.remove(&name, "TXT")?;
            zone.insert(&name, "TXT", "NOERROR", &record)
        };
        self.examiner.dns.change(publish).unwrap();
        signer
    }

    /// Examines a message. Refused, it must be for its format or its From.
    async fn send(&mut self, name: String, raw: Vec<u8>) -> Examination {
        let examined = self.examiner.examine(&raw).await;
        let refusals = [Reason::SenderInvalid, Reason::Malformed].map(Proof::Unproven);
        match readers::sender(&raw, &self.examiner.rules.limits, &examined) {
            Ok(Some(_)) => drop(self.accepted.insert(name, raw)),
            Ok(None) if refusals.contains(&examined.proof) => self.refused += 1,
            Ok(None) => self.wrong.push(format!("{name}: {:?}", examined.proof)),
            Err(difference) => self.wrong.push(format!("{name}: {difference}")),
        }
        examined
    }

    /// A message with these fields as its From, signed over what is there by the domain that our
    /// scanner sees.
    async fn send_from(&mut self, from: &[u8]) {
        let raw = [from, b"\r\nSubject: Hi\r\n\r\nHello.\r\n"].concat();
        let seen = scan(&raw, &self.examiner.rules.limits).map(|headers| headers.from.address);
        let domain = seen.as_ref().map_or("evil.example", |address| address.domain().as_str());
        let raw = self.signer(domain).sign(&raw).unwrap();
        self.send(String::from_utf8_lossy(from).into_owned(), raw).await;
    }

    /// No difference was found, and Python sees nobody else. (It cannot read everything that is
    /// common in display names, such as `[Team] Eve`.)
    async fn end(mut self, least: usize) {
        let seen = by_python(&self.accepted).await;
        for (name, raw) in &self.accepted {
            let sender = self.examiner.examine(raw).await.sender.unwrap();
            if readers::is_other(&seen[name], &sender) {
                self.wrong
                    .push(format!("{name}: {sender} is judged, Python reads {:?}", seen[name]));
            }
        }
        let Self { wrong, accepted, refused, .. } = self;
        assert!(wrong.is_empty(), "{} readings differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(accepted.len() >= least && refused >= least, "{} and {refused}", accepted.len());
    }
}

/// Threats F1, A3: any byte at any place of a line that would be a second From, in each place among
/// the fields. Eve signs the fields that mail-auth reads; only a line on top is added after the
/// signature.
#[tokio::test]
async fn no_line_beside_from_divides_the_readers() {
    let mut trial = Trial::new().await;
    let own = format!("From: Eve <{EVE}>\r\n");
    let mail = format!("X-First: 1\r\n{own}Subject: Hi\r\nTo: agent@gw.example\r\n\r\nHello.\r\n");
    let signer = trial.signer("evil.example").headers(["From", "Subject", "To"]);
    let signed = String::from_utf8(signer.sign(mail.as_bytes()).unwrap()).unwrap();
    let (above, below) = mail.split_once(&own).unwrap();
    for octet in 0..=u8::MAX {
        let places: [(&str, &[u8], &str); 7] = [
            ("", &[octet], "From: "),
            ("Fr", &[octet], "om: "),
            ("From", &[octet], ": "),
            ("From", &[b':', octet], ""),
            ("X-Note: one", &[octet], "From: "),
            ("X-Note: one\r\n", &[octet], "From: "),
            ("X-Note: one\r\n", &[octet, b'\r', b'\n'], "From: "),
        ];
        for (place, (before, octets, after)) in places.into_iter().enumerate() {
            let line =
                [before.as_bytes(), octets, after.as_bytes(), BOSS.as_bytes(), b"\r\n"].concat();
            for (where_, [first, second]) in [
                ("on top", ["", &signed]),
                ("above", [above, &format!("{own}{below}")]),
                ("below", [&format!("{above}{own}"), below]),
            ] {
                let mut raw = [first.as_bytes(), &line, second.as_bytes()].concat();
                if where_ != "on top" {
                    // Where mail-auth finds nothing to sign, there is nothing to accept.
                    raw = signer.sign(&raw).unwrap_or(raw);
                }
                let name = format!("{:?} {where_}", String::from_utf8_lossy(&line));
                let name = format!("octet {octet:#04x}, {name}");
                let examined = trial.send(name.clone(), raw).await;
                let found = examined.sender.map(|sender| sender.to_string());
                let authenticated = examined.proof == Proof::Authenticated;
                if authenticated && found.as_deref() != Some(EVE) {
                    trial.wrong.push(format!("{name}: from {found:?}"));
                }
                // Another name is another field, however much it resembles From.
                let is_name = octet.is_ascii_graphic() && octet != b':';
                if place < 3 && is_name && !authenticated {
                    trial.wrong.push(format!("{name}: {:?}", examined.detail));
                }
            }
        }
    }
    trial.end(500).await;
}

/// Threats F11, A7 to A13: any byte at any place of the value of From.
#[tokio::test]
async fn no_octet_in_from_divides_the_readers() {
    let mut trial = Trial::new().await;
    for octet in 0..=u8::MAX {
        for (before, after) in [
            ("From: ", "eve@evil.example"),
            ("From: eve", "@evil.example"),
            ("From: eve@", "evil.example"),
            ("From: eve@evil.example", ""),
            ("From: eve@evil.example", "boss@good.example"),
            ("From: <eve@evil.example>", ""),
            ("From: <eve@evil.example>", "boss@good.example"),
            ("From: <eve@evil.example", "boss@good.example>"),
            ("From: <", "eve@evil.example>"),
            ("From: Eve", "<eve@evil.example>"),
            ("From: boss@good.example", " <eve@evil.example>"),
            ("From: \"boss@good.example", " <eve@evil.example>"),
            ("From: \"boss", "@good.example\" <eve@evil.example>"),
            ("From: (boss@good.example", " <eve@evil.example>"),
            ("From: (boss", "@good.example) <eve@evil.example>"),
            ("From: <boss@good.example", " (eve@evil.example)"),
            ("From: =?utf-8?q?boss=40good.example?=", "<eve@evil.example>"),
            ("From: =?utf-8?q?boss", "=40good.example?= <eve@evil.example>"),
        ] {
            let from = [before.as_bytes(), &[octet], after.as_bytes()].concat();
            trial.send_from(&from).await;
        }
    }
    trial.end(500).await;
}

/// Threats F2, F11, A5 to A11: pieces of From values, two and three of them, put together by
/// everything that stands between mailboxes.
#[tokio::test]
async fn no_composition_of_from_divides_the_readers() {
    const PIECES: &[&str] = &[
        "eve@evil.example",
        "<eve@evil.example>",
        "boss@good.example",
        "<boss@good.example>",
        "\"boss@good.example\"",
        "(boss@good.example)",
        "=?utf-8?q?=3Cboss=40good.example=3E?=",
        "\"boss\"@good.example",
        "<\"eve\"@evil.example>",
        "<@good.example:eve@evil.example>",
        "team:",
        ";",
        "Eve",
        "",
    ];
    const BETWEEN: &[&str] = &["", " ", "\r\n ", ",", ", ", ";", ":", "\\", "\r\nFrom: "];
    let mut trial = Trial::new().await;
    for first in PIECES {
        for second in PIECES {
            for between in BETWEEN {
                trial.send_from(format!("From: {first}{between}{second}").as_bytes()).await;
            }
        }
    }
    // Three pieces: a fixed walk through the many that there are.
    let mut state = 1_u32;
    let mut pick = |from: &[&'static str]| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        from[(state >> 16) as usize % from.len()]
    };
    for _ in 0..1500 {
        let between = [pick(BETWEEN), pick(BETWEEN)];
        let [first, second, third] = std::array::from_fn(|_| pick(PIECES));
        let from = format!("From: {first}{}{second}{}{third}", between[0], between[1]);
        trial.send_from(from.as_bytes()).await;
    }
    trial.end(90).await;
}

/// Every fixture through the readers and through real SMTP: the record, the message, its contact
/// and its event name whom all readers see.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_is_the_from_that_is_authenticated() {
    let gateway = TestGateway::start().await;
    let examiner = Examiner::over(Zone::parse(case::zone()).unwrap()).await;
    let mut senders: BTreeMap<String, Address> = BTreeMap::new();
    let mut proven: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut cases = Case::groups().unwrap().remove(0).cases;
    for case in &cases {
        let raw = case.raw();
        let examined = examiner.examine(&raw).await;
        let sender = readers::sender(&raw, &examiner.rules.limits, &examined);
        let sender = sender.unwrap_or_else(|difference| panic!("{}: {difference}", case.name));
        if let Some(sender) = sender {
            senders.insert(case.name.clone(), sender);
            proven.insert(case.name.clone(), raw);
        }
    }
    let mut unread = Vec::new();
    for (name, seen) in by_python(&proven).await {
        let sender = &senders[&name];
        assert!(!readers::is_other(&seen, sender), "{name}: {sender}, Python reads {seen:?}");
        if seen.iter().all(|one| Address::parse(one).is_err()) {
            unread.push(name);
        }
    }
    assert_eq!(unread, UNREAD_BY_PYTHON);
    cases.retain(|case| case.script.expect == "accepted");
    let mut uuids = BTreeMap::new();
    for case in &cases {
        let sender = senders.get(&case.name).map(ToString::to_string).unwrap();
        let record = record(&gateway, case).await;
        assert_eq!(record["sender"], *sender, "{}", case.name);
        uuids.insert(record["messageUuid"].as_str().unwrap().to_owned(), sender);
    }
    let messages = gateway.messages().await;
    for message in &messages {
        // With several recipients, the first one's record was read.
        let Some(sender) = uuids.get(message["uuid"].as_str().unwrap()) else { continue };
        assert_eq!(message["metadata"]["emailFrom"], **sender);
        let name = message["fromUser"].as_str().unwrap();
        assert!(name == sender || !name.is_empty());
    }
    let arrived = gateway.receiver.wait_for(messages.len(), PATIENCE).await.unwrap();
    for request in arrived {
        let event: Value = serde_json::from_slice(&request.body).unwrap();
        let uuid = event["messageUuid"].as_str().unwrap();
        let shown = &event["data"]["message"]["metadata"]["emailFrom"];
        assert_eq!(&event["from"], shown);
        assert!(uuids.get(uuid).is_none_or(|sender| event["from"] == **sender), "{event}");
    }
    let sql = "SELECT COUNT(*) FROM messages JOIN contacts ON contacts.id = contact_id \
               WHERE contacts.address <> messages.sender";
    assert_eq!(gateway.count(sql).await, 0);
    assert!(uuids.len() >= 60, "{}", uuids.len());
    gateway.finish().await;
}

/// The record of this case, sent by real SMTP.
async fn record(gateway: &TestGateway, case: &Case) -> Value {
    let script = &case.script;
    let raw = case.raw();
    let transaction =
        Transaction { helo: &script.helo, from: &script.from, to: &script.to, raw: &raw };
    let replies = deliver(gateway.smtp, &transaction).await.unwrap();
    let reply = replies.settling();
    let (_, rest) =
        reply.split_once("[record ").unwrap_or_else(|| panic!("{}: {reply}", case.name));
    let (id, _) = rest.split_once(']').unwrap();
    gateway.get(&format!("/email/intake/{id}")).await["intake"].clone()
}
