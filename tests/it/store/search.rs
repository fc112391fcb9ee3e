//! Full-text search: what is found is what a tiny matcher of the test's own finds, in the same order
//! on both databases, however it is cut into pages; entries come and go with their messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use gatepost::app::mailbox::Mailbox;
use gatepost::app::mailbox::search::SearchRequest;
use gatepost::domain::account::Account;
use gatepost::domain::clock::{TimeRange, Timestamp};
use gatepost::domain::id::MessageId;
use gatepost::domain::message::Attachment;
use gatepost::domain::scope::Scope;
use gatepost::domain::search::query::Query;
use gatepost::domain::search::tokens;
use gatepost::domain::source::Source;
use gatepost::rules::{RetainedKind, Rules, SearchLimits};
use gatepost::store::{
    Commit, Committed, Cursor, Direction, DueAccount, Intake, Page, Store, Unindexed, WantedWords,
};
use gatepost::testkit::dice::Dice;
use sqlx::Executor as _;
use uuid::Uuid;

use super::scene::{DAY, Kind, Scene, at, by, mint, subtree};
use super::silence::until_blocked;

on_both! {
    entries_go_with_their_messages,
    what_is_erased_before_it_is_indexed_leaves_nothing,
    where_much_is_not_indexed_a_page_ends_early,
    a_search_of_a_tenant_that_has_nothing_looks_at_nothing,
    what_came_at_the_edges_of_time_is_found,
}

/// Words as they are written, and what is to be found of them.
const WORDS: &[(&str, &[&str])] = &[
    ("invoice", &["invoice"]),
    ("Invoices!", &["invoices"]),
    ("INVENTORY", &["inventory"]),
    ("due", &["due"]),
    ("Straße", &["strasse"]),
    ("café", &["cafe"]),
    ("boss@good.example", &["boss", "good", "example"]),
    ("東京都", &["東", "京", "都"]),
    ("京都", &["京", "都"]),
    ("don't", &["don", "t"]),
    ("or", &["or"]),
    ("s:due", &["s", "due"]),
    ("x\"y", &["x", "y"]),
    ("2026-11-22", &["2026", "11", "22"]),
];

/// A message by the numbers of its words, with the tokens of each field.
#[derive(Clone, Debug)]
struct Letter {
    id: MessageId,
    whose: usize,
    at: Timestamp,
    subject: Vec<&'static str>,
    from: Vec<&'static str>,
    names: Vec<&'static str>,
    text: Vec<&'static str>,
}

fn draw(dice: &mut Dice, most: usize) -> (String, Vec<&'static str>) {
    let words: Vec<_> = (0..dice.roll(most + 1)).map(|_| dice.pick(WORDS)).collect();
    let text = words.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(" ");
    (text, words.iter().flat_map(|(_, tokens)| tokens.iter().copied()).collect())
}

/// Puts the same random letters into each of the stores.
async fn write(scenes: &[&Scene], strangers: &[Account], count: usize) -> Vec<Letter> {
    let mut dice = Dice(7);
    let mut letters = Vec::new();
    let mut batches: Vec<Vec<Intake>> = scenes.iter().map(|_| Vec::new()).collect();
    for number in 0..count {
        let whose = dice.roll(3);
        // Several in the same millisecond; others years apart.
        let millis = i64::try_from(number / 3).unwrap() * [1, DAY / 9][number * 2 / count];
        let ((subject, s), (name, f), (file, n), (text, t)) =
            (draw(&mut dice, 3), draw(&mut dice, 1), draw(&mut dice, 1), draw(&mut dice, 8));
        let id = mint().message();
        for ((scene, stranger), batch) in scenes.iter().zip(strangers).zip(&mut batches) {
            let agent = [&scene.agent, &scene.other, stranger][whose];
            let mut intake =
                scene.intake_from(agent, millis, "ann@mail.example", Some(&name)).await;
            let message = &mut intake.accepted.as_mut().unwrap().message;
            let mail = Arc::make_mut(&mut message.mail);
            (mail.subject, mail.text) = (Some(subject.clone()), text.clone());
            let part = |part: Attachment| Attachment { filename: file.clone(), ..part };
            mail.attachments = mail.attachments.drain(..).map(part).collect();
            (message.id, intake.record.message) = (id, Some(id));
            batch.push(intake);
        }
        let from = [f.as_slice(), &["ann", "mail", "example"]].concat();
        letters.push(Letter { id, whose, at: at(millis), subject: s, from, names: n, text: t });
    }
    for (scene, batch) in scenes.iter().zip(batches) {
        for intakes in batch.chunks(25) {
            scene.commit(intakes.to_vec(), 0).await;
        }
    }
    letters.sort_by_key(|letter| std::cmp::Reverse((letter.at, letter.id.0)));
    letters
}

