//! A message while it comes in: kept within its limits, and read to its end beyond them.

use bytes::Bytes;

use super::data::{BareLineEnds, Decoder};
use super::line::Fault;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// The largest message.
    pub max_message: usize,
    /// Smallest step in which memory is reserved.
    pub reserve_step: usize,
    /// The part kept of a message that is refused.
    pub kept_head: usize,
    /// Read and dropped beyond `max_message`; one byte more ends the connection.
    pub max_drained: u64,
}

/// The next need of the body.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Read,
    /// This much more memory, from the caller's budget.
    Reserve(usize),
    /// Nothing more: the message ended like this.
    Ended(Ending),
}

/// How a message ended. `size` counts its bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Whole(Bytes),
    Faulty {
        fault: Fault,
        head: Bytes,
        size: u64,
    },
    /// With `cut`, the body was given up before the end of the message.
    TooLarge {
        head: Bytes,
        size: u64,
        cut: bool,
    },
    NoMemory,
}

#[derive(Debug)]
pub struct Body {
    decoder: Decoder,
    bare: BareLineEnds,
    limits: BodyLimits,
    kept: Vec<u8>,
    /// Bytes that `kept` may grow to.
    reserved: usize,
    /// Bytes of the message so far, kept or not.
    size: u64,
    state: Keeping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    All,
    /// The message will be refused: only its head is kept, for the record.
    Head,
    /// No memory was left for the message.
    Nothing,
}

impl Body {
    /// A body before its first byte.
    pub const fn new(limits: BodyLimits, bare: BareLineEnds) -> Self {
        Self {
            decoder: Decoder::new(bare),
            bare,
            limits,
            kept: Vec::new(),
            reserved: 0,
            size: 0,
            state: Keeping::All,
        }
    }

    /// Answers [`Progress::Reserve`]. With None the message is still read to its end, so that the
    /// client gets the reason.
    pub fn reserved(&mut self, granted: Option<usize>) {
        match granted {
            Some(octets) => {
                self.reserved = self.reserved.saturating_add(octets);
                self.kept.reserve_exact(self.reserved.saturating_sub(self.kept.len()));
            }
            None => {
                self.state = Keeping::Nothing;
                self.kept = Vec::new();
                self.reserved = 0;
            }
        }
    }

    /// Reserved bytes that the body still needs.
    pub const fn reserved_octets(&self) -> usize {
        self.reserved
    }

    /// Whether the whole message is kept: none of it is refused, and memory was granted.
    pub const fn keeps_all(&self) -> bool {
        matches!(self.state, Keeping::All)
    }

    /// Takes bytes off the front of `input`.
    pub fn advance(&mut self, input: &mut &[u8]) -> Progress {
        loop {
            if self.decoder.ended() {
                return Progress::Ended(self.end(false));
            }
            let drained = self.size.saturating_sub(octets(self.limits.max_message));
            if drained > self.limits.max_drained {
                return Progress::Ended(self.end(true));
            }
            if input.is_empty() {
                return Progress::Read;
            }
            let room = self.reserved.saturating_sub(self.kept.len());
            let fits = self.bare.input_for(room);
            if self.state == Keeping::All && fits == 0 {
                return Progress::Reserve(self.next_step());
            }
            let (held, next_limit) = match self.state {
                Keeping::All => (fits, octets(self.limits.max_message)),
                Keeping::Head | Keeping::Nothing => {
                    let most = octets(self.limits.max_message);
                    (usize::MAX, most.saturating_add(self.limits.max_drained))
                }
            };
            // Limits are passed byte by byte, so the result does not depend on how the message was
            // cut into reads.
            let left = usize::try_from(next_limit.saturating_sub(self.size)).unwrap_or(usize::MAX);
            let take = self.bare.input_for(left).max(1).min(held).min(input.len());
            let (piece, behind) = input.split_at_checked(take).unwrap_or((*input, b""));
            let mut rest = piece;
            self.decode(&mut rest);
            let used = piece.len() - rest.len();
            *input = input.get(used..).unwrap_or(behind);
        }
    }

    fn decode(&mut self, piece: &mut &[u8]) {
        let Self { decoder, kept, size, state, limits, reserved, .. } = self;
        let state_now = *state;
        decoder.decode(piece, |part| {
            *size = size.saturating_add(octets(part.len()));
            let room = match state_now {
                Keeping::All => part.len(),
                Keeping::Head => limits.kept_head.saturating_sub(kept.len()),
                Keeping::Nothing => 0,
            };
            kept.extend_from_slice(part.get(..room).unwrap_or(part));
        });
        let refused = decoder.fault().is_some() || *size > octets(limits.max_message);
        if *state == Keeping::All && refused {
            *state = Keeping::Head;
            kept.truncate(limits.kept_head);
            kept.shrink_to(limits.kept_head);
            *reserved = limits.kept_head.min(*reserved);
        }
    }

