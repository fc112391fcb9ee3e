//! Plays `fixtures/smtp/*.smtp` against the machine; the README beside them explains the format.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::domain::id::IntakeId;
use crate::domain::ports::{IntakeReply, TlsFacts};
use crate::domain::reason::Reason;
use crate::smtp::fake::{Call, Fake, RECORD};

use super::body::BodyLimits;
use super::data::BareLineEnds;
use super::machine::{Machine, Settings, Step};
use super::notice::Notice;
use super::reply::{AGAIN, Reply};

/// How the bytes of a burst are cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Burst,
    Lines,
    Octets,
}

#[derive(Debug)]
pub(in crate::smtp) enum Entry {
    Set(String, String),
    Send(Vec<u8>),
    Expect(String),
    Asked(String),
    Secured,
    Closed,
}

/// All transcripts with their file names.
pub(in crate::smtp) fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/smtp");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "smtp"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The sessions of a file, each a list of entries with line numbers.
pub(in crate::smtp) fn sessions(text: &str) -> Vec<Vec<(usize, Entry)>> {
    let mut sessions = vec![vec![]];
    for (at, line) in text.lines().enumerate() {
        if line == "! session" {
            sessions.push(vec![]);
        } else if let Some(entry) = entry(line) {
            sessions.last_mut().unwrap().push((at + 1, entry));
        }
    }
    sessions.retain(|entries| !entries.is_empty());
    sessions
}

fn entry(line: &str) -> Option<Entry> {
    if line.trim().is_empty() || line.starts_with('#') {
        return None;
    }
    if line == "-- closed" {
        return Some(Entry::Closed);
    }
    if line == "-- secured" {
        return Some(Entry::Secured);
    }
    let (mark, text) = line.split_at(line.len().min(2));
    let text = text.strip_prefix(' ').unwrap_or(text);
    Some(match mark {
        "C:" => Entry::Send([unescaped(text), b"\r\n".to_vec()].concat()),
        "C>" => Entry::Send(unescaped(text)),
        "S:" => Entry::Expect(text.into()),
        "I:" => Entry::Asked(text.into()),
        "! " => {
            let (key, value) = text.split_once(": ").unwrap_or((text, ""));
            Entry::Set(key.into(), value.into())
        }
        _ => panic!("{line:?} is not a transcript line"),
    })
}

