//! People: who they are, who may invite, change and remove them.

use serde_json::{Value, json};

use crate::app::delivery::payload;
use crate::domain::destination::Payload;
use crate::domain::event::Category;
use crate::domain::member::Role;
use crate::http::tests::{House, NOBODY, Reply};

async fn member(house: &House, caller: &str, method: &str, body: Value) -> Reply {
    house.call(caller, method, "/member", Some(&body)).await
}

async fn invited(house: &House, caller: &str, body: Value) -> Value {
    member(house, caller, "POST", body).await.success(201)["member"].clone()
}

#[tokio::test]
async fn a_member_shows_what_decides_its_scope() {
    let mut house = House::new().await;
    let anna = house.join("anna", "org1", Role::Member, &["agent1"]).await.id.get();
    let (org, agent) = (house.id("org1").get(), house.id("agent1").get());
    let own = house.get("anna", "/account").await.success(200);
    for (field, expected) in [
        ("id", json!(anna)),
        ("accountType", json!("user")),
        ("organizationId", json!(org)),
        ("resellerId", json!(house.id("reseller1").get())),
        ("partnerId", json!(house.id("partner").get())),
        ("superAdmin", json!(false)),
        ("permittedAccountIds", json!([agent])),
        ("role", json!("member")),
        ("email", json!("anna@good.example")),
        ("username", json!("anna@good.example")),
        ("parentId", json!(org)),
        ("accountId", json!(org)),
        ("active", json!(true)),
    ] {
        assert_eq!(own[field], expected, "{field}");
    }
    assert!(own["details"].is_object() && own["timestamp"].is_i64());
    // With a target the answer describes the target, never the caller.
    for caller in ["org1", "reseller1", "partner", "anna"] {
        let other = house.get(caller, &format!("/account?targetAccountId={anna}")).await;
        assert_eq!(other.success(200), own, "{caller}");
    }
    let account = house.get("anna", &format!("/account?targetAccountId={agent}")).await;
    let account = account.success(200);
    assert_eq!((&account["id"], &account["accountType"]), (&json!(agent), &json!("account")));
    for caller in ["org2", "agent1", "reseller2"] {
        let reply = house.get(caller, &format!("/account?targetAccountId={anna}")).await;
        reply.problem(403, "forbidden", "does not reach this account");
    }
    house.join("root", "partner", Role::Admin, &[]).await;
    let root = house.get("root", "/account").await.success(200);
    assert_eq!(root["organizationId"], root["partnerId"], "a Partner Admin by the table");
    assert_eq!(root.get("permittedAccountIds"), None, "absent restricts nothing");
    assert_eq!(root.get("resellerId"), Some(&Value::Null), "what decides is always there");
    let path = format!("/account?targetAccountId={anna}");
    assert_eq!(house.get("root", &path).await.success(200), own);
}

