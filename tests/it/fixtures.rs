//! Every fixture through real SMTP: the reply, the record, and what is stored or is not.

use std::collections::BTreeSet;

use gatepost::app::delivery::catalog;
use gatepost::domain::reason::{Ground, Reason};
use gatepost::mail::line_ends::as_received;
use gatepost::rules::Rules;
use gatepost::testkit::case::{Case, ExpectedRecord, Group};
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::goldens::Goldens;
use crate::support::schema::{Schema, Shapes};
use crate::support::{PATIENCE, TestGateway, http};

/// Sessions at the same time: none of the cases depends on another.
const CONCURRENCY: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn every_case_ends_as_its_fixture_says() {
    let mut goldens = Goldens::default();
    let groups = Case::groups().unwrap();
    assert!(groups.len() > 1 && groups[0].cases.len() > 100);
    for group in groups {
        all_end_as_they_should(&group, &mut goldens).await;
    }
    goldens.finish();
}

/// Those of one gateway.
async fn all_end_as_they_should(Group { rules, cases }: &Group, goldens: &mut Goldens) {
    let rules: Vec<(&str, &str)> =
        rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let gateway = TestGateway::with_rules(&rules).await;
    let mut waiting = cases.clone().into_iter();
    let mut sending = JoinSet::new();
    let mut replies = Vec::new();
    loop {
        while sending.len() < CONCURRENCY {
            let Some(case) = waiting.next() else { break };
            sending.spawn(send(gateway.smtp, case));
        }
        let Some(done) = sending.join_next().await else { break };
        replies.push(done.unwrap());
    }
    let wrong: Vec<String> = replies
        .iter()
        .filter(|(case, reply)| !reply.starts_with(&case.script.reply))
        .map(|(case, reply)| {
            format!("{}\n   wanted {}\n   got    {reply}", case.name, case.script.reply)
        })
        .collect();
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));

    let mut faults = Vec::new();
    let messages = gateway.messages().await;
    let rules = Rules::load(&gateway.folder.path().join("policies")).unwrap();
    let line_ends = rules.smtp.framing.bare_line_ends;
    for (case, reply) in &replies {
        let kept = as_received(case.raw(), line_ends);
        if let Err(fault) = compare(&gateway, (case, &kept), reply, &messages, goldens).await {
            faults.push(format!("{}: {fault}", case.name));
        }
    }
    assert!(faults.is_empty(), "{} records differ:\n{}", faults.len(), faults.join("\n"));
    compare_rooms(&gateway, &messages).await;

    // Refused or deferred for whatever reason: no message, no event, no delivery.
    let accepted = cases.iter().filter(|case| case.script.expect == "accepted");
    let wanted: usize = accepted.map(|case| case.script.to.len()).sum();
    assert_eq!(messages.len(), wanted);
    let wanted = i64::try_from(wanted).unwrap();
    assert_eq!(gateway.count("SELECT COUNT(*) FROM messages").await, wanted);
    let received = "SELECT COUNT(*) FROM events WHERE names LIKE '%email.received'";
    assert_eq!(gateway.count(received).await, wanted);
    assert_eq!(gateway.count("SELECT COUNT(*) FROM deliveries").await, wanted);

    let wanted = usize::try_from(wanted).unwrap();
    let arrived = gateway.receiver.wait_for(wanted, PATIENCE).await.unwrap();
    assert!(arrived.iter().all(|request| request.verified), "a signature is wrong");
    compare_log(&gateway, arrived.iter().map(|request| request.body.as_slice())).await;
    gateway.finish().await;
}

