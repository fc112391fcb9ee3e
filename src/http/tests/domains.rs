//! Ownership of domains: claim, published proof, lookup.

use serde_json::{Value, json};

use crate::domain::domain_name::DomainName;
use crate::http::tests::{House, Reply};
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};

const NAME: &str = "_gatepost.new.example";

/// A house with a DNS that the tests change.
struct Registry {
    house: House,
    dns: DnsServer,
}

impl Registry {
    async fn new(rules: &str) -> Self {
        let dns = DnsServer::start(Zone::default(), Shutdown::default()).await.unwrap();
        Self { house: House::asking(dns.addr(), rules).await, dns }
    }

    async fn claim(&self, caller: &str, domain: &str) -> Reply {
        self.house.call(caller, "POST", "/domain", Some(&json!({ "domain": domain }))).await
    }

    /// Claims the domain, or reads the claim; returns its challenge.
    async fn challenge(&self, caller: &str) -> String {
        let claimed = self.claim(caller, "new.example").await.success(201);
        let entry = claimed["domains"].as_array().unwrap().iter();
        let entry = entry.clone().find(|entry| entry["domain"] == "new.example").unwrap();
        assert_eq!(entry["verified"], false);
        entry["challenge"].as_str().unwrap().to_owned()
    }

    /// Publishes only these texts at the name.
    fn publish(&self, texts: &[&str]) {
        let texts: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        self.dns.change(|zone| zone.insert_texts(NAME, &texts)).unwrap();
    }

    async fn listed(&self, caller: &str) -> Value {
        self.house.get(caller, "/domains").await.success(200)["domains"].clone()
    }
}

#[tokio::test]
async fn a_domain_is_claimed_published_and_proven() {
    let registry = Registry::new("").await;
    let id = registry.house.id("org1").get();
    let claimed = registry.claim("org1", "New.EXAMPLE").await.success(201);
    let challenge = claimed["domains"][0]["challenge"].as_str().unwrap().to_owned();
    let pending = json!([{
        "domain": "new.example", "accountId": id, "verified": false, "challenge": challenge,
    }]);
    assert_eq!(claimed["domains"], pending);
    assert!(claimed["message"].as_str().unwrap().contains(NAME), "{claimed}");
    let secret = challenge.strip_prefix("gatepost-verify=").unwrap();
    assert_eq!(secret.len(), 43);
    assert_eq!(registry.listed("org1").await, pending);
    // A claim just made cannot be published yet, so no lookup is made and none is reported missing.
    assert_eq!(registry.dns.queries_for(NAME), 0);
    assert_eq!(registry.challenge("org1").await, challenge);
    assert!(registry.dns.queries_for(NAME) > 0);

    // The answer "no such name" is not remembered, although its TTL is an hour.
    let before = registry.house.store.directory_version().await.unwrap();
    registry.publish(&[&challenge]);
    let proven = registry.claim("org1", "new.example").await.success(201);
    let given = json!([{
        "domain": "new.example", "accountId": id, "verified": true, "challenge": null,
    }]);
    assert_eq!((&proven["domains"], registry.listed("org1").await), (&given, given.clone()));
    assert_ne!(registry.house.store.directory_version().await.unwrap(), before);
    // No later lookup: the record may be removed.
    registry.publish(&[]);
    let asked = registry.dns.queries_for(NAME);
    assert_eq!(registry.claim("org1", "new.example").await.success(201)["domains"], given);
    assert_eq!(registry.dns.queries_for(NAME), asked);
}

/// Proves that a claim repeated under one `Idempotency-Key` gets its first answer, even with the
/// proof published: a new lookup needs another key, as the answer says.
#[tokio::test]
async fn a_claim_under_the_same_name_is_answered_again_and_under_another_asked_anew() {
    let registry = Registry::new("").await;
    let post = async |name: &str, domain: &str| {
        let (lines, body) = (format!("Idempotency-Key: {name}\r\n"), json!({ "domain": domain }));
        let body = body.to_string();
        registry.house.exact("org1", ("POST", "/domain"), &lines, Some(&body)).await
    };
    let replayed = |reply: &Reply| reply.headers.contains_key("idempotency-replayed");
    let (mut challenge, mut asked) = (None, 0);
    for (name, published, verified) in
        [("made", false, false), ("looked", false, false), ("proven", true, true)]
    {
        if let Some(text) = challenge.as_deref().filter(|_| published) {
            registry.publish(&[text]);
        }
        let first = post(name, "new.example").await;
        assert!(!replayed(&first), "{name}");
        let answer = first.success(201);
        assert_eq!(answer["domains"][0]["verified"], verified, "{name}");
        let words = "with another Idempotency-Key if you use one";
        assert_eq!(answer["message"].as_str().unwrap().contains(words), !verified, "{answer}");
        if let Some(text) = answer["domains"][0]["challenge"].as_str() {
            assert_eq!(challenge.get_or_insert(text.to_owned()), text, "one claim");
        }
        // A new claim makes no lookup; a claim under another name does.
        let now = registry.dns.queries_for(NAME);
        assert_eq!(now > asked, name != "made", "{name}");
        asked = now;
        let again = post(name, "new.example").await;
        assert!(replayed(&again), "{name}");
        assert_eq!(again.success(201), answer, "{name}");
        post(name, "other.example").await.problem(409, "conflict", "another request");
        assert_eq!(registry.dns.queries_for(NAME), asked, "{name}");
    }
    // The first answers are repeated unchanged; the list shows the present state.
    let first = post("made", "new.example").await;
    assert!(replayed(&first));
    assert_eq!(first.success(201)["domains"][0]["verified"], false);
    let listed = registry.listed("org1").await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["verified"]), (1, &json!(true)));
}

