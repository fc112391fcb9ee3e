//! Every message of other people through the path of a message: with the DNS of its suite, for the
//! outcome that is stated; and as if its author's domain had signed it, for its sender.

use std::collections::BTreeMap;

use gatepost::app::delivery::catalog::record_schema;
use gatepost::app::intake::Examination;
use gatepost::app::mailbox::record::MessageRecord;
use gatepost::domain::account::Lineage;
use gatepost::domain::agent_outcome::AgentOutcome;
use gatepost::domain::clock::Timestamp;
use gatepost::domain::evidence::dkim::Signature;
use gatepost::domain::id::{AccountId, ContactId, MessageId, ThreadId};
use gatepost::domain::message::{Content, Mailed, Passage};
use gatepost::domain::policy::Proof;
use gatepost::domain::reason::Reason;
use gatepost::domain::source::Inbox;
use gatepost::mail::scan::scan;
use gatepost::testkit::dns::Zone;
use gatepost::testkit::signer::{Key, Signer};
use serde_json::Value;
use uuid::Uuid;

use crate::support::corpus::{Message, messages, say};
use crate::support::examiner::Examiner;
use crate::support::readers::{self, by_python};
use crate::support::schema::Schema;

const NOT_GIVEN: &str = "the corpus was not given (GATEPOST_CORPUS)";

