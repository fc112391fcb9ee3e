//! Messages of platforms are written like mail: together with mail, in one transaction, or not at
//! all.

use bytes::Bytes;
use gatepost::domain::account::Account;
use gatepost::domain::audit::Once;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::contact::Handle;
use gatepost::domain::event::Category;
use gatepost::domain::id::IntakeId;
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::message::{Call, Content, Digest, Flags, Linked, Received};
use gatepost::domain::source::{Inbox, Source};
use gatepost::domain::thread::ThreadKeys;
use gatepost::domain::verdict::Verdict;
use gatepost::store::{NewReceived, PlatformMessage, Receipt, StoreError};
use serde_json::json;
use uuid::Uuid;

use super::scene::{Kind, SENDER, Scene, at, by, everything, mint, record, subtree};

on_both! {
    what_was_handed_in_reads_back,
    nothing_is_handed_in_for_what_is_not_active,
    of_the_same_requests_one_is_carried_out,
    an_agent_is_found_by_its_username_in_its_scope,
}

/// A text from this number.
pub fn handed(agent: &Account, millis: i64, number: &str) -> PlatformMessage {
    let id = mint().message();
    let handle = Handle::elsewhere(Some(Source::Sms), number).unwrap();
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(id.0.as_bytes());
    let received = Received {
        handle: handle.clone(),
        name: Some("Anna".into()),
        text: "Hello".into(),
        to: Some("12345".into()),
        thread: Some("t".into()),
        attachments: vec![Linked { kind: "image".into(), url: "https://a.example/".into() }],
        context: json!({ "a": 1 }).as_object().unwrap().clone(),
        metadata: json!({ "b": null }).as_object().unwrap().clone(),
        outbound_url: Some("https://b.example/".into()),
        chat_dialog: Some(json!([])),
        call: Call::default(),
        flags: Flags { is_live: Some(true), notify: Some(false), ..Flags::default() },
        lead_rating: None,
        lead_rating_reason: None,
    };
    let record = record(agent, millis, Verdict::Accepted);
    PlatformMessage {
        record: IntakeRecord {
            source: Source::Sms,
            sender: Some(handle),
            id: IntakeId(id.0),
            message: Some(id),
            size: 2,
            digest: Some(Digest(digest)),
            ..record
        },
        message: NewReceived {
            thread: ThreadKeys::default(),
            id,
            lineage: agent.lineage,
            agent: agent.id,
            agent_username: agent.username.clone(),
            organization: agent.lineage.organization.unwrap(),
            at: at(millis),
            inbox: Inbox::Junk,
            received,
            digest: Digest(digest),
        },
        raw: Bytes::from_static(b"{}"),
        once: None,
    }
}

async fn what_was_handed_in_reads_back(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let new = handed(&scene.agent, 5, "+15551231234");
    let Receipt::Stored(contact) = scene.store.receive(&new).await.unwrap() else { panic!() };
    let scope = subtree(&scene.agent);
    let found = scene
        .store
        .recent_messages(&scope, TimeRange::default(), &everything())
        .await
        .unwrap()
        .remove(0);
    assert_eq!((found.id, found.at, found.contact), (new.message.id, at(5), contact));
    assert_eq!((found.inbox, found.size, found.source()), (Inbox::Junk, 2, Source::Sms));
    assert_eq!(found.content, Content::Received(Box::new(new.message.received.clone())));
    let original = scene.store.original(&scope, found.id).await.unwrap().unwrap();
    assert_eq!((original.source, original.digest), (Source::Sms, found.raw));
    assert_eq!(scene.store.original(&subtree(&scene.other), found.id).await.unwrap(), None);
    let raw = scene.store.raw_message(&scope, found.id).await.unwrap();
    assert_eq!(raw.as_deref(), Some(b"{}".as_slice()));
    let kept = scene.store.intake_record(&scope, new.record.id).await.unwrap();
    assert_eq!(kept, Some(new.record));
    let names: Vec<_> = scene.store.claim_deliveries(at(9), at(99), 9, &[]).await.unwrap();
    let mut names: Vec<_> = names.iter().map(|claim| claim.event.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["email.received", "message.received"]);
    // A second message from the number, at the same time as mail, keeps the contact of the number.
    let again = handed(&scene.agent, 6, "+15551231234");
    let mail = vec![scene.intake(&scene.agent, 6).await];
    let (again, _) = tokio::join!(scene.store.receive(&again), scene.commit(mail, 6));
    assert_eq!(again.unwrap(), Receipt::Stored(contact));
    let contacts = "SELECT COUNT(*) FROM contacts";
    assert_eq!(scene.count(contacts).await, 2, "{SENDER}, and the number");
}

async fn nothing_is_handed_in_for_what_is_not_active(kind: Kind) {
    let scene = Scene::new(kind).await;
    for account in [&scene.agent, &scene.organization, &scene.reseller] {
        assert!(scene.store.set_active(account.id, false, by(at(0))).await.unwrap());
        let new = handed(&scene.agent, 0, "+15551231234");
        assert_eq!(scene.store.receive(&new).await.unwrap(), Receipt::Inactive);
        assert!(scene.store.set_active(account.id, true, by(at(0))).await.unwrap());
    }
    super::deletion::delete(&scene.store, &scene.agent, false).await;
    let new = handed(&scene.agent, 0, "+15551231234");
    assert_eq!(scene.store.receive(&new).await.unwrap(), Receipt::Inactive);
    let traces = "SELECT (SELECT COUNT(*) FROM messages) + (SELECT COUNT(*) FROM contacts)
                       + (SELECT COUNT(*) FROM records WHERE recorded = 1) + (SELECT COUNT(*) FROM contents)";
    assert_eq!(scene.count(traces).await, 0);
}

async fn of_the_same_requests_one_is_carried_out(kind: Kind) {
    let scene = Scene::new(kind).await;
    let once = Once { digest: [1; 32], request: [2; 32], until: at(99) };
    let mut receiving = tokio::task::JoinSet::new();
    for number in 0..8_u128 {
        let mut new = handed(&scene.agent, 0, "+15551231234");
        new.once = Some((once, Uuid::from_u128(number)));
        let store = scene.open().await;
        receiving.spawn(async move { store.receive(&new).await });
    }
    let done = receiving.join_all().await;
    let repeated = |one: &&Result<_, _>| matches!(one, Err(StoreError::Repeated));
    assert_eq!(done.iter().filter(repeated).count(), 7, "{done:?}");
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);
}

async fn an_agent_is_found_by_its_username_in_its_scope(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    let twin = super::scene::agent(&scene.store, &scene.organization, "desk2").await;
    let same = "UPDATE accounts SET username = 'desk' WHERE username = 'desk2'";
    scene.execute(same).await;
    let found = async |of: &Account, name: &str| {
        let found = scene.store.agents_called(&subtree(of), name, 2).await.unwrap();
        found.iter().map(|agent| agent.id).collect::<Vec<_>>()
    };
    for above in [&scene.partner, &scene.reseller, &scene.organization] {
        assert_eq!(found(above, "desk").await, [scene.agent.id, twin.id]);
        assert_eq!(found(above, "organization").await, [], "no Agent");
    }
    assert_eq!(found(&scene.agent, "desk").await, [scene.agent.id]);
    assert_eq!(found(&scene.agent, "other").await, []);
    assert_eq!(found(&stranger, "desk").await, []);
    let only = subtree(&scene.organization).only(vec![twin.id]);
    let few = scene.store.agents_called(&only, "desk", 2).await.unwrap();
    assert_eq!(few.len(), 1);
}