/// One term: how it is written, and what it means.
struct Term {
    text: String,
    without: bool,
    field: &'static str,
    words: Vec<&'static str>,
    open: bool,
}

fn term(dice: &mut Dice, may_be_without: bool) -> Term {
    let without = may_be_without && dice.roll(4) == 0;
    let field = *dice.pick(&["", "", "", "subject:", "from:", "text:"]);
    let sign = if without { "-" } else { "" };
    let (said, words, open) = match dice.roll(4) {
        0 => {
            let (words, tokens) = [dice.pick(WORDS), dice.pick(WORDS)]
                .into_iter()
                .filter(|(text, _)| !text.contains('"'))
                .fold((String::new(), Vec::new()), |(text, tokens), (more, found)| {
                    (format!("{text} {more}"), [tokens.as_slice(), found].concat())
                });
            if tokens.is_empty() {
                ("due".to_owned(), vec!["due"], false)
            } else {
                (format!("\"{words}\""), tokens, false)
            }
        }
        1 => {
            let (said, word) = dice.pick(&[("invoi*", "invoi"), ("inv*", "inv"), ("京*", "京")]);
            ((*said).to_owned(), vec![*word], true)
        }
        _ => {
            let (text, tokens) = dice.pick(WORDS);
            ((*text).to_owned(), tokens.to_vec(), false)
        }
    };
    Term { text: format!("{sign}{field}{said}"), without, field, words, open }
}

/// The reference: as plain as can be.
fn matches(letter: &Letter, terms: &[Term]) -> bool {
    terms.iter().all(|term| {
        let fields = match term.field {
            "subject:" => vec![&letter.subject],
            "from:" => vec![&letter.from],
            "text:" => vec![&letter.text],
            _ => vec![&letter.subject, &letter.from, &letter.names, &letter.text],
        };
        let is_there = fields.iter().any(|words| {
            (0..words.len()).any(|start| {
                term.words.iter().enumerate().all(|(n, word)| {
                    let is_last = n + 1 == term.words.len();
                    words.get(start + n).is_some_and(|found| {
                        found == word || term.open && is_last && found.starts_with(*word)
                    })
                })
            })
        });
        is_there != term.without
    })
}

fn limits() -> SearchLimits {
    Rules::defaults().unwrap().access.search
}

fn asked(query: &str) -> SearchRequest {
    let query = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    SearchRequest { query, source: None, since: None, until: None }
}

/// All that is found, a page after the other from here on, in the order of the walk.
async fn pages(
    scene: &Scene,
    (scope, asked): (&Scope, &SearchRequest),
    (limits, page): (SearchLimits, usize),
    mut from: Option<(Direction, Cursor)>,
) -> Vec<MessageId> {
    let mailbox = Mailbox::new(scene.store.clone());
    let direction = from.map_or(Direction::Before, |(direction, _)| direction);
    let mut found = Vec::new();
    for _ in 0..1000 {
        let mut search = mailbox.search(scope, asked, from, limits);
        let mut last = None;
        let mut count = 0;
        while count < page {
            let some = search.some((page - count).min(3)).await.unwrap();
            if some.is_empty() {
                break;
            }
            count += some.len();
            last = some.last().map(|message| Cursor { at: message.at, id: message.id.0 });
            found.extend(some.iter().map(|message| message.id));
        }
        let next = if count >= page { last } else { search.until() };
        let Some(next) = next else { return found };
        from = Some((direction, next));
    }
    panic!("the pages do not end");
}

