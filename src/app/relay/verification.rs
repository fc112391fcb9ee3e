//! The fields of `verification` for each provider, and where its customer finds them.

use std::collections::BTreeMap;

use super::providers::sendgrid::PublicKey;
use crate::domain::relay::{RelayType, Verification};
use crate::domain::secret::{MASK, Secret};
use crate::egress::signature;

/// The fields of `verification` as sent; null removes one.
pub type SentFields = BTreeMap<String, Option<String>>;

/// The secret that we made, as it is stored. Answers show it once, and nobody sends it.
const MADE: &str = "secret";

/// Bytes of a field, at most: longer than any key of a provider.
const LONGEST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    #[error("verification: {kind} does not use {name}; it uses: {}", names(*kind).join(", "))]
    Unknown { kind: RelayType, name: String },
    #[error("verification: {name} must have 1 to {LONGEST} bytes, and no control characters")]
    Text { name: String },
    #[error(
        "verification: signingKey is required: Mailgun shows it as HTTP webhook signing key, under \
         API Security"
    )]
    NoSigningKey,
    #[error(
        "verification: publicKey is not a SendGrid key: send the base64 that the security policy \
         of the webhook shows"
    )]
    PublicKey,
    #[error("verification: username must not contain a colon (RFC 7617)")]
    Colon,
    #[error("verification: send username and password, or neither")]
    HalfALogin,
    #[error("verification: mail over SMTP is verified by its signature")]
    Smtp,
    #[error(
        "verification: json uses no field: Gatepost makes the secret, and rotateInboundKey makes \
         another"
    )]
    Made,
}

fn names(kind: RelayType) -> &'static [&'static str] {
    match kind {
        RelayType::Mailgun => &["signingKey"],
        RelayType::Sendgrid => &["publicKey"],
        RelayType::Postmark => &["username", "password"],
        RelayType::Ses => &["topicArn"],
        RelayType::Smtp | RelayType::Json => &[],
    }
}

/// Merges the fields sent with the known ones. All but Mailgun's signing key may be missing: then
/// that proof is not checked.
pub(super) fn merged(
    kind: RelayType,
    sent: Option<&SentFields>,
    known: Option<&Verification>,
) -> Result<Verification, VerificationError> {
    let empty = SentFields::new();
    let sent = sent.unwrap_or(&empty);
    if let Some(name) = sent.keys().find(|name| !names(kind).contains(&name.as_str())) {
        return Err(match kind {
            RelayType::Json => VerificationError::Made,
            _ => VerificationError::Unknown { kind, name: name.clone() },
        });
    }
    let bad = |text: &String| {
        text.is_empty() || text.len() > LONGEST || text.chars().any(|sign| sign.is_control())
    };
    if let Some((name, _)) = sent.iter().find(|(_, text)| text.as_ref().is_some_and(bad)) {
        return Err(VerificationError::Text { name: name.clone() });
    }
    let merged = |name: &str| match sent.get(name) {
        // A mask keeps the known value.
        Some(text) if text.as_deref() != Some(MASK) => text.clone(),
        _ => known.and_then(|known| field(known, name)),
    };
    match kind {
        RelayType::Sendgrid => {
            // An unreadable key would refuse all mail, which SendGrid then drops.
            if merged("publicKey").is_some_and(|key| PublicKey::parse(&key).is_none()) {
                return Err(VerificationError::PublicKey);
            }
        }
        RelayType::Postmark => match (merged("username"), merged("password")) {
            (Some(username), Some(_)) if username.contains(':') => {
                return Err(VerificationError::Colon);
            }
            (Some(_), None) | (None, Some(_)) => return Err(VerificationError::HalfALogin),
            _ => {}
        },
        RelayType::Smtp => return Err(VerificationError::Smtp),
        RelayType::Mailgun | RelayType::Ses | RelayType::Json => {}
    }
    from_fields(kind, merged).ok_or(VerificationError::NoSigningKey)
}

/// Makes the verification of a provider of its fields; None if a required one is missing.
pub(super) fn from_fields(
    kind: RelayType,
    field: impl Fn(&str) -> Option<String>,
) -> Option<Verification> {
    let secret = |name: &str| field(name).map(Secret::new);
    Some(match kind {
        RelayType::Mailgun => Verification::Mailgun { signing_key: secret("signingKey")? },
        RelayType::Sendgrid => Verification::Sendgrid { public_key: field("publicKey") },
        RelayType::Postmark => {
            Verification::Postmark { basic: field("username").zip(secret("password")) }
        }
        RelayType::Ses => Verification::Ses { topic: field("topicArn") },
        RelayType::Json => Verification::Json { secret: signature::read_secret(&field(MADE)?)? },
        RelayType::Smtp => return None,
    })
}