#[tokio::test]
async fn a_member_is_invited_shown_changed_and_removed() {
    let mut house = House::new().await;
    let body = json!({
        "email": "Anna@Good.Example", "role": "admin", "permittedAccountIds": [],
        "redirectUrl": "https://service.io/welcome", "sendWelcomeEmail": true,
    });
    let anna = invited(&house, "org1", body).await;
    assert_eq!((&anna["email"], &anna["role"]), (&json!("anna@good.example"), &json!("admin")));
    assert_eq!(anna["accountType"], "user");
    let again = json!({ "email": "anna@GOOD.example" });
    member(&house, "org1", "POST", again).await.problem(409, "conflict", "with this email");
    // The default is the narrower role.
    let (one, other) = (house.id("agent1").get(), house.id("agent2").get());
    let body = json!({ "email": "eva@good.example", "permittedAccountIds": [one, one, other.to_string()] });
    let eva = invited(&house, "org1", body).await;
    assert_eq!(
        (&eva["role"], &eva["permittedAccountIds"]),
        (&json!("member"), &json!([one, other]))
    );

    let list = house.get("org1", "/members").await.success(200);
    assert_eq!((&list["members"], &list["count"]), (&json!([anna, eva]), &json!(2)));
    let named = |id: &Value| format!("/member?targetMemberId={id}");
    for caller in ["org1", "reseller1", "partner"] {
        assert_eq!(house.get(caller, &named(&eva["id"])).await.success(200)["member"], eva);
    }
    assert_eq!(house.get("partner", "/members").await.success(200)["members"], json!([]));
    // For an Agent, the list holds the members who may act on it.
    let body = json!({ "targetMemberId": eva["id"].to_string(), "permittedAccountIds": [other] });
    let changed = member(&house, "org1", "PUT", body).await.success(201)["member"].clone();
    assert_eq!(
        (&changed["permittedAccountIds"], &changed["role"]),
        (&json!([other]), &eva["role"])
    );
    let of = async |agent: i64| {
        let reply = house.get("org1", &format!("/members?targetAccountId={agent}")).await;
        reply.success(200)["members"].clone()
    };
    assert_eq!((of(one).await, of(other).await), (json!([anna]), json!([anna, changed])));
    let path = format!("{}&targetAccountId={one}", named(&eva["id"]));
    house.get("org1", &path).await.problem(404, "not_found", "no such member");

    let body = json!({ "targetMemberId": eva["id"], "permittedAccountIds": Value::Null });
    let reply = member(&house, "org1", "PUT", body).await;
    reply.problem(400, "invalid_request", "/permittedAccountIds must be an array");
    assert_eq!(house.get("org1", &named(&eva["id"])).await.success(200)["member"], changed);
    let body = json!({ "targetMemberId": eva["id"], "permittedAccountIds": [],
                       "email": "Eva@Other.Example" });
    let changed = member(&house, "org1", "PUT", body).await.success(201)["member"].clone();
    assert_eq!(changed["permittedAccountIds"], json!([]));
    assert_eq!(changed["email"], "eva@other.example");
    let body = json!({ "targetMemberId": anna["id"] });
    let reply = member(&house, "org1", "DELETE", body.clone()).await;
    reply.problem(409, "conflict", "last administrator");
    let demoted = json!({ "targetMemberId": anna["id"], "role": "member" });
    member(&house, "org1", "PUT", demoted).await.problem(409, "conflict", "last administrator");
    house.join("boss", "org1", Role::Admin, &[]).await;
    let removed = member(&house, "boss", "DELETE", body.clone()).await.success(201);
    assert_eq!(removed["member"]["id"], anna["id"]);
    member(&house, "org1", "DELETE", body).await.problem(404, "not_found", "no such member");
    let path = format!("/account?targetAccountId={}", anna["id"]);
    house.get("org1", &path).await.problem(403, "forbidden", "does not reach");
}

#[tokio::test]
async fn a_removed_members_keys_stop_with_it() {
    let mut house = House::new().await;
    house.join("boss", "org1", Role::Admin, &[]).await;
    let anna = house.join("anna", "org1", Role::Admin, &[]).await.id.get();
    house.get("anna", "/account").await.success(200);
    // A member may remove itself. The id may be in query and body, in either spelling.
    let gone = json!({ "targetMemberId": anna });
    let path = format!("/member?targetMemberId={anna}");
    house.call("anna", "DELETE", &path, Some(&gone)).await.success(201);
    house.get("anna", "/account").await.problem(401, "unauthorized", "query parameter token");
    let body = json!({ "description": "x", "targetAccountId": anna });
    let reply = house.call("org1", "POST", "/tokens", Some(&body)).await;
    reply.problem(403, "forbidden", "does not reach");
}

#[tokio::test]
async fn who_is_invited_to_an_agent_is_restricted_to_it() {
    let house = House::new().await;
    let (one, other) = (house.id("agent1").get(), house.id("agent2").get());
    let body = |email: &str, permitted: Value| json!({ "email": email, "targetAccountId": one, "permittedAccountIds": permitted });
    let plain = json!({ "email": "a@good.example", "targetAccountId": one });
    let null = body("n@good.example", Value::Null);
    for body in [plain, null, body("b@good.example", json!([one]))] {
        let made = invited(&house, "org1", body).await;
        assert_eq!(made["organizationId"], house.id("org1").get());
        assert_eq!(made["permittedAccountIds"], json!([one]));
    }
    for permitted in [json!([]), json!([other]), json!([one, other])] {
        let reply = member(&house, "org1", "POST", body("c@good.example", permitted)).await;
        reply.problem(400, "invalid_request", "restricted to it");
    }
    // The invitation makes a member of the organization, so the key of an Agent does not suffice.
    let plain = json!({ "email": "d@good.example" });
    member(&house, "agent1", "POST", plain).await.problem(403, "forbidden", "needs a key of");
}

