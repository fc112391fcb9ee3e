//! Command lines: framing does not depend on how bytes are split into reads, and parsed paths are
//! those that were sent.

#![no_main]

use gatepost_fuzz::smtp::protocol::command::{self, Command};
use gatepost_fuzz::smtp::protocol::line::{Line, LineReader};
use gatepost_fuzz::smtp::protocol::reply::Reply;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 128;
const MAX_DROPPED: u64 = 64;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, wire) = input;
    let whole = lines(&[wire]);
    let cut = usize::from(choice >> 1).clamp(1, wire.len().max(1));
    assert_eq!(lines(&wire.chunks(cut).collect::<Vec<_>>()), whole);
    for line in whole {
        if let Line::Whole(line) = line {
            assert!(line.len() <= LIMIT - 2);
            parse(&line, choice & 1 == 1);
        }
    }
    // Lines longer than the reader lets through must not panic the parser either.
    parse(wire, choice & 1 == 1);
});

fn lines(pieces: &[&[u8]]) -> Vec<Line> {
    let mut reader = LineReader::new(LIMIT, MAX_DROPPED);
    let mut found = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(line) = reader.read(&mut input) {
            found.push(line);
            if found.last() == Some(&Line::Endless) {
                return found;
            }
        }
        assert!(input.is_empty());
    }
    found
}

fn parse(line: &[u8], smtputf8: bool) {
    match command::parse(line, smtputf8) {
        Err(rejected) => {
            let about = rejected.about.unwrap_or_default();
            assert!(about.chars().count() <= 40);
            let mut wire = Vec::new();
            Reply::about(rejected.notice, &about).write(&mut wire);
            assert!(wire.ends_with(b"\r\n") && wire.iter().filter(|b| **b == b'\n').count() == 1);
        }
        Ok(Command::Mail { path, parameters }) => {
            assert!(parameters.smtputf8 || path.is_ascii());
            again(&format!("MAIL FROM:<{path}> SMTPUTF8"), &path);
        }
        Ok(Command::Recipient { path }) => {
            assert!(smtputf8 || path.is_ascii());
            assert!(path.contains('@') || path.eq_ignore_ascii_case("postmaster"));
            again(&format!("rcpt to: <{path}>"), &path);
        }
        Ok(Command::Hello { name, .. }) => {
            assert!(!name.is_empty() && name.bytes().all(|b| (b' '..=b'~').contains(&b)));
        }
        Ok(_) => {}
    }
}

/// Checks that an accepted path, parsed again, gives the same path.
fn again(line: &str, expected: &str) {
    assert!(expected.len() <= 254 && !expected.chars().any(char::is_control));
    match command::parse(line.as_bytes(), true) {
        Ok(Command::Mail { path, .. } | Command::Recipient { path }) => assert_eq!(path, expected),
        other => panic!("{line:?}: {other:?}"),
    }
}
