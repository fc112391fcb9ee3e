//! Signed links: each opens one part or the original of one message, without a key, for a while.
//!
//! The signature is an HMAC-SHA-256 (RFC 2104) with a secret of the installation, the same on all
//! gateways. It covers all that the link says, so a link opens nothing else. The handler checks the
//! message and its Agent when the link is opened. No link is stored; only deleting or deactivating
//! its subject withdraws it.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::Url;

use super::record::{media_path, raw_path};
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::id::MessageId;
use crate::domain::message::Attachment;
use crate::domain::secret::Secret;
use crate::rules::AccessRules;
use crate::store::{Store, StoreError};

/// Separates this use of the secret, and this layout, from all others.
const PURPOSE: &[u8] = b"gatepost media link 1\0";

/// The subject of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked<'a> {
    /// A part, by its number and its name in the record.
    Part(u32, &'a str),
    Raw,
}

/// The result of checking a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Now,
    /// The signature is valid; the link has expired, or lasts longer than links last now.
    Expired,
    /// The signature is not valid.
    Never,
}

/// Makes links and checks them. Cheap to clone.
#[derive(Clone)]
pub struct Links {
    secret: Secret,
    clock: Clock,
    lasts: Duration,
    /// The prefix of every path, without a final slash; empty for relative links.
    base: String,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Links {
    /// Signs with the secret of this store, creating it if there is none.
    pub async fn open(
        store: &Store,
        clock: Clock,
        rules: &AccessRules,
    ) -> Result<Self, StoreError> {
        Ok(Self::signing(store.link_key().await?, clock, rules.media.link()))
    }

    /// Signs with this secret. Links last for `lasts`, rounded up to a whole minute.
    pub const fn signing(secret: Secret, clock: Clock, lasts: Duration) -> Self {
        Self { secret, clock, lasts, base: String::new() }
    }

    /// Returns a copy whose links begin with the public URL of the API, if that is known.
    #[must_use]
    pub fn at(self, public: Option<&Url>) -> Self {
        let base = public.map(|url| url.as_str().trim_end_matches('/').to_owned());
        Self { base: base.unwrap_or_default(), ..self }
    }

    /// Returns the expiry of links made now: a whole minute, so links shown twice within it are
    /// equal, byte for byte.
    pub fn expiry(&self) -> Timestamp {
        let end = self.clock.now().plus(self.lasts).millis();
        let minute = 60_000;
        Timestamp::from_millis(end.saturating_add(minute - 1).div_euclid(minute) * minute)
    }

    pub fn part(&self, message: MessageId, part: &Attachment, expires: Timestamp) -> String {
        let what = Linked::Part(part.part, &part.filename);
        self.link(&media_path(message, part), message, what, expires)
    }

    pub fn raw(&self, message: MessageId, expires: Timestamp) -> String {
        self.link(&raw_path(message), message, Linked::Raw, expires)
    }

    fn link(&self, path: &str, message: MessageId, what: Linked<'_>, expires: Timestamp) -> String {
        let expires = expires.seconds();
        let tag = hmac::sign(&self.key(), &content(message, what, expires));
        let signature = URL_SAFE_NO_PAD.encode(tag);
        format!("{}{path}?expires={expires}&signature={signature}", self.base)
    }

    /// Checks the `expires` and `signature` of a link. Comparing the signature takes constant time.
    pub fn check(
        &self,
        message: MessageId,
        what: Linked<'_>,
        expires: &str,
        signature: &str,
    ) -> Opening {
        // Only the canonical spelling of a moment counts.
        let moment = expires.parse::<i64>().ok().filter(|at| at.to_string() == expires);
        let (Some(moment), Ok(tag)) = (moment, URL_SAFE_NO_PAD.decode(signature)) else {
            return Opening::Never;
        };
        if hmac::verify(&self.key(), &content(message, what, moment), &tag).is_err() {
            return Opening::Never;
        }
        let now = self.clock.now();
        // No link lasts longer than one made now, even if an older rule allowed it. Two minutes
        // more: its expiry was rounded up by at most one, and clocks may differ by another.
        let last = now.plus(self.lasts).plus(Duration::from_secs(120)).seconds();
        match now.seconds() < moment && moment <= last {
            true => Opening::Now,
            false => Opening::Expired,
        }
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose())
    }
}

