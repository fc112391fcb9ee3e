//! Mailgun: a route `forward("https://…/mime")`. Mailgun posts the whole message only to a URL
//! whose path ends with `mime`: in the field `body-mime` of a form (multipart, or urlencoded
//! without attachments), beside `sender` and `recipient` of the envelope.
//!
//! `timestamp`, `token` and `signature` are the proof: HMAC-SHA-256 over the first two with the
//! account's HTTP webhook signing key, in hexadecimal. It does not cover the message, so a token is
//! accepted for one content only ([`super::Token`]).
//!
//! Mailgun takes 200 as accepted, 406 as refused, and retries after anything else, for 8 hours
//! (documentation.mailgun.com: Receive, Forward, Store; Securing Webhooks).

use aws_lc_rs::hmac;

use super::form::Form;
use super::{
    Ages, Forged, OtherMode, Post, ProviderMail, Refusal, Token, hops, path, unix_seconds,
};
use crate::domain::clock::Timestamp;
use crate::domain::secret::Secret;

pub fn read(
    post: &Post<'_>,
    key: &Secret,
    ages: &Ages,
    now: Timestamp,
) -> Result<ProviderMail, Refusal> {
    let form = Form::read(post)?;
    let (timestamp, token) = (signed(&form, "timestamp")?, signed(&form, "token")?);
    let signature = signed(&form, "signature")?;
    let signature = unhex(signature).ok_or(Forged::Mailgun)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose());
    let said = [timestamp.as_bytes(), token.as_bytes()].concat();
    hmac::verify(&key, &said, &signature).map_err(|_| Forged::Mailgun)?;
    let at = unix_seconds(timestamp).ok_or(Forged::Mailgun)?;
    ages.check(at, ages.bare, now)?;
    let raw = form.one("body-mime")?.ok_or(OtherMode::Mailgun)?.clone();
    let (sender, recipient) = (form.text("sender")?, form.text("recipient")?);
    let recipients = recipient.split(',').map(path).filter(|to| !to.is_empty()).collect();
    let content = [sender.as_bytes(), b"\0", recipient.as_bytes(), b"\0", &raw].concat();
    let hop = hops::first_received(&raw);
    Ok(ProviderMail {
        reverse_path: path(sender),
        recipients,
        client: hop.as_ref().map(|(_, address)| *address),
        helo: hop.map(|(helo, _)| helo),
        proof: "signed by the key of the Mailgun account (timestamp and token)",
        token: Some(Token::of(token.as_bytes(), &content)),
        raw,
    })
}

fn signed<'f>(form: &'f Form, name: &'static str) -> Result<&'f str, Refusal> {
    form.text(name).map_err(|_| Forged::Mailgun.into())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    let octet = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high << 4 | low).ok(),
        _ => None,
    };
    digits.chunks(2).map(octet).collect()
}
