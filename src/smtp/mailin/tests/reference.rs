//! Plays every valid transcript of `fixtures/smtp` against both front ends: the same replies, and
//! the same questions to the Intake. `mailin-differences.toml` beside them explains the exceptions.
//!
//! A session is valid if its client makes no mistake: every burst ends with CRLF, no reply is about
//! syntax, framing or parameters, and nothing outside ends the session. Commands out of order are
//! allowed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::{Peer, serve};
use crate::domain::domain_name::DomainName;
use crate::rules::{Rules, SmtpRules};
use crate::shutdown::Shutdown;
use crate::smtp::Listener;
use crate::smtp::fake::{Call, Fake};
use crate::smtp::protocol::transcripts::{Entry, files, sessions, unescaped};

/// Codes of replies that only a faulty client gets.
const MISTAKES: &[&str] = &[
    "500",
    "501",
    "502",
    "504",
    "555",
    "553",
    "550 5.5.2",
    "554 5.5.0",
    "421 4.7.0 too many errors",
    "421 4.4.2",
];

#[derive(Deserialize)]
struct Differences {
    transcript: Vec<Difference>,
}

/// The first reply that differs; the rest of that session is not compared.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Difference {
    file: String,
    /// The session of the file, counted from 1.
    session: usize,
    ours: String,
    mailin: String,
    #[serde(default)]
    why: String,
}

struct Setting {
    rules: SmtpRules,
    max_message: usize,
    fake: Fake,
}

impl Setting {
    /// None if a setting does not exist on a server.
    fn of(entries: &[(usize, Entry)]) -> Option<Self> {
        let mut setting = Self {
            rules: Rules::defaults().unwrap().smtp,
            max_message: 1000,
            fake: Fake::default(),
        };
        let SmtpRules { limits, memory, .. } = &mut setting.rules;
        limits.max_command_line = 512;
        memory.kept_head_bytes = 100;
        memory.reserve_step_bytes = 100;
        for (_, entry) in entries {
            let Entry::Set(key, value) = entry else { continue };
            let number = value.parse::<usize>().ok();
            match key.as_str() {
                "max_message" => setting.max_message = number?,
                "max_recipients" => limits.max_recipients = number?,
                "max_errors" => limits.max_errors = number?.try_into().ok()?,
                "max_transactions" => limits.max_transactions = number?.try_into().ok()?,
                "refused" => *setting.fake.refused.lock().unwrap() = value.parse().ok(),
                "again" => *setting.fake.again.get_mut() = true,
                // Changes in the middle of a session. (`memory` is the rest that other messages
                // leave: no server announces a size above the whole budget.)
                "message" => {}
                _ => return None,
            }
        }
        Some(setting)
    }
}

fn is_valid(entries: &[(usize, Entry)]) -> bool {
    let mistaken = |line: &String| MISTAKES.iter().any(|mistake| line.starts_with(mistake));
    entries.iter().enumerate().all(|(at, (_, entry))| match entry {
        Entry::Expect(line) => !mistaken(line),
        Entry::Send(octets) => {
            let burst_goes_on = matches!(entries.get(at + 1), Some((_, Entry::Send(_))));
            burst_goes_on || octets.ends_with(b"\r\n")
        }
        // mailin could encrypt, but gets no certificate.
        Entry::Secured => false,
        Entry::Set(..) | Entry::Asked(_) | Entry::Closed => true,
    })
}