#[tokio::test]
async fn what_is_not_said_rightly_makes_no_member() {
    let house = House::with("[members]\nmax_permitted = 2\nmax_per_account = 1\n").await;
    let agent = house.id("agent1").get();
    let with = |field: &str, value: Value| json!({ "email": "x@good.example", field: value });
    for (body, words) in [
        (json!({ "role": "admin" }), "email is missing"),
        (with("email", json!("no address")), "/email is refused: "),
        (with("role", json!("owner")), "/role must be one of: admin, member"),
        (with("role", json!("Admin")), "/role must be one of"),
        (with("permittedAccountIds", json!(agent)), "must be an array"),
        (with("permittedAccountIds", json!([1.5])), "permittedAccountIds"),
        (with("permittedAccountIds", json!(["01"])), "permittedAccountIds"),
        (with("permittedAccountIds", json!([null])), "permittedAccountIds"),
        (with("permittedAccountIds", json!([NOBODY])), "is not the id of an Agent below"),
        (
            with("permittedAccountIds", json!([house.id("agent3").get()])),
            "is not the id of an Agent",
        ),
        (with("permittedAccountIds", json!([house.id("org1").get()])), "is not the id of an Agent"),
        (with("permittedAccountIds", json!([1, 2, 3])), "an array of at most 2 items"),
        (with("redirectUrl", json!("javascript:alert(1)")), "redirectUrl"),
        (with("redirectUrl", json!("/welcome")), "redirectUrl"),
        (with("redirectUrl", json!("https://a:b@c.example/")), "redirectUrl"),
        (
            with("redirectUrl", json!(format!("https://a.example/{}", "x".repeat(2000)))),
            "redirectUrl",
        ),
        (with("sendWelcomeEmail", json!("yes")), "sendWelcomeEmail"),
        (with("superAdmin", json!(true)), "\"superAdmin\" is not known"),
        (with("organizationId", json!(1)), "\"organizationId\" is not known"),
    ] {
        member(&house, "org1", "POST", body).await.problem(400, "invalid_request", words);
    }
    // All mistakes are reported at once.
    let body = json!({ "role": "owner", "permittedAccountIds": [1, "01"], "sendWelcomeEmail": 1 });
    let told = member(&house, "org1", "POST", body).await.json();
    let told = told["errors"].as_array().unwrap().iter();
    let pointers: Vec<_> = told.map(|one| one["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/email", "/role", "/permittedAccountIds/1", "/sendWelcomeEmail"]);
    assert_eq!(house.get("org1", "/members").await.success(200)["count"], 0);
    let one = invited(&house, "org1", with("role", json!("admin"))).await;
    let reply = member(&house, "org1", "POST", json!({ "email": "y@good.example" })).await;
    reply.problem(409, "conflict", "at most 1 members");
    let id = &one["id"];
    for (body, status, words) in [
        (json!({ "role": "admin" }), 400, "targetMemberId is missing"),
        (json!({ "targetMemberId": "01" }), 400, "targetMemberId"),
        (json!({ "targetMemberId": house.id("agent1").get() }), 404, "no such member"),
        (json!({ "targetMemberId": NOBODY }), 404, "no such member"),
        (json!({ "targetMemberId": id, "permittedAccountIds": [NOBODY] }), 400, "is not the id"),
        (json!({ "targetMemberId": id, "permittedAccountIds": [1, 2, 3] }), 400, "at most 2 items"),
    ] {
        let code = if status == 404 { "not_found" } else { "invalid_request" };
        member(&house, "org1", "PUT", body).await.problem(status, code, words);
    }
    // Other accounts do not find the member; ids in query and body must agree.
    let path = format!("/member?targetMemberId={id}");
    house.get("org2", &path).await.problem(404, "not_found", "no such member");
    let body = json!({ "targetMemberId": NOBODY });
    let reply = house.call("org1", "DELETE", &path, Some(&body)).await;
    reply.problem(400, "invalid_request", "differs between query and body");
    assert_eq!(house.get("org1", &path).await.success(200)["member"], one);
}

