//! Posts mail as providers do in their raw-MIME modes: header fields and bodies follow their
//! documentation, signed by test keys.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use crate::domain::clock::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The envelope of the mail.
#[derive(Clone, Copy, Debug)]
pub struct MailEnvelope<'a> {
    pub from: &'a str,
    pub to: &'a [&'a str],
}

/// A test cannot run without its keys.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the keys of a provider: {0}")]
pub struct KeyError(String);

const BOUNDARY: &str = "xYzZY";

impl Posting {
    fn new(content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![
            ("content-type".to_owned(), content_type.to_owned()),
            ("user-agent".to_owned(), "provider/1".to_owned()),
        ];
        Self { headers, body }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A form of parts (RFC 7578).
    pub fn multipart(fields: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (name, value) in fields {
            let head = format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(format!("--{BOUNDARY}\r\n{head}").as_bytes());
            body.extend_from_slice(value);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        Self::new(&format!("multipart/form-data; boundary={BOUNDARY}"), body)
    }

    /// The fields as a URL-encoded form.
    pub fn urlencoded(fields: &[(&str, &[u8])]) -> Self {
        let pair = |(name, value): &(&str, &[u8])| {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let value: String = url::form_urlencoded::byte_serialize(value).collect();
            format!("{name}={value}")
        };
        let body = fields.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes();
        Self::new("application/x-www-form-urlencoded", body)
    }

    fn json(content_type: &str, body: &Value) -> Self {
        Self::new(content_type, body.to_string().into_bytes())
    }
}

/// Mailgun's signature, with the timestamp and the token that it signs.
#[derive(Clone, Copy, Debug)]
pub struct MailgunProof<'p> {
    pub timestamp: &'p str,
    pub token: &'p str,
    pub signature: &'p str,
}

/// The fields of a Mailgun route that forwards to a URL ending in `mime`.
pub fn mailgun<'f>(
    proof: MailgunProof<'f>,
    raw: &'f [u8],
    from: &'f str,
    to: &'f str,
) -> Vec<(&'static str, &'f [u8])> {
    vec![
        ("recipient", to.as_bytes()),
        ("sender", from.as_bytes()),
        ("from", from.as_bytes()),
        ("subject", b"Order 4711"),
        ("timestamp", proof.timestamp.as_bytes()),
        ("token", proof.token.as_bytes()),
        ("signature", proof.signature.as_bytes()),
        ("body-mime", raw),
    ]
}

