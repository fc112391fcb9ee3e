//! An organization proves a domain over the API, and its Agent gets mail there.

use serde_json::{Value, json};

use crate::support::process::gatepost;
use crate::support::{TestGateway, letter_between, signer};

#[tokio::test]
async fn a_domain_that_is_proven_receives_mail() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["open"].id.get();
    let body = json!({ "domain": "mail.tenant.example" });
    let entry = |answer: &Value| {
        let entries = answer["domains"].as_array().unwrap().iter();
        entries.clone().find(|entry| entry["domain"] == "mail.tenant.example").unwrap().clone()
    };
    let claim = async || {
        let (status, answer) = gateway.request("POST", "/domain", Some(body.clone())).await;
        assert_eq!(status, 201, "{answer}");
        entry(&answer)
    };
    let address = "help@mail.tenant.example";
    let (from, letter) =
        ("alice@good.example", letter_between("alice@good.example", address, "hi"));
    let letter = signer().sign(letter.as_bytes()).unwrap();
    let add = async || {
        let body = json!({ "address": address, "targetAccountId": agent });
        gateway.request("POST", "/email/addresses", Some(body)).await
    };

    let challenge = claim().await["challenge"].as_str().unwrap().to_owned();
    assert_eq!(claim().await["verified"], false);
    // The command line shows what is claimed, too.
    let data = gateway.folder.path().join("store");
    let list = ["domain", "list", "--json", "--data", data.to_str().unwrap()];
    let listed = gatepost(gateway.folder.path(), &list).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(entry(&json!({ "domains": listed }))["challenge"], challenge.as_str());
    let (status, refused) = add().await;
    assert_eq!(status, 403, "{refused}");
    let replies = gateway.send(from, &[address], &letter).await;
    assert!(replies.recipients[0].starts_with("550 5.1.1"), "{replies:?}");

    let name = "_gatepost.mail.tenant.example";
    gateway.dns.change(|zone| zone.insert(name, "TXT", "NOERROR", &challenge)).unwrap();
    assert_eq!(claim().await["verified"], true);
    let (status, added) = add().await;
    assert_eq!(status, 201, "{added}");
    let replies = gateway.send(from, &[address], &letter).await;
    assert!(replies.accepted(), "{replies:?}");
    let messages = gateway.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["metadata"]["emailTo"][0], address, "{}", messages[0]);

    let (status, used) = gateway.request("DELETE", "/domain", Some(body.clone())).await;
    assert_eq!((status, used["code"].as_str()), (409, Some("conflict")), "{used}");
    let query = format!("/email/addresses?address={address}&targetAccountId={agent}");
    assert_eq!(gateway.request("DELETE", &query, None).await.0, 200);
    let query = "/domain?domain=mail.tenant.example";
    assert_eq!(gateway.request("DELETE", query, None).await.0, 200);
    let replies = gateway.send(from, &[address], &letter).await;
    assert!(replies.recipients[0].starts_with("550 5.1.1"), "{replies:?}");
    gateway.finish().await;
}
