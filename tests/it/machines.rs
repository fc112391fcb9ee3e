//! Mail by machines is taken as any other, and its Agent is told not to answer it (threats C14).

use serde_json::{Value, json};

use crate::support::{PATIENCE, TestGateway, letter, signer};

const TO: [&str; 1] = ["support@agents.example"];

/// Sends a signed message with these field lines; answers its event's record.
async fn event(gateway: &TestGateway, reverse_path: &str, fields: &str, number: usize) -> Value {
    let raw = signer().sign(format!("{fields}{}", letter("machine")).as_bytes()).unwrap();
    let replies = gateway.send(reverse_path, &TO, &raw).await;
    assert!(replies.accepted(), "{}", replies.settling());
    let events = gateway.receiver.wait_for(number, PATIENCE).await.unwrap();
    serde_json::from_slice::<Value>(&events[number - 1].body).unwrap()["data"]["message"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wrote_is_recorded_and_nobody_is_refused_for_it() {
    let gateway = TestGateway::start().await;
    let alice = "alice@good.example";
    for (at, (path, fields, origin, signs, auto_submitted)) in [
        (alice, "", "person", json!([]), Value::Null),
        (
            alice,
            "Auto-Submitted: auto-replied (away)\r\n",
            "auto-replied",
            json!(["Auto-Submitted"]),
            json!("auto-replied (away)"),
        ),
        ("", "", "bounce", json!(["null reverse-path"]), Value::Null),
        (
            alice,
            "List-Id: <a.good.example>\r\nPrecedence: list\r\n",
            "list",
            json!(["Precedence", "List-Id"]),
            Value::Null,
        ),
        (alice, "Precedence: bulk\r\n", "bulk", json!(["Precedence"]), Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let message = event(&gateway, path, fields, at + 1).await;
        let expected = json!({ "origin": origin, "mayAutoReply": at == 0, "signs": signs });
        assert_eq!(message["metadata"]["emailAutomation"], expected, "{fields}");
        assert_eq!(message["metadata"]["emailAutoSubmitted"], auto_submitted, "{fields}");
        // The API shows the same record, but for the links that need no key.
        let mut metadata = message["metadata"].clone();
        metadata.as_object_mut().unwrap().retain(|name, _| !name.contains("igned"));
        assert_eq!(gateway.messages().await[0]["metadata"], metadata);
    }
    gateway.finish().await;
}

/// One copy of the same bytes came with the null reverse-path, the other did not: what an envelope
/// says is not shared between them.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_envelope_says_is_of_its_own_copy() {
    let gateway = TestGateway::start().await;
    let raw = signer().sign(letter("twice").as_bytes()).unwrap();
    for (from, to) in [("", TO[0]), ("alice@good.example", "open@agents.example")] {
        assert!(gateway.send(from, &[to], &raw).await.accepted());
    }
    let messages = gateway.messages().await;
    let origins: Vec<&Value> =
        messages.iter().map(|one| &one["metadata"]["emailAutomation"]["origin"]).collect();
    assert_eq!(origins, ["person", "bounce"]);
    gateway.finish().await;
}
