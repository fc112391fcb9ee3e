//! The path of a message up to what is known of it, without a server: scanned, authenticated over
//! a DNS server of its own, summarised.

use std::time::Duration;

use bytes::Bytes;
use gatepost::app::intake::{Examination, examine};
use gatepost::domain::clock::Timestamp;
use gatepost::domain::ports::{Client, Envelope};
use gatepost::rules::IntakeRules;
use gatepost::shutdown::Shutdown;
use gatepost::testkit::dns::{DnsServer, Zone};
use gatepost::verify::{Authenticator, Servers};

/// In the year 2096, so that what is signed while the tests run lies in the past, and the year
/// 2100 of some fixtures in the future. Seconds.
pub const NOW: i64 = 4_000_000_000;

/// Nobody waits long for a server that never answers.
const QUICK: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n";

/// Examines messages.
pub struct Examiner {
    pub rules: IntakeRules,
    pub dns: DnsServer,
    authenticator: Authenticator,
}

impl Examiner {
    /// Asks a server that has these answers.
    pub async fn over(zone: Zone) -> Self {
        let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let rules = super::rules(folder.path(), &[("intake.toml", QUICK)]).intake;
        let servers = Servers::Given(vec![dns.addr()]);
        let authenticator = Authenticator::new(servers, &rules, "mx.agents.example").unwrap();
        Self { rules, authenticator, dns }
    }

    /// At [`NOW`], from a stranger who asked for SMTPUTF8.
    pub async fn examine(&self, raw: &[u8]) -> Examination {
        let envelope = Envelope {
            client: Client {
                address: [192, 0, 2, 1].into(),
                helo: "client.example".into(),
                esmtp: true,
                tls: None,
            },
            reverse_path: String::new(),
            recipients: Vec::new(),
            smtputf8: true,
            open_for: Duration::ZERO,
            posted: None,
        };
        let now = Timestamp::from_millis(NOW * 1000);
        let raw = Bytes::copy_from_slice(raw);
        examine(&self.authenticator, &self.rules, &envelope, &raw, now).await
    }
}
