//! The exact causes that keep a sender from being authenticated. Each has its code, its explanation
//! and advice for the sender's administrator, in one place.

use std::fmt::Write as _;
use std::str::FromStr;

macro_rules! causes {
    ($($variant:ident = $code:literal, $told:literal, $advice:literal;)*) => {
        /// A cause that prevented authentication. More precise than the `Reason` in the reply to
        /// the sending server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $(#[doc = $told] $variant,)*
        }

        impl Cause {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code in the evidence.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            const fn template(self) -> (&'static str, &'static str) {
                match self { $(Self::$variant => ($told, $advice),)* }
            }
        }
    };
}

// Placeholders: `{from}` is the From domain, `{signer}` the signature's d=, `{selector}` its s=,
// `{key}` the name of the key record, `{record}` the name of the DMARC record. `{provider}` and
// `{where}` are filled if a provider signed with its own domain.
causes! {
    NotSigned = "not_signed",
        "Nothing proves that it comes from {from}.",
        "Switch on DKIM signing for {from} where its mail is sent (the mail server, or the provider), and publish the key that it gives you.";
    BodyChanged = "body_changed",
        "Something changed the body after {signer} had signed it (selector {selector}).",
        "Find what changes messages after they are signed: a footer or disclaimer, an antivirus or link-rewriting gateway, a mailing list, a forwarder. It must work before the signing, or the message must be signed anew for {from} behind it.";
    HeaderChanged = "header_changed",
        "The signature of {signer} (selector {selector}) does not fit: a signed header field was changed, or another key is published at {key}.",
        "Compare the key at {key} with the one that signs. If they are a pair, find what changes From, To, Subject or another signed field on the way: a gateway that marks subjects, a mailing list.";
    KeyMissing = "key_missing",
        "No key is published at {key}.",
        "Publish the public key as a TXT record at {key}, or sign with a selector whose key is published.";
    KeyRevoked = "key_revoked",
        "The key at {key} has been revoked (p= is empty).",
        "Sign with a selector whose key is in force.";
    KeyUnreadable = "key_unreadable",
        "The TXT record at {key} cannot be read as a key.",
        "Correct the TXT record at {key}: one record like v=DKIM1; k=rsa; p=…, each tag once, the base64 behind p= whole and without quotes.";
    KeyShort = "key_short",
        "The RSA key at {key} is too short to prove anything.",
        "Make a key of 2048 bits, publish it under a new selector, and sign with it (RFC 8301: 1024 bits are the least).";
    KeyOfAnotherKind = "key_of_another_kind",
        "The key at {key} is of another kind than the signature (a=).",
        "Publish at {key} the key that signs: k=rsa for rsa-sha256, k=ed25519 for ed25519-sha256.";
    KeyForbidsHash = "key_forbids_hash",
        "The key record at {key} does not allow the hash of the signature (h=).",
        "Remove h= from the record at {key}, or add sha256 to it and sign with that.";
    KeyForbidsMail = "key_forbids_mail",
        "The key record at {key} does not allow its use for mail (s=).",
        "Remove s= from the record at {key}, or set it to email.";
    KeyForbidsSubdomain = "key_forbids_subdomain",
        "The key record at {key} does not allow identities in subdomains (t=s).",
        "Leave i= out of the signature, or remove the flag s from t= of the record at {key}.";
    KeyTesting = "key_testing",
        "The key at {key} says that it is for testing only (t=y).",
        "When your tests are done, remove the flag y from t= of the record at {key}.";
    Sha1 = "sha1",
        "{signer} signs with rsa-sha1, which proves nothing any more.",
        "Sign with rsa-sha256 or ed25519-sha256 (RFC 8301).";
    Expired = "expired",
        "The signature of {signer} had expired (x=).",
        "Leave x= out, or let signatures live as long as mail may wait in queues (a week); the Received fields show where the message was held up.";
    NotYetValid = "not_yet_valid",
        "By the clock of this server the signature of {signer} was made in the future (t=): its clock or the signer's is wrong.",
        "Nothing to do at first: the sending server tries again. If it lasts, set the clock of the server that signs; if it hits many senders, that of this server.";
    ChainNotYetValid = "chain_not_yet_valid",
        "By the clock of this server the ARC chain was sealed in the future (t=): its clock or the sealer's is wrong.",
        "Nothing to do at first: the sending server tries again. If it lasts, set the clock of the server that seals; if it hits many senders, that of this server.";
    SignedInFuture = "signed_in_future",
        "The signature of {signer} was made in the future (t=).",
        "Set the clock of the server that signs.";
    ExpiresBeforeSigned = "expires_before_signed",
        "The signature of {signer} expires before it was made (x=, t=).",
        "Correct the software that signs: x= must be later than t=, or be left out.";
    BodyPartlySigned = "body_partly_signed",
        "The signature of {signer} does not cover exactly the whole body (l=).",
        "Sign without l=: whatever is appended would pass for signed.";
    FromNotSigned = "from_not_signed",
        "The signature of {signer} does not cover From.",
        "Add from to h= of the signature (RFC 6376 section 5.4).";
    IdentityOutside = "identity_outside",
        "The signature of {signer} names an identity outside its domain (i=).",
        "Leave i= out of the signature, or set it to an address at d= or below it.";
    NamesUnfit = "names_unfit",
        "The signature does not name one domain and one selector that everybody reads alike (d=, s=).",
        "Correct the software that signs: d= and s= must be host names, each there once.";
    VersionMissing = "version_missing",
        "The signature of {signer} lacks v=1.",
        "Correct the software that signs: v=1 must be there (RFC 6376 section 3.5).";
    TagsBroken = "tags_broken",
        "The tags of the signature of {signer} can be read in more than one way.",
        "Correct the software that signs: each tag once, in lower case, with a value of its kind (RFC 6376 section 3.5).";
    TooManyNames = "too_many_names",
        "The signature of {signer} names more header fields than are looked at (h=).",
        "Sign fewer header fields: those of RFC 6376 section 5.4.1 will do.";
    KeyMethodUnknown = "key_method_unknown",
        "The signature of {signer} names no known way to its key (q=).",
        "Leave q= out of the signature, or set it to dns/txt.";
    SignatureUnreadable = "signature_unreadable",
        "The DKIM-Signature field cannot be read.",
        "Correct the software that signs: the field must follow RFC 6376 section 3.5.";
    BeyondLimits = "beyond_limits",
        "The signature of {signer} is beyond the limits of this server.",
        "Send fewer signatures, with fewer header fields in h=.";
    Unaligned = "unaligned",
        "It is signed by {signer}, which does not speak for {from}.",
        "Sign with d={from}, or with another domain of the same organization. Whoever sends for {from} needs a key of its own that is published there.";
    UnalignedProvider = "unaligned_provider",
        "It is signed by {signer}, which is {provider}'s own domain and does not speak for {from}.",
        "Turn on custom DKIM for {from} at {provider} ({where}); until then {provider} signs with a domain of its own.";
    ForbiddenByDmarc = "forbidden_by_dmarc",
        "It is signed by {signer}, and the DMARC record at {record} allows nobody but {from} itself to speak for {from} (adkim=s).",
        "Sign with d={from}, or remove adkim=s from the record at {record} if other domains of the organization are to speak for {from}.";
    DmarcUnavailable = "dmarc_unavailable",
        "Only the DMARC record of {from} says whether other domains of its organization may speak for it (adkim=), and it could not be looked up for the time being.",
        "Nothing to do at first: the sending server tries again. If it lasts, check the name servers of {from}, or sign with d={from}.";
    KeyUnavailable = "key_unavailable",
        "The key at {key} could not be looked up for the time being.",
        "Nothing to do at first: the sending server tries again. If it lasts, check the name servers of {signer}.";
    ChainKeyUnavailable = "chain_key_unavailable",
        "A key of the ARC chain could not be looked up for the time being.",
        "Nothing to do at first: the sending server tries again. If it lasts, check the name servers of those who sealed the message.";
}

