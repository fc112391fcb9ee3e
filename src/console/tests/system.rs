//! System: the gateway itself, on the partner's console alone.

use std::time::Duration;

use super::Browser;
use crate::domain::evidence::results::Results;
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::House;

#[tokio::test]
async fn the_partner_sees_the_gateway_with_charts() {
    let house = House::new().await;
    let metrics = &house.http.use_cases.system.metrics;
    for _ in 0..3 {
        metrics.message(Verdict::Accepted, 2_000, Some("TLSv1.3"), Duration::from_millis(2));
    }
    metrics.message(Verdict::Refused(Reason::DkimMissing), 900, None, Duration::from_millis(1));
    metrics.keep_minute(house.now());
    for _ in 0..1_500 {
        metrics.request("listEvents", 200);
    }
    metrics.request("getAccount", 503);
    for (spf, dmarc) in [("pass", "pass"), ("pass", "pass"), ("pass", "fail"), ("softfail", "fail")]
    {
        let mut results = Results::default();
        (results.spf.result, results.dmarc.result) = (spf.into(), dmarc.into());
        metrics.examined(&[], Some(&results));
    }
    let browser = Browser::of(&house, "partner").await;
    let page = browser.get(&format!("/console/{}/system", house.id("partner"))).await;
    let text = page.text();
    assert_eq!(page.status, 200, "{text}");
    for part in [
        "<b>4</b>messages in the last 5 minutes",
        "<b>3</b>SMTP sessions",
        "left of the certificate for smtp",
        "dkim_missing",
        "<title>",
        // Failures first, and the more the stronger.
        r#"<th scope="row">getAccount</th><td class="num heat-0"></td>"#,
        r#"<td class="num heat-1">1</td></tr><tr><th scope="row">listEvents</th>"#,
        r#"<td class="num heat-4">1,500</td>"#,
        "<figure class=\"plot\"",
        r#"<th scope="col" class="num">DMARC fail</th><th scope="col" class="num">DMARC pass</th>"#,
        r#"<th scope="row">pass, none</th><td class="num heat-2">1</td><td class="num heat-4">2</td>"#,
        r#"<th scope="row">softfail, none</th><td class="num heat-2">1</td><td class="num heat-0"></td>"#,
        r##"fill="#000002""##,
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // The policy of pages forbids styles within a page.
    assert!(!text.contains("style="), "{text}");
}

#[tokio::test]
async fn nobody_else_sees_it_and_is_not_led_to_it() {
    let mut house = House::new().await;
    house.join("reader", "partner", Role::Member, &[]).await;
    for caller in ["reseller1", "org1", "agent1"] {
        let browser = Browser::of(&house, caller).await;
        let at = |page: &str| format!("/console/{}{page}", house.id(caller));
        let page = browser.get(&at("/system")).await;
        assert!(matches!(page.status, 400 | 403), "{caller}: {}", page.status);
        assert!(!page.text().contains("SMTP sessions"), "{caller}");
        assert!(!browser.get(&at("/live")).await.text().contains("/system"), "{caller}");
    }
    let led = |page: &str| page.contains(&format!("/console/{}/system", house.id("partner")));
    let live = format!("/console/{}/live", house.id("partner"));
    let member = Browser::of(&house, "reader").await.get(&live).await;
    assert_eq!(member.status, 200);
    assert!(!led(&member.text()), "{}", member.text());
    let partner = Browser::of(&house, "partner").await;
    assert!(led(&partner.get(&live).await.text()));
}