/// The rows, one by one and in all pages: the same for all queries on both databases.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_databases_find_what_the_reference_finds() {
    let (sqlite, postgres) = (Scene::new(Kind::Sqlite).await, Scene::new(Kind::Postgres).await);
    let scenes = [&sqlite, &postgres];
    let strangers = [sqlite.stranger().await, postgres.stranger().await];
    let letters = write(&scenes, &strangers, 150).await;
    let mut dice = Dice(11);
    let (mut hits, mut misses) = (0, 0);
    for round in 0..220 {
        // A message more has its entry now and then: first none has one, in the end all have.
        if round % 3 == 2 {
            for scene in scenes {
                scene.store.index_messages(3, 1024).await.unwrap();
            }
        }
        let terms: Vec<Term> = (0..=dice.roll(3)).map(|n| term(&mut dice, n > 0)).collect();
        let query = terms.iter().map(|term| term.text.as_str()).collect::<Vec<_>>().join(" ");
        let level = dice.roll(5);
        let page = 1 + dice.roll(9);
        let mut limits = limits();
        limits.max_rows = *dice.pick(&[3, 40, 100_000]);
        limits.max_candidates = *dice.pick(&[2, 7, 1000]);
        let place = dice.pick(&letters);
        let place = Cursor { at: place.at, id: place.id.0 };
        let from = *dice.pick(&[
            None,
            None,
            Some((Direction::Before, place)),
            Some((Direction::After, place)),
        ]);
        let (early, late) = (dice.pick(&letters).at, dice.pick(&letters).at);
        let narrow = dice.roll(4) == 0;
        let asked = SearchRequest {
            since: narrow.then_some(early.min(late)),
            until: narrow.then_some(early.max(late)),
            source: (dice.roll(3) == 0).then_some(Source::Email),
            ..asked(&query)
        };
        let of_scope: &[usize] = [&[0, 1, 2][..], &[0, 1, 2], &[0, 1], &[0], &[1]][level];
        let mut expected: Vec<MessageId> = letters
            .iter()
            .filter(|letter| of_scope.contains(&letter.whose) && matches(letter, &terms))
            .filter(|letter| asked.since.is_none_or(|since| letter.at >= since))
            .filter(|letter| asked.until.is_none_or(|until| letter.at < until))
            .filter(|letter| match from {
                None => true,
                Some((Direction::Before, place)) => (letter.at, letter.id.0) < (place.at, place.id),
                Some((Direction::After, place)) => (letter.at, letter.id.0) > (place.at, place.id),
            })
            .map(|letter| letter.id)
            .collect();
        if matches!(from, Some((Direction::After, _))) {
            expected.reverse();
        }
        *(if expected.is_empty() { &mut misses } else { &mut hits }) += 1;
        for (scene, stranger) in scenes.iter().zip(&strangers) {
            let partner = subtree(&scene.partner);
            let everybody = vec![scene.agent.id, scene.other.id, stranger.id];
            let restricted = subtree(&scene.organization).only(vec![scene.other.id]);
            let scopes = [
                partner.clone(),
                partner.only(everybody),
                subtree(&scene.organization),
                subtree(&scene.agent),
                restricted,
            ];
            let found = pages(scene, (&scopes[level], &asked), (limits, page), from).await;
            assert_eq!(found, expected, "{round}: {query:?} in {level}, {from:?}, {limits:?}");
        }
    }
    assert!(hits > 60 && misses > 20, "{hits} queries found something, {misses} nothing");
    assert_eq!(sqlite.store.count_unindexed(1).await.unwrap(), 0);
    assert_eq!(postgres.store.count_unindexed(1).await.unwrap(), 0);
}