fn field(verification: &Verification, name: &str) -> Option<String> {
    match (verification, name) {
        (Verification::Mailgun { signing_key }, "signingKey") => Some(as_text(signing_key)),
        (Verification::Sendgrid { public_key }, "publicKey") => public_key.clone(),
        (Verification::Postmark { basic }, "username") => {
            basic.as_ref().map(|(username, _)| username.clone())
        }
        (Verification::Postmark { basic }, "password") => {
            basic.as_ref().map(|(_, password)| as_text(password))
        }
        (Verification::Ses { topic }, "topicArn") => topic.clone(),
        (Verification::Json { secret }, MADE) => Some(signature::secret_text(secret)),
        _ => None,
    }
}

pub(super) fn as_text(secret: &Secret) -> String {
    String::from_utf8_lossy(secret.expose()).into_owned()
}

/// Returns all fields, with their secrets, those that nobody sends included.
pub(super) fn fields(
    verification: &Verification,
) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let made = matches!(verification, Verification::Json { .. }).then_some(MADE);
    let names = names(verification.kind()).iter().copied().chain(made);
    names.map(|name| (name, field(verification, name)))
}

/// Returns the fields for answers: secrets are masked.
pub fn masked_fields(verification: &Verification) -> Vec<(&'static str, Option<String>)> {
    let masked = |(name, value): (&'static str, Option<String>)| match name {
        "signingKey" | "password" => (name, value.map(|_| MASK.to_owned())),
        _ => (name, value),
    };
    fields(verification).filter(|(name, _)| *name != MADE).map(masked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_fields(fields: &[(&str, Option<&str>)]) -> SentFields {
        let own =
            |(name, text): &(&str, Option<&str>)| ((*name).to_owned(), text.map(ToOwned::to_owned));
        fields.iter().map(own).collect()
    }

    #[test]
    fn mailgun_is_not_set_up_without_its_key_and_keeps_it_where_it_is_masked() {
        let error = merged(RelayType::Mailgun, None, None).unwrap_err().to_string();
        assert!(error.contains("signingKey") && error.contains("HTTP webhook"), "{error}");
        let key = sent_fields(&[("signingKey", Some("canary"))]);
        let set = merged(RelayType::Mailgun, Some(&key), None).unwrap();
        assert_eq!(masked_fields(&set), [("signingKey", Some(MASK.to_owned()))]);
        assert!(!format!("{set:?}").contains("canary"));
        let masked = sent_fields(&[("signingKey", Some(MASK))]);
        assert_eq!(merged(RelayType::Mailgun, Some(&masked), Some(&set)).unwrap(), set);
        assert_eq!(merged(RelayType::Mailgun, None, Some(&set)).unwrap(), set);
        assert!(merged(RelayType::Mailgun, Some(&masked), None).is_err());
        let gone = sent_fields(&[("signingKey", None)]);
        assert!(merged(RelayType::Mailgun, Some(&gone), Some(&set)).is_err());
    }

    #[test]
    fn each_provider_has_fields_of_its_own() {
        for kind in RelayType::ALL.iter().copied().filter(|kind| kind.has_way_in()) {
            for foreign in ["secretKey", MADE] {
                let sent = sent_fields(&[(foreign, Some("x"))]);
                let error = merged(kind, Some(&sent), None).unwrap_err().to_string();
                let told = if kind == RelayType::Json { "no field" } else { foreign };
                assert!(error.contains(told), "{error}");
            }
            for name in names(kind) {
                for bad in ["", "a\nb", &"x".repeat(LONGEST + 1)] {
                    assert!(merged(kind, Some(&sent_fields(&[(name, Some(bad))])), None).is_err());
                }
            }
        }
        let half = sent_fields(&[("username", Some("u"))]);
        assert!(merged(RelayType::Postmark, Some(&half), None).is_err());
        let colon = sent_fields(&[("username", Some("a:b")), ("password", Some("p"))]);
        assert!(merged(RelayType::Postmark, Some(&colon), None).is_err());
        let basic = sent_fields(&[("username", Some("u")), ("password", Some("p"))]);
        let set = merged(RelayType::Postmark, Some(&basic), None).unwrap();
        let masked_login =
            [("username", Some("u".to_owned())), ("password", Some(MASK.to_owned()))];
        assert_eq!(masked_fields(&set), masked_login);
        let made = Verification::Json { secret: Secret::new([7; 32]) };
        assert_eq!(masked_fields(&made), [], "it is shown once, when it is made");
        let kept: BTreeMap<_, _> = fields(&made).collect();
        let read = from_fields(RelayType::Json, |name| kept.get(name).cloned().flatten());
        assert_eq!(read, Some(made.clone()));
        assert_eq!(merged(RelayType::Json, None, Some(&made)), Ok(made));
        assert!(merged(RelayType::Json, None, None).is_err());
        let neither = sent_fields(&[("username", None), ("password", None)]);
        let open = merged(RelayType::Postmark, Some(&neither), Some(&set)).unwrap();
        assert_eq!(open, Verification::Postmark { basic: None });
    }
}