/// Replaces `\r`, `\n`, `\0`, `\\`, `\xNN`, and `\{TEXT*N}` by TEXT N times.
pub(in crate::smtp) fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let (kind, behind) = escape.split_at(1);
        rest = behind;
        match kind {
            "r" => out.push(b'\r'),
            "n" => out.push(b'\n'),
            "0" => out.push(0),
            "\\" => out.push(b'\\'),
            "x" => {
                let (digits, behind) = rest.split_at(2);
                out.push(u8::from_str_radix(digits, 16).unwrap());
                rest = behind;
            }
            "{" => {
                let (inside, behind) = rest.split_once('}').unwrap();
                let (what, times) = inside.rsplit_once('*').unwrap();
                out.extend_from_slice(what.repeat(times.parse().unwrap()).as_bytes());
                rest = behind;
            }
            _ => panic!("\\{kind} is not an escape"),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// One session with its own machine.
struct Walk {
    settings: Settings,
    machine: Option<Machine>,
    fake: Fake,
    memory: usize,
    /// Refuse MAIL for this reason.
    mail: Option<Reason>,
    /// A certificate is available.
    tls: bool,
    said: Vec<u8>,
    closed: bool,
    asked: usize,
}

impl Walk {
    fn new() -> Self {
        let body = BodyLimits {
            max_message: 1000,
            reserve_step: 100,
            kept_head: 100,
            max_drained: 10_000,
        };
        let settings = Settings {
            hostname: "mx.gatepost.example".into(),
            max_command_line: 512,
            max_recipients: 100,
            max_recipients_put_off: 1000,
            max_errors: 20,
            max_unknown_recipients: 20,
            max_transactions: 1000,
            max_idle_commands: 100,
            bare_line_ends: BareLineEnds::Refused,
            starttls: false,
            body,
        };
        Self {
            settings,
            machine: None,
            fake: Fake::default(),
            memory: 1 << 20,
            mail: None,
            tls: true,
            said: vec![],
            closed: false,
            asked: 0,
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let number = || value.parse::<usize>().unwrap();
        match key {
            "max_message" => self.settings.body.max_message = number(),
            "max_drained" => self.settings.body.max_drained = u64::try_from(number()).unwrap(),
            "max_recipients" => self.settings.max_recipients = number(),
            "max_errors" => self.settings.max_errors = u32::try_from(number()).unwrap(),
            "max_unknown_recipients" => {
                self.settings.max_unknown_recipients = u32::try_from(number()).unwrap();
            }
            "max_transactions" => self.settings.max_transactions = u32::try_from(number()).unwrap(),
            "max_recipients_put_off" => {
                self.settings.max_recipients_put_off = u32::try_from(number()).unwrap();
            }
            "max_idle_commands" => {
                self.settings.max_idle_commands = u32::try_from(number()).unwrap();
            }
            "bare_line_ends" => self.settings.bare_line_ends = BareLineEnds::Normalised,
            "starttls" => {
                self.settings.starttls = true;
                self.tls = value != "unavailable";
            }
            "memory" => self.memory = number(),
            "again" => self.fake.again.store(true, Ordering::Relaxed),
            "message" => {
                let (code, detail) = value.split_once(' ').unwrap_or((value, ""));
                let detail = (!detail.is_empty())
                    .then(|| String::from_utf8_lossy(&unescaped(detail)).into_owned());
                *self.fake.message.lock().unwrap() = code.parse().ok().map(|code| (code, detail));
            }
            "mail" => self.mail = value.parse().ok(),
            "refused" => *self.fake.refused.lock().unwrap() = Some(value.parse().unwrap()),
            "end" => {
                let notice = Notice::ALL.iter().find(|notice| notice.label() == value).unwrap();
                self.say(&Reply::notice(*notice));
            }
            _ => panic!("{key} is not a setting"),
        }
    }

    fn say(&mut self, reply: &Reply) {
        reply.write(&mut self.said);
        self.closed = reply.closes();
    }

    fn greet(&mut self, silent: bool) {
        if self.machine.is_none() && !self.closed {
            let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
            let machine = Machine::new(self.settings.clone(), client);
            self.say(&machine.greeting(silent));
            self.machine = Some(machine);
        }
    }

    fn send(&mut self, burst: &[u8], cut: Cut) {
        self.greet(false);
        let pieces: Vec<&[u8]> = match cut {
            Cut::Burst => vec![burst],
            Cut::Lines => burst.split_inclusive(|b| *b == b'\n').collect(),
            Cut::Octets => burst.chunks(1).collect(),
        };
        let mut left = burst.len();
        for piece in pieces {
            left -= piece.len();
            let mut input = piece;
            while !self.closed && self.step(&mut input, left) {}
        }
    }

    /// Carries out one step; false when the next piece is needed.
    fn step(&mut self, input: &mut &[u8], left: usize) -> bool {
        let machine = self.machine.as_mut().unwrap();
        let reply = match machine.advance(input) {
            Step::Read => return false,
            Step::Say(reply) => reply,
            Step::Silence => machine.silence(input.is_empty() && left == 0),
            Step::StartTls if self.tls => machine.start_tls(input.is_empty() && left == 0),
            Step::StartTls => Reply::notice(Notice::TlsUnavailable),
            Step::Reserve(octets) => {
                let granted = octets <= self.memory;
                self.memory -= if granted { octets } else { 0 };
                machine.reserved(granted.then_some(octets));
                return true;
            }
            Step::Open { .. } => {
                let refused = |reason| {
                    let record =
                        (reason == Reason::RateLimited).then(|| IntakeId(RECORD.parse().unwrap()));
                    Err(IntakeReply { reason: Some(reason), detail: None, record, again: false })
                };
                machine.opened(self.mail.map_or(Ok(()), refused))
            }
            Step::Recipient { path } => {
                let answer = self.fake.decide_recipient(machine.reverse_path(), &path);
                machine.recipient(answer)
            }
            Step::Message { envelope, raw } => {
                let answer = self.fake.decide_message(envelope, raw);
                machine.message(&answer)
            }
            Step::Refused { reason, head, size, .. } => {
                let answer = self.fake.decide_refused(Duration::ZERO, reason, head, size);
                machine.refused(&answer)
            }
        };
        self.say(&reply);
        true
    }

    fn secure(&mut self) {
        self.settle();
        let machine = self.machine.as_mut().unwrap();
        machine.secured(TlsFacts { version: "TLSv1.3".into(), cipher: "TLS_X".into() });
    }

    fn expect(&mut self, expected: &str) {
        self.greet(true);
        let end = self.said.iter().position(|b| *b == b'\n').map_or(self.said.len(), |at| at + 1);
        let line: Vec<u8> = self.said.drain(..end).collect();
        let expected = expected.replace("RECORD", RECORD);
        assert_eq!(String::from_utf8_lossy(&line), expected + "\r\n");
    }

    /// Checks a call: `message` and `refused` lines must name every such call in order, `recipient`
    /// the latest one.
    fn asked(&mut self, text: &str) {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let calls = self.fake.calls.lock().unwrap().clone();
        if kind == "recipient" {
            let Some(Call::Recipient { from, path }) = calls.last() else { panic!("{calls:?}") };
            return assert_eq!(format!("<{from}> <{path}>"), rest);
        }
        let call = calls.iter().filter(|call| !matches!(call, Call::Recipient { .. }));
        let call = call.clone().nth(self.asked);
        self.asked += 1;
        let (shown, octets) = match call {
            Some(Call::Message { envelope, raw }) => {
                let paths: Vec<_> =
                    envelope.recipients.iter().map(|one| one.as_sent.as_str()).collect();
                let to = paths.join(",");
                let mark = if envelope.smtputf8 { "smtputf8 " } else { "" };
                (format!("message {mark}<{}> <{to}> ", envelope.reverse_path), raw.clone())
            }
            Some(Call::Refused { reason, head, size, .. }) => {
                (format!("refused {reason} {size} "), head.clone())
            }
            _ => panic!("the Intake was not asked: {calls:?}"),
        };
        let shown = [shown.as_bytes(), &octets].concat();
        assert_eq!(shown.escape_ascii().to_string(), unescaped(text).escape_ascii().to_string());
    }

    fn settle(&self) {
        let left = String::from_utf8_lossy(&self.said);
        assert_eq!(left, "", "the server said more than the transcript");
    }

    fn finish(&self, closed: bool) {
        self.settle();
        assert_eq!(self.closed, closed, "closed");
        let calls = self.fake.calls.lock().unwrap();
        let questions = calls.iter().filter(|call| !matches!(call, Call::Recipient { .. }));
        assert_eq!(questions.count(), self.asked, "messages and refusals: {calls:?}");
    }
}

fn walk(entries: &[(usize, Entry)], cut: Cut, at: &mut usize) {
    let (mut walk, mut burst, mut closed) = (Walk::new(), Vec::new(), false);
    for (index, (line, entry)) in entries.iter().enumerate() {
        *at = *line;
        match entry {
            Entry::Send(octets) => {
                assert!(!closed, "the session is closed");
                burst.extend_from_slice(octets);
                if !matches!(entries.get(index + 1), Some((_, Entry::Send(_)))) {
                    walk.settle();
                    walk.send(&std::mem::take(&mut burst), cut);
                }
            }
            Entry::Set(key, value) => walk.set(key, value),
            Entry::Expect(text) => walk.expect(text),
            Entry::Asked(text) => walk.asked(text),
            Entry::Secured => walk.secure(),
            Entry::Closed => closed = true,
        }
    }
    walk.finish(closed);
}

#[test]
fn every_transcript_holds_however_it_is_cut() {
    let (mut failures, mut count) = (String::new(), 0);
    for (name, text) in files() {
        for entries in sessions(&text) {
            count += 1;
            for cut in [Cut::Burst, Cut::Lines, Cut::Octets] {
                let mut at = 0;
                let run = std::panic::AssertUnwindSafe(|| walk(&entries, cut, &mut at));
                if let Err(cause) = std::panic::catch_unwind(run) {
                    let cause = cause.downcast_ref::<String>().cloned().unwrap_or_default();
                    writeln!(failures, "{name}:{at} ({cut:?}): {cause}").unwrap();
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 40, "only {count} sessions were found");
}

#[test]
fn every_reply_is_in_some_transcript() {
    let said: HashSet<String> = files()
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.strip_prefix("S: "))
        .map(|line| line.replacen('-', " ", usize::from(line.as_bytes().get(3) == Some(&b'-'))))
        .collect();
    let missing: Vec<String> = Notice::ALL
        .iter()
        .map(|notice| (notice.code(), notice.enhanced(), notice.words()))
        .chain(Reason::ALL.iter().map(|reason| reason.reply()))
        .chain([
            (250, "2.0.0", "accepted ["),
            (250, "2.0.0", AGAIN),
            (220, "", "mx.gatepost.example ESMTP"),
        ])
        .map(|(code, enhanced, words)| format!("{code} {enhanced} {words}").replace("  ", " "))
        .filter(|start| !said.iter().any(|line| line.starts_with(start)))
        .collect();
    assert!(missing.is_empty(), "in no transcript: {missing:#?}");
}
