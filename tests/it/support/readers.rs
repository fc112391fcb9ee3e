//! Readers of From: our scanner, mail-auth, mail-parser, Python.

use std::collections::BTreeMap;

use gatepost::app::intake::Examination;
use gatepost::domain::address::Address;
use gatepost::domain::policy::Proof;
use gatepost::mail::scan::scan;
use gatepost::rules::IntakeLimits;
use mail_auth::AuthenticatedMessage;
use mail_parser::MessageParser;

use super::python;

/// All addresses in all From fields, as mail-auth reads them: in lower case.
fn by_mail_auth(raw: &[u8]) -> Vec<String> {
    let message = AuthenticatedMessage::parse(raw);
    message.map_or_else(Vec::new, |message| message.from_addresses().to_vec())
}

/// All addresses in all From fields, as mail-parser reads them.
fn by_mail_parser(raw: &[u8]) -> Vec<String> {
    let Some(message) = MessageParser::new().parse(raw) else { return Vec::new() };
    let lists = message.headers().all_from();
    let mailboxes = lists.flat_map(|list| list.mailboxes().collect::<Vec<_>>());
    mailboxes.map(|one| one.address().unwrap_or_default().to_owned()).collect()
}

/// All addresses in all From fields, as Python's `email` reads them, by the name of the message.
pub async fn by_python(messages: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut input = BTreeMap::new();
    for (number, (name, raw)) in messages.iter().enumerate() {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, raw).unwrap();
        input.insert(name, file);
    }
    let answer = python::run("readers.py", &serde_json::to_vec(&input).unwrap()).await;
    serde_json::from_slice(&answer).unwrap()
}

/// Whether a reader saw exactly this one mailbox.
fn is_only(seen: &[String], sender: &Address) -> bool {
    matches!(seen, [one] if is_same(one, sender))
}

/// Whether a reader saw somebody else: what is no address names nobody.
pub fn is_other(seen: &[String], sender: &Address) -> bool {
    seen.iter().any(|one| Address::parse(one).is_ok() && !is_same(one, sender))
}

/// mail-auth lowers every letter, not only those of ASCII.
fn is_same(seen: &str, sender: &Address) -> bool {
    let lower = |text: &str| Address::parse(&text.to_lowercase()).ok();
    lower(seen).is_some_and(|seen| Some(seen) == lower(&sender.to_string()))
}

/// The sender of an authenticated message, or `None` where nobody is; where what is examined,
/// judged, stored or read by a library names somebody else, the difference in words.
pub fn sender(
    raw: &[u8],
    limits: &IntakeLimits,
    examined: &Examination,
) -> Result<Option<Address>, String> {
    if examined.proof != Proof::Authenticated {
        return if examined.mail.is_none() { Ok(None) } else { Err("unproven, with mail".into()) };
    }
    let sender = examined.sender.clone().ok_or("authenticated, from nobody")?;
    let scanned = scan(raw, limits).map_err(|fault| fault.to_string())?.from.address;
    let stored = examined.mail.as_ref().ok_or("authenticated, without mail")?.from.address.clone();
    if (&scanned, &stored) != (&sender, &sender) {
        return Err(format!("{sender} is judged, {scanned} scanned, {stored} stored"));
    }
    for (reader, seen) in [("mail-auth", by_mail_auth(raw)), ("mail-parser", by_mail_parser(raw))] {
        if !is_only(&seen, &sender) {
            return Err(format!("{sender} is judged, {reader} reads {seen:?}"));
        }
    }
    Ok(Some(sender))
}
