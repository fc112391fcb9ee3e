//! The evidence of the SMTP session, in the words of Received fields.

use std::time::Instant;

use super::step::step;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::provider::Provider;
use crate::domain::evidence::session::{Session, Tls};
use crate::domain::evidence::{Facts, Step};
use crate::domain::ports::{Envelope, Posted};

/// Returns the first steps of the evidence of a message that was read whole and arrived at
/// `arrived`: the session, and the provider if one posted it.
pub(super) fn arrival(envelope: &Envelope, size: usize, arrived: Timestamp) -> Vec<Step> {
    let first = session(envelope, size, arrived);
    [first].into_iter().chain(envelope.posted.as_ref().map(provider)).collect()
}

/// Returns the step that names the provider that posted a message, and its proof.
pub(super) fn provider(posted: &Posted) -> Step {
    let Posted { provider, proof, relayed } = *posted;
    let facts = Provider { provider: provider.into(), proof: proof.into(), relayed };
    let detail = format!("posted by {provider}: {proof}");
    step(Facts::Provider(facts), "pass", detail, Instant::now())
}

fn session(envelope: &Envelope, size: usize, arrived: Timestamp) -> Step {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let detail = match (&envelope.client.tls, &envelope.posted) {
        (Some(tls), _) => format!("encrypted: {} {}", tls.version, tls.cipher),
        (None, Some(_)) => "received over HTTP: the provider supplied the envelope".to_owned(),
        (None, None) => "in clear".to_owned(),
    };
    let facts = Session { arrived: Some(arrived.to_string()), ..facts(envelope, size) };
    step(Facts::Session(facts), "pass", detail, Instant::now())
}

/// Returns the facts of the session; `size` is in bytes, also if the message was not read whole.
pub(super) fn facts(envelope: &Envelope, size: u64) -> Session {
    let tls = envelope.client.tls.as_ref();
    let tls = tls.map(|tls| Tls { version: tls.version.clone(), cipher: tls.cipher.clone() });
    let helo = envelope.client.helo.clone();
    Session { helo, protocol: protocol(envelope).into(), tls, size, arrived: None }
}

/// The protocol behind `with` in a Received field (RFC 3848, RFC 6531 §4.3).
fn protocol(envelope: &Envelope) -> &'static str {
    let client = &envelope.client;
    if envelope.posted.is_some() {
        return "HTTP";
    }
    match (client.esmtp, client.tls.is_some(), envelope.smtputf8) {
        (false, _, _) => "SMTP",
        (true, false, false) => "ESMTP",
        (true, true, false) => "ESMTPS",
        (true, false, true) => "UTF8SMTP",
        (true, true, true) => "UTF8SMTPS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::domain::ports::{Client, TlsFacts};

    fn envelope(esmtp: bool, encrypted: bool, smtputf8: bool) -> Envelope {
        let tls = TlsFacts { version: "TLSv1.3".into(), cipher: "TLS_AES_256_GCM_SHA384".into() };
        let client = Client {
            address: [192, 0, 2, 1].into(),
            helo: "client.example".into(),
            esmtp,
            tls: encrypted.then_some(tls),
        };
        Envelope {
            client,
            reverse_path: String::new(),
            recipients: Vec::new(),
            smtputf8,
            posted: None,
            open_for: Duration::ZERO,
        }
    }

    #[test]
    fn each_way_has_its_name() {
        for (esmtp, encrypted, smtputf8, name) in [
            (false, false, false, "SMTP"),
            (true, false, false, "ESMTP"),
            (true, true, false, "ESMTPS"),
            (true, false, true, "UTF8SMTP"),
            (true, true, true, "UTF8SMTPS"),
        ] {
            assert_eq!(protocol(&envelope(esmtp, encrypted, smtputf8)), name);
        }
        let arrived = Timestamp::from_millis(0);
        let shown = |one: Step| serde_json::to_value(one).unwrap();
        let encrypted = shown(session(&envelope(true, true, false), 7, arrived));
        assert_eq!(encrypted["detail"], "encrypted: TLSv1.3 TLS_AES_256_GCM_SHA384");
        assert_eq!(encrypted["inputs"]["tls"]["version"], "TLSv1.3");
        assert_eq!(encrypted["inputs"]["arrived"], "1970-01-01T00:00:00.000Z");
        let clear = shown(session(&envelope(true, false, false), 7, arrived));
        assert_eq!(clear["inputs"]["tls"], serde_json::Value::Null);
        let posted = Posted { provider: "ses", proof: "signed", relayed: false };
        let posted = Envelope { posted: Some(posted), ..envelope(true, false, false) };
        let steps: Vec<_> = arrival(&posted, 7, arrived).into_iter().map(shown).collect();
        assert_eq!(steps[0]["inputs"]["protocol"], "HTTP");
        assert_eq!((steps[1]["name"].as_str(), steps.len()), (Some("provider"), 2));
        assert_eq!(steps[1]["detail"], "posted by ses: signed");
    }
}
