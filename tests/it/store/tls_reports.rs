//! Reports of senders on TLS: whose they are, that each counts once, and how many there are.

use std::sync::Arc;

use gatepost::app::mailbox::retention::Retention;
use gatepost::domain::account::Account;
use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::tls_report::{
    AppliedPolicy, FailureType, PolicyResult, SessionFailure, TlsReport, TlsReportOutcome,
    TlsReportSums,
};
use gatepost::rules::Rules;
use gatepost::store::Store;
use tokio::task::JoinSet;

use super::scene::{DAY, Kind, SECOND, Scene, at, by};

on_both! {
    a_report_is_kept_once_for_each_who_signs_it,
    a_report_on_a_domain_of_nobody_leaves_nothing,
    a_domain_takes_a_number_in_a_day_posted_and_signed_apart,
    the_number_holds_when_many_come_at_once,
    reports_stay_with_the_account_that_had_the_domain,
    what_is_old_goes,
}

const MOST: u64 = 4;

fn domain(name: &str) -> DomainName {
    DomainName::parse(name).unwrap()
}

fn result(name: &str, successful: u64, failed: u64) -> PolicyResult {
    let failure = SessionFailure {
        kind: FailureType::CertificateExpired,
        sessions: failed,
        host: "mx1.example".into(),
        reason: "it's \"late\"".into(),
    };
    PolicyResult {
        domain: domain(name),
        policy: AppliedPolicy::Sts,
        successful,
        failed,
        failures: if failed > 0 { vec![failure] } else { Vec::new() },
    }
}

fn report(id: &str, policies: Vec<PolicyResult>) -> TlsReport {
    let (begin, end) = (at(-DAY), at(-1));
    TlsReport { submitter: "Company-X".into(), report_id: id.into(), begin, end, policies }
}

async fn keep(store: &Store, report: &TlsReport, signed_by: Option<&str>) -> TlsReportOutcome {
    keep_at(store, report, signed_by, at(0)).await
}

async fn keep_at(
    store: &Store,
    report: &TlsReport,
    signed_by: Option<&str>,
    now: Timestamp,
) -> TlsReportOutcome {
    let signed_by = signed_by.map(domain);
    store.keep_tls_report(report, signed_by.as_ref(), MOST, now).await.unwrap()
}

async fn give(store: &Store, name: &str, account: &Account) {
    let owner = store.claim_domain(&domain(name), account.id, by(at(0))).await.unwrap();
    assert_eq!(owner, account.id);
}

async fn sums(store: &Store, name: &str) -> TlsReportSums {
    store.tls_report_sums(&domain(name), at(-DAY)).await.unwrap()
}

async fn a_report_is_kept_once_for_each_who_signs_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    give(store, "new.example", &scene.organization).await;
    let lineage = store.lineage_of_domain(&domain("new.example")).await.unwrap();
    assert_eq!(lineage, Some(scene.organization.lineage));
    let both = report("a", vec![result("new.example", 5, 3), result("new.example", 7, 0)]);
    assert_eq!(keep(store, &both, None).await, TlsReportOutcome::Kept);
    assert_eq!(keep(store, &both, None).await, TlsReportOutcome::Repeated);
    let expected = TlsReportSums { policies: 2, successful: 12, failed: 3 };
    assert_eq!(sums(store, "new.example").await, expected);
    // A report that anybody posted displaces none that somebody signs.
    let signed = report("a", vec![result("new.example", 1, 0)]);
    let later = at(SECOND);
    let by = Some("good.example");
    assert_eq!(keep_at(store, &signed, by, later).await, TlsReportOutcome::Kept);
    assert_eq!(keep_at(store, &signed, by, later).await, TlsReportOutcome::Repeated);
    let found = store.tls_reports(&domain("new.example"), at(0), 0, 9).await.unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!((&found[0].signed_by, found[0].received), (&Some(domain("good.example")), later));
    assert_eq!((&found[1].result, &found[1].signed_by), (&both.policies[0], &None));
    assert_eq!((found[2].begin, found[2].end), (both.begin, both.end));
    let last = store.tls_reports(&domain("new.example"), later, 0, 9).await.unwrap();
    assert_eq!(last, found[..1]);
    let limited = store.tls_reports(&domain("new.example"), at(0), 0, 2).await.unwrap();
    assert_eq!(limited, found[..2]);
    let failed = store.tls_reports(&domain("new.example"), at(0), 3, 9).await.unwrap();
    assert_eq!(failed, found[1..2]);
    assert_eq!(store.tls_reports(&domain("new.example"), at(0), 4, 9).await.unwrap(), []);
}

async fn a_report_on_a_domain_of_nobody_leaves_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    give(store, "new.example", &scene.reseller).await;
    let mixed = report("a", vec![result("new.example", 5, 0), result("other.example", 5, 0)]);
    let foreign = TlsReportOutcome::Foreign(domain("other.example"));
    assert_eq!(keep(store, &mixed, None).await, foreign);
    assert_eq!(sums(store, "new.example").await, TlsReportSums::default());
    assert_eq!(sums(store, "other.example").await, TlsReportSums::default());
    assert_eq!(store.lineage_of_domain(&domain("other.example")).await.unwrap(), None);
    assert_eq!(scene.count("SELECT COUNT(*) FROM tls_reports").await, 0);
}

