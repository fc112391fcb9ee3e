//! The end of a message and its dots (RFC 5321 §4.1.1.4, §4.5.2).

use memchr::memchr3;

use super::line::Fault;

/// Where in a line the next octet stands. The message starts at the start of a line, because the
/// CRLF of the DATA command counts: `.CRLF` right behind it ends an empty message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LineStart,
    Mid,
    /// Behind a CR, which has been handed on.
    Cr,
    /// Behind a dot at the start of a line, which is dropped whatever comes.
    Dot,
    /// Behind such a dot and a CR, which has not been handed on.
    DotCr,
}

/// Undoes dot-stuffing and finds CRLF.CRLF. Everything else passes through unaltered, faults too:
/// what follows a fault is still the same message, up to its true end.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    fault: Option<Fault>,
    ended: bool,
}

impl Decoder {
    /// A decoder in front of the first octet.
    pub const fn new() -> Self {
        Self { state: State::LineStart, fault: None, ended: false }
    }

    /// The first thing on the wire that must not be there.
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether CRLF.CRLF has come.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Takes octets off the front of `input` and hands those of the message to `keep`, at most one
    /// more than it takes. Stops behind the end of the message.
    pub fn decode(&mut self, input: &mut &[u8], mut keep: impl FnMut(&[u8])) {
        while !self.ended {
            if matches!(self.state, State::Mid | State::LineStart) {
                self.pass_run(input, &mut keep);
            }
            let Some((&octet, rest)) = input.split_first() else { return };
            *input = rest;
            self.take(octet, &mut keep);
        }
    }

    /// Hands on everything in front of the next octet that means something, in one piece: whole
    /// lines together, up to one that begins with a dot.
    fn pass_run(&mut self, input: &mut &[u8], keep: &mut impl FnMut(&[u8])) {
        let mut run = 0;
        loop {
            let rest = input.get(run..).unwrap_or_default();
            if self.state == State::LineStart && rest.first() == Some(&b'.') {
                break;
            }
            let plain = memchr3(b'\r', b'\n', 0, rest).unwrap_or(rest.len());
            run += plain;
            if rest.get(plain..).is_some_and(|behind| behind.starts_with(b"\r\n")) {
                run += 2;
                self.state = State::LineStart;
                continue;
            }
            if plain > 0 {
                self.state = State::Mid;
            }
            break;
        }
        let (plain, rest) = input.split_at_checked(run).unwrap_or((*input, b""));
        if !plain.is_empty() {
            keep(plain);
        }
        *input = rest;
    }

    fn take(&mut self, octet: u8, keep: &mut impl FnMut(&[u8])) {
        match (self.state, octet) {
            (State::LineStart, b'.') => self.state = State::Dot,
            (State::Dot, b'\r') => self.state = State::DotCr,
            (State::DotCr, b'\n') => self.ended = true,
            (State::DotCr, octet) => {
                keep(b"\r");
                self.state = State::Cr;
                self.take(octet, keep);
            }
            (State::Cr, b'\n') => {
                keep(b"\n");
                self.state = State::LineStart;
            }
            (State::Cr, octet) => {
                self.note(Fault::BareCr);
                self.plain(octet, keep);
            }
            (State::LineStart | State::Mid | State::Dot, octet) => self.plain(octet, keep),
        }
    }

    /// An octet that neither ends a line nor begins one: a bare LF does not either.
    fn plain(&mut self, octet: u8, keep: &mut impl FnMut(&[u8])) {
        match octet {
            b'\n' => self.note(Fault::BareLf),
            0 => self.note(Fault::Nul),
            _ => {}
        }
        keep(&[octet]);
        self.state = if octet == b'\r' { State::Cr } else { State::Mid };
    }

    fn note(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What came out: the message, whether it ended, its first fault, what was left behind it.
    type Outcome = (Vec<u8>, bool, Option<Fault>, Vec<u8>);

    /// The rule of RFC 5321 said once more, over the whole buffer: cut at CRLF, stop at the line
    /// that is a dot, drop a leading dot, then look for faults in what was there on the wire.
    fn reference(wire: &[u8]) -> Outcome {
        let (mut message, mut from) = (Vec::new(), 0);
        loop {
            let end = wire[from..].windows(2).position(|pair| pair == b"\r\n");
            let line = end.map_or(&wire[from..], |end| &wire[from..from + end]);
            if line == b"." && end.is_some() {
                let rest = wire[from + 3..].to_vec();
                return (message, true, first_fault(&wire[..from + 3]), rest);
            }
            let shown = line.strip_prefix(b".").unwrap_or(line);
            message.extend_from_slice(shown);
            let Some(end) = end else { return (message, false, first_fault(wire), vec![]) };
            message.extend_from_slice(b"\r\n");
            from += end + 2;
        }
    }

    fn first_fault(wire: &[u8]) -> Option<Fault> {
        (0..wire.len()).find_map(|at| match wire[at] {
            0 => Some(Fault::Nul),
            b'\n' if at == 0 || wire[at - 1] != b'\r' => Some(Fault::BareLf),
            b'\r' if wire.get(at + 1).is_some_and(|next| *next != b'\n') => Some(Fault::BareCr),
            _ => None,
        })
    }

    fn decode(pieces: &[&[u8]]) -> Outcome {
        let (mut decoder, mut message, mut left) = (Decoder::new(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut input = *piece;
            decoder.decode(&mut input, |part| message.extend_from_slice(part));
            left.extend_from_slice(input);
        }
        (message, decoder.ended(), decoder.fault(), left)
    }

    #[test]
    fn empty_messages_and_dots() {
        assert_eq!(decode(&[b".\r\nQUIT"]), (vec![], true, None, b"QUIT".to_vec()));
        let (message, ended, fault, _) = decode(&[b"..a\r\n.b\r\n...\r\n.\r\n"]);
        assert_eq!((&message[..], ended, fault), (&b".a\r\nb\r\n..\r\n"[..], true, None));
    }

    #[test]
    fn a_cr_behind_a_dot_is_given_back() {
        let (message, ended, fault, _) = decode(&[b".\r", b"\r\nx"]);
        assert_eq!((&message[..], ended, fault), (&b"\r\r\nx"[..], false, Some(Fault::BareCr)));
    }

    fn wire() -> impl Strategy<Value = Vec<u8>> {
        let octet = prop_oneof![
            4 => Just(b'\r'), 4 => Just(b'\n'), 4 => Just(b'.'), 1 => Just(0), 2 => Just(b'x'),
        ];
        let piece = prop_oneof![
            octet.prop_map(|octet| vec![octet]),
            Just(b"\r\n".to_vec()),
            Just(b"\r\n.\r\n".to_vec()),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]
        #[test]
        fn cuts_change_nothing_and_the_reference_agrees(
            wire in wire(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut expected = reference(&wire);
            if !expected.1 {
                // The reference sees a CR, or dot and CR, at the very end; the decoder waits.
                let waiting = wire.strip_suffix(b"\r").is_some_and(|rest| {
                    rest == b"." || rest.ends_with(b"\r\n.")
                });
                if waiting { expected.0.pop(); }
            }
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
            at.extend([0, wire.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &wire[w[0]..w[1]]).collect();
            prop_assert_eq!(&decode(&pieces), &expected);
            let octets: Vec<&[u8]> = wire.chunks(1).collect();
            prop_assert_eq!(&decode(&octets), &expected);
        }
    }
}
