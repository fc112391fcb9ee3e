//! The fields of `verification` for each provider, and where its customer finds them.

use std::collections::BTreeMap;

use super::providers::sendgrid::PublicKey;
use crate::domain::relay::{RelayType, Verification};
use crate::domain::secret::{MASK, Secret};

/// The fields of `verification` as sent; null removes one.
pub type SentFields = BTreeMap<String, Option<String>>;

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
}

fn names(kind: RelayType) -> &'static [&'static str] {
    match kind {
        RelayType::Mailgun => &["signingKey"],
        RelayType::Sendgrid => &["publicKey"],
        RelayType::Postmark => &["username", "password"],
        RelayType::Ses => &["topicArn"],
        RelayType::Smtp => &[],
    }
}

/// Merges the fields sent with the known ones. All but Mailgun's signing key may be missing: then
/// that proof is not checked.
pub(super) fn wanted(
    kind: RelayType,
    given: Option<&SentFields>,
    known: Option<&Verification>,
) -> Result<Verification, VerificationError> {
    let empty = SentFields::new();
    let given = given.unwrap_or(&empty);
    if let Some(name) = given.keys().find(|name| !names(kind).contains(&name.as_str())) {
        return Err(VerificationError::Unknown { kind, name: name.clone() });
    }
    let bad = |text: &String| {
        text.is_empty() || text.len() > LONGEST || text.chars().any(|sign| sign.is_control())
    };
    if let Some((name, _)) = given.iter().find(|(_, text)| text.as_ref().is_some_and(bad)) {
        return Err(VerificationError::Text { name: name.clone() });
    }
    let of = |name: &str| match given.get(name) {
        // A mask keeps the known value.
        Some(Some(text)) if text == MASK => known.and_then(|known| kept(known, name)),
        Some(text) => text.clone(),
        None => known.and_then(|known| kept(known, name)),
    };
    Ok(match kind {
        RelayType::Mailgun => {
            let signing_key = of("signingKey").ok_or(VerificationError::NoSigningKey)?;
            Verification::Mailgun { signing_key: Secret::new(signing_key) }
        }
        RelayType::Sendgrid => {
            let public_key = of("publicKey");
            // An unreadable key would refuse all mail, which SendGrid then drops.
            if public_key.as_deref().is_some_and(|key| PublicKey::parse(key).is_none()) {
                return Err(VerificationError::PublicKey);
            }
            Verification::Sendgrid { public_key }
        }
        RelayType::Postmark => match (of("username"), of("password")) {
            (None, None) => Verification::Postmark { basic: None },
            (Some(username), Some(password)) if !username.contains(':') => {
                Verification::Postmark { basic: Some((username, Secret::new(password))) }
            }
            (Some(_), Some(_)) => return Err(VerificationError::Colon),
            _ => return Err(VerificationError::HalfALogin),
        },
        RelayType::Ses => Verification::Ses { topic: of("topicArn") },
        RelayType::Smtp => return Err(VerificationError::Smtp),
    })
}

fn kept(known: &Verification, name: &str) -> Option<String> {
    let text = |secret: &Secret| String::from_utf8_lossy(secret.expose()).into_owned();
    match (known, name) {
        (Verification::Mailgun { signing_key }, "signingKey") => Some(text(signing_key)),
        (Verification::Sendgrid { public_key }, "publicKey") => public_key.clone(),
        (Verification::Postmark { basic }, "username") => {
            basic.as_ref().map(|(username, _)| username.clone())
        }
        (Verification::Postmark { basic }, "password") => {
            basic.as_ref().map(|(_, password)| text(password))
        }
        (Verification::Ses { topic }, "topicArn") => topic.clone(),
        _ => None,
    }
}

/// Returns the fields to show; a secret is masked.
pub fn shown(verification: &Verification) -> Vec<(&'static str, Option<String>)> {
    names(verification.kind())
        .iter()
        .map(|name| {
            let secret = matches!(*name, "signingKey" | "password");
            let value = kept(verification, name);
            (*name, if secret { value.map(|_| MASK.to_owned()) } else { value })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(fields: &[(&str, Option<&str>)]) -> SentFields {
        let own =
            |(name, text): &(&str, Option<&str>)| ((*name).to_owned(), text.map(ToOwned::to_owned));
        fields.iter().map(own).collect()
    }

    #[test]
    fn mailgun_is_not_set_up_without_its_key_and_keeps_it_where_it_is_masked() {
        let error = wanted(RelayType::Mailgun, None, None).unwrap_err().to_string();
        assert!(error.contains("signingKey") && error.contains("HTTP webhook"), "{error}");
        let key = given(&[("signingKey", Some("canary"))]);
        let set = wanted(RelayType::Mailgun, Some(&key), None).unwrap();
        assert_eq!(shown(&set), [("signingKey", Some(MASK.to_owned()))]);
        assert!(!format!("{set:?}").contains("canary"));
        let masked = given(&[("signingKey", Some(MASK))]);
        assert_eq!(wanted(RelayType::Mailgun, Some(&masked), Some(&set)).unwrap(), set);
        assert_eq!(wanted(RelayType::Mailgun, None, Some(&set)).unwrap(), set);
        assert!(wanted(RelayType::Mailgun, Some(&masked), None).is_err());
        let gone = given(&[("signingKey", None)]);
        assert!(wanted(RelayType::Mailgun, Some(&gone), Some(&set)).is_err());
    }

    #[test]
    fn each_provider_has_fields_of_its_own() {
        for kind in RelayType::ALL.iter().copied().filter(|kind| kind.has_way_in()) {
            let foreign = given(&[("secretKey", Some("x"))]);
            let error = wanted(kind, Some(&foreign), None).unwrap_err().to_string();
            assert!(error.contains("secretKey"), "{error}");
            for name in names(kind) {
                for bad in ["", "a\nb", &"x".repeat(LONGEST + 1)] {
                    assert!(wanted(kind, Some(&given(&[(name, Some(bad))])), None).is_err());
                }
            }
        }
        let half = given(&[("username", Some("u"))]);
        assert!(wanted(RelayType::Postmark, Some(&half), None).is_err());
        let colon = given(&[("username", Some("a:b")), ("password", Some("p"))]);
        assert!(wanted(RelayType::Postmark, Some(&colon), None).is_err());
        let basic = given(&[("username", Some("u")), ("password", Some("p"))]);
        let set = wanted(RelayType::Postmark, Some(&basic), None).unwrap();
        let told = [("username", Some("u".to_owned())), ("password", Some(MASK.to_owned()))];
        assert_eq!(shown(&set), told);
        let neither = given(&[("username", None), ("password", None)]);
        let open = wanted(RelayType::Postmark, Some(&neither), Some(&set)).unwrap();
        assert_eq!(open, Verification::Postmark { basic: None });
    }
}
