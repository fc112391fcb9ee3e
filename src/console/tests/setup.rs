//! The page Setup: what is missing until the first message comes in.

use super::Browser;
use crate::http::tests::House;
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};

#[tokio::test]
async fn setup_shows_the_dns_of_the_address_as_it_is() {
    let zone = Zone::parse("gw.example\tA\tNOERROR\t8.8.4.4\n").unwrap();
    let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
    let house = House::asking(dns.addr(), "").await;
    let browser = Browser::of(&house, "agent1").await;
    let path = format!("/console/{}/setup", house.id("agent1"));
    let page = browser.get(&path).await.text();
    for words in [
        "agent1@partner.example",
        "The MX record of partner.example",
        "There is no MX record: nobody can send mail here",
        "partner.example. MX 10 gw.example.",
        "is wrong",
        "The server takes mail in on port 2525",
        "gatepost doctor --send-test agent1@partner.example",
        "Nobody is on the list",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    dns.change(|zone| zone.insert("partner.example", "MX", "NOERROR", "10 gw.example")).unwrap();
    let page = browser.get(&path).await.text();
    for words in [
        "Mail goes to gw.example (10)",
        "It is 8.8.4.4",
        "The certificate for gw.example",
        "The name of 8.8.4.4 (PTR)",
        "_25._tcp.gw.example. TLSA 3 1 1 ",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}
