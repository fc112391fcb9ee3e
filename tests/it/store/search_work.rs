//! The index of full-text search: what a page of it reads, and what is taken out of it again.

use std::path::Path;
use std::sync::Arc;

use gatepost::app::mailbox::Mailbox;
use gatepost::app::mailbox::search::SearchRequest;
use gatepost::domain::contact::Handle;
use gatepost::domain::id::MessageId;
use gatepost::domain::search::query::Query;
use gatepost::domain::source::Source;
use gatepost::rules::Rules;
use gatepost::store::{
    Committed, CompanionFiles, Cursor, Direction, Location, OriginalsPlace, Receipt, back_up,
};

use super::received::handed;
use super::scene::{Kind, Scene, at, by, subtree};

on_both! {
    a_message_without_a_word_is_stored,
    a_search_reads_a_bounded_number_of_octets,
    words_of_erased_mail_are_in_no_page_in_the_end,
}

/// Much more than a few messages of the scene have.
const MUCH: u64 = 1 << 20;

/// Reads one page of a search that may read so many bytes of messages; returns the messages found,
/// and where the search goes on.
async fn page(
    scene: &Scene,
    max_octets: u64,
    from: Option<Cursor>,
) -> (Vec<MessageId>, Option<Cursor>) {
    let asked = SearchRequest {
        query: Query::parse("hello").unwrap(),
        source: None,
        since: None,
        until: None,
    };
    let mut limits = Rules::defaults().unwrap().access.search;
    limits.max_octets = max_octets;
    let (mailbox, scope) = (Mailbox::new(scene.store.clone()), subtree(&scene.partner));
    let from = from.map(|place| (Direction::Before, place));
    let mut search = mailbox.search(&scope, &asked, from, limits);
    let mut found = Vec::new();
    loop {
        let some = search.some(9).await.unwrap();
        if some.is_empty() {
            return (found, search.until());
        }
        found.extend(some.iter().map(|message| message.id));
    }
}

/// On as many pages as the time that each may take leads to.
async fn found(scene: &Scene) -> Vec<MessageId> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let (some, until) = page(scene, 1 << 30, from).await;
        found.extend(some);
        if until.is_none() {
            return found;
        }
        from = until;
    }
}

/// A tsvector refuses an empty token.
async fn a_message_without_a_word_is_stored(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut new = handed(&scene.agent, 5, "+15551231234");
    let handle = Handle::elsewhere(Some(Source::Chat), "\u{1f44d}").unwrap();
    new.record.sender = Some(handle.clone());
    (new.record.source, new.message.received.handle) = (Source::Chat, handle);
    (new.message.received.text, new.message.received.name) = ("\u{1f44d}".into(), None);
    assert!(matches!(scene.store.receive(&new).await, Ok(Receipt::Stored(_))));
    scene.index().await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, 1);
}

async fn a_search_reads_a_bounded_number_of_octets(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for millis in 0..5 {
        ids.push(scene.deliver(&scene.agent, millis).await);
    }
    ids.reverse();
    let (mut seen, mut from) = (Vec::new(), None);
    for number in 0..5 {
        let (some, until) = page(&scene, 1, from).await;
        assert_eq!(some, ids[number..=number], "one always fits");
        seen.extend(some);
        from = until;
    }
    assert_eq!(seen, ids);
    let rest = match from {
        Some(_) => page(&scene, 1, from).await,
        None => (Vec::new(), None),
    };
    assert_eq!(rest, (Vec::new(), None));
    assert_eq!(page(&scene, MUCH, None).await, (ids, None));
}

/// Whether the word is in a copy of the database, which has no free pages.
async fn is_kept(scene: &Scene, word: &str, to: &Path) -> bool {
    back_up(&scene.location, to, OriginalsPlace::Beside, CompanionFiles::default()).await.unwrap();
    let octets = std::fs::read(to.join("gatepost.db")).unwrap();
    octets.windows(word.len()).any(|some| some == word.as_bytes())
}

/// FTS5 marks what is deleted, and keeps it in its segments until these are merged.
async fn words_of_erased_mail_are_in_no_page_in_the_end(kind: Kind) {
    let scene = Scene::new(kind).await;
    if kind == Kind::Postgres {
        assert_eq!(scene.store.forget_words(1).await.unwrap(), None);
        return;
    }
    assert_eq!(scene.store.forget_words(1).await.unwrap(), Some(false));
    let mut erased = Vec::new();
    for millis in 0..40 {
        let mut intake = scene.intake(&scene.agent, millis).await;
        let message = &mut intake.accepted.as_mut().unwrap().message;
        let mail = Arc::make_mut(&mut message.mail);
        mail.text = (0..400).map(|n| format!("hello w{millis}x{n} ")).collect();
        if millis % 20 == 7 {
            (mail.text, mail.stripped_text) = ("Quokkazebra".into(), String::new());
            erased.push(message.id);
        }
        assert_eq!(scene.commit(vec![intake], millis).await, Committed::Done(vec![None]));
        scene.index().await;
    }
    assert!(is_kept(&scene, "quokkazebra", &scene.folder.path().join("before")).await);
    let scope = subtree(&scene.agent);
    for id in erased {
        assert!(scene.store.erase_message(&scope, id, by(at(50))).await.unwrap());
    }
    assert!(is_kept(&scene, "quokkazebra", &scene.folder.path().join("erased")).await);
    let mut steps = 0;
    while scene.store.forget_words(4).await.unwrap() == Some(true) {
        steps += 1;
        // Mail that comes meanwhile neither ends the merge nor makes it begin anew.
        if steps % 2 == 0 && steps < 40 {
            scene.deliver(&scene.agent, 100 + steps).await;
            scene.index().await;
        }
        assert!(steps < 1000, "the merge does not end");
    }
    assert!(steps > 3, "{steps} steps of 4 pages");
    assert!(!is_kept(&scene, "quokkazebra", &scene.folder.path().join("after")).await);
    assert!(matches!(scene.location, Location::Folder(_)));
    let check = "INSERT INTO search_words (search_words) VALUES ('integrity-check')";
    scene.execute(check).await;
    assert_eq!(found(&scene).await.len(), 38 + usize::try_from((steps.min(39)) / 2).unwrap());
}

/// Every statement, for the planner.
pub async fn exercise(scene: &Scene) {
    while scene.store.forget_words(9).await.unwrap() == Some(true) {}
}
