//! Message framing, compared with a second implementation over the whole buffer, however the bytes
//! are split, and within the limits.

#![no_main]

use bytes::Bytes;
use gatepost_fuzz::smtp;
use libfuzzer_sys::fuzz_target;
use smtp::protocol::body::{Body, BodyLimits, Ending, Progress};
use smtp::protocol::data::{BareLineEnds, Decoder};

use crate::reference::{Outcome, reference};

#[path = "../../src/smtp/protocol/tests/reference.rs"]
mod reference;

const LIMITS: BodyLimits =
    BodyLimits { max_message: 24, reserve_step: 4, kept_head: 6, max_drained: 40 };

fuzz_target!(|input: (bool, [u8; 4], &[u8])| {
    let (normalise, cuts, wire) = input;
    let bare = if normalise { BareLineEnds::Normalised } else { BareLineEnds::Refused };
    let expected = reference(wire, bare);
    let cuts = cuts.map(|cut| usize::from(cut % 32) + 1);
    assert_eq!(decode(&[wire], bare), expected);
    assert_eq!(decode(&pieces(wire, &cuts), bare), expected);
    assert_eq!(decode(&pieces(wire, &[1]), bare), expected);

    let ending = feed(&[wire], bare);
    assert_eq!(feed(&pieces(wire, &cuts), bare), ending);
    assert_eq!(feed(&pieces(wire, &[1]), bare), ending);
    let (message, ended, fault, _) = expected;
    match ending {
        Some(Ending::Whole(kept)) => {
            assert!(ended && fault.is_none() && kept == message);
            assert!(message.len() <= LIMITS.max_message);
        }
        Some(Ending::Faulty { fault: found, head, .. }) => {
            assert_eq!(Some(found), fault);
            check_head(&head, &message);
        }
        Some(Ending::TooLarge { head, size, cut }) => {
            assert!(message.len() > LIMITS.max_message && (ended || cut));
            assert!(cut || size == message.len() as u64);
            check_head(&head, &message);
        }
        Some(Ending::NoMemory) => panic!("there was memory"),
        None => assert!(!ended),
    }
});

fn check_head(head: &Bytes, message: &[u8]) {
    assert!(head.len() <= LIMITS.kept_head && message.starts_with(head));
}

fn pieces<'a>(mut wire: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if wire.is_empty() {
            break;
        }
        let (piece, rest) = wire.split_at((*cut).min(wire.len()));
        pieces.push(piece);
        wire = rest;
    }
    pieces
}

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

fn feed(pieces: &[&[u8]], bare: BareLineEnds) -> Option<Ending> {
    let (mut body, mut given) = (Body::new(LIMITS, bare), 0);
    for piece in pieces {
        let mut input = *piece;
        loop {
            match body.advance(&mut input) {
                Progress::Read => break,
                Progress::Reserve(more) => {
                    given += more;
                    assert!(given <= LIMITS.max_message + 2 * bare.most(1));
                    body.reserved(Some(more));
                }
                Progress::Ended(ending) => return Some(ending),
            }
        }
        assert!(input.is_empty());
    }
    None
}
