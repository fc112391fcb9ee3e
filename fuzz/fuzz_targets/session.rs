//! Whole sessions: the same bytes give the same replies and questions, in one piece or randomly
//! cut, and stay within all limits.

#![no_main]

use gatepost_fuzz::{domain, smtp};
use libfuzzer_sys::fuzz_target;
use smtp::protocol::data::BareLineEnds;

use crate::dialogue::{check, play, small};

#[path = "../../src/smtp/protocol/tests/dialogue.rs"]
mod dialogue;

fuzz_target!(|input: (bool, [u8; 4], &[u8])| {
    let (normalise, cuts, wire) = input;
    let bare = if normalise { BareLineEnds::Normalised } else { BareLineEnds::Refused };
    let settings = small(bare);
    // The byte 0xff marks where the client waits.
    let bursts: Vec<&[u8]> = wire.split(|octet| *octet == 0xff).collect();
    let whole = play(&settings, &bursts, &[]);
    check(&settings, &bursts, &whole);
    let cuts = cuts.map(|cut| usize::from(cut % 32) + 1);
    for cuts in [&cuts[..], &[1]] {
        let cut = play(&settings, &bursts, cuts);
        check(&settings, &bursts, &cut);
        assert_eq!((&cut.asked, &cut.said), (&whole.asked, &whole.said));
    }
});
