//! How a message came: the evidence of the SMTP session, in the words of Received fields.

use std::time::Instant;

use serde_json::{Value, json};

use super::step::step;
use crate::domain::clock::Timestamp;
use crate::domain::ports::{Envelope, Posted};

/// The first steps of the evidence of a message that was read whole, and examined as of `arrived`:
/// how it came, and of one that a provider posted, which one.
pub(super) fn arrival(envelope: &Envelope, size: usize, arrived: Timestamp) -> Vec<Value> {
    let first = session(envelope, size, arrived);
    [first].into_iter().chain(envelope.posted.as_ref().map(provider)).collect()
}

/// Who posted a message, and what proved it.
pub(super) fn provider(posted: &Posted) -> Value {
    let Posted { provider, proof, relayed } = posted;
    let inputs = json!({ "provider": provider, "proof": proof, "relayed": relayed });
    step("provider", "pass", &format!("posted by {provider}: {proof}"), inputs, Instant::now())
}

fn session(envelope: &Envelope, size: usize, arrived: Timestamp) -> Value {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let detail = match (&envelope.client.tls, &envelope.posted) {
        (Some(tls), _) => format!("encrypted: {} {}", tls.version, tls.cipher),
        (None, Some(_)) => "handed on over HTTP: the envelope is as the provider says".to_owned(),
        (None, None) => "in clear".to_owned(),
    };
    let mut inputs = inputs(envelope, size);
    if let Value::Object(fields) = &mut inputs {
        fields.insert("arrived".into(), arrived.to_string().into());
    }
    step("session", "pass", &detail, inputs, Instant::now())
}

/// `{helo, protocol, tls, size}`; `tls` is `{version, cipher}`, or null in clear.
pub(super) fn inputs(envelope: &Envelope, size: u64) -> Value {
    let tls = envelope.client.tls.as_ref();
    json!({
        "helo": envelope.client.helo,
        "protocol": protocol(envelope),
        "tls": tls.map(|tls| json!({ "version": tls.version, "cipher": tls.cipher })),
        "size": size,
    })
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
        let shown = session(&envelope(true, true, false), 7, arrived);
        assert_eq!(shown["detail"], "encrypted: TLSv1.3 TLS_AES_256_GCM_SHA384");
        assert_eq!(shown["inputs"]["tls"]["version"], "TLSv1.3");
        assert_eq!(shown["inputs"]["arrived"], "1970-01-01T00:00:00.000Z");
        let shown = session(&envelope(true, false, false), 7, arrived);
        assert_eq!(shown["inputs"]["tls"], Value::Null);
        let posted = Posted { provider: "ses", proof: "signed", relayed: false };
        let posted = Envelope { posted: Some(posted), ..envelope(true, false, false) };
        let steps = arrival(&posted, 7, arrived);
        assert_eq!(steps[0]["inputs"]["protocol"], "HTTP");
        assert_eq!((steps[1]["name"].as_str(), steps.len()), (Some("provider"), 2));
        assert_eq!(steps[1]["detail"], "posted by ses: signed");
    }
}
