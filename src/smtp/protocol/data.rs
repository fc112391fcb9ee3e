//! End, dots and line ends of a message (RFC 5321 §4.1.1.4, §4.5.2, §2.3.8).

use memchr::memchr3;

use super::line::Fault;

/// Treatment of a CR or LF that stands alone in a message. Either way it ends no message, and a dot
/// after it is an ordinary dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareLineEnds {
    /// A fault: the message is refused at its true end.
    #[default]
    Refused,
    /// Replaced by CRLF. This breaks a signature, unless the signer replaced it too.
    Normalised,
}

impl BareLineEnds {
    /// The most bytes that a decoder returns for `taken` bytes of input. It may hold one back, and
    /// one byte may become two.
    pub const fn most(self, taken: usize) -> usize {
        let factor = match self {
            Self::Refused => 1,
            Self::Normalised => 2,
        };
        taken.saturating_mul(factor).saturating_add(1)
    }

    /// How many bytes may go into a decoder so that at most `room` come out.
    pub const fn input_for(self, room: usize) -> usize {
        match self {
            Self::Refused => room.saturating_sub(1),
            Self::Normalised => room.saturating_sub(1) / 2,
        }
    }
}

/// Position of the next byte in its line. A message begins at the start of a line, because the CRLF
/// of the DATA command counts: an immediate `.CRLF` ends an empty message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LineStart,
    Mid,
    /// After a CR that was passed on.
    Cr,
    /// After a dot at the start of a line. The dot is always dropped.
    Dot,
    /// After such a dot and a CR that is held back.
    DotCr,
}

/// Removes dot-stuffing and finds CRLF.CRLF. Everything else passes unchanged, faults included
/// (except bare line ends that are normalised): the bytes after a fault belong to the same message,
/// up to its true end.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    bare: BareLineEnds,
    fault: Option<Fault>,
    ended: bool,
}

impl Decoder {
    /// A decoder before the first byte.
    pub const fn new(bare: BareLineEnds) -> Self {
        Self { state: State::LineStart, bare, fault: None, ended: false }
    }

    /// The first fault of the message.
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether CRLF.CRLF has come.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Takes bytes off the front of `input` and passes those of the message to `keep`, at most
    /// [`BareLineEnds::most`]. Stops after the end of the message.
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

    /// Passes on everything before the next byte with a meaning, in one piece: whole lines
    /// together, up to one that begins with a dot.
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
                match self.bare {
                    BareLineEnds::Refused => self.note(Fault::BareCr),
                    BareLineEnds::Normalised => keep(b"\n"),
                }
                self.plain(octet, keep);
            }
            (State::LineStart | State::Mid | State::Dot, octet) => self.plain(octet, keep),
        }
    }

    /// Passes on a byte that neither ends nor begins a line. A bare LF does neither.
    fn plain(&mut self, octet: u8, keep: &mut impl FnMut(&[u8])) {
        match (octet, self.bare) {
            (b'\n', BareLineEnds::Refused) => self.note(Fault::BareLf),
            (b'\n', BareLineEnds::Normalised) => keep(b"\r"),
            (0, _) => self.note(Fault::Nul),
            _ => {}
        }
        keep(&[octet]);
        self.state = if octet == b'\r' { State::Cr } else { State::Mid };
    }

    fn note(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::smtp::protocol::tests::reference::{Outcome, reference};

    use super::*;

    const REFUSED: BareLineEnds = BareLineEnds::Refused;

    fn decode(pieces: &[&[u8]], bare: BareLineEnds) -> Outcome {
        let (mut decoder, mut message, mut left) = (Decoder::new(bare), Vec::new(), Vec::new());
        for piece in pieces {
            let (mut input, before) = (*piece, message.len());
            decoder.decode(&mut input, |part| message.extend_from_slice(part));
            assert!(message.len() - before <= bare.most(piece.len() - input.len()));
            left.extend_from_slice(input);
        }
        (message, decoder.ended(), decoder.fault(), left)
    }

    #[test]
    fn empty_messages_and_dots() {
        assert_eq!(decode(&[b".\r\nQUIT"], REFUSED), (vec![], true, None, b"QUIT".to_vec()));
        let (message, ended, fault, _) = decode(&[b"..a\r\n.b\r\n...\r\n.\r\n"], REFUSED);
        assert_eq!((&message[..], ended, fault), (&b".a\r\nb\r\n..\r\n"[..], true, None));
    }

    #[test]
    fn a_cr_behind_a_dot_is_given_back() {
        let (message, ended, fault, _) = decode(&[b".\r", b"\r\nx"], REFUSED);
        assert_eq!((&message[..], ended, fault), (&b"\r\r\nx"[..], false, Some(Fault::BareCr)));
    }

    #[test]
    fn bare_line_ends_are_normalised_and_neither_end_a_message_nor_begin_a_line() {
        for (wire, expected) in [
            (&b"a\nb\rc\r\n.\r\n"[..], &b"a\r\nb\r\nc\r\n"[..]),
            (b"a\n.\r\n.\r\n", b"a\r\n.\r\n"),
            (b"a\n..\n\r\n.\r\n", b"a\r\n..\r\n\r\n"),
            (b"a\r.\r\r\n.\r\n", b"a\r\n.\r\n\r\n"),
            (b".\r\r\n.\n\r\n.\r\n", b"\r\n\r\n\r\n\r\n"),
        ] {
            let decoded = decode(&[wire], BareLineEnds::Normalised);
            assert_eq!(decoded, (expected.to_vec(), true, None, vec![]), "{}", wire.escape_ascii());
        }
        let (_, ended, fault, _) = decode(&[b"a\n\0\r\n.\r\n"], BareLineEnds::Normalised);
        assert_eq!((ended, fault), (true, Some(Fault::Nul)));
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
            bare in prop::sample::select(vec![REFUSED, BareLineEnds::Normalised]),
        ) {
            let expected = reference(&wire, bare);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
            at.extend([0, wire.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &wire[w[0]..w[1]]).collect();
            prop_assert_eq!(&decode(&pieces, bare), &expected);
            let octets: Vec<&[u8]> = wire.chunks(1).collect();
            prop_assert_eq!(&decode(&octets, bare), &expected);
        }
    }
}