async fn a_domain_takes_a_number_in_a_day_posted_and_signed_apart(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    give(store, "new.example", &scene.organization).await;
    give(store, "more.example", &scene.organization).await;
    let one = |id: u64| report(&id.to_string(), vec![result("new.example", 1, 0)]);
    for id in 0..MOST {
        assert_eq!(keep(store, &one(id), None).await, TlsReportOutcome::Kept);
    }
    let full = TlsReportOutcome::Full(domain("new.example"));
    assert_eq!(keep(store, &one(MOST), None).await, full);
    // A report that is there already is told so all the same.
    assert_eq!(keep(store, &one(0), None).await, TlsReportOutcome::Repeated);
    // All of a report or nothing.
    let mixed = report("m", vec![result("more.example", 1, 0), result("new.example", 1, 0)]);
    assert_eq!(keep(store, &mixed, None).await, full);
    assert_eq!(sums(store, "more.example").await.policies, 0);
    assert_eq!(keep(store, &one(MOST), Some("good.example")).await, TlsReportOutcome::Kept);
    assert_eq!(sums(store, "new.example").await.policies, MOST + 1);
    let tomorrow = at(DAY);
    assert_eq!(keep_at(store, &one(MOST), None, tomorrow).await, TlsReportOutcome::Kept);
}

async fn the_number_holds_when_many_come_at_once(kind: Kind) {
    let scene = Arc::new(Scene::new(kind).await);
    give(&scene.store, "new.example", &scene.organization).await;
    let mut sending = JoinSet::new();
    for id in 0..4 * MOST {
        let scene = Arc::clone(&scene);
        sending.spawn(async move {
            let one = report(&id.to_string(), vec![result("new.example", 1, 0)]);
            keep(&scene.store, &one, None).await
        });
    }
    let kept = sending.join_all().await;
    let kept = kept.into_iter().filter(|outcome| *outcome == TlsReportOutcome::Kept).count();
    assert_eq!(u64::try_from(kept).unwrap(), MOST);
    assert_eq!(sums(&scene.store, "new.example").await.policies, MOST);
}

async fn reports_stay_with_the_account_that_had_the_domain(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let name = domain("new.example");
    give(store, "new.example", &scene.organization).await;
    let one = report("a", vec![result("new.example", 5, 3)]);
    assert_eq!(keep(store, &one, None).await, TlsReportOutcome::Kept);
    let act = by(at(1));
    assert_eq!(store.remove_domain(&name, scene.organization.id, act).await.unwrap(), Some(0));
    assert_eq!(sums(store, "new.example").await, TlsReportSums::default());
    give(store, "new.example", &scene.reseller).await;
    assert_eq!(sums(store, "new.example").await, TlsReportSums::default());
    assert_eq!(store.tls_reports(&name, at(0), 0, 9).await.unwrap(), []);
    assert_eq!(keep(store, &one, None).await, TlsReportOutcome::Kept);
    assert_eq!(sums(store, "new.example").await.policies, 1);
}

async fn what_is_old_goes(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    give(store, "new.example", &scene.organization).await;
    for day in 0..5 {
        let one = report(&day.to_string(), vec![result("new.example", 1, 0)]);
        keep_at(store, &one, None, at(day * DAY)).await;
    }
    let delete = async |until| store.delete_tls_reports(until, 2).await.unwrap();
    assert_eq!(delete(at(-1)).await, Some(0));
    assert_eq!(delete(at(2 * DAY)).await, Some(2));
    assert_eq!(delete(at(2 * DAY)).await, Some(1));
    assert_eq!(delete(at(2 * DAY)).await, Some(0));
    // A pass of retention does so, too.
    let rules = Arc::new(Rules::defaults().unwrap().retention);
    let now = at(3 * DAY).plus(rules.tls_reports());
    let mut retention = Retention::new(store.clone(), Clock::new(move || now), rules);
    assert_eq!(retention.pass().await.tls_reports, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM tls_reports").await, 1);
}

/// Runs each method once, on a domain that the organization gets for it and gives up.
pub async fn exercise(scene: &Scene) {
    let Scene { store, organization, .. } = scene;
    let name = domain("reports.example");
    give(store, "reports.example", organization).await;
    let one = report("a", vec![result("reports.example", 5, 3)]);
    assert_eq!(keep(store, &one, None).await, TlsReportOutcome::Kept);
    store.tls_reports(&name, at(-1), 0, 9).await.unwrap();
    store.tls_report_sums(&name, at(-1)).await.unwrap();
    store.lineage_of_domain(&name).await.unwrap();
    store.delete_tls_reports(at(9), 9).await.unwrap();
    store.remove_domain(&name, organization.id, by(at(1))).await.unwrap();
}
