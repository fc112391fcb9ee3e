//! The end of a message, its dots and its line ends (RFC 5321 §4.1.1.4, §4.5.2, §2.3.8).

use super::line::Fault;

/// What becomes of a CR or an LF that stands alone in a message. Whatever it is, it ends no
/// message, and a dot behind it is an ordinary dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareLineEnds {
    /// A fault: the message is refused at its true end.
    #[default]
    Refused,
    /// CRLF stands in its place. It alters signed octets, where the signer did not do the same.
    Normalised,
}

impl BareLineEnds {
    /// The most octets that come out of a decoder for so many that go in. It may withhold one, and
    /// an octet may come out as two.
    pub const fn most(self, taken: usize) -> usize {
        let factor = match self {
            Self::Refused => 1,
            Self::Normalised => 2,
        };
        taken.saturating_mul(factor).saturating_add(1)
    }

    /// How many octets may go into a decoder so that no more than `room` come out.
    pub const fn input_for(self, room: usize) -> usize {
        match self {
            Self::Refused => room.saturating_sub(1),
            Self::Normalised => room.saturating_sub(1) / 2,
        }
    }
}

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

/// Undoes dot-stuffing and finds CRLF.CRLF. Everything else passes through unaltered, faults too
/// (and bare line ends normalised where that was chosen): what follows a fault is still the same
/// message, up to its true end.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    bare: BareLineEnds,
    fault: Option<Fault>,
    ended: bool,
}

impl Decoder {
    /// A decoder in front of the first octet.
    pub const fn new(bare: BareLineEnds) -> Self {
        Self { state: State::LineStart, bare, fault: None, ended: false }
    }

    /// The first thing on the wire that must not be there.
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether CRLF.CRLF has come.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Takes octets off the front of `input` and hands those of the message to `keep`, no more
    /// than [`BareLineEnds::most`]. Stops behind the end of the message.
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

    /// Hands on everything in front of the next octet that means something, in one piece.
    fn pass_run(&mut self, input: &mut &[u8], keep: &mut impl FnMut(&[u8])) {
        if self.state == State::LineStart && input.first() == Some(&b'.') {
            return;
        }
        let run = input.iter().position(|b| matches!(b, b'\r' | b'\n' | 0)).unwrap_or(input.len());
        let (plain, rest) = input.split_at(run);
        if !plain.is_empty() {
            keep(plain);
            self.state = State::Mid;
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

    /// An octet that neither ends a line nor begins one: a bare LF does not either.
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