    /// Grows by half each time, so a large message is copied only a few times, but never beyond the
    /// need of the largest message. The first step holds the whole head, so the kept part of a
    /// refused message does not depend on how it was cut into reads.
    fn next_step(&self) -> usize {
        let step = self.limits.reserve_step.max(self.limits.kept_head).max(self.reserved / 2);
        // One byte to notice that the message is too large, and the lead that the decoder may have.
        let least = self.bare.most(1);
        let most = self.limits.max_message.saturating_add(least).saturating_sub(self.reserved);
        step.min(most).max(least)
    }

    fn end(&mut self, cut: bool) -> Ending {
        let kept = Bytes::from(std::mem::take(&mut self.kept));
        let size = self.size;
        match self.decoder.fault() {
            Some(fault) => Ending::Faulty { fault, head: kept, size },
            None if size > octets(self.limits.max_message) => {
                Ending::TooLarge { head: kept, size, cut }
            }
            None if self.state == Keeping::Nothing => Ending::NoMemory,
            None => Ending::Whole(kept),
        }
    }
}

fn octets(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: BodyLimits =
        BodyLimits { max_message: 20, reserve_step: 4, kept_head: 6, max_drained: 30 };

    /// Feeds `wire` in pieces of `cut` bytes with `memory` to grant. Returns the ending and the
    /// most bytes ever reserved.
    fn feed(wire: &[u8], cut: usize, memory: usize, limits: BodyLimits) -> (Option<Ending>, usize) {
        feed_to(Body::new(limits, BareLineEnds::Refused), wire, cut, memory)
    }

    fn feed_to(mut body: Body, wire: &[u8], cut: usize, memory: usize) -> (Option<Ending>, usize) {
        let mut given = 0;
        for piece in wire.chunks(cut) {
            let mut input = piece;
            loop {
                match body.advance(&mut input) {
                    Progress::Read => break,
                    Progress::Reserve(more) if given + more <= memory => {
                        given += more;
                        body.reserved(Some(more));
                    }
                    Progress::Reserve(_) => body.reserved(None),
                    Progress::Ended(ending) => return (Some(ending), given),
                }
                assert!(body.kept.len() <= body.reserved);
                assert!(body.kept.capacity() <= body.reserved.max(8));
            }
        }
        (None, given)
    }

    #[test]
    fn the_limit_is_exact() {
        let fits = [&[b'x'; 18][..], b"\r\n.\r\n"].concat();
        let (ending, given) = feed(&fits, 7, 999, LIMITS);
        assert_eq!(ending, Some(Ending::Whole(Bytes::copy_from_slice(&fits[..20]))));
        assert!(given <= 22, "{given}");
        let over = [&[b'x'; 19][..], b"\r\n.\r\n"].concat();
        let head = Bytes::from_static(b"xxxxxx");
        let expected = Ending::TooLarge { head, size: 21, cut: false };
        assert_eq!(feed(&over, 7, 999, LIMITS).0, Some(expected));
    }

    #[test]
    fn an_endless_message_is_cut() {
        let (ending, given) = feed(&[b'x'; 1000], 3, 999, LIMITS);
        assert!(matches!(ending, Some(Ending::TooLarge { cut: true, size: 51.., .. })));
        assert!(given <= 22);
    }

    #[test]
    fn a_message_that_is_refused_needs_memory_for_its_head_only() {
        for wire in [&[b'x'; 60][..], b"0123456789\n0123456789"] {
            let limits = BodyLimits { max_drained: 1000, ..LIMITS };
            let mut body = Body::new(limits, BareLineEnds::Refused);
            let mut input = wire;
            while let Progress::Reserve(more) = body.advance(&mut input) {
                body.reserved(Some(more));
            }
            assert_eq!((body.reserved_octets(), body.kept.len()), (6, 6));
        }
    }

    #[test]
    fn without_memory_the_message_is_read_to_its_end() {
        assert_eq!(feed(b"hello world\r\n.\r\n", 5, 6, LIMITS).0, Some(Ending::NoMemory));
        let (ending, _) = feed(b"hello world\n.\r\n\r\n.\r\n", 5, 6, LIMITS);
        assert!(matches!(ending, Some(Ending::Faulty { fault: Fault::BareLf, .. })), "{ending:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn how_it_is_cut_changes_nothing(
            max_drained in 0_u64..40,
            octets in prop::collection::vec(prop::sample::select(b"xy.\r\n\0".to_vec()), 0..90),
            cut in 1_usize..20,
            bare in prop::sample::select(vec![BareLineEnds::Refused, BareLineEnds::Normalised]),
        ) {
            let wire = [&octets[..], b"\r\n.\r\n"].concat();
            let limits = BodyLimits { max_drained, ..LIMITS };
            let feed = |cut| feed_to(Body::new(limits, bare), &wire, cut, 999);
            let (whole, given) = feed(wire.len());
            prop_assert!(given <= 20 + 6);
            prop_assert_eq!(feed(cut).0, whole);
        }
    }
}