/// A commit that began before others and ends after them, on another gateway, is missed by no indexer.
#[tokio::test]
async fn a_slow_commit_is_found_and_indexed() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.deliver(&scene.agent, 0).await;
    scene.index().await;
    let mut other = scene.postgres().await;
    other.execute("BEGIN; SELECT FROM accounts WHERE name = 'desk' FOR UPDATE").await.unwrap();
    let slow = scene.intake(&scene.agent, 1).await;
    let slow_id = slow.record.message.unwrap();
    let committing = scene.commit(vec![slow], 1);
    let beside = async {
        // Its message is written, and waits to be indexed: the reference to its Agent is left to check.
        until_blocked(&scene, 1).await;
        let gateway = scene.open().await;
        let intake = scene.intake_from(&scene.other, 2, "bob@good.example", None).await;
        let quick = intake.record.message.unwrap();
        gateway.commit(&Commit { intakes: vec![intake], now: at(2) }).await.unwrap();
        while gateway.index_messages(9, 1024).await.unwrap() > 0 {}
        assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, 2);
        other.execute("ROLLBACK").await.unwrap();
        quick
    };
    let (committed, quick) = tokio::join!(committing, beside);
    assert_eq!(committed, Committed::Done(vec![None]));
    for indexed in [2, 3] {
        assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, indexed);
        let scope = subtree(&scene.partner);
        let found = pages(&scene, (&scope, &asked("hello")), (limits(), 9), None).await;
        assert_eq!(found[..2], [quick, slow_id]);
        scene.index().await;
    }
}

/// Two gateways index at the same time: each message has one entry.
#[tokio::test]
async fn gateways_that_index_at_once_are_not_in_each_others_way() {
    let scene = Scene::new(Kind::Postgres).await;
    for millis in 0..40 {
        scene.deliver(&scene.agent, millis).await;
    }
    let other = scene.open().await;
    let index = async |store: &Store| {
        while store.count_unindexed(1).await.unwrap() > 0 {
            store.index_messages(7, 1024).await.unwrap();
        }
    };
    tokio::join!(index(&scene.store), index(&other));
    assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, 40);
}

/// Mail that this process has committed is indexed from memory; a process that starts reads it back.
#[tokio::test]
async fn mail_at_hand_is_indexed_without_being_read_back() {
    for (started_anew, found) in [(false, 1), (true, 0)] {
        let scene = Scene::new(Kind::Sqlite).await;
        scene.deliver(&scene.agent, 0).await;
        scene.execute("UPDATE contents SET packed = (SELECT digest FROM messages)").await;
        let other = if started_anew { Some(scene.open().await) } else { None };
        let store = other.as_ref().unwrap_or(&scene.store);
        assert_eq!(store.index_messages(9, 1024).await.unwrap(), 1);
        let with_word = "SELECT COUNT(*) FROM search_words WHERE search_words MATCH 'hello'";
        assert_eq!(scene.count(with_word).await, found);
    }
}

async fn what_is_erased_before_it_is_indexed_leaves_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    let scope = subtree(&scene.agent);
    let mut ids = Vec::new();
    for millis in 0..3 {
        ids.push(scene.deliver(&scene.agent, millis).await);
    }
    assert!(scene.store.erase_message(&scope, ids[1], by(at(9))).await.unwrap());
    let found = async || pages(&scene, (&scope, &asked("hello")), (limits(), 9), None).await;
    assert_eq!(found().await, [ids[2], ids[0]]);
    scene.index().await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, 2);
    assert_eq!(scene.count("SELECT COUNT(*) FROM search_waiting").await, 0);
    assert_eq!(found().await, [ids[2], ids[0]]);
}

/// Proves that a page reads a bounded number of unindexed messages, and that all are found in the
/// end.
async fn where_much_is_not_indexed_a_page_ends_early(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for millis in 0..9 {
        ids.push(scene.deliver(&scene.agent, millis).await);
    }
    ids.reverse();
    let wait = match kind {
        Kind::Sqlite => {
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO search_waiting SELECT randomblob(16), 3 FROM n"
        }
        Kind::Postgres => {
            "INSERT INTO search_waiting SELECT gen_random_uuid(), 3 FROM generate_series(1, 5000)"
        }
    };
    scene.execute(wait).await;
    let mut limits = limits();
    limits.max_rows = 128 * 4;
    let (mailbox, scope, asked) =
        (Mailbox::new(scene.store.clone()), subtree(&scene.agent), asked("hello"));
    let mut search = mailbox.search(&scope, &asked, None, limits);
    let mut found = Vec::new();
    loop {
        let some = search.some(9).await.unwrap();
        if some.is_empty() {
            break;
        }
        found.extend(some.iter().map(|message| message.id));
    }
    // Fewer where the time of a page ends it.
    assert!((1..=4).contains(&found.len()) && ids.starts_with(&found), "{found:?}");
    assert!(search.until().is_some());
    assert_eq!(pages(&scene, (&scope, &asked), (limits, 9), None).await, ids);
    // Ids of messages that are gone.
    scene.index().await;
    assert_eq!(pages(&scene, (&scope, &asked), (limits, 9), None).await, ids);
}

