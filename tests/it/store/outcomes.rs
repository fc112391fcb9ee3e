//! Outcomes of messages: one transaction with their events, one outcome a message unless it is
//! overridden, and rows that go with their message.

use gatepost::domain::account::Account;
use gatepost::domain::agent_outcome::{NewOutcome, OutcomeConflict};
use gatepost::domain::audit::{Act, Actor, Once};
use gatepost::domain::clock::TimeRange;
use gatepost::domain::condition::{Condition, LogFilter};
use gatepost::domain::contact::Handle;
use gatepost::domain::delivery::{Content, Subject};
use gatepost::domain::destination::Destination;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::formula::Formula;
use gatepost::domain::id::{MessageId, ReplyId};
use gatepost::domain::log_field::{LogField, LogValue, Op};
use gatepost::domain::message::{Call, Message};
use gatepost::domain::metric::{Grouping, Interval, Metric};
use gatepost::domain::source::Source;
use gatepost::store::{
    Bucketing, DeliveryFilter, OutcomeRecorded, Page, PositionRange, Receipt, Store, StoreError,
};

use super::received::handed;
use super::scene::{Kind, Scene, at, by, everything, subtree};

on_both! {
    an_outcome_comes_with_its_event_and_stays_unless_it_is_overridden,
    a_reply_is_an_entry_of_its_room_and_of_its_thread,
    an_outcome_goes_with_its_message,
    of_the_same_outcomes_one_is_recorded,
    a_platform_that_handed_an_outcome_in_has_recorded_it,
    mail_without_an_outcome_has_no_row_for_it,
    the_log_filters_and_counts_outcomes,
}

const MOST: usize = 2;

fn outcome(result: &str, reply: Option<&str>) -> NewOutcome {
    NewOutcome {
        result: Some(result.to_owned()),
        reply: reply.map(str::to_owned),
        ..NewOutcome::default()
    }
}

fn overriding(outcome: NewOutcome) -> NewOutcome {
    NewOutcome { overridden: Some("why".to_owned()), ..outcome }
}

async fn record(
    store: &Store,
    agent: &Account,
    id: MessageId,
    new: &NewOutcome,
    act: Act<'_>,
) -> Result<OutcomeRecorded, StoreError> {
    store.record_outcome(&subtree(agent), id, new, MOST, act).await
}

/// Records an outcome of a new message.
pub async fn record_one(scene: &Scene, act: Act<'_>) {
    let (id, new) = (scene.deliver(&scene.agent, 0).await, outcome("answered", None));
    record(&scene.store, &scene.agent, id, &new, act).await.unwrap();
}

async fn recorded(
    scene: &Scene,
    id: MessageId,
    new: &NewOutcome,
    millis: i64,
) -> (Message, Option<ReplyId>) {
    match record(&scene.store, &scene.agent, id, new, by(at(millis))).await.unwrap() {
        OutcomeRecorded::Done(message, reply) => (*message, reply),
        other => panic!("{other:?}"),
    }
}

async fn read(scene: &Scene, id: MessageId) -> Message {
    scene.store.messages(&subtree(&scene.agent), &[id]).await.unwrap().remove(0)
}

/// Names of the events that wait for a webhook, with their messages.
async fn told(scene: &Scene, millis: i64) -> Vec<(EventName, MessageId, Subject)> {
    let claims = scene.store.claim_deliveries(at(millis), at(millis + 9), 9, &[]).await.unwrap();
    let told = claims.into_iter();
    let mut told: Vec<_> =
        told.map(|one| (one.event.name, one.event.message.unwrap(), one.subject)).collect();
    told.sort_by_key(|(name, ..)| *name);
    told
}

/// Whether each delivery of a webhook has lost what it tells of.
async fn listed(scene: &Scene, hook: &Destination) -> Vec<bool> {
    let (filter, page) = (DeliveryFilter::default(), everything());
    let found = scene.store.deliveries(hook.id, &filter, &page, 1).await.unwrap();
    found.iter().map(|delivery| delivery.erased).collect()
}

