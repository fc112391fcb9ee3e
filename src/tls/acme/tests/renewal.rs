//! When the authority is asked, and how its answers and failures count.

use super::*;

#[tokio::test]
async fn what_is_kept_is_shown_and_renewed_when_two_thirds_of_its_life_are_over() {
    for (octet, day) in [(0, 66), (0xff, 64)] {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path(), on_day(200), octet);
        let chain = chain(&work.folder.key().unwrap().serialize_pem(), "mx.example");
        work.folder.keep_chain(&chain).unwrap();
        assert_eq!(begun(&work).await, (on_day(200), 0));
        // Expired, and still shown.
        let shown = work.authority.certificates.current();
        assert_eq!(shown.until(), on_day(100));
        assert_eq!(work.renewal(&shown), on_day(day), "by luck {octet}");
    }
}

#[tokio::test]
async fn what_the_authority_suggested_stays_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let authority = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec!["authority".to_owned()]).unwrap();
    parameters.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
    let issuer = rcgen::Issuer::new(parameters, authority);
    let mut own = CertificateParams::new(vec!["mx.example".to_owned()]).unwrap();
    own.not_before = date_time_ymd(2026, 1, 1);
    own.not_after = date_time_ymd(2026, 4, 11);
    own.use_authority_key_identifier_extension = true;
    let issued = own.signed_by(&work.folder.key().unwrap(), &issuer).unwrap();
    work.folder.keep_chain(&issued.pem()).unwrap();
    let key = work.folder.key().unwrap().serialize_pem();
    let pair = crate::tls::Pair::from_pem(issued.pem().as_bytes(), key.as_bytes()).unwrap();
    let id = window::identifier(&pair).unwrap();
    let days = [2, 10, 20, 15].map(|day| on_day(day).millis().to_string()).join(" ");
    work.folder.keep_window(&format!("{id} {days}")).unwrap();
    assert_eq!(begun(&work).await, (on_day(15), 0));
    // An authority that always names the past gets no order a minute.
    let past = [2, -9, -5, -7].map(|day| (on_day(0).millis() + day * 86_400_000).to_string());
    work.folder.keep_window(&format!("{id} {}", past.join(" "))).unwrap();
    let young = work_with(settings(folder.path()), on_day(0), 0);
    assert_eq!(begun(&young).await, (on_day(1), 0));
    work.folder.keep_window(&format!("another.one {days}")).unwrap();
    assert_eq!(begun(&work).await, (on_day(66), 0));
}

#[tokio::test]
async fn nobody_is_asked_sooner_however_often_it_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    assert_eq!(begun(&work).await, (on_day(1), 0));
    let later = |seconds| on_day(1).plus(Duration::from_secs(seconds));
    for (at, not_before, wanted) in [
        (on_day(1), later(3600), (later(3600), 3)),
        (on_day(0), on_day(0), (on_day(0), 3)),
        // No wait is longer than the longest.
        (on_day(1), on_day(9), (later(21_600), 3)),
        // The clock was wrong then.
        (on_day(2), on_day(2), (on_day(1), 0)),
    ] {
        work.folder.note(AttemptRecord { at, not_before, failures: 3 }).unwrap();
        assert_eq!(begun(&work).await, wanted);
    }
}

#[tokio::test]
async fn a_damaged_key_bothers_no_authority_and_shortens_no_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), &format!("https://{}/dir", listener.local_addr().unwrap()));
    let settings = settings(folder.path());
    std::fs::create_dir(&settings.folder).unwrap();
    std::fs::write(settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = attempt(&work, 0).await.unwrap_err();
    assert!(error.is_our_own() && error.to_string().contains("key.pem"), "{error}");
    assert_eq!(work.folder.tried().unwrap(), None);
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(1).plus(SOON), failures: 1 };
    work.folder.note(tried).unwrap();
    assert_eq!(begun(&work).await, (tried.not_before, 1));
}

#[tokio::test]
async fn an_attempt_that_is_cut_short_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), "http://ca.example/dir");
    for (failures, wait) in [(0, 60), (1, 900)] {
        attempt(&work, failures).await.unwrap_err();
        let due = on_day(1).plus(Duration::from_secs(wait));
        assert_eq!(begun(&work).await, (due, failures + 1));
    }
}

