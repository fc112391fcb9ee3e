//! Plays a client's input against the machine, with an Intake that decides by first letters.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;

use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::domain::ports::{Envelope, IntakeReply, Recipient, TlsFacts};
use crate::domain::reason::Reason;
use crate::smtp::protocol::body::BodyLimits;
use crate::smtp::protocol::data::BareLineEnds;
use crate::smtp::protocol::machine::{Machine, Settings, Step};
use crate::smtp::protocol::reply::Reply;

/// Limits so small that a test reaches each.
pub fn small(bare_line_ends: BareLineEnds) -> Settings {
    Settings {
        hostname: "mx.gatepost.example".into(),
        max_command_line: 64,
        max_recipients: 2,
        max_recipients_put_off: 2,
        max_errors: 4,
        max_unknown_recipients: 3,
        max_transactions: 5,
        max_idle_commands: 6,
        bare_line_ends,
        starttls: true,
        body: BodyLimits { max_message: 40, reserve_step: 8, kept_head: 10, max_drained: 50 },
    }
}

/// A question to the Intake.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Recipient(String),
    Message(Envelope, Bytes),
    Refused(Envelope, Reason, Bytes, u64),
}

/// The result of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Played {
    /// All replies, in wire form.
    pub said: Vec<u8>,
    pub asked: Vec<Asked>,
    /// The most memory ever granted to a message, in bytes.
    pub most_memory: usize,
}

/// Plays bursts; the client waits after each. `cuts` are the sizes of the pieces in turn; if empty,
/// each burst comes in one piece.
pub fn play(settings: &Settings, bursts: &[&[u8]], cuts: &[usize]) -> Played {
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let mut player = Player {
        machine: Machine::new(settings.clone(), address),
        played: Played { said: vec![], asked: vec![], most_memory: 0 },
        memory: 0,
        closed: false,
    };
    player.say(&player.machine.greeting(true));
    for burst in bursts {
        let mut rest = *burst;
        for at in 0.. {
            let size = cuts.get(at % cuts.len().max(1)).copied().unwrap_or(usize::MAX);
            let (mut piece, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            while !player.closed && player.step(&mut piece, rest.is_empty()) {}
            if rest.is_empty() || player.closed {
                break;
            }
        }
    }
    player.played
}

struct Player {
    machine: Machine,
    played: Played,
    memory: usize,
    closed: bool,
}

impl Player {
    /// Carries out one step; false when the next piece is needed. `last`: the piece ends its burst.
    fn step(&mut self, input: &mut &[u8], last: bool) -> bool {
        let step = self.machine.advance(input);
        let silent = last && input.is_empty();
        let reply = match step {
            Step::Read => {
                assert!(input.is_empty(), "it wants more, and has left some");
                return false;
            }
            Step::Say(reply) => reply,
            Step::Silence => {
                self.memory = 0;
                self.machine.silence(silent)
            }
            Step::StartTls => {
                let reply = self.machine.start_tls(silent);
                if !reply.closes() {
                    let (version, cipher) = ("TLSv1.3".into(), "TLS_X".into());
                    self.machine.secured(TlsFacts { version, cipher });
                }
                reply
            }
            Step::Reserve(octets) => {
                self.memory += octets;
                self.played.most_memory = self.played.most_memory.max(self.memory);
                self.machine.reserved(Some(octets));
                return true;
            }
            Step::Open { size: 9 } => self.machine.opened(Err(answer(Some(Reason::RateLimited)))),
            Step::Open { .. } => self.machine.opened(Ok(())),
            Step::Recipient { path } => {
                let answer = recipient(&path);
                self.played.asked.push(Asked::Recipient(path));
                self.machine.recipient(answer)
            }
            Step::Message { envelope, raw } => {
                let answer = answer(raw.first().and_then(|first| refusal(*first)));
                self.played.asked.push(Asked::Message(envelope, raw));
                self.machine.message(&answer)
            }
            Step::Refused { envelope, reason, head, size, .. } => {
                self.played.asked.push(Asked::Refused(envelope, reason, head, size));
                self.machine.refused(&answer(Some(reason)))
            }
        };
        self.say(&reply);
        true
    }

    fn say(&mut self, reply: &Reply) {
        reply.write(&mut self.played.said);
        self.closed = reply.closes();
    }
}

fn refusal(letter: u8) -> Option<Reason> {
    match letter {
        b't' => Some(Reason::StoreUnavailable),
        b'r' => Some(Reason::DkimMissing),
        _ => None,
    }
}

const fn answer(reason: Option<Reason>) -> IntakeReply {
    IntakeReply { reason, detail: None, record: None, again: false }
}

/// First letter: `t…` is deferred, `r…` is refused, `l…` does not share, others share. The second
/// letter is the Agent.
fn recipient(path: &str) -> Result<Recipient, IntakeReply> {
    let (kind, agent) = match path.as_bytes() {
        [kind, agent, ..] => (*kind, i64::from(*agent)),
        _ => (b'r', 1),
    };
    if let Some(reason) = refusal(kind) {
        return Err(answer(Some(reason)));
    }
    let Ok(address) = Address::parse("agent@gatepost.example") else {
        return Err(answer(Some(Reason::UnknownRecipient)));
    };
    let agent = AccountId::new(agent.max(1));
    let shares = AccountId::new(1).filter(|_| kind != b'l');
    Ok(Recipient { agent, address, tag: None, as_sent: path.to_owned(), shares })
}

/// Checks rules for every session: at most one message per end of a message, well-formed replies,
/// memory within its limit.
pub fn check(settings: &Settings, bursts: &[&[u8]], played: &Played) {
    let wire = bursts.concat();
    let ends = wire.windows(5).filter(|octets| *octets == b"\r\n.\r\n").count();
    let messages = played.asked.iter().filter(|asked| matches!(asked, Asked::Message(..))).count();
    assert!(messages <= ends, "{messages} messages of {ends}");
    let least = settings.bare_line_ends.most(1);
    let most = settings.body.max_message + 2 * least;
    assert!(played.most_memory <= most.max(settings.body.kept_head), "{}", played.most_memory);
    for asked in &played.asked {
        if let Asked::Message(envelope, raw) = asked {
            assert!(raw.len() <= settings.body.max_message && !raw.contains(&0));
            assert!((1..=settings.max_recipients).contains(&envelope.recipients.len()));
            let lone = |at: &usize| match raw[*at] {
                b'\r' => raw.get(at + 1) != Some(&b'\n'),
                b'\n' => *at == 0 || raw[at - 1] != b'\r',
                _ => false,
            };
            assert!(!(0..raw.len()).any(|at| lone(&at)), "{}", raw.escape_ascii());
        }
    }
    let (mut code, mut replies) = (None, 0);
    let mut rest = played.said.as_slice();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let (line, behind) = rest.split_at(end);
        rest = &behind[2..];
        assert!(line.len() <= 510 && line.iter().all(|octet| matches!(octet, b' '..=b'~')));
        let (digits, mark) = (&line[..3], line[3]);
        assert!(digits.iter().all(u8::is_ascii_digit) && matches!(digits[0], b'2'..=b'5'));
        assert!(code.is_none_or(|code| code == digits), "codes differ within a reply");
        code = (mark == b'-').then_some(digits);
        assert!(code.is_some() || mark == b' ');
        replies += usize::from(mark == b' ');
    }
    // No client keeps a session open by commands alone.
    assert!(replies <= 100, "{replies} replies");
    assert!(rest.is_empty() && code.is_none(), "a reply without its end");
}