#[tokio::test]
async fn what_proves_a_domain_and_what_does_not() {
    let registry = Registry::new("").await;
    let challenge = registry.challenge("org1").await;
    let other = registry.challenge("org2").await;
    let secret = challenge.strip_prefix("gatepost-verify=").unwrap();
    let long = format!("{challenge}{}", "x".repeat(300));
    for texts in [
        vec![other.as_str()],
        vec![secret],
        vec![&challenge[..challenge.len() - 1]],
        vec![&long],
        vec!["gatepost-verify=", secret],
        vec![&*format!(" {challenge}")],
        vec![&*format!("{challenge} ")],
        vec![&*format!("\"{challenge}\"")],
        vec![&*challenge.to_uppercase()],
        vec![""],
        vec![],
    ] {
        registry.publish(&texts);
        assert_eq!(registry.challenge("org1").await, challenge, "{texts:?}");
    }
    // At the domain itself, or another name, it proves nothing.
    registry.dns.change(|zone| zone.insert("new.example", "TXT", "NOERROR", &challenge)).unwrap();
    assert_eq!(registry.challenge("org1").await, challenge);

    // Among others, behind an alias.
    let elsewhere = "proofs.elsewhere.example";
    registry
        .dns
        .change(|zone| {
            zone.remove(NAME, "TXT")?;
            zone.insert(NAME, "CNAME", "NOERROR", elsewhere)?;
            let texts = ["v=spf1 -all", &other, &challenge].map(|text| text.as_bytes().to_vec());
            zone.insert_texts(elsewhere, &texts)
        })
        .unwrap();
    let proven = registry.claim("org1", "new.example").await.success(201);
    assert_eq!(proven["domains"][0]["verified"], true);
    // One answer for all others, with or without the record or an earlier claim.
    let taken = "new.example belongs to another account";
    for caller in ["org2", "org3", "reseller1", "partner"] {
        registry.claim(caller, "new.example").await.problem(409, "conflict", taken);
    }
    let theirs = registry.listed("org2").await;
    assert_eq!(theirs[0]["challenge"], other.as_str());
    registry.house.call("org2", "DELETE", "/domain?domain=new.example", None).await.success(200);
    assert_eq!(registry.listed("org2").await, json!([]));
}

/// RFC 1035 §3.3.14: the strings of a record form one text.
#[tokio::test]
async fn a_text_of_several_strings_is_one() {
    let registry = Registry::new("").await;
    let challenge = registry.challenge("org1").await;
    let strings = challenge.as_bytes().chunks(10).collect::<Vec<_>>();
    registry.dns.change(|zone| zone.insert_strings(NAME, &strings)).unwrap();
    let proven = registry.claim("org1", "new.example").await.success(201);
    assert_eq!(proven["domains"][0]["verified"], true);
}

#[tokio::test]
async fn a_dns_that_fails_changes_nothing() {
    let registry = Registry::new("[domains]\nlookup_seconds = 1\n").await;
    let challenge = registry.challenge("org1").await;
    for rcode in ["SERVFAIL", "REFUSED", "TIMEOUT", "GARBAGE"] {
        registry.dns.change(|zone| zone.insert(NAME, "TXT", rcode, "")).unwrap();
        let reply = registry.claim("org1", "new.example").await;
        reply.problem(503, "unavailable", "the DNS of new.example does not answer");
        assert_eq!(reply.headers["retry-after"], "5");
        assert_eq!(registry.listed("org1").await[0]["challenge"], challenge.as_str(), "{rcode}");
    }
    registry.publish(&[&challenge]);
    let proven = registry.claim("org1", "new.example").await.success(201);
    assert_eq!(proven["domains"][0]["verified"], true);
}