#[tokio::test]
async fn what_is_kept_and_does_not_fit_is_asked_for_anew() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let key = work.folder.key().unwrap().serialize_pem();
    let foreign = KeyPair::generate().unwrap().serialize_pem();
    for text in
        [chain(&key, "other.example"), chain(&foreign, "mx.example"), "no certificate".to_owned()]
    {
        work.folder.keep_chain(&text).unwrap();
        assert_eq!(begun(&work).await, (on_day(1), 0), "{text}");
    }
    work.folder.keep_chain(&chain(&key, "mx.example")).unwrap();
    assert_eq!(begun(&work).await, (on_day(66), 0));
}

#[tokio::test]
async fn waits_grow_up_to_the_last_one_and_an_authority_may_ask_for_more() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let waits: Vec<_> = (0..7).map(|failures| work.wait(failures).as_secs()).collect();
    assert_eq!(waits, [60, 900, 3600, 10_800, 21_600, 21_600, 21_600]);
}

fn answered(status: u16, retry_after: Option<Duration>, body: &str) -> WholeResponse {
    WholeResponse { status, headers: HeaderMap::new(), retry_after, body: body.into() }
}

#[tokio::test]
async fn an_authority_may_ask_for_a_longer_wait_once_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let refuse = |seconds| {
        let wait = Some(Duration::from_secs(seconds));
        let answer = work.transport.response(answered(429, wait, "{}")).unwrap();
        answer.parts.headers["retry-after"].to_str().unwrap().to_owned()
    };
    assert_eq!(refuse(7200), "7200");
    assert_eq!(work.wait(0).as_secs(), 7200);
    assert_eq!(work.wait(0).as_secs(), 60);
    assert_eq!(refuse(u64::MAX), "86400");
    assert_eq!(work.wait(0).as_secs(), 21_600);
}

#[tokio::test]
async fn what_is_no_word_of_acme_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let respond = |status, body| work.transport.response(answered(status, None, body));
    assert_eq!(respond(200, "chain").unwrap().parts.status, 200);
    assert_eq!(respond(400, "{\"type\": \"x\"}").unwrap().parts.status, 400);
    let error = respond(502, "<html>Bad Gateway</html>").err().unwrap().to_string();
    assert!(error.contains("502"), "{error}");
}

#[tokio::test]
async fn an_authority_without_tls_is_not_spoken_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), &format!("http://{}/dir", listener.local_addr().unwrap()));
    let error = attempt(&work, 0).await.unwrap_err();
    assert!(error.advice(AcmeChallenge::Http01, true).unwrap().contains("URLs are all https"));
    let causes = std::error::Error::source(&error).unwrap().to_string();
    assert!(causes.contains("not https"), "{causes}");
    // Noted before the authority was asked.
    assert_eq!(work.folder.tried().unwrap().unwrap().at, on_day(1));
}

#[tokio::test]
async fn an_order_that_leads_nowhere_is_given_up_after_some_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    work.folder.keep_order("https://ca.example/order/1").unwrap();
    // Without DNS, the order's state stays unknown.
    attempt(&work, ORDER_TRIES - 1).await.unwrap_err();
    assert!(work.folder.order().unwrap().is_some());
    attempt(&work, ORDER_TRIES).await.unwrap_err();
    assert_eq!(work.folder.order().unwrap(), None);
}

/// Another account chose that name.
#[test]
fn no_advice_about_a_policy_host_sends_the_operator_to_the_hostname() {
    for kind in ["rejectedIdentifier", "malformed"] {
        let error = refused(Some(kind), Some(400));
        let advice = |is_own| error.advice(AcmeChallenge::TlsAlpn01, is_own).unwrap();
        assert!(advice(true).contains("--hostname") && !advice(false).contains("--hostname"));
    }
}

fn refused(kind: Option<&str>, status: Option<u16>) -> AcmeError {
    let r#type = kind.map(|kind| format!("urn:ietf:params:acme:error:{kind}"));
    let (detail, subproblems) = (None, Vec::new());
    AcmeError::Refused(instant_acme::Problem { r#type, detail, status, subproblems })
}

#[test]
fn an_unknown_order_makes_room_for_another_and_a_busy_authority_does_not() {
    for (kind, status, is_about_the_order) in [
        (Some("malformed"), Some(400), true),
        (Some("unauthorized"), Some(403), true),
        (None, Some(404), true),
        (Some("badNonce"), Some(400), false),
        (Some("rateLimited"), Some(429), false),
        (Some("serverInternal"), Some(500), false),
    ] {
        let error = refused(kind, status);
        assert_eq!(error.is_about_the_order(), is_about_the_order, "{error}");
    }
}