/// Each record is as its schema says, and the same in the list of its room as in that of all.
async fn compare_rooms(gateway: &TestGateway, messages: &[Value]) {
    let schema = Schema::new(&catalog::record_schema());
    for message in messages {
        assert_eq!(schema.faults(message), Vec::<String>::new(), "{}", message["uuid"]);
        // The reader has a key.
        assert!(message["metadata"].get("emailRawSignedUrl").is_none(), "{message}");
    }
    let rooms: BTreeSet<&str> =
        messages.iter().map(|one| one["roomId"].as_str().unwrap()).collect();
    for room in rooms {
        let wanted: Vec<&Value> = messages.iter().filter(|one| one["roomId"] == room).collect();
        let shown = gateway.get(&format!("/messages/{room}?limit=200")).await;
        let shown: Vec<&Value> = shown.as_array().unwrap().iter().collect();
        // A page of large texts ends early.
        assert!(!shown.is_empty() && wanted.starts_with(&shown), "{room}");
    }
}

/// Checks that delivered bodies match the catalogue and, but for the time of links, equal the log
/// byte for byte. The log is complete, because all was committed before it is read.
async fn compare_log(gateway: &TestGateway, delivered: impl Iterator<Item = &[u8]>) {
    let catalog = catalog::catalog();
    let mut log = String::new();
    let mut after = String::new();
    loop {
        let path = format!("events?token={}&type=incoming&limit=200{after}", gateway.key);
        let page = http::get(&format!("http://{}/api/v2/{path}", gateway.http)).await.body;
        log.push_str(&undated(std::str::from_utf8(&page).unwrap()));
        let events: Value = serde_json::from_slice(&page).unwrap();
        if !events["more"].as_bool().unwrap() {
            break;
        }
        after = format!("&after={}", events["next"].as_str().unwrap());
    }
    for body in delivered {
        let event: Value = serde_json::from_slice(body).unwrap();
        let entry = catalog.iter().find(|entry| entry.name.as_str() == event["event"]).unwrap();
        let schema = Shapes::of(&entry.schema).schema(&entry.schema["$defs"]["full"]);
        assert_eq!(schema.faults(&event), Vec::<String>::new());
        let body = std::str::from_utf8(body).unwrap();
        assert!(body.contains("?expires="), "{body}");
        assert!(log.contains(&undated(body)), "{body} is not in the log");
    }
}

/// Events without the time of their links, which are good from when they are shown, and without what
/// is signed with it.
fn undated(text: &str) -> String {
    let undated = |string: &str| string.split("?expires=").next().unwrap().to_owned();
    let mut strings: Vec<String> = text.split('"').map(undated).collect();
    for at in 2..strings.len() {
        if strings[at - 2] == "signedUrlsExpire" {
            strings[at].clear();
        }
    }
    strings.join("\"")
}

async fn send(server: std::net::SocketAddr, case: Case) -> (Case, String) {
    let raw = case.raw();
    let script = &case.script;
    let transaction =
        Transaction { helo: &script.helo, from: &script.from, to: &script.to, raw: &raw };
    let reply = deliver(server, &transaction).await.map_or_else(
        |error| format!("the connection failed: {error}"),
        |replies| replies.settling().to_owned(),
    );
    (case, reply)
}

