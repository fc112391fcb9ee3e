//! A client of a simulation, which keeps to the protocol but for its pauses and cuts.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::desk::{Desk, Sent, Verdict};
use crate::testkit::dice::Dice;

/// Longer than any deadline of the server.
const PATIENCE: Duration = Duration::from_hours(1);

pub(super) struct Client {
    number: u64,
    dice: Dice,
    desk: Arc<Desk>,
    /// Sends commands without waiting for their replies (RFC 2920).
    pipelines: bool,
}

/// A connection as its client has it.
struct Line {
    output: WriteHalf<DuplexStream>,
    replies: UnboundedReceiver<u16>,
    /// The server has said 421: it closes.
    is_told_off: bool,
}

impl Client {
    pub(super) fn new(number: u64, seed: u64, desk: Arc<Desk>) -> Self {
        let mut dice = Dice(seed);
        let pipelines = dice.once_in(2);
        Self { number, dice, desk, pipelines }
    }

    /// Runs until it has sent its messages, goes without a word, or is told to.
    pub(super) async fn run(mut self, stream: DuplexStream) {
        let (input, output) = split(stream);
        let (told, replies) = unbounded_channel();
        // Beside the writing, so that neither side waits for the other.
        let reading = tokio::spawn(read(input, told));
        let _gone = self.talk(Line { output, replies, is_told_off: false }).await;
        reading.abort();
    }

    /// None once the connection is of no more use.
    async fn talk(&mut self, mut line: Line) -> Option<()> {
        (self.reply(&mut line).await? == 220).then_some(())?;
        self.say(&mut line, "EHLO client.example\r\n").await?;
        (self.reply(&mut line).await? == 250).then_some(())?;
        for number in 0..self.dice.below(5) {
            self.transaction(&mut line, number).await?;
        }
        if self.dice.once_in(2) {
            self.say(&mut line, "QUIT\r\n").await?;
            self.reply(&mut line).await?;
        }
        Some(())
    }

    async fn transaction(&mut self, line: &mut Line, number: u64) -> Option<()> {
        let name = format!("message-{}-{number}", self.number);
        let raw = self.body(&name);
        let paths: Vec<_> =
            (0..1 + self.dice.below(3)).map(|n| format!("open{n}@gatepost.example")).collect();
        let mut commands = vec!["MAIL FROM:<boss@good.example>\r\n".to_owned()];
        commands.extend(paths.iter().map(|path| format!("RCPT TO:<{path}>\r\n")));
        commands.push("DATA\r\n".to_owned());
        let mut codes = Vec::new();
        if self.pipelines {
            self.say(line, &commands.concat()).await?;
        }
        for command in &commands {
            if !self.pipelines {
                self.say(line, command).await?;
            }
            codes.push(self.reply(line).await?);
        }
        let accepted = paths.into_iter().zip(&codes[1..]).filter(|(_, code)| **code == 250);
        let recipients: Vec<_> = accepted.map(|(path, _)| path).collect();
        if *codes.last()? != 354 {
            self.say(line, "RSET\r\n").await?;
            return (self.reply(line).await? == 250).then_some(());
        }
        if recipients.is_empty() || codes[0] != 250 {
            self.desk.breaks("a message is asked for without a sender or a recipient");
        }
        self.content(line, &name, raw, recipients).await
    }

    async fn content(
        &mut self,
        line: &mut Line,
        name: &str,
        raw: Vec<u8>,
        recipients: Vec<String>,
    ) -> Option<()> {
        let note = |is_whole, verdict| {
            let (raw, recipients) = (raw.clone(), recipients.clone());
            self.desk.notes(name, Sent { raw, recipients, is_whole, verdict });
        };
        note(false, Verdict::None);
        let octets = [stuffed(&raw), b".\r\n".to_vec()].concat();
        let whole = octets.len();
        let end = if self.dice.once_in(10) { self.dice.roll(whole) } else { whole };
        let mut at = 0;
        while at < end {
            let longest = *self.dice.pick(&[7, 500, 5000, 100_000]);
            let next = end.min(at + 1 + self.dice.roll(longest));
            // Before they are sent: the server may be faster than this client.
            if next == whole {
                note(true, Verdict::None);
            }
            line.output.write_all(&octets[at..next]).await.ok()?;
            at = next;
            let most = match self.dice.below(200) {
                0 => Duration::from_secs(400),
                1..4 => Duration::from_secs(30),
                _ => Duration::from_millis(5),
            };
            sleep(self.dice.within(most)).await;
        }
        if end < whole {
            return None;
        }
        if self.dice.once_in(20) {
            // Gone while the store decides.
            return None;
        }
        let code = self.reply(line).await?;
        let verdict = match code {
            250 => Verdict::Accepted,
            500.. => Verdict::Refused,
            _ => Verdict::Deferred,
        };
        note(true, verdict);
        (code != 421).then_some(())
    }

    /// Sends a command, or breaks off within it.
    async fn say(&mut self, line: &mut Line, text: &str) -> Option<()> {
        let is_cut = self.dice.once_in(100);
        let end = if is_cut { self.dice.roll(text.len()) } else { text.len() };
        // The server may have said its last word already: the replies tell.
        let _is_sent = line.output.write_all(&text.as_bytes()[..end]).await;
        (!is_cut).then_some(())
    }

    /// The code of the next reply; None behind the server's last word.
    async fn reply(&self, line: &mut Line) -> Option<u16> {
        match timeout(PATIENCE, line.replies.recv()).await {
            Ok(Some(code)) => {
                self.desk.trace((self.number, code));
                line.is_told_off |= code == 421;
                Some(code)
            }
            Ok(None) => {
                if !line.is_told_off {
                    self.desk.closes();
                }
                None
            }
            Err(_) => {
                self.desk.breaks("a reply never comes");
                None
            }
        }
    }

    /// Lines of a message that begins with its name; some begin with dots.
    fn body(&mut self, name: &str) -> Vec<u8> {
        let most = match self.dice.below(40) {
            0 => 130_000,
            1..6 => 40_000,
            _ => 1500,
        };
        let size = self.dice.roll(most);
        let mut raw = format!("{name}\r\n").into_bytes();
        while raw.len() < size {
            let begin = *self.dice.pick::<&[u8]>(&[b"", b"", b".", b"..", b"\xff."]);
            raw.extend_from_slice(begin);
            raw.extend(std::iter::repeat_n(b'x', self.dice.roll(200)));
            raw.extend_from_slice(b"\r\n");
        }
        raw
    }
}

/// Sends the code of each reply on.
async fn read(input: ReadHalf<DuplexStream>, told: UnboundedSender<u16>) {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let code = line.get(..3).and_then(|code| code.parse().ok());
        if line.as_bytes().get(3) != Some(&b'-')
            && let Some(code) = code
            && told.send(code).is_err()
        {
            return;
        }
    }
}

/// Doubles the dots at the beginning of lines (RFC 5321 §4.5.2).
fn stuffed(raw: &[u8]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(raw.len());
    for line in raw.split_inclusive(|octet| *octet == b'\n') {
        if line.first() == Some(&b'.') {
            octets.push(b'.');
        }
        octets.extend_from_slice(line);
    }
    octets
}