/// Providers that sign with their own domain until custom DKIM is set up: suffix of that domain,
/// name of the provider, place of the setting.
const PROVIDERS: &[(&str, &str, &str)] = &[
    ("onmicrosoft.com", "Microsoft 365", "Microsoft Defender portal, Email authentication, DKIM"),
    ("gappssmtp.com", "Google Workspace", "Admin console, Gmail, Authenticate email"),
    ("amazonses.com", "Amazon SES", "Identities, Easy DKIM"),
    ("sendgrid.net", "SendGrid", "Sender Authentication"),
    ("mailgun.org", "Mailgun", "Sending, Domains"),
    ("mandrillapp.com", "Mandrill", "Sending Domains"),
    ("mcsv.net", "Mailchimp", "Domains, Authenticate"),
    ("mtasv.net", "Postmark", "Sender Signatures, DKIM"),
    ("sparkpostmail.com", "SparkPost", "Sending Domains"),
    ("sendinblue.com", "Brevo", "Senders & Domains"),
];

/// Values that fill the placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Particulars<'p> {
    /// The domain of From.
    pub from: &'p str,
    /// `d=` of the signature concerned; empty if there is none.
    pub signer: &'p str,
    /// `s=` of that signature.
    pub selector: &'p str,
    /// Name of the DMARC record that makes alignment strict; empty if none does.
    pub record: &'p str,
}

