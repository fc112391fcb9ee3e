//! Agents that answer to an address (contract §2, Policy), at RCPT and again at the commit, because
//! they may change in between (§2.5).

use std::net::SocketAddr;

use gatepost::app::tenancy::Claiming;
use gatepost::domain::account::{Account, AccountType};
use gatepost::domain::address::Address;
use gatepost::domain::policy::Mode;

use crate::support::session::Session;
use crate::support::{PATIENCE, TestGateway};

async fn open_session(smtp: SocketAddr) -> Session {
    let mut session = Session::greeted(smtp).await;
    session.open().await;
    session
}

async fn claim(gateway: &TestGateway, agent: &Account, address: &str, catch_all: bool) {
    let address = Address::parse(address).unwrap();
    gateway.tenancy.claim_address(agent, &address, catch_all, Claiming::Never).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_answers_is_looked_up_again_at_the_commit() {
    let gateway = TestGateway::start().await;
    let (open, closed) = (&gateway.house.agents["open"], &gateway.house.agents["closed"]);
    let own = "open@agents.example";
    claim(&gateway, open, own, true).await;

    let mut session = Session::with_recipient(gateway.smtp, "anyone+tag@agents.example").await;
    let reply = session.finish("while it is the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    let mut session = Session::with_recipient(gateway.smtp, "anyone@agents.example").await;
    claim(&gateway, open, own, false).await;
    let reply = session.finish("no catch-all any more").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    claim(&gateway, open, own, true).await;
    let mut session = Session::with_recipient(gateway.smtp, "taken@agents.example").await;
    claim(&gateway, closed, "taken@agents.example", false).await;
    let reply = session.finish("the address is another Agent's now").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    // The Agent's own address goes, and it answers to it as the catch-all all the same.
    claim(&gateway, open, "second@agents.example", false).await;
    let mut session = Session::with_recipient(gateway.smtp, "second@agents.example").await;
    let second = Address::parse("second@agents.example").unwrap();
    gateway.tenancy.release_address(open.id, &second).await.unwrap();
    let reply = session.finish("by the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_rcpt_on_another_gateway_shows_every_change() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let (open, closed) = (&gateway.house.agents["open"], &gateway.house.agents["closed"]);
    let new = Address::parse("new@agents.example").unwrap();
    let tenancy = &gateway.tenancy;
    // The sessions are there before the changes, and each has asked before.
    let mut sessions = [open_session(second.smtp).await, open_session(gateway.smtp).await];
    let expect = async |sessions: &mut [Session; 2], recipient: &str, start: &str| {
        for session in sessions {
            for _ in 0..2 {
                session.rcpt(recipient, start).await;
            }
        }
    };
    expect(&mut sessions, "new@agents.example", "550 5.1.1").await;
    claim(&gateway, open, "new@agents.example", false).await;
    expect(&mut sessions, "new@agents.example", "250").await;
    tenancy.set_active(open.id, false).await.unwrap();
    expect(&mut sessions, "new@agents.example", "550 5.2.1").await;
    tenancy.set_active(open.id, true).await.unwrap();
    tenancy.release_address(open.id, &new).await.unwrap();
    expect(&mut sessions, "new@agents.example", "550 5.1.1").await;
    claim(&gateway, closed, "new@agents.example", false).await;
    // Beside an Agent in `open` mode: one in `allowlist` mode waits for a transaction of its own.
    expect(&mut sessions, "new@agents.example", "452 4.5.3").await;
    tenancy.set_mode(closed.id, Mode::Open).await.unwrap();
    expect(&mut sessions, "new@agents.example", "250").await;
    tenancy.set_mode(closed.id, Mode::Allowlist).await.unwrap();
    let mut sessions = [open_session(second.smtp).await, open_session(gateway.smtp).await];
    expect(&mut sessions, "anybody@agents.example", "550 5.1.1").await;
    claim(&gateway, open, "open@agents.example", true).await;
    expect(&mut sessions, "anybody@agents.example", "250").await;
    claim(&gateway, open, "open@agents.example", false).await;
    expect(&mut sessions, "anybody@agents.example", "550 5.1.1").await;
    assert!(second.stop(PATIENCE).await);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_whose_verdicts_may_differ_do_not_share_a_transaction() {
    let gateway = TestGateway::start().await;
    let mut session = Session::with_recipient(gateway.smtp, "open@agents.example").await;
    session.rcpt("open2@agents.example", "250").await;
    for recipient in ["support@agents.example", "closed@agents.example"] {
        session.rcpt(recipient, "452 4.5.3").await;
    }
    // Another address or spelling of the same Agent is no second recipient.
    session.rcpt("OPEN+tag@agents.example", "250").await;
    let reply = session.finish("for two").await;
    assert!(reply.starts_with("250"), "{reply}");
    let mut session = Session::with_recipient(gateway.smtp, "support@agents.example").await;
    for recipient in ["open@agents.example", "closed@agents.example"] {
        session.rcpt(recipient, "452 4.5.3").await;
    }
    session.rcpt("\"Support\"@agents.example", "250").await;
    let reply = session.finish("for one").await;
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(gateway.messages().await.len(), 3);
    gateway.finish().await;
}

/// Each organization has its own copy of a message: a large one for a hundred is written once a
/// transaction.
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_two_organizations_do_not_share_a_transaction() {
    let gateway = TestGateway::start().await;
    let (tenancy, reseller) = (&gateway.tenancy, gateway.house.reseller.id);
    let made = tenancy.create_account(AccountType::Organization, reseller, "Neighbour", &[]).await;
    let theirs = [Address::parse("open@neighbour.example").unwrap()];
    let agent = AccountType::Agent;
    let agent = tenancy.create_account(agent, made.unwrap().id, "theirs", &theirs).await.unwrap();
    tenancy.set_mode(agent.id, Mode::Open).await.unwrap();
    let [ours, theirs] = ["open@agents.example", "open@neighbour.example"];
    for (first, second) in [(ours, theirs), (theirs, ours)] {
        let mut session = Session::with_recipient(gateway.smtp, first).await;
        session.rcpt(second, "452 4.5.3").await;
        let reply = session.finish("for one organization").await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    assert_eq!(gateway.messages().await.len(), 1);
    assert_eq!(gateway.count("SELECT COUNT(*) FROM messages").await, 2);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recipients_are_ours_in_any_spelling_and_nobody_elses() {
    let postmaster = Address::parse("open@agents.example").unwrap();
    let gateway =
        TestGateway::with_settings(|settings| settings.postmaster = Some(postmaster)).await;
    let mut session = Session::with_recipient(gateway.smtp, "Postmaster").await;
    for recipient in [
        "POSTMASTER@Agents.Example",
        "postmaster+dmarc@agents.example",
        "\"postmaster\"@agents.example",
        "\"open\"@AGENTS.EXAMPLE",
        "@relay.example:open+a+b@agents.example",
    ] {
        session.rcpt(recipient, "250").await;
    }
    // So few errors that none is slowed down.
    let mut other = open_session(gateway.smtp).await;
    for recipient in [
        "open@agents.example.",
        "open%good.example@agents.example",
        "good.example!open@agents.example",
        "open@[127.0.0.1]",
        "open@[IPv6:::1]",
        "postmaster@good.example",
        "postmaster@[127.0.0.1]",
        "open@good.example",
        "\"op en\"@agents.example",
    ] {
        other.rcpt(recipient, "550 5.1.1").await;
    }
    session.rcpt("inactive@agents.example", "550 5.2.1").await;
    session.rcpt("postmaster+x", "501 5.1.3").await;
    let reply = session.finish("one copy").await;
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(gateway.messages().await.len(), 1);
    let mut session = Session::with_recipient(gateway.smtp, "postmaster+tag@agents.example").await;
    session.rcpt("open@agents.example", "250").await;
    assert!(session.finish("with a tag").await.starts_with("250"));
    assert_eq!(gateway.messages().await[0]["metadata"]["emailTag"], "tag");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_have_the_client_behind_the_proxy() {
    let gateway = TestGateway::with_settings(|settings| {
        settings.trusted_proxy = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let header = "PROXY TCP4 192.0.2.77 127.0.0.1 56324 25\r\n";
    let mut session = Session::connect(gateway.smtp).await;
    session.send(header).await;
    session.expect("220 ").await;
    session.open().await;
    session.rcpt("nobody@agents.example", "550 5.1.1").await;
    session.rcpt("support@agents.example", "250").await;
    assert!(session.finish("through a proxy").await.starts_with("250"));
    let records = gateway.get("/email/intake").await;
    let records = records["intake"].as_array().unwrap();
    let clients: Vec<_> = records.iter().map(|record| &record["remoteAddress"]).collect();
    assert_eq!(clients, ["192.0.2.77", "192.0.2.77"]);
    gateway.finish().await;
}