/// Joins all that a link says. Each field has a fixed place and length, so no bytes can move from
/// one field to another.
fn content(message: MessageId, what: Linked<'_>, expires: i64) -> Vec<u8> {
    let (kind, part, name) = match what {
        Linked::Part(part, name) => (1, part, name),
        Linked::Raw => (2, 0, ""),
    };
    let name = digest::digest(&digest::SHA256, name.as_bytes());
    [
        PURPOSE,
        &[kind],
        message.0.as_bytes(),
        &part.to_be_bytes(),
        name.as_ref(),
        &expires.to_be_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use uuid::Uuid;

    use super::*;

    const NOW: i64 = 1_718_463_395_123;

    fn links(octet: u8) -> (Links, Arc<AtomicI64>) {
        let now = Arc::new(AtomicI64::new(NOW));
        let told = Arc::clone(&now);
        let clock = Clock::new(move || Timestamp::from_millis(told.load(Ordering::Relaxed)));
        (Links::signing(Secret::new([octet; 32]), clock, Duration::from_secs(3600)), now)
    }

    fn part(name: &str) -> Attachment {
        Attachment {
            part: 3,
            content_type: "application/pdf".into(),
            filename: name.into(),
            size: 1,
            listed: true,
        }
    }

    /// The `expires` and `signature` of a link.
    fn said(link: &str) -> (String, String) {
        let (_, query) = link.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        (expires.to_owned(), signature.to_owned())
    }

    #[test]
    fn a_link_opens_what_it_names_until_its_time() {
        let (links, now) = links(7);
        let id = MessageId(Uuid::from_u128(1));
        let expires = links.expiry();
        // An hour later, rounded up to a whole minute.
        assert_eq!(expires.to_string(), "2024-06-15T15:57:00.000Z");
        let link = links.part(id, &part("a b.pdf"), expires);
        let path = "/api/v2/media/00000000-0000-0000-0000-000000000001/3-a%20b.pdf?expires=";
        assert!(link.starts_with(path), "{link}");
        let (at, signature) = said(&link);
        let what = Linked::Part(3, "a b.pdf");
        assert_eq!(links.check(id, what, &at, &signature), Opening::Now);
        now.store(expires.millis() - 1, Ordering::Relaxed);
        assert_eq!(links.check(id, what, &at, &signature), Opening::Now);
        now.store(expires.millis(), Ordering::Relaxed);
        assert_eq!(links.check(id, what, &at, &signature), Opening::Expired);
    }

    #[test]
    fn no_link_is_good_for_longer_than_one_that_is_made_now() {
        let (links, now) = links(7);
        let id = MessageId(Uuid::from_u128(1));
        let (at, signature) = said(&links.raw(id, links.expiry()));
        let shorter = Links { lasts: Duration::from_secs(1800), ..links.clone() };
        let found = |links: &Links| links.check(id, Linked::Raw, &at, &signature);
        assert_eq!((found(&links), found(&shorter)), (Opening::Now, Opening::Expired));
        now.store(NOW - 59_000, Ordering::Relaxed);
        assert_eq!(found(&links), Opening::Now, "another clock");
        now.store(NOW + 1_800_000, Ordering::Relaxed);
        assert_eq!(found(&shorter), Opening::Now);
    }

    #[test]
    fn nothing_of_it_can_be_exchanged() {
        let (links, _) = links(7);
        let (id, other) = (MessageId(Uuid::from_u128(1)), MessageId(Uuid::from_u128(2)));
        let what = Linked::Part(3, "a.pdf");
        let (at, signature) = said(&links.part(id, &part("a.pdf"), links.expiry()));
        let (_, of_raw) = said(&links.raw(id, links.expiry()));
        let later = (at.parse::<i64>().unwrap() + 1).to_string();
        let cut = &signature[..42];
        for (id, what, expires, signature) in [
            (other, what, at.as_str(), signature.as_str()),
            (id, Linked::Part(4, "a.pdf"), &at, &signature),
            (id, Linked::Part(3, "b.pdf"), &at, &signature),
            (id, Linked::Part(3, ""), &at, &signature),
            (id, Linked::Raw, &at, &signature),
            (id, what, &at, &of_raw),
            (id, what, &later, &signature),
            (id, what, &format!("+{at}"), &signature),
            (id, what, &format!("0{at}"), &signature),
            (id, what, "", &signature),
            (id, what, "99999999999999999999", &signature),
            (id, what, &at, cut),
            (id, what, &at, &format!("{signature}=")),
            (id, what, &at, &format!("{signature}A")),
            (id, what, &at, ""),
            (id, what, &at, &"A".repeat(43)),
        ] {
            assert_eq!(links.check(id, what, expires, signature), Opening::Never, "{expires}");
        }
        assert_eq!(links.check(id, what, &at, &signature), Opening::Now);
        assert_eq!(self::links(8).0.check(id, what, &at, &signature), Opening::Never);
    }

    #[test]
    fn a_public_url_stands_in_front_and_the_secret_is_not_shown() {
        let (links, _) = links(7);
        let public = Url::parse("https://mail.example/gate/").unwrap();
        let link = links.clone().at(Some(&public)).raw(MessageId(Uuid::nil()), links.expiry());
        assert!(link.starts_with("https://mail.example/gate/api/v2/messages/"), "{link}");
        assert!(!format!("{links:?}").contains('7'));
    }
}