/// Compares the intake record that the reply names, and the message if there must be one.
async fn compare(
    gateway: &TestGateway,
    (case, kept): (&Case, &[u8]),
    reply: &str,
    messages: &[Value],
    goldens: &mut Goldens,
) -> Result<(), String> {
    let id = reply
        .split_once("[record ")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(id, _)| id)
        .ok_or_else(|| format!("the reply names no record: {reply}"))?;
    // A partner sees every record; those of foreign domains are nobody else's.
    let key = gateway.tenancy.create_key(gateway.house.partner.id, "records").await.unwrap();
    let url = format!("http://{}/api/v2/email/intake/{id}?token={}", gateway.http, key.token);
    let answer: Value = serde_json::from_slice(&http::get(&url).await.body).unwrap();
    gateway.tenancy.revoke_key(key.key.id).await.unwrap();
    let record = answer.get("intake").ok_or_else(|| format!("no record {id}: {answer}"))?;
    goldens.note(case, record, messages);
    let expect = case.script.expect.as_str();
    let found = record["reason"].as_str().unwrap_or("accepted");
    equal("reason", found, expect)?;
    if record["explanation"].as_str().is_none_or(str::is_empty) {
        return Err("the record explains nothing".into());
    }
    let steps = record["steps"].as_array().ok_or("the record has no steps")?;
    let advice = record["advice"].as_str().unwrap_or_default();
    // Advice about a signature comes from its cause, other advice from the reason.
    let as_it_should = match found.parse::<Reason>() {
        Err(_) => advice.is_empty(),
        Ok(reason) if reason.ground() == Ground::Proof => {
            !advice.is_empty() && advice != reason.advice()
        }
        Ok(reason) => advice == reason.advice(),
    };
    if !as_it_should {
        return Err(format!("the advice is {advice:?}"));
    }
    let whole = |step: &Value| {
        step["name"].is_string()
            && step["result"].is_string()
            && step["detail"].is_string()
            && step["inputs"].is_object()
            && step["dns"].is_array()
            && step["micros"].is_u64()
    };
    if steps.is_empty() || !steps.iter().all(whole) {
        return Err(format!("a step is not whole: {steps:?}"));
    }
    let Some(expected) = &case.script.record else { return Ok(()) };
    let uuid = record["messageUuid"].as_str().ok_or("the record names no message")?;
    let message = messages
        .iter()
        .find(|message| message["uuid"] == uuid)
        .ok_or_else(|| format!("message {uuid} is not in messages/recent"))?;
    // Reading never alters a byte of the original.
    let url = format!("http://{}/api/v2/messages/{uuid}/raw?token={}", gateway.http, gateway.key);
    if http::get(&url).await.body != kept {
        return Err("the original is not what was sent".into());
    }
    compare_message(expected, record, message)
}

fn compare_message(
    expected: &ExpectedRecord,
    record: &Value,
    message: &Value,
) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &message["metadata"];
    let check = |what: &str, found: String, wanted: &Option<String>| match wanted {
        Some(wanted) => equal(what, &found, wanted),
        None => Ok(()),
    };
    check("sender", text(&record["sender"]), &expected.sender)?;
    check("name", text(&message["fromUser"]), &expected.name)?;
    check("agent", text(&message["toUser"]), &expected.agent)?;
    check("subject", text(&metadata["emailSubject"]), &expected.subject)?;
    check("text", text(&message["message"]), &expected.text)?;
    check("tag", text(&metadata["emailTag"]), &expected.tag)?;
    check("origin", text(&metadata["emailAutomation"]["origin"]), &expected.origin)?;
    let authentication = &metadata["authentication"];
    check("alignedDomain", text(&authentication["alignedDomain"]), &expected.aligned_domain)?;
    for piece in &expected.text_contains {
        if !text(&message["message"]).contains(piece) {
            return Err(format!("text lacks {piece:?}: {}", message["message"]));
        }
    }
    if let Some(wanted) = &expected.unsigned_headers {
        let found = authentication["unsignedHeaders"].as_array().cloned().unwrap_or_default();
        let found: Vec<String> = found.iter().map(|name| text(name).to_lowercase()).collect();
        equal("unsignedHeaders", &format!("{found:?}"), &format!("{wanted:?}"))?;
    }
    if let Some(wanted) = &expected.findings {
        let found = metadata["findings"].as_array().cloned().unwrap_or_default();
        let found: Vec<String> = found.iter().map(|finding| text(&finding["kind"])).collect();
        equal("findings", &format!("{found:?}"), &format!("{wanted:?}"))?;
    }
    let Some(wanted) = &expected.attachments else { return Ok(()) };
    let found = message["attachments"].as_array().cloned().unwrap_or_default();
    equal("attachments", &found.len().to_string(), &wanted.len().to_string())?;
    for (found, wanted) in found.iter().zip(wanted) {
        check("filename", text(&found["filename"]), &wanted.filename)?;
        check("content-type", text(&found["content-type"]), &wanted.content_type)?;
    }
    Ok(())
}

fn equal(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} is {found:?}, wanted {wanted:?}")) }
}