async fn an_outcome_comes_with_its_event_and_stays_unless_it_is_overridden(kind: Kind) {
    let scene = Scene::new(kind).await;
    let id = scene.deliver(&scene.agent, 0).await;
    let hook = scene.listen(&scene.agent, Category::Conversation, "https://a.example/").await;
    let (message, reply) = recorded(&scene, id, &outcome("answered", Some("Yes.")), 5).await;
    assert_eq!(read(&scene, id).await, message);
    assert_eq!(message.outcome.result.as_deref(), Some("answered"));
    let first = &message.outcome.replies[0];
    assert_eq!((Some(first.id), first.at, first.text.as_str()), (reply, at(5), "Yes."));
    // The event names the message, and shows it as it is now.
    let events = told(&scene, 9).await;
    let [(name, named, Subject::Message(shown))] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((*name, *named, shown.as_ref()), (EventName::ConversationUpdated, id, &message));
    assert_eq!(listed(&scene, &hook).await, [false]);

    // Another one changes nothing, and tells nobody.
    let again = record(&scene.store, &scene.agent, id, &outcome("x", Some("y")), by(at(6))).await;
    assert_eq!(again.unwrap(), OutcomeRecorded::Refused(OutcomeConflict::Exists));
    assert_eq!(read(&scene, id).await, message);
    let counted = "SELECT COUNT(*) FROM deliveries";
    assert_eq!(scene.count(counted).await, 1);
    let new = overriding(outcome("escalated", Some("Wait.")));
    let (later, _) = recorded(&scene, id, &new, 7).await;
    assert_eq!(later.outcome.result.as_deref(), Some("escalated"));
    let texts: Vec<_> = later.outcome.replies.iter().map(|reply| reply.text.as_str()).collect();
    assert_eq!(texts, ["Yes.", "Wait."]);
    assert_eq!(scene.count(counted).await, 2);
    let full = record(&scene.store, &scene.agent, id, &new, by(at(8))).await.unwrap();
    assert_eq!(full, OutcomeRecorded::Refused(OutcomeConflict::TooManyReplies { most: MOST }));

    // Not by whoever does not reach the message, nor for an unknown one.
    let foreign = record(&scene.store, &scene.other, id, &new, by(at(8))).await.unwrap();
    assert_eq!(foreign, OutcomeRecorded::NoMessage);
    let few = subtree(&scene.organization).only(vec![scene.other.id]);
    let foreign = scene.store.record_outcome(&few, id, &new, MOST, by(at(8))).await.unwrap();
    assert_eq!(foreign, OutcomeRecorded::NoMessage);
    let nobody = MessageId(uuid::Uuid::nil());
    let unknown = record(&scene.store, &scene.agent, nobody, &new, by(at(8))).await.unwrap();
    assert_eq!(unknown, OutcomeRecorded::NoMessage);
    assert_eq!(scene.count(counted).await, 2);
}