impl Cause {
    /// Returns the cause for a signature whose domain does not speak for From.
    pub fn of_unaligned(signer: &str) -> Self {
        if provider(signer).is_some() { Self::UnalignedProvider } else { Self::Unaligned }
    }

    /// Explains the cause in one sentence.
    pub fn told(self, of: &Particulars<'_>) -> String {
        filled(self.template().0, of)
    }

    /// Returns the advice for the sender's administrator.
    pub fn advice(self, of: &Particulars<'_>) -> String {
        filled(self.template().1, of)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cause")]
pub struct NotACause(String);

impl FromStr for Cause {
    type Err = NotACause;

    fn from_str(text: &str) -> Result<Self, NotACause> {
        let known = Self::ALL.iter().find(|cause| cause.as_str() == text);
        known.copied().ok_or_else(|| NotACause(text.to_owned()))
    }
}

fn provider(signer: &str) -> Option<(&'static str, &'static str)> {
    let signer = signer.to_ascii_lowercase();
    let of =
        |own: &str| signer == own || signer.strip_suffix(own).is_some_and(|s| s.ends_with('.'));
    PROVIDERS.iter().find(|(own, _, _)| of(own)).map(|(_, name, place)| (*name, *place))
}

/// Fills the placeholders of `template`. Braces inside the values are copied, never filled.
fn filled(template: &str, of: &Particulars<'_>) -> String {
    let (provider, place) = provider(of.signer).unwrap_or(("the provider", "its documentation"));
    let mut text = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
        text.push_str(before);
        match name {
            "from" => text.push_str(of.from),
            "signer" => text.push_str(of.signer),
            "selector" => text.push_str(of.selector),
            "record" => text.push_str(of.record),
            "provider" => text.push_str(provider),
            "where" => text.push_str(place),
            // Writing to a String cannot fail.
            "key" => drop(write!(text, "{}._domainkey.{}", of.selector, of.signer)),
            _ => {}
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testkit::golden;

    const OF: Particulars<'_> = Particulars {
        from: "good.example",
        signer: "mail.other.example",
        selector: "s1",
        record: "_dmarc.good.example",
    };

    #[test]
    fn no_cause_is_without_words_and_advice() {
        let mut codes = BTreeSet::new();
        for cause in Cause::ALL {
            assert!(codes.insert(cause.as_str()), "{cause:?}");
            assert_eq!(cause.as_str().parse(), Ok(*cause));
            for text in [cause.told(&OF), cause.advice(&OF)] {
                assert!(text.len() > 20 && text.ends_with('.'), "{cause:?}: {text}");
                assert!(!text.contains(['{', '}']), "{cause:?}: {text}");
            }
        }
        assert!("x".parse::<Cause>().is_err());
    }

    /// Fills the placeholders with general words for the book. The result has no braces left.
    fn generally(template: &str) -> String {
        let places = [
            ("{from}", "FROM-DOMAIN"),
            ("{signer}", "SIGNER"),
            ("{selector}", "SELECTOR"),
            ("{key}", "SELECTOR._domainkey.SIGNER"),
            ("{record}", "_dmarc.FROM-DOMAIN"),
            ("{provider}", "the provider"),
            ("{where}", "see below"),
        ];
        places.iter().fold(template.to_owned(), |text, (place, name)| text.replace(place, name))
    }

    #[test]
    fn the_book_shows_every_cause_and_every_provider() {
        let row = |cause: &Cause| {
            let (told, advice) = cause.template();
            let (told, advice) = (generally(told), generally(advice));
            assert!(!told.contains('{') && !advice.contains('{'), "{cause:?}");
            format!("| `{}` | {told} | {advice} |", cause.as_str())
        };
        let rows: Vec<String> = Cause::ALL.iter().map(row).collect();
        let header = "| cause | what was found | tell the administrator |";
        golden::hold_table("docs/refused.md", header, &rows).unwrap();
        let row =
            |(own, name, place): &(&str, &str, &str)| format!("| {name} | `{own}` | {place} |");
        let rows: Vec<String> = PROVIDERS.iter().map(row).collect();
        let header = "| provider | signs with a domain below | turn on custom DKIM at |";
        golden::hold_table("docs/refused.md", header, &rows).unwrap();
    }

    #[test]
    fn words_name_what_they_speak_of() {
        for (cause, told, advice) in [
            (Cause::BodyChanged, "after mail.other.example had signed it (selector s1)", "footer"),
            (
                Cause::KeyMissing,
                "at s1._domainkey.mail.other.example",
                "TXT record at s1._domainkey.mail.other.example",
            ),
            (Cause::Unaligned, "by mail.other.example, which does not", "d=good.example"),
            (Cause::ForbiddenByDmarc, "at _dmarc.good.example allows nobody but", "adkim=s from"),
            (Cause::NotSigned, "from good.example", "for good.example"),
            (Cause::KeyShort, "too short", "2048"),
            (Cause::KeyTesting, "t=y", "flag y"),
        ] {
            assert!(cause.told(&OF).contains(told), "{}", cause.told(&OF));
            assert!(cause.advice(&OF).contains(advice), "{}", cause.advice(&OF));
        }
        // Braces that a stranger wrote are not filled.
        let of = Particulars { signer: "{from}{selector}", ..OF };
        assert!(Cause::Expired.told(&of).contains("of {from}{selector} had"));
    }

    #[test]
    fn providers_are_known_by_their_own_domains_and_no_others() {
        for (signer, name) in [
            ("goodexample.onmicrosoft.com", Some("Microsoft 365")),
            ("good-example.20230601.gappssmtp.com", Some("Google Workspace")),
            ("AMAZONSES.com", Some("Amazon SES")),
            ("sendgrid.net", Some("SendGrid")),
            ("notsendgrid.net", None),
            ("sendgrid.net.evil.example", None),
            ("", None),
        ] {
            assert_eq!(provider(signer).map(|found| found.0), name, "{signer}");
            let cause = Cause::of_unaligned(signer);
            assert_eq!(cause == Cause::UnalignedProvider, name.is_some());
            let of = Particulars { signer, ..OF };
            assert!(name.is_none_or(|name| cause.advice(&of).contains(name)));
        }
    }
}
