//! A server deletes by its retention times, and names an account in them that does not exist.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatepost::app::mailbox::retention::Retention;
use gatepost::domain::clock::Clock;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::{Location, Store};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::support::{PATIENCE, TestGateway, signed, store_rules};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_deletes_what_is_old_and_nothing_else() {
    let mut gateway = TestGateway::start().await;
    let to = ["support@agents.example"];
    assert!(gateway.send("alice@good.example", &to, &signed("for a while")).await.accepted());
    gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    let messages = gateway.messages().await;
    let raw = messages[0]["metadata"]["emailRawUrl"].as_str().unwrap();
    let raw = raw.strip_prefix("/api/v2").unwrap();
    assert_eq!(gateway.request("GET", raw, None).await.0, 200);

    // A hundred days later: the record goes, the mail stays.
    let later = Clock::new(|| run::system_mint().clock().now().plus(Duration::from_hours(2400)));
    gateway.restart_by(&[], later.clone()).await;
    gateway.counts("SELECT COUNT(*) FROM events", 0).await;
    gateway.counts("SELECT COUNT(*) FROM records WHERE recorded = 1", 0).await;
    assert_eq!(gateway.messages().await, messages);

    let short = [("retention.toml", "[keep]\nmessages_days = 99\n")];
    gateway.restart_by(&short, later).await;
    gateway.counts("SELECT COUNT(*) FROM messages", 0).await;
    assert!(gateway.messages().await.is_empty());
    assert_eq!(gateway.request("GET", raw, None).await.0, 404);
    assert_eq!(gateway.count("SELECT COUNT(*) FROM contents").await, 0);
    assert!(gateway.send("alice@good.example", &to, &signed("anew")).await.accepted());
    gateway.finish().await;
}

/// Log lines, and a notification for each.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>, Arc<Notify>);

impl<S: tracing::Subscriber> Layer<S> for Said {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut &*self);
    }
}

impl Visit for &Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
            self.1.notify_one();
        }
    }
}

#[tokio::test]
async fn an_account_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("store"));
    let store = Store::create(&location, &store_rules(), run::system_mint()).await.unwrap();
    std::fs::write(folder.path().join("retention.toml"), "[accounts.17]\nevents_days = 7\n")
        .unwrap();
    let rules = Rules::load(folder.path()).unwrap().retention;
    let said = Said::default();
    let subscriber = tracing_subscriber::registry().with(said.clone());
    let listening = tracing::subscriber::set_default(subscriber);
    let clock = run::system_mint().clock().clone();
    let heard = said.clone();
    let stop = async move {
        while !heard.0.lock().unwrap().iter().any(|text| text.starts_with("retention pass")) {
            heard.1.notified().await;
        }
    };
    timeout(PATIENCE, Retention::new(store, clock, Arc::new(rules)).run(stop)).await.unwrap();
    drop(listening);
    let said = said.0.lock().unwrap().join("\n");
    assert!(said.contains("account 17, which does not exist"), "{said}");
    assert!(said.contains("retention pass: complete"), "{said}");
}