async fn a_reply_is_an_entry_of_its_room_and_of_its_thread(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (one, two) = (scene.deliver(&scene.agent, 0).await, scene.deliver(&scene.agent, 10).await);
    let (first, early) = recorded(&scene, one, &outcome("a", Some("1")), 5).await;
    recorded(&scene, one, &overriding(outcome("b", Some("2"))), 15).await;
    let (second, _) = recorded(&scene, two, &outcome("c", Some("3")), 20).await;
    let room = first.room();
    assert_eq!(second.room(), room);
    let texts = async |of: &Account, thread, page: Page| {
        let found = scene.store.room_replies(&subtree(of), room, thread, &page).await.unwrap();
        let mut texts = Vec::new();
        for (place, message) in found {
            let read = scene.store.reply(&subtree(of), ReplyId(place.id)).await.unwrap().unwrap();
            assert_eq!((read.0.id, read.1.at), (message, place.at));
            texts.push(read.1.text);
        }
        texts
    };
    assert_eq!(texts(&scene.agent, None, everything()).await, ["3", "2", "1"]);
    assert_eq!(texts(&scene.organization, Some(first.thread), everything()).await, ["2", "1"]);
    assert_eq!(texts(&scene.agent, Some(second.thread), everything()).await, ["3"]);
    let behind = gatepost::store::Cursor { at: at(5), id: early.unwrap().0 };
    let after = (gatepost::store::Direction::After, behind);
    let page = Page { limit: 1, from: Some(after), until: None };
    assert_eq!(texts(&scene.agent, None, page).await, ["2"]);
    let found = scene.store.reply(&subtree(&scene.agent), early.unwrap()).await.unwrap().unwrap();
    assert_eq!((found.0.id, found.1.text.as_str()), (one, "1"));
    assert_eq!(scene.store.reply(&subtree(&scene.other), early.unwrap()).await.unwrap(), None);
    // Nobody else reads the replies, and no other room has them.
    assert_eq!(texts(&scene.other, None, everything()).await, [""; 0]);
    let elsewhere = gatepost::domain::room::Room { agent: scene.other.id, ..room };
    let (above, all) = (subtree(&scene.organization), everything());
    let of_other = scene.store.room_replies(&above, elsewhere, Some(first.thread), &all);
    assert_eq!(of_other.await.unwrap(), []);
    // Mail that comes later finds its room and its lists as ever.
    scene.deliver(&scene.agent, 30).await;
    let scope = subtree(&scene.agent);
    let all = scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await;
    assert_eq!(all.unwrap().len(), 3);
}

async fn an_outcome_goes_with_its_message(kind: Kind) {
    let scene = Scene::new(kind).await;
    let hook = scene.listen(&scene.agent, Category::Conversation, "https://a.example/").await;
    let (kept, gone) = (scene.deliver(&scene.agent, 0).await, scene.deliver(&scene.agent, 1).await);
    for id in [kept, gone] {
        recorded(&scene, id, &outcome("a", Some("text")), 2).await;
    }
    scene.store.place_events(99).await.unwrap();
    let range = PositionRange { after: 0, until: 99 };
    let erased = async || {
        let contents = scene.store.current_contents(range).await.unwrap();
        contents.values().filter(|content| **content == Content::Erased).count()
    };
    assert_eq!(erased().await, 0);
    assert!(scene.store.erase_message(&subtree(&scene.agent), gone, by(at(3))).await.unwrap());
    let rows = "SELECT (SELECT COUNT(*) FROM outcomes) * 10 + (SELECT COUNT(*) FROM replies)";
    assert_eq!(scene.count(rows).await, 11);
    assert_eq!(read(&scene, kept).await.outcome.replies.len(), 1);
    // Its events name it still, and show nothing of it.
    let told = told(&scene, 9).await;
    let of_gone: Vec<_> = told.iter().filter(|(_, message, _)| *message == gone).collect();
    assert_eq!(of_gone.len(), 2, "of its arrival and of its outcome: {told:?}");
    assert!(of_gone.iter().all(|(.., subject)| *subject == Subject::Erased), "{of_gone:?}");
    assert_eq!(told.len(), 4);
    assert_eq!(listed(&scene, &hook).await.iter().filter(|erased| **erased).count(), 2);
    assert!(erased().await >= 2);
    // A contact takes all with it.
    let contact = read(&scene, kept).await.contact;
    let scope = subtree(&scene.partner);
    assert!(scene.store.erase_contact(&scope, contact, by(at(4))).await.unwrap());
    let new = overriding(outcome("b", None));
    let late = record(&scene.store, &scene.agent, kept, &new, by(at(5))).await.unwrap();
    assert_eq!(late, OutcomeRecorded::NoMessage, "nobody reads it any more");
    while scene
        .store
        .erase_some(contact.get(), super::erasure::limits(9, 1 << 20), at(6))
        .await
        .unwrap()
        != gatepost::store::ErasureProgress::Done
    {}
    assert_eq!(scene.count(rows).await, 0);
}

