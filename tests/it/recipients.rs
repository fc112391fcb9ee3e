//! Who answers to an address may change while a message is under way: the commit looks again
//! (contract §2.5).

use gatepost::app::tenancy::Claiming;
use gatepost::domain::account::Account;
use gatepost::domain::address::Address;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestGateway, signed};

/// A session that stands behind RCPT.
struct Session(BufReader<TcpStream>);

impl Session {
    async fn with_recipient(gateway: &TestGateway, recipient: &str) -> Self {
        let stream = TcpStream::connect(gateway.smtp).await.unwrap();
        let mut session = Self(BufReader::new(stream));
        assert!(session.reply().await.starts_with("220"));
        for line in ["HELO a.example", "MAIL FROM:<>", &format!("RCPT TO:<{recipient}>")] {
            assert!(session.say(line).await.starts_with("250"), "{line}");
        }
        session
    }

    async fn say(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
        self.reply().await
    }

    /// A reply of one line.
    async fn reply(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    async fn finish(mut self, subject: &str) -> String {
        assert!(self.say("DATA").await.starts_with("354"));
        let message = String::from_utf8(signed(subject)).unwrap();
        self.say(&format!("{message}.")).await
    }
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

    let session = Session::with_recipient(&gateway, "anyone+tag@agents.example").await;
    let reply = session.finish("while it is the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    let session = Session::with_recipient(&gateway, "anyone@agents.example").await;
    claim(&gateway, open, own, false).await;
    let reply = session.finish("no catch-all any more").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    claim(&gateway, open, own, true).await;
    let session = Session::with_recipient(&gateway, "taken@agents.example").await;
    claim(&gateway, closed, "taken@agents.example", false).await;
    let reply = session.finish("the address is another Agent's now").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    // The Agent's own address goes, and it answers to it as the catch-all all the same.
    claim(&gateway, open, "second@agents.example", false).await;
    let session = Session::with_recipient(&gateway, "second@agents.example").await;
    let second = Address::parse("second@agents.example").unwrap();
    gateway.tenancy.release_address(open.id, &second).await.unwrap();
    let reply = session.finish("by the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}
