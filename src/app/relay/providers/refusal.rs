//! Errors about requests of providers. Each tells the account's owner what to correct.

use super::CertificateError;
use super::json::LONGEST_ID;
use crate::app::relay::sns_certificates::FetchError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Forged(#[from] Forged),
    #[error(transparent)]
    Mode(#[from] OtherMode),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The request is not proven to be the provider's, or is too old.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    #[error("the signature is too old")]
    Old,
    #[error("this token was already used for another message")]
    Token,
    #[error(
        "the signature does not match the signing key that is set here: copy the key from Mailgun, \
         Settings, API security, HTTP webhook signing key"
    )]
    Mailgun,
    #[error(
        "the signature does not match the public key that is set here: copy the key from the \
         security policy of the SendGrid webhook, or remove the key if the policy has none"
    )]
    Sendgrid,
    #[error(
        "the public key that is set here is not a SendGrid key: set it again, as SendGrid shows it"
    )]
    SendgridKey,
    #[error(
        "the user name and password are not those that are set here: put those into the webhook's \
         URL at Postmark, https://USER:PASSWORD@…"
    )]
    Postmark,
    #[error(
        "the request is not signed: send webhook-id (1 to {LONGEST_ID} visible ASCII characters), \
         webhook-timestamp (Unix seconds) and webhook-signature, each once (Standard Webhooks)"
    )]
    Unsigned,
    #[error(
        "no v1 signature in webhook-signature matches: sign webhook-id, webhook-timestamp and the \
         body, octet by octet, with the whsec_… secret of this inboundUrl"
    )]
    Json,
    #[error("the message is from another topic than the one that is set here")]
    Topic,
    #[error("the signature is not from Amazon SNS")]
    Sns,
    #[error("SigningCertURL is not the URL of a certificate on a host of Amazon SNS")]
    CertificateUrl,
    #[error("SubscribeURL is not on a host of Amazon SNS")]
    SubscribeUrl,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The provider posts in a mode that takes messages apart, or that cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherMode {
    #[error(
        "Mailgun posted the parsed message instead of the original: let the route forward to the \
         same URL with /mime at its end, which posts the original (field body-mime)"
    )]
    Mailgun,
    #[error(
        "SendGrid posted the parsed message instead of the original: check \"POST the raw, full \
         MIME message\" in the settings of Inbound Parse"
    )]
    Sendgrid,
    #[error(
        "Postmark posted the parsed message instead of the original: switch on \"Include raw email \
         content in JSON payload\" in the settings of the inbound stream"
    )]
    Postmark,
    #[error(
        "Amazon SES posted a notification without the message: give the receipt rule an SNS action \
         with the encoding Base64, and subscribe this URL to its topic"
    )]
    Ses,
    #[error(
        "Amazon SNS posted without its signed envelope: switch off raw message delivery in the settings \
         of the subscription"
    )]
    SnsRaw,
    #[error(
        "Amazon SNS signed with SHA-1: set the attribute SignatureVersion of the topic to 2 (aws \
         sns set-topic-attributes --attribute-name SignatureVersion --attribute-value 2)"
    )]
    SnsVersion,
    #[error("the body is not a form: this provider posts multipart/form-data")]
    NoForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("the form cannot be read")]
    Form,
    #[error("the form has the field {0} twice")]
    Twice(&'static str),
    #[error("the field {0} is missing, or not text")]
    Field(&'static str),
    #[error("the field envelope is not JSON")]
    Envelope,
    #[error("the body is not the JSON of an inbound message")]
    Postmark,
    #[error("the body is not the JSON of an Amazon SNS message")]
    Sns,
    #[error("the body has more than {} KiB, the limit for Amazon SNS", super::sns::MAX_REQUEST / 1024)]
    SnsSize,
    #[error("the content is not base64")]
    Content,
}

/// The proof of a request cannot be checked at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("the signature is dated in the future: the clock of this server may be slow")]
    Early,
    #[error("the certificate of Amazon SNS is not valid yet: the clock of this server may be slow")]
    CertificateEarly,
    #[error(transparent)]
    CertificateUnreadable(CertificateError),
    #[error("cannot get the certificate of Amazon SNS")]
    Certificate(#[source] FetchError),
    #[error("cannot confirm the subscription at SubscribeURL")]
    Subscribe(#[source] FetchError),
}