/// Gateways carry out one of the same requests; without a key, one of different ones.
async fn of_the_same_outcomes_one_is_recorded(kind: Kind) {
    let scene = Scene::new(kind).await;
    let id = scene.deliver(&scene.agent, 0).await;
    let actor = Actor {
        once: Some(Once { digest: [1; 32], request: [2; 32], until: at(99) }),
        ..Actor::OPERATOR
    };
    let mut recording = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (store, agent, actor) = (scene.open().await, scene.agent.clone(), actor.clone());
        recording.spawn(async move {
            let new = overriding(outcome("a", Some("once")));
            record(&store, &agent, id, &new, actor.at(at(1))).await
        });
    }
    let done = recording.join_all().await;
    let is_done = |one: &&Result<_, _>| matches!(one, Ok(OutcomeRecorded::Done(..)));
    let is_repeat = |one: &&Result<_, _>| matches!(one, Err(StoreError::Repeated));
    let full = |one: &&Result<_, _>| matches!(one, Ok(OutcomeRecorded::Refused(_)));
    assert_eq!(done.iter().filter(is_done).count(), 1, "{done:?}");
    assert_eq!(done.iter().filter(|one| is_repeat(one) || full(one)).count(), 5, "{done:?}");
    assert_eq!(read(&scene, id).await.outcome.replies.len(), 1);

    let other = scene.deliver(&scene.agent, 5).await;
    let mut recording = tokio::task::JoinSet::new();
    for number in 0..6 {
        let (store, agent) = (scene.open().await, scene.agent.clone());
        recording.spawn(async move {
            let new = outcome(&number.to_string(), None);
            record(&store, &agent, other, &new, by(at(6))).await.unwrap()
        });
    }
    let done = recording.join_all().await;
    let first = done.iter().filter(|one| matches!(one, OutcomeRecorded::Done(..))).count();
    assert_eq!(first, 1, "{done:?}");
}

async fn a_platform_that_handed_an_outcome_in_has_recorded_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut new = handed(&scene.agent, 0, "+15551231234");
    let call = Call {
        duration: Some(61),
        missed: true,
        outcome: Some("voicemail".to_owned()),
        ..Call::default()
    };
    new.message.received.handle = Handle::elsewhere(Some(Source::Call), "+15551231234").unwrap();
    new.message.received.call = call;
    let id = new.message.id;
    assert!(matches!(scene.store.receive(&new).await.unwrap(), Receipt::Stored(_)));
    assert_eq!(read(&scene, id).await.outcome.result.as_deref(), Some("voicemail"));
    let other = outcome("called back", None);
    let refused = record(&scene.store, &scene.agent, id, &other, by(at(1))).await.unwrap();
    assert_eq!(refused, OutcomeRecorded::Refused(OutcomeConflict::Exists));
    let (later, _) = recorded(&scene, id, &overriding(other), 2).await;
    assert_eq!(later.outcome.result.as_deref(), Some("called back"));
    let kept = "SELECT COUNT(*) FROM outcomes WHERE duration = 61 AND missed_call = 1
                  AND agent_outcome = 'called back'";
    assert_eq!(scene.count(kept).await, 1, "the call itself stays");
}

async fn mail_without_an_outcome_has_no_row_for_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    let sms = handed(&scene.agent, 0, "+15551231234");
    assert!(matches!(scene.store.receive(&sms).await.unwrap(), Receipt::Stored(_)));
    assert_eq!(scene.count("SELECT COUNT(*) FROM outcomes").await, 0);
}