#[tokio::test]
async fn only_unrestricted_administrators_manage_members() {
    let mut house = House::new().await;
    let boss = house.join("boss", "org1", Role::Admin, &[]).await.id.get();
    house.join("plain", "org1", Role::Member, &[]).await;
    let few = house.join("few", "org1", Role::Admin, &["agent1"]).await.id.get();
    for (caller, words) in
        [("plain", "needs an administrator"), ("few", "restricted to some Agents")]
    {
        // Neither itself nor others, with any target.
        for id in [boss, few] {
            for target in [None, Some(house.id("org1").get()), Some(house.id("agent1").get())] {
                let mut body = json!({ "targetMemberId": id, "permittedAccountIds": [] });
                let mut query = String::new();
                if let Some(target) = target {
                    body["targetAccountId"] = json!(target);
                    query = format!("&targetAccountId={target}");
                }
                let reply = member(&house, caller, "PUT", body).await;
                reply.problem(403, "forbidden", words);
                let path = format!("/member?targetMemberId={id}{query}");
                house.get(caller, &path).await.problem(403, "forbidden", words);
                let reply = house.call(caller, "DELETE", &path, None).await;
                reply.problem(403, "forbidden", words);
            }
        }
        let body =
            json!({ "email": "new@good.example", "targetAccountId": house.id("agent1").get() });
        member(&house, caller, "POST", body).await.problem(403, "forbidden", words);
        house.get(caller, "/members").await.problem(403, "forbidden", words);
    }
    assert_eq!(house.get("boss", "/members").await.success(200)["count"], 3);
    member(&house, "boss", "POST", json!({ "email": "new@good.example" })).await.success(201);
}

#[tokio::test]
async fn who_invited_from_above_is_told_by_the_account_alone() {
    let mut house = House::new().await;
    house.join("chief", "partner", Role::Admin, &[]).await;
    let body = json!({ "email": "new@good.example", "targetAccountId": house.id("org1").get() });
    member(&house, "chief", "POST", body).await.success(201);
    let events = house.get("org1", "/events").await.success(200);
    let mut events = events["events"].as_array().unwrap().iter();
    let told = events.find(|one| one["event"] == "member.invited").unwrap();
    let expected = json!({ "accountId": house.id("partner").get(), "memberId": null });
    assert_eq!(told["data"]["invitedBy"], expected);
}

#[tokio::test]
async fn an_invitation_is_an_event_and_nothing_else() {
    let mut house = House::new().await;
    let boss = house.join("boss", "org1", Role::Admin, &[]).await.id.get();
    for (account, category) in [("partner", Category::Onboarding), ("org1", Category::Incoming)] {
        let url = "https://127.0.0.2/hook".parse().unwrap();
        let made = house.http.use_cases.destinations.add(house.id(account), url, category, "x");
        made.await.unwrap();
    }
    let url = "https://service.io/welcome?x=1";
    let body = json!({ "email": "anna@good.example", "redirectUrl": url });
    let anna = invited(&house, "boss", body).await;
    let later = house.now().plus(std::time::Duration::from_secs(60));
    let claims = house.store.claim_deliveries(house.now(), later, 9, &[]).await.unwrap();
    assert_eq!(claims.len(), 1);
    let (event, subject) = (&claims[0].event, &claims[0].subject);
    let rules = crate::rules::Rules::defaults().unwrap().webhooks.payload;
    let told = payload::body(event, subject, Payload::Full, &rules, &house.http.use_cases.links);
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(
        (&told["event"], &told["type"]),
        (&json!("member.invited"), &json!("member.invited"))
    );
    let expected = json!({
        "member": anna,
        "redirectUrl": url,
        "sendWelcomeEmail": null,
        "invitedBy": { "accountId": house.id("org1").get(), "memberId": boss },
    });
    assert_eq!(told["data"], expected);
    assert!(!told.to_string().contains("gp_"));
}
