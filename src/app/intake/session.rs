//! How a message came: the evidence of the SMTP session, in the words of Received fields.

use std::time::Instant;

use serde_json::{Value, json};

use super::step::step;
use crate::domain::clock::Timestamp;
use crate::domain::ports::Envelope;

/// The first step of the evidence of a message that was read whole, and examined as of `arrived`.
pub(super) fn session(envelope: &Envelope, size: usize, arrived: Timestamp) -> Value {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let detail = match &envelope.client.tls {
        Some(tls) => format!("encrypted: {} {}", tls.version, tls.cipher),
        None => "in clear".to_owned(),
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
        Envelope { client, reverse_path: String::new(), recipients: Vec::new(), smtputf8 }
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
    }
}
