//! Checks of a store and a receiver after all messages of `mailers` were acknowledged, whatever
//! happened meanwhile (contract §2.2; §2, Repeats).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use gatepost::testkit::receiver::Receiver;
use serde_json::Value;

use super::mailers::subject;
use super::{PATIENCE, all_messages, http};

/// Every message is stored once; each that was taken in again has a record that names the first
/// one, and no more of them than its sender had reason to expect (`in_doubt`, by message); each has
/// been announced, as one event, and nothing else has. Answers how many were taken in again, and
/// the requests that the receiver got.
pub async fn assert_nothing_lost(
    http: SocketAddr,
    key: &str,
    receiver: &Receiver,
    in_doubt: &[usize],
) -> (usize, usize) {
    let stored = stored_once(&all_messages(http, key).await, in_doubt.len());
    let taken = records(http, key).await;
    for (uuid, number) in &stored {
        let times = taken.get(uuid).copied().unwrap_or(0);
        let most = 1 + in_doubt[*number];
        assert!(
            (1..=most).contains(&times),
            "{} has {times} records, expected 1 to {most}",
            subject(*number)
        );
    }
    let unknown = taken.keys().find(|uuid| !stored.contains_key(*uuid));
    assert_eq!(unknown, None, "a record names a message that is not stored");
    let requests = announced_once(receiver, &stored).await;
    let again = taken.values().sum::<usize>() - stored.len();
    assert!(again > 0, "no message came twice, so that nothing is known of those");
    (again, requests)
}

/// The number of each message by its uuid.
fn stored_once(messages: &[Value], expected: usize) -> BTreeMap<String, usize> {
    let subjects = messages.iter().map(|message| text(&message["metadata"], "emailSubject"));
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for subject in subjects.clone() {
        *times.entry(subject).or_default() += 1;
    }
    let numbers: BTreeMap<String, usize> = (0..expected).map(|one| (subject(one), one)).collect();
    for subject in numbers.keys() {
        assert_eq!(times.get(subject), Some(&1), "{subject} was acknowledged");
    }
    assert_eq!(messages.len(), expected);
    let uuids = messages.iter().map(|message| text(message, "uuid"));
    uuids.zip(subjects.map(|subject| numbers[&subject])).collect()
}

/// How many records of accepted mail name each message.
async fn records(http: SocketAddr, key: &str) -> BTreeMap<String, usize> {
    let client = reqwest::Client::new();
    let mut records = BTreeMap::new();
    let mut after = String::new();
    loop {
        let url = format!(
            "http://{http}/api/v2/email/intake?verdict=accepted&limit=200{after}&token={key}"
        );
        let response = client.get(url).timeout(PATIENCE).send().await.unwrap();
        let answer = http::read("GET", response).await;
        assert_eq!(answer.status, 200);
        let page: Value = serde_json::from_slice(&answer.body).unwrap();
        for record in page["intake"].as_array().unwrap() {
            *records.entry(text(record, "messageUuid")).or_default() += 1;
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return records,
        }
    }
}

/// Waits until every stored message has been announced; answers how many requests it took.
async fn announced_once(receiver: &Receiver, stored: &BTreeMap<String, usize>) -> usize {
    let mut events: BTreeMap<String, String> = BTreeMap::new();
    let mut requests = 0;
    while events.len() < stored.len() {
        let late = receiver.after(requests, PATIENCE).await;
        let late = late.unwrap_or_else(|_| {
            panic!("{} of {} messages were announced in time", events.len(), stored.len())
        });
        requests += late.len();
        for request in late {
            assert!(request.verified, "a signature is wrong");
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let (message, event) = (text(&body, "messageUuid"), text(&body, "id"));
            assert!(stored.contains_key(&message), "announced and not stored: {body}");
            let known = events.entry(message).or_insert_with(|| event.clone());
            assert_eq!(*known, event, "two events announce the same message");
        }
    }
    requests
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