/// One row a message: a call that was missed, mail that was answered twice, mail that was not, and
/// one of these again, which is no other outcome.
async fn the_log_filters_and_counts_outcomes(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut call = handed(&scene.agent, 0, "+15551231234");
    call.message.received.handle = Handle::elsewhere(Some(Source::Call), "+15551231234").unwrap();
    call.message.received.call = Call { duration: Some(30), missed: true, ..Call::default() };
    assert!(matches!(scene.store.receive(&call).await.unwrap(), Receipt::Stored(_)));
    let answered = scene.intake(&scene.agent, 1).await;
    let (id, keys) = (answered.record.message.unwrap(), answered.accepted.as_ref().unwrap());
    let keys = keys.arrival_keys.clone();
    scene.commit(vec![answered], 1).await;
    scene.deliver(&scene.agent, 2).await;
    let mut again = scene.intake(&scene.agent, 3).await;
    again.accepted.as_mut().unwrap().arrival_keys = keys;
    scene.commit(vec![again], 3).await;
    let rated = NewOutcome { lead_rating: Some(70), ..outcome("answered", Some("1")) };
    recorded(&scene, id, &rated, 4).await;
    recorded(&scene, id, &overriding(outcome("resolved", Some("2"))), 5).await;

    let (scope, all) = (subtree(&scene.agent), LogFilter::default());
    let fields = [
        LogField::AgentOutcome,
        LogField::AiLeadRating,
        LogField::AgentReplyCount,
        LogField::Duration,
        LogField::MissedCall,
    ];
    let rows = scene.store.logs(&scope, &all, &everything(), &fields).await.unwrap();
    let values: Vec<_> = rows.into_iter().map(|row| row.values).collect();
    let (none, number) = (LogValue::Null, LogValue::Integer);
    let nothing =
        |replies: LogValue| vec![none.clone(), none.clone(), replies, none.clone(), none.clone()];
    let mut of_call = nothing(number(0));
    (of_call[3], of_call[4]) = (number(30), number(1));
    let mut of_answered = nothing(number(2));
    (of_answered[0], of_answered[1]) = (LogValue::Text("resolved".into()), number(70));
    assert_eq!(values, [nothing(none.clone()), nothing(number(0)), of_answered, of_call]);

    let one = Condition::new(LogField::AgentOutcome, Op::Eq, &["resolved"]).unwrap();
    let filter = LogFilter { conditions: vec![one], ..LogFilter::default() };
    assert_eq!(scene.store.count_logs(&scope, &filter, &everything()).await.unwrap(), 1);
    let sum = async |formula: &str, grouping| {
        let by = Bucketing { interval: Interval::Week, grouping };
        let formula = Formula::parse(formula).unwrap();
        let found = scene.store.log_tallies(&scope, &all, &formula, by, 9).await.unwrap();
        let mut found: Vec<_> =
            found.into_iter().map(|one| (one.group.unwrap_or_default(), one.tally.sum)).collect();
        found.sort_by(|one, other| one.partial_cmp(other).unwrap());
        found
    };
    for name in ["replies", "missedCalls", "callDuration"] {
        assert!(Metric::ready(name).is_some(), "{name}");
    }
    assert_eq!(sum("agentReplyCount", None).await, [(String::new(), 2.0)]);
    assert_eq!(sum("missedCall", None).await, [(String::new(), 1.0)]);
    assert_eq!(sum("duration", None).await, [(String::new(), 30.0)]);
    let grouped = sum("count", Some(Grouping::AgentOutcome)).await;
    assert_eq!(grouped, [(String::new(), 3.0), ("resolved".to_owned(), 1.0)]);
}

/// Runs every statement of outcomes.
pub async fn exercise(scene: &Scene) {
    let id = scene.deliver(&scene.agent, 1).await;
    let (message, _) = recorded(scene, id, &outcome("a", Some("b")), 2).await;
    let scope = subtree(&scene.agent);
    let cursor = gatepost::store::Cursor { at: at(9), id: uuid::Uuid::max() };
    for thread in [None, Some(message.thread)] {
        for from in [None, Some((gatepost::store::Direction::Before, cursor))] {
            let page = Page { limit: 9, from, until: None };
            scene.store.room_replies(&scope, message.room(), thread, &page).await.unwrap();
        }
    }
}