async fn entries_go_with_their_messages(kind: Kind) {
    let scene = Scene::new(kind).await;
    for millis in [0, 1, 2] {
        scene.deliver(&scene.agent, millis).await;
    }
    let found = async || {
        let scope = subtree(&scene.agent);
        pages(&scene, (&scope, &asked("hello")), (limits(), 9), None).await.len()
    };
    assert_eq!(found().await, 3);
    scene.index().await;
    assert_eq!(found().await, 3);
    let due = DueAccount { account: scene.agent.id, kind: scene.agent.kind, until: at(2) };
    let rows = scene.store.expired(RetainedKind::Messages, &due, None, 9).await.unwrap();
    scene.store.delete_expired(RetainedKind::Messages, &rows, 9).await.unwrap().unwrap();
    assert_eq!(scene.count("SELECT COUNT(*) FROM search_entries").await, 1);
    if kind == Kind::Sqlite {
        let kept = "SELECT COUNT(*) FROM search_words WHERE search_words MATCH 'hello'";
        assert_eq!(scene.count(kept).await, 1);
    }
    assert_eq!(found().await, 1);
    // The next one does not get the number of one that is gone with its tokens.
    scene.deliver(&scene.agent, 3).await;
    scene.index().await;
    assert_eq!(found().await, 2);
}

async fn a_search_of_a_tenant_that_has_nothing_looks_at_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    scene.deliver(&scene.agent, 0).await;
    let nobody = subtree(&scene.organization).only(Vec::new());
    for scope in [subtree(&stranger), nobody] {
        let found = pages(&scene, (&scope, &asked("hello")), (limits(), 9), None).await;
        assert!(found.is_empty());
    }
}

/// All spans of a search at once, and times that lie before or behind them.
async fn what_came_at_the_edges_of_time_is_found(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for millis in [1 << 50, 0, -at(0).millis(), 1 - at(0).millis()] {
        ids.push(scene.deliver(&scene.agent, millis).await);
    }
    ids.swap(2, 3);
    let scope = subtree(&scene.agent);
    let found = pages(&scene, (&scope, &asked("hello")), (limits(), 2), None).await;
    assert_eq!(found, ids);
}

/// Every statement, at every level, for the planner.
pub async fn exercise(scene: &Scene) {
    let all: BTreeSet<String> = ["hello".to_owned()].into();
    let cursor = Cursor { at: at(1), id: Uuid::nil() };
    for account in [&scene.partner, &scene.agent] {
        for scope in [subtree(account), subtree(account).only(vec![scene.agent.id])] {
            let spans = tokens::of_spans(account.kind, account.id.get(), at(0), at(9));
            for source in [None, Some(Source::Email)] {
                for from in [None, Some(Direction::Before), Some(Direction::After)] {
                    let from = from.map(|direction| (direction, cursor));
                    let page = Page { limit: 2, from, until: from.map(|_| cursor) };
                    let time = TimeRange { since: Some(at(0)), before: Some(at(9)) };
                    for unindexed in [Unindexed::Few, Unindexed::Many] {
                        let wanted = WantedWords { all: &all, spans: &spans, source, unindexed };
                        scene.store.search(&scope, wanted, &page, time).await.unwrap();
                    }
                }
            }
            let nobody = [MessageId(Uuid::nil())];
            scene.store.messages_matching(&scope, &nobody, 9, |_| true).await.unwrap();
        }
    }
    scene.deliver(&scene.agent, 77).await;
    scene.index().await;
    super::search_work::exercise(scene).await;
}
