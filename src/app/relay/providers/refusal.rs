//! Errors about requests of providers. Each tells the account's owner what to correct.

use super::CertificateError;
use crate::app::relay::signers::AskError;

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
    #[error("this token has been used, for another message")]
    Token,
    #[error(
        "the signature is not one by the signing key that is set here: take it from Mailgun, Settings, \
         API security, HTTP webhook signing key"
    )]
    Mailgun,
    #[error(
        "the signature is not one by the public key that is set here: take it from the security policy \
         of the SendGrid webhook, or leave the key out if it has none"
    )]
    Sendgrid,
    #[error(
        "the public key that is set here is not one of SendGrid: set it again, as SendGrid shows it"
    )]
    SendgridKey,
    #[error(
        "the user and the password are not those that are set here: put them into the webhook's URL at \
         Postmark, https://USER:PASSWORD@…"
    )]
    Postmark,
    #[error("the message is of another topic than the one that is set here")]
    Topic,
    #[error("the signature is not one of Amazon SNS")]
    Sns,
    #[error("SigningCertURL is not a certificate's at a host of Amazon SNS")]
    CertificateUrl,
    #[error("SubscribeURL does not lead to a host of Amazon SNS")]
    SubscribeUrl,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The provider posts in a mode that takes messages apart, or that cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherMode {
    #[error(
        "Mailgun posted the message taken apart: let the route forward to the same URL with /mime behind \
         it, so that it is posted as it is (field body-mime)"
    )]
    Mailgun,
    #[error(
        "SendGrid posted the message taken apart: check \"POST the raw, full MIME message\" in the \
         settings of Inbound Parse"
    )]
    Sendgrid,
    #[error(
        "Postmark posted the message taken apart: switch on \"Include raw email content in JSON \
         payload\" in the settings of the inbound stream"
    )]
    Postmark,
    #[error(
        "Amazon SES announced the message without its content: give the receipt rule an SNS action with \
         the encoding Base64, and subscribe this URL to its topic"
    )]
    Ses,
    #[error(
        "Amazon SNS posted without its signed envelope: switch off raw message delivery in the settings \
         of the subscription"
    )]
    SnsRaw,
    #[error(
        "Amazon SNS signed by SHA-1: set the attribute SignatureVersion of the topic to 2 (aws sns \
         set-topic-attributes --attribute-name SignatureVersion --attribute-value 2)"
    )]
    SnsVersion,
    #[error("this provider posts forms: multipart/form-data")]
    NoForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("the form cannot be read")]
    Form,
    #[error("the field {0} is there twice")]
    Twice(&'static str),
    #[error("the field {0} is missing, or not text")]
    Field(&'static str),
    #[error("the field envelope is not JSON")]
    Envelope,
    #[error("the body is not the JSON of an inbound message")]
    Postmark,
    #[error("the body is not the JSON of a message of Amazon SNS")]
    Sns,
    #[error("Amazon SNS posts no more than 256 KiB")]
    SnsSize,
    #[error("the content is not base64")]
    Content,
}

/// The proof of a request cannot be checked at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("the signature is of a time that has not come: is our clock behind?")]
    Early,
    #[error("the certificate of Amazon SNS is of a time to come")]
    CertificateEarly,
    #[error(transparent)]
    CertificateUnreadable(CertificateError),
    #[error("cannot get the certificate of Amazon SNS")]
    Certificate(#[source] AskError),
    #[error("cannot confirm the subscription at SubscribeURL")]
    Subscribe(#[source] AskError),
}