#[tokio::test]
async fn every_message_of_the_corpus_ends_as_stated() {
    let Some(messages) = messages() else { return say(&format!("outcomes: {NOT_GIVEN}")) };
    let (mut stated, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    // Messages of one suite have one zone, but for those that bring their keys along.
    let mut examiner = (String::new(), Examiner::over(Zone::default()).await);
    for message in &messages {
        if examiner.0 != message.zone {
            let zone = Zone::parse(&message.zone).unwrap();
            examiner = (message.zone.clone(), Examiner::over(zone).await);
        }
        let examined = examiner.1.examine(&message.raw).await;
        let limits = &examiner.1.rules.limits;
        if let Err(difference) = readers::sender(&message.raw, limits, &examined) {
            wrong.push(format!("{}: {difference}", message.path));
        }
        if !message.expected.is_empty() {
            *stated.entry(&message.expected).or_default() += 1;
            if !is_as_stated(message, &examined) {
                let (found, proof) = (&examined.results, examined.proof);
                let stated = &message.expected;
                wrong.push(format!("{}: {stated}; {proof:?} {found:?}", message.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    for (outcome, count) in &stated {
        say(&format!("{count:5} {outcome}"));
    }
    let compared: usize = stated.values().sum();
    say(&format!(
        "outcomes: ran over {} messages of other people, {compared} with a stated outcome",
        messages.len()
    ));
    assert!(messages.len() >= 300 && compared >= 17);
}

/// An outcome that nobody knows how to compare is a fault, not a pass.
fn is_as_stated(message: &Message, examined: &Examination) -> bool {
    let results = examined.results.as_deref().cloned().unwrap_or_default();
    // `policy`: it verifies, and our rules object, for example to a date long past.
    let verifies = |one: &Signature| matches!(&*one.result, "pass" | "policy");
    match message.expected.as_str() {
        // The second of a field that must be single.
        stated if stated.starts_with("DKIM not pass") && message.path.contains("added_header-") => {
            examined.proof == Proof::Unproven(Reason::SenderInvalid)
        }
        // One of two signatures may be good.
        stated if stated.starts_with("DKIM not pass") => {
            results.dkim.iter().any(|one| !verifies(one))
        }
        stated if stated.starts_with("DKIM pass") => results.dkim.iter().any(verifies),
        stated if stated.starts_with("ARC pass") => {
            results.arc.is_some_and(|chain| chain.result == "pass")
        }
        _ => false,
    }
}

#[tokio::test]
async fn nobody_reads_another_sender_in_the_corpus() {
    let Some(messages) = messages() else { return say(&format!("senders: {NOT_GIVEN}")) };
    let examiner = Examiner::over(Zone::default()).await;
    let key = Key::generate_ed25519().unwrap();
    let schema = Schema::new(&record_schema());
    let refusals = [Reason::SenderInvalid, Reason::Malformed].map(Proof::Unproven);
    let (mut accepted, mut refused, mut wrong) = (BTreeMap::new(), 0, Vec::new());
    for message in &messages {
        let limits = &examiner.rules.limits;
        let seen = scan(&message.raw, limits).map(|headers| headers.from.address);
        let domain = seen.as_ref().map_or("nobody.example", |from| from.domain().as_str());
        // Only what is there, so that fields may stand twice as they do in some of the messages.
        let signer = Signer::new(key.clone(), domain, "gatepost").headers(["From", "Subject"]);
        let (name, record) = (signer.key_name(), key.txt_record().unwrap());
        let publish = |zone: &mut Zone| {
            zone.remove(&name, "TXT")?;
            zone.insert(&name, "TXT", "NOERROR", &record)
        };
        examiner.dns.change(publish).unwrap();
        let Ok(raw) = signer.sign(&message.raw) else {
            // There is nothing that it could sign.
            assert!(seen.is_err(), "{}", message.path);
            refused += 1;
            continue;
        };
        let examined = examiner.examine(&raw).await;
        match readers::sender(&raw, limits, &examined) {
            Ok(Some(sender)) => {
                let faults = schema.faults(&shown(&examined));
                wrong.extend(faults.iter().map(|fault| format!("{}: {fault}", message.path)));
                accepted.insert(message.path.clone(), (sender, raw));
            }
            Ok(None) if refusals.contains(&examined.proof) => refused += 1,
            // SMTP refuses it; signed with a bare CR in it, it does not verify.
            Ok(None) if has_bare_cr(&message.raw) => refused += 1,
            Ok(None) => wrong.push(format!("{}: {:?}", message.path, examined.detail)),
            Err(difference) => wrong.push(format!("{}: {difference}", message.path)),
        }
    }
    let raw = accepted.iter().map(|(path, (_, raw))| (path.clone(), raw.clone())).collect();
    for (path, seen) in by_python(&raw).await {
        let (sender, _) = &accepted[&path];
        if readers::is_other(&seen, sender) {
            wrong.push(format!("{path}: {sender} is judged, Python reads {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    say(&format!(
        "senders: ran over {} messages of other people; signed anew, {} are accepted, and {refused} \
         refused for their format or their From",
        messages.len(),
        accepted.len()
    ));
    assert!(accepted.len() >= 100, "{}", accepted.len());
}

/// The Message record of what was accepted.
fn shown(examined: &Examination) -> Value {
    let account = AccountId::new(7).unwrap();
    let id = Uuid::from_u128(1);
    let mailed = Mailed {
        mail: examined.mail.as_deref().unwrap().clone(),
        tag: None,
        authentication: examined.results.clone(),
        passage: Passage { marker: None, automation: examined.automation.clone() },
    };
    let message = gatepost::domain::message::Message {
        id: MessageId(id),
        lineage: Lineage::default(),
        agent: account,
        agent_username: "desk".into(),
        contact: ContactId::new(8).unwrap(),
        at: Timestamp::from_millis(1_718_463_395_123),
        thread: ThreadId(id),
        inbox: Inbox::Priority,
        session: None,
        size: 1,
        raw: examined.digest,
        unreadable: false,
        content: Content::Mail(Box::new(mailed)),
        outcome: AgentOutcome::default(),
    };
    serde_json::to_value(MessageRecord::of(&message)).unwrap()
}

fn has_bare_cr(raw: &[u8]) -> bool {
    raw.iter().enumerate().any(|(at, octet)| *octet == b'\r' && raw.get(at + 1) != Some(&b'\n'))
}
