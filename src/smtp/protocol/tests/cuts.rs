//! How bytes are cut into reads changes nothing: tests whole sessions, and the ends of messages
//! that smuggling tools try (CVE-2023-51764, -51765, -51766), at every position.

use proptest::prelude::*;

use crate::smtp::protocol::data::BareLineEnds;

use super::dialogue::{Asked, check, play, small};

/// Byte sequences that one of two servers took for the end of a message.
const SMUGGLED: &[&str] = &[
    "\n.\n",
    "\r.\r",
    "\r.\n",
    "\n.\r",
    "\n.\r\n",
    "\r\n.\n",
    "\r.\r\n",
    "\r\n.\r",
    "\r\n\0.\r\n",
    "\r\n.\0\r\n",
    "\r\n.\r\r\n",
    "\r\r\n.\r\r\n",
    "\n\n.\r\n",
    "\r\n.\n\r\n",
    "\r\n\r.\r\n",
];

const ENVELOPE: &str = "MAIL FROM:<a@b.example>\r\nRCPT TO:<o1@c.example>\r\nDATA\r\n";

#[test]
fn what_is_smuggled_is_one_message_at_most_wherever_it_is_cut() {
    for bare in [BareLineEnds::Refused, BareLineEnds::Normalised] {
        let mut settings = small(bare);
        settings.body.max_message = 1000;
        for end in SMUGGLED {
            let data = format!("first{end}{ENVELOPE}second\r\n.\r\n");
            let bursts = [b"EHLO x\r\n", ENVELOPE.as_bytes(), data.as_bytes()];
            let whole = play(&settings, &bursts, &[]);
            check(&settings, &bursts, &whole);
            let questions = whole.asked.iter().filter(|a| !matches!(a, Asked::Recipient(_)));
            assert_eq!(questions.count(), 1, "{}: {whole:?}", end.escape_debug());
            for at in 1..data.len() {
                assert_eq!(play(&settings, &bursts, &[at, data.len()]), whole, "{at}");
            }
        }
    }
}

fn command() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "EHLO x\r\n",
        "HELO x\r\n",
        "MAIL FROM:<a@b.example>\r\n",
        "MAIL FROM:<ö@b.example> SMTPUTF8\r\n",
        "MAIL FROM:<> SIZE=41\r\n",
        "MAIL FROM:<> SIZE=9\r\n",
        "RCPT TO:<o1@c.example>\r\n",
        "RCPT TO:<o2@c.example>\r\n",
        "RCPT TO:<l1@c.example>\r\n",
        "RCPT TO:<t1@c.example>\r\n",
        "RCPT TO:<rö@c.example>\r\n",
        "RSET\r\n",
        "NOOP\r\n",
        "STARTTLS\r\n",
        "QUIT\r\n",
        ENVELOPE,
    ]);
    prop_oneof![
        12 => known.prop_map(|line| line.as_bytes().to_vec()),
        1 => Just(b"NOOP \xff\n".to_vec()),
        1 => Just([&[b'x'; 80][..], b"\r\n"].concat()),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ]
}

/// Commands that end in DATA, then a message: two bursts.
fn transaction() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let octets = prop::sample::select(vec![
        &b"\r\n"[..],
        b"\r\n.\r\n",
        b".",
        b"\r",
        b"\n",
        b"\0",
        b"r",
        b"text",
        b"..\r\n",
    ]);
    let data = prop::collection::vec(octets, 0..30).prop_map(|pieces| pieces.concat());
    let opened = prop::bool::weighted(0.8);
    (prop::collection::vec(command(), 0..6), opened, data, prop::bool::weighted(0.8)).prop_map(
        |(commands, opened, mut data, ended)| {
            let open = if opened { ENVELOPE.as_bytes() } else { b"" };
            if ended {
                data.extend_from_slice(b"\r\n.\r\n");
            }
            vec![[&commands.concat(), open].concat(), data]
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]
    #[test]
    fn a_session_is_the_same_however_it_is_cut(
        transactions in prop::collection::vec(transaction(), 1..4),
        cuts in prop::collection::vec(1_usize..40, 1..6),
        bare in prop::sample::select(vec![BareLineEnds::Refused, BareLineEnds::Normalised]),
    ) {
        let settings = small(bare);
        let bursts = transactions.concat();
        let mut bursts: Vec<&[u8]> = bursts.iter().map(Vec::as_slice).collect();
        bursts.insert(0, b"EHLO x\r\n");
        let whole = play(&settings, &bursts, &[]);
        check(&settings, &bursts, &whole);
        for cuts in [&cuts[..], &[1]] {
            let cut = play(&settings, &bursts, cuts);
            check(&settings, &bursts, &cut);
            prop_assert_eq!((&cut.asked, &cut.said), (&whole.asked, &whole.said));
        }
    }
}