/// Mailgun's signature over a timestamp and a token.
pub fn mailgun_signature(key: &[u8], timestamp: &str, token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let sum = hmac::sign(&key, [timestamp, token].concat().as_bytes());
    sum.as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A post of SendGrid with "POST the raw, full MIME message".
pub fn sendgrid(raw: &[u8], envelope: MailEnvelope<'_>) -> Posting {
    let to = envelope.to.join(", ");
    let envelope_json = json!({ "to": envelope.to, "from": envelope.from }).to_string();
    Posting::multipart(&[
        ("dkim", b"{@good.example : pass}"),
        ("to", to.as_bytes()),
        ("from", envelope.from.as_bytes()),
        ("sender_ip", b"192.0.2.7"),
        ("spam_score", b"0.1"),
        ("envelope", envelope_json.as_bytes()),
        ("email", raw),
        ("charsets", br#"{"to":"UTF-8","subject":"UTF-8","from":"UTF-8"}"#),
        ("SPF", b"pass"),
    ])
}

/// The signing key of SendGrid's webhook.
#[derive(Debug)]
pub struct SendgridKey(EcdsaKeyPair);

impl SendgridKey {
    pub fn generate() -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        pair.map(Self).map_err(|error| KeyError(error.to_string()))
    }

    /// The public key as SendGrid shows it: base64 of its SubjectPublicKeyInfo.
    pub fn shown(&self) -> String {
        let head = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        STANDARD.encode([head.as_slice(), self.0.public_key().as_ref()].concat())
    }

    /// Adds the fields of a signature to a request.
    pub fn sign(&self, posting: Posting, at: Timestamp) -> Result<Posting, KeyError> {
        let timestamp = at.seconds().to_string();
        let said = [timestamp.as_bytes(), &posting.body].concat();
        let signature = self.0.sign(&SystemRandom::new(), &said);
        let signature = signature.map_err(|error| KeyError(error.to_string()))?;
        Ok(posting
            .with("x-twilio-email-event-webhook-signature", &STANDARD.encode(signature.as_ref()))
            .with("x-twilio-email-event-webhook-timestamp", &timestamp))
    }
}

/// A post of Postmark with "Include raw email content in JSON payload".
pub fn postmark(raw: &str, from: &str, to: &str) -> Posting {
    let spf = format!(
        "Pass (sender SPF authorized) identity=mailfrom; client-ip=192.0.2.7; \
         helo=mx.good.example; envelope-from={from}; receiver={to}"
    );
    let body = json!({
        "FromName": "Alice Example",
        "MessageStream": "inbound",
        "From": from,
        "FromFull": { "Email": from, "Name": "Alice Example", "MailboxHash": "" },
        "To": to,
        "ToFull": [{ "Email": to, "Name": "", "MailboxHash": "" }],
        "Cc": "", "CcFull": [], "Bcc": "", "BccFull": [],
        "OriginalRecipient": to,
        "Subject": "Order 4711",
        "MessageID": "22c74902-a0c1-4511-804f-341342852c90",
        "ReplyTo": "", "MailboxHash": "", "Date": "Mon, 05 Jan 2026 10:00:00 +0000",
        "TextBody": "Hello Support", "HtmlBody": "", "StrippedTextReply": "", "Tag": "",
        "Headers": [
            { "Name": "Return-Path", "Value": format!("<{from}>") },
            { "Name": "Received-SPF", "Value": spf },
        ],
        "RawEmail": raw,
        "Attachments": [],
    });
    Posting::json("application/json", &body)
}

/// The message of an SES notification about received mail.
pub fn ses(raw: &[u8], envelope: MailEnvelope<'_>) -> String {
    let received = "from mx.good.example (mx.good.example [192.0.2.7]) by \
                    inbound-smtp.eu-west-1.amazonaws.com with SMTP id d6iitobk75ur for \
                    support@agents.example; Mon, 05 Jan 2026 10:00:00 +0000 (UTC)";
    json!({
        "notificationType": "Received",
        "mail": {
            "timestamp": "2026-01-05T10:00:00.000Z",
            "source": envelope.from,
            "messageId": "d6iitobk75ur44p8kdnnp7g2n800",
            "destination": envelope.to,
            "headersTruncated": false,
            "headers": [
                { "name": "Return-Path", "value": format!("<{}>", envelope.from) },
                { "name": "Received", "value": received },
            ],
        },
        "receipt": {
            "timestamp": "2026-01-05T10:00:00.000Z",
            "processingTimeMillis": 222,
            "recipients": envelope.to,
            "spamVerdict": { "status": "PASS" },
            "virusVerdict": { "status": "PASS" },
            "spfVerdict": { "status": "PASS" },
            "dkimVerdict": { "status": "PASS" },
            "action": { "type": "SNS", "topicArn": Sns::TOPIC, "encoding": "BASE64" },
        },
        "content": STANDARD.encode(raw),
    })
    .to_string()
}

/// Amazon SNS, with its own certificate.
#[derive(Debug)]
pub struct Sns {
    key: RsaKeyPair,
    certificate: String,
}

impl Sns {
    /// The topic of all messages.
    pub const TOPIC: &'static str = "arn:aws:sns:eu-west-1:123456789012:mail";
    /// The URL of the certificate.
    pub const CERTIFICATE: &'static str = "https://sns.eu-west-1.amazonaws.com/\
        SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
    /// The URL that confirms a subscription.
    pub const CONFIRM: &'static str = "https://sns.eu-west-1.amazonaws.com/\
        ?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:123456789012:mail&Token=2336412f37";

    /// Signs with this RSA key (PKCS #8, PEM); the certificate is for `name`.
    pub fn new(key: &str, name: &str) -> Result<Self, KeyError> {
        let fail = |error: &dyn std::fmt::Display| KeyError(error.to_string());
        let of_certificate =
            KeyPair::from_pem_and_sign_algo(key, &PKCS_RSA_SHA256).map_err(|e| fail(&e))?;
        let parameters = CertificateParams::new(vec![name.to_owned()]).map_err(|e| fail(&e))?;
        let certificate = parameters.self_signed(&of_certificate).map_err(|e| fail(&e))?.pem();
        let key = RsaKeyPair::from_pkcs8(&of_certificate.serialize_der()).map_err(|e| fail(&e))?;
        Ok(Self { key, certificate })
    }

    /// In PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub fn notification(&self, message: &str, at: Timestamp) -> Result<Posting, KeyError> {
        self.post("Notification", message, at, |_| {})
    }

    /// The question whether the topic is wanted.
    pub fn confirmation(&self, at: Timestamp) -> Result<Posting, KeyError> {
        self.post("SubscriptionConfirmation", "You have chosen to subscribe", at, |_| {})
    }

    /// A message of this type; `change` edits it before it is signed.
    pub fn post(
        &self,
        kind: &str,
        message: &str,
        at: Timestamp,
        change: impl FnOnce(&mut Value),
    ) -> Result<Posting, KeyError> {
        let mut body = json!({
            "Type": kind,
            "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
            "TopicArn": Self::TOPIC,
            "Message": message,
            "Timestamp": at.to_string(),
            "SignatureVersion": "2",
            "SigningCertURL": Self::CERTIFICATE,
        });
        let confirms = kind != "Notification";
        if let (true, Value::Object(fields)) = (confirms, &mut body) {
            fields.insert("Token".into(), "2336412f37".into());
            fields.insert("SubscribeURL".into(), Self::CONFIRM.into());
        }
        change(&mut body);
        let names: &[&str] = if confirms {
            &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        } else {
            &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        };
        let line = |name: &&str| {
            let value = body.get(*name)?.as_str()?;
            Some(format!("{name}\n{value}\n"))
        };
        let said: String = names.iter().filter_map(line).collect();
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = SystemRandom::new();
        self.key
            .sign(&RSA_PKCS1_SHA256, &random, said.as_bytes(), &mut signature)
            .map_err(|error| KeyError(error.to_string()))?;
        if let Value::Object(fields) = &mut body {
            fields.insert("Signature".into(), STANDARD.encode(signature).into());
        }
        Ok(Posting::json("text/plain; charset=UTF-8", &body)
            .with("x-amz-sns-message-type", kind)
            .with("x-amz-sns-topic-arn", Self::TOPIC))
    }
}
