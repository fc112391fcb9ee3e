//! SMTP paths and addresses: each has one spelling, and hides no characters.

#![no_main]

use gatepost_fuzz::domain::address::Address;
use gatepost_fuzz::domain::path::{self, PathFault, PathKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for kind in [PathKind::Forward, PathKind::Reverse] {
        let found = path::parse(input, kind, true);
        if let Ok(path) = &found {
            // Only one source route is dropped.
            assert!(input.ends_with(path.as_bytes()));
            assert_eq!(path::parse(path.as_bytes(), kind, true).as_ref(), Ok(path));
            let bracketed = format!("<{path}> SIZE=1");
            let (inside, rest) = path::split(bracketed.as_bytes()).expect("it is in brackets");
            assert_eq!((inside, rest), (path.as_bytes(), &b" SIZE=1"[..]));
        }
        let plain = path::parse(input, kind, false);
        assert_eq!(plain, if input.is_ascii() { found } else { Err(PathFault::EightBit) });
    }
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(address) = Address::parse(text) else { return };
    let shown = address.to_string();
    assert_eq!(Address::parse(&shown).as_ref(), Ok(&address));
    assert!(address.local().len() <= 64 && !address.local().contains(['@', '"', ' ', '<', '>']));
    assert!(!address.local().bytes().any(|b| b.is_ascii_uppercase() || b.is_ascii_control()));
    let host = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    assert!(address.domain().as_str().len() <= 253 && address.domain().as_str().bytes().all(host));
    // ASCII case does not count, and the compared spelling is itself a path.
    assert_eq!(Address::parse(&shown.to_ascii_uppercase()).as_ref(), Ok(&address));
    assert_eq!(path::parse(shown.as_bytes(), PathKind::Reverse, true).ok(), {
        (shown.len() <= 254).then_some(shown)
    });
    let (bare, tag) = address.without_tag();
    assert!(tag.is_some() || bare == address);
    assert!(bare.local().find('+').is_none_or(|at| at == 0));
});
