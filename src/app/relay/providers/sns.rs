//! Amazon SNS, which posts the mail that SES received: a signed JSON envelope, and first a request
//! to confirm the subscription (docs.aws.amazon.com/sns: Verifying the signatures of Amazon SNS
//! messages; Parsing message formats).
//!
//! Only signature version 2 (SHA-256) counts; version 1 is SHA-1, which proves nothing any more.
//! The topic's attribute `SignatureVersion` selects it.
//!
//! SNS takes 2xx as accepted. It retries after 5xx, or without an answer within 15 s (3 times, 20 s
//! apart, unless its delivery policy says more; at most an hour). After a 4xx it drops the message,
//! or puts it into the dead-letter queue of the subscription.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use url::{Host, Url};

use super::{Ages, Broken, Certificate, Forged, OtherMode, Post, Refusal, Unavailable};
use crate::domain::clock::Timestamp;
use crate::domain::instant;

/// The largest request, in bytes: a message of SNS has 256 KiB; escapes and the envelope add to it
/// (docs.aws.amazon.com/general: Amazon SNS endpoints and quotas).
pub const MAX_REQUEST: usize = 1024 * 1024;

/// A request of SNS whose signature is not verified yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnsBody {
    r#type: String,
    message_id: String,
    topic_arn: String,
    message: String,
    timestamp: String,
    signature_version: String,
    signature: String,
    #[serde(rename = "SigningCertURL")]
    signing_cert_url: String,
    subject: Option<String>,
    token: Option<String>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
}

/// The purpose of a request, once its signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnsRequest {
    /// Confirm the subscription, by a GET of this URL.
    Confirmation(Url),
    /// Take in this message of the topic.
    Message(String),
    /// The subscription has ended.
    Farewell,
}

impl SnsBody {
    /// Reads a request as far as that needs no signature; fails if `topic` is set and is another
    /// one.
    pub fn read(post: &Post<'_>, topic: Option<&str>) -> Result<Self, Refusal> {
        if post.header("x-amz-sns-rawdelivery").is_some() {
            return Err(OtherMode::SnsRaw.into());
        }
        if post.body.len() > MAX_REQUEST {
            return Err(Broken::SnsSize.into());
        }
        let said: Self = serde_json::from_slice(post.body).map_err(|_| Broken::Sns)?;
        if said.signature_version != "2" {
            return Err(OtherMode::SnsVersion.into());
        }
        if topic.is_some_and(|topic| topic != said.topic_arn) {
            return Err(Forged::Topic.into());
        }
        Ok(said)
    }

    /// Returns the URL of the signer's certificate; fails unless a host of Amazon SNS has it.
    pub fn certificate(&self) -> Result<Url, Refusal> {
        let url = Url::parse(&self.signing_cert_url).ok().filter(is_of_sns);
        let named = |url: &Url| {
            let name = url.path().strip_prefix("/SimpleNotificationService-");
            let name = name.and_then(|name| name.strip_suffix(".pem")).unwrap_or_default();
            let hex = name.bytes().all(|octet| octet.is_ascii_hexdigit());
            (1..=64).contains(&name.len()) && hex && url.query().is_none()
        };
        url.filter(named).ok_or_else(|| Forged::CertificateUrl.into())
    }

    /// Returns the purpose of the request, if this certificate signed it.
    pub fn believe(
        self,
        certificate: &Certificate,
        ages: &Ages,
        now: Timestamp,
    ) -> Result<SnsRequest, Refusal> {
        let signature = STANDARD.decode(&self.signature).map_err(|_| Forged::Sns)?;
        let said = self.signed().ok_or(Forged::Sns)?;
        if !certificate.signed(said.as_bytes(), &signature) || certificate.is_over(now) {
            return Err(Forged::Sns.into());
        }
        if certificate.is_to_come(now) {
            return Err(Unavailable::CertificateEarly.into());
        }
        ages.check(instant::parse(&self.timestamp).ok_or(Forged::Sns)?, ages.covering, now)?;
        match self.r#type.as_str() {
            "Notification" => Ok(SnsRequest::Message(self.message)),
            "SubscriptionConfirmation" => {
                let url = self.subscribe_url.and_then(|url| Url::parse(&url).ok());
                url.filter(is_of_sns)
                    .map(SnsRequest::Confirmation)
                    .ok_or_else(|| Forged::SubscribeUrl.into())
            }
            _ => Ok(SnsRequest::Farewell),
        }
    }

    /// Returns the text that is signed: names and values on separate lines, in alphabetic order of
    /// the names; the type decides which names.
    fn signed(&self) -> Option<String> {
        let always = [("Message", self.message.as_str()), ("MessageId", &self.message_id)];
        let mut pairs = always.to_vec();
        let (timestamp, topic) = (("Timestamp", &*self.timestamp), ("TopicArn", &*self.topic_arn));
        match self.r#type.as_str() {
            "Notification" => {
                pairs.extend(self.subject.as_deref().map(|subject| ("Subject", subject)));
                pairs.extend([timestamp, topic]);
            }
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => {
                pairs.push(("SubscribeURL", self.subscribe_url.as_deref()?));
                pairs.extend([timestamp, ("Token", self.token.as_deref()?), topic]);
            }
            _ => return None,
        }
        pairs.push(("Type", &self.r#type));
        Some(pairs.iter().map(|(name, value)| format!("{name}\n{value}\n")).collect())
    }
}

/// Tells whether the URL is `https://sns.<region>.amazonaws.com` (in China with `.cn` behind) on
/// the usual port: no host that another customer of Amazon's could have.
fn is_of_sns(url: &Url) -> bool {
    let Some(Host::Domain(host)) = url.host() else { return false };
    let host = host.strip_suffix(".cn").unwrap_or(host);
    let region = host.strip_prefix("sns.").and_then(|rest| rest.strip_suffix(".amazonaws.com"));
    let plain = url.scheme() == "https" && url.port().is_none() && url.username().is_empty();
    let plain = plain && url.password().is_none() && url.fragment().is_none();
    plain && region.is_some_and(is_region)
}

/// `eu-west-1`, `us-gov-west-1`: two letters, words, a number. Other names there can be somebody's
/// bucket (`sns.s3.amazonaws.com`, `sns.s3-us-west-2.amazonaws.com`).
fn is_region(text: &str) -> bool {
    let letters = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let Some((rest, number)) = text.rsplit_once('-') else { return false };
    let Some((country, words)) = rest.split_once('-') else { return false };
    let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    country.len() == 2 && letters(country) && words.split('-').all(letters) && numbered
}