#[tokio::test]
async fn what_nobody_can_prove_or_send_is_refused() {
    let registry = Registry::new("").await;
    let house = &registry.house;
    for (domain, words) in [
        (json!("co.uk"), "public suffix"),
        (json!("localhost"), "public suffix"),
        (json!("gw.example"), "name of this server"),
        (json!("192.0.2.1"), "is not a domain"),
        (json!("[192.0.2.1]"), "is not a domain"),
        (json!("::1"), "is not a domain"),
        (json!("_gatepost.new.example"), "is not a domain"),
        (json!("*.new.example"), "is not a domain"),
        (json!("new.example."), "is not a domain"),
        (json!("a@new.example"), "is not a domain"),
        (json!(""), "is not a domain"),
        (json!(["new.example"]), "a string"),
        (Value::Null, "a string"),
    ] {
        let reply = house.call("org1", "POST", "/domain", Some(&json!({ "domain": domain }))).await;
        reply.problem(400, "invalid_request", words);
    }
    house.call("org1", "POST", "/domain", Some(&json!({}))).await.problem(
        400,
        "invalid_request",
        "domain is missing",
    );
    let parent = "needs an account of type \"organization\", \"reseller\" or \"partner\"";
    registry.claim("agent1", "new.example").await.problem(400, "invalid_request", parent);
    house.get("agent1", "/domains").await.problem(400, "invalid_request", parent);
    assert_eq!(registry.listed("org1").await, json!([]));
    let idn = registry.claim("org1", "MÜNCHEN.example").await.success(201);
    assert_eq!(idn["domains"][0]["domain"], "xn--mnchen-3ya.example");
    house.call("org1", "DELETE", "/domain?domain=m%C3%BCnchen.example", None).await.success(200);
    assert_eq!(registry.dns.queries(), 0);
}

#[tokio::test]
async fn a_domain_is_given_up_when_no_address_uses_it() {
    let registry = Registry::new("").await;
    let house = &registry.house;
    let org1 = DomainName::parse("org1.example").unwrap();
    house.tenancy.add_domain(&org1, house.id("org1")).await.unwrap();
    let address = json!({ "address": "sales@org1.example" });
    house.call("agent1", "POST", "/email/addresses", Some(&address)).await.success(201);
    let body = json!({ "domain": "org1.example" });
    let used = house.call("org1", "DELETE", "/domain", Some(&body)).await;
    used.problem(409, "conflict", "1 addresses use org1.example");
    house.call("agent1", "DELETE", "/email/addresses", Some(&address)).await.success(200);
    // One answer for a domain of another account and for an unknown one.
    for caller in ["org2", "reseller1", "partner"] {
        let reply = house.call(caller, "DELETE", "/domain", Some(&body)).await;
        reply.problem(404, "not_found", "org1.example does not belong to");
    }
    let both = house.call("org1", "DELETE", "/domain?domain=org2.example", Some(&body)).await;
    both.problem(400, "invalid_request", "once");
    let nothing = house.call("org1", "DELETE", "/domain", None).await;
    nothing.problem(400, "invalid_request", "domain is missing");
    let gone = house.call("org1", "DELETE", "/domain?domain=ORG1.example", None).await;
    assert_eq!(gone.success(200)["domains"], json!([]));
    // By an account above the owner.
    let (path, id) = ("/domain", house.id("org1").get());
    let body = json!({ "domain": "new.example", "targetAccountId": id });
    let claimed = house.call("partner", "POST", path, Some(&body)).await.success(201);
    assert_eq!(claimed["domains"][0]["accountId"], id);
    let listed = house.get("reseller1", &format!("/domains?targetAccountId={id}")).await;
    assert_eq!(listed.success(200)["domains"], claimed["domains"]);
    assert_eq!(registry.listed("reseller1").await, json!([]));
    let others = registry.listed("partner").await;
    assert_eq!(others[0]["domain"], "partner.example");
}

#[tokio::test]
async fn an_account_claims_as_many_domains_as_the_rules_allow() {
    let registry = Registry::new("[domains]\nmax_claims = 2\nmax_domains = 3\n").await;
    for domain in ["a.example", "b.example"] {
        registry.claim("org1", domain).await.success(201);
    }
    let reply = registry.claim("org1", "c.example").await;
    reply.problem(409, "conflict", "at most 2 domains at a time");
    let house = &registry.house;
    let (id, given) = (house.id("org1"), ["d.example", "e.example"]);
    for name in given {
        house.tenancy.add_domain(&DomainName::parse(name).unwrap(), id).await.unwrap();
    }
    house.call("org1", "DELETE", "/domain?domain=a.example", None).await.success(200);
    let reply = registry.claim("org1", "c.example").await;
    reply.problem(409, "conflict", "at most 3 domains");
    assert_eq!(registry.listed("org1").await.as_array().unwrap().len(), 3);
}
