//! Postmark: an inbound stream with "Include raw email content in JSON payload" switched on.
//! Postmark posts JSON with the message as text in `RawEmail`, one request per recipient
//! (`OriginalRecipient`). Text cannot hold bytes that are not UTF-8, so mail with such bytes (8bit
//! in an old charset) no longer verifies; nearly all mail is encoded.
//!
//! Postmark signs nothing. Beside the secret URL it offers a user and a password in the URL (Basic,
//! RFC 7617).
//!
//! Postmark takes 200 as accepted, 403 as refused, and retries after anything else, 10 times in
//! 10.5 hours (postmarkapp.com: Inbound webhook, Understanding Inbound Webhook Retries).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::{Broken, Forged, OtherMode, Post, ProviderMail, Refusal, hops, path, sha256};
use crate::domain::secret::Secret;

/// User name and password in the URL that Postmark posts to.
#[derive(Clone, Debug)]
pub struct Login {
    pub username: String,
    pub password: Secret,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inbound {
    raw_email: Option<String>,
    original_recipient: Option<String>,
    from_full: Option<Mailbox>,
    #[serde(default)]
    headers: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Mailbox {
    email: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Field {
    name: String,
    value: String,
}

/// Reads the message that Postmark posted; checks `login` if one is set.
pub fn read(post: &Post<'_>, login: Option<&Login>) -> Result<ProviderMail, Refusal> {
    let proof = match login {
        Some(login) => {
            check(post, login)?;
            "the user name and password in the URL"
        }
        None => "only the secret URL: no user name and password are set",
    };
    let inbound: Inbound = serde_json::from_slice(post.body).map_err(|_| Broken::Postmark)?;
    let Some(raw) = inbound.raw_email else { return Err(OtherMode::Postmark.into()) };
    let field = |name: &str| {
        let found = inbound.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.as_str())
    };
    let (client, helo) = field("Received-SPF").map(hops::of_received_spf).unwrap_or_default();
    // A null reverse-path would mark the mail as automated: without a Return-Path, use From.
    let author = inbound.from_full.and_then(|mailbox| mailbox.email).unwrap_or_default();
    let reverse_path = field("Return-Path").map_or_else(|| path(&author), path);
    let recipient = inbound.original_recipient.as_deref().map(path).unwrap_or_default();
    let recipients = Some(recipient).filter(|to| !to.is_empty()).into_iter().collect();
    let raw = Bytes::from(raw);
    Ok(ProviderMail { raw, reverse_path, recipients, client, helo, proof, token: None })
}

fn check(post: &Post<'_>, login: &Login) -> Result<(), Refusal> {
    let sent = post.header("authorization").and_then(|value| value.split_once(' '));
    let sent = sent.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    let sent = sent.and_then(|(_, text)| STANDARD.decode(text.trim()).ok()).unwrap_or_default();
    let expected = [login.username.as_bytes(), b":", login.password.expose()].concat();
    // Digests have one length, so the comparison takes constant time.
    verify_slices_are_equal(&sha256(&sent), &sha256(&expected)).map_err(|_| Forged::Postmark.into())
}