/// Plays the session as its client. Returns the first reply that differs from the transcript, with
/// the expected one.
async fn lead(
    address: SocketAddr,
    entries: &[(usize, Entry)],
    fake: &Fake,
) -> Option<(String, String)> {
    let (mut peer, mut burst) = (Peer::connect(address).await, Vec::new());
    for (at, (_, entry)) in entries.iter().enumerate() {
        match entry {
            Entry::Send(octets) => {
                burst.extend_from_slice(octets);
                if !matches!(entries.get(at + 1), Some((_, Entry::Send(_)))) {
                    peer.send(std::mem::take(&mut burst)).await;
                }
            }
            Entry::Expect(line) if line.as_bytes().get(3) == Some(&b'-') => {}
            Entry::Expect(line) => {
                let said = peer.reply().await.unwrap_or_else(|| "closed".into());
                if !alike(line, &said) {
                    return Some((line.clone(), said));
                }
            }
            Entry::Set(key, value) if key == "message" => {
                let (code, detail) = value.split_once(' ').unwrap_or((value, ""));
                let detail = String::from_utf8_lossy(&unescaped(detail)).into_owned();
                let detail = Some(detail).filter(|detail| !detail.is_empty());
                *fake.message.lock().unwrap() = code.parse().ok().map(|code| (code, detail));
            }
            Entry::Closed => peer.expect_end().await,
            Entry::Set(..) | Entry::Asked(_) | Entry::Secured => {}
        }
    }
    None
}

/// Whether the codes are equal, and the enhanced codes where both replies have one.
fn alike(ours: &str, said: &str) -> bool {
    let enhanced = |line: &str| {
        let word = line.split(' ').nth(1).unwrap_or_default().to_owned();
        Some(word).filter(|word| word.split('.').count() == 3)
    };
    let differ = enhanced(ours).zip(enhanced(said)).is_some_and(|(a, b)| a != b);
    ours.get(..3) == said.get(..3) && !differ
}

/// The questions to the Intake, in a form that both front ends share.
fn questions(fake: &Fake) -> Vec<String> {
    let calls = fake.calls.lock().unwrap();
    let shown = |call: &Call| match call {
        Call::Recipient { from, path } => format!("recipient {from} {path}"),
        Call::Refused { reason, head, size, .. } => format!("refused {reason} {head:?} {size}"),
        Call::OverRate { path } => format!("over rate {path}"),
        Call::Message { envelope, raw } => {
            let to: Vec<_> = envelope.recipients.iter().map(|one| &one.as_sent).collect();
            format!("message {} {to:?} {raw:?}", envelope.reverse_path)
        }
    };
    calls.iter().map(shown).collect()
}

async fn over_ours(setting: &Setting, entries: &[(usize, Entry)], fake: Fake) -> Vec<String> {
    let (intake, shutdown) = (Arc::new(fake), Shutdown::default());
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hostname = DomainName::parse("mx.gatepost.example").unwrap();
    let (asked, size) = (Arc::clone(&intake), setting.max_message);
    let listener =
        Listener::on(socket, &hostname, asked, &setting.rules, size, shutdown.clone(), None);
    let address = listener.local_addr().unwrap();
    shutdown.spawn(listener.serve());
    assert_eq!(lead(address, entries, &intake).await, None, "ours is not the transcript's");
    questions(&intake)
}

#[tokio::test]
async fn both_front_ends_lead_every_valid_transcript_alike() {
    let (mut found, mut led) = (Vec::new(), 0);
    for (file, text) in files() {
        for (index, entries) in sessions(&text).iter().enumerate() {
            let Some(setting) = Setting::of(entries).filter(|_| is_valid(entries)) else {
                continue;
            };
            led += 1;
            let session = index + 1;
            let refused = *setting.fake.refused.lock().unwrap();
            let fake = Fake { refused: refused.into(), ..Fake::default() };
            let ours = over_ours(&setting, entries, fake).await;
            let mailin = serve(&setting.rules, setting.max_message, setting.fake).await;
            match lead(mailin.address, entries, &mailin.intake).await {
                None => assert_eq!(questions(&mailin.intake), ours, "{file}, session {session}"),
                Some((ours, mailin)) => {
                    let (file, why) = (file.clone(), String::new());
                    found.push(Difference { file, session, ours, mailin, why });
                }
            }
        }
    }
    assert!(led >= 10, "only {led} sessions are valid");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/smtp/mailin-differences.toml");
    let listed: Differences = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut listed = listed.transcript;
    assert!(listed.iter().all(|one| !one.why.is_empty()), "a difference has no reason");
    listed.iter_mut().for_each(|one| one.why.clear());
    listed.sort();
    found.sort();
    assert_eq!(found, listed, "found, and listed in mailin-differences.toml");
}
