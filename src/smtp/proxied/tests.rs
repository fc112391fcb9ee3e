//! Valid and invalid headers.

use proptest::prelude::*;

use super::*;

/// Parses a stream cut into pieces of `pieces` bytes. Returns the result and the bytes read.
fn cut(stream: &[u8], pieces: usize) -> (Result<Progress, &'static str>, usize) {
    let mut read = 0;
    loop {
        match look(&stream[..read]) {
            Ok(Progress::More(more)) if read < stream.len() => {
                assert!(more > 0 && read + more <= LONGEST_BLOCK);
                read += more.min(pieces).min(stream.len() - read);
            }
            done => return (done, read),
        }
    }
}

fn client(stream: &[u8]) -> Result<Option<IpAddr>, &'static str> {
    match cut(stream, usize::MAX).0? {
        Progress::Whole(client) => Ok(client),
        Progress::More(_) => Err("there must be more"),
    }
}

fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, block].concat()
}

fn tcp4(added: &[u8]) -> Vec<u8> {
    v2(0x21, 0x11, &[&[192, 0, 2, 1, 198, 51, 100, 1, 1, 2, 0, 25], added].concat())
}

fn tcp6() -> Vec<u8> {
    let address = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
    v2(
        0x21,
        0x21,
        &[address, address].concat().into_iter().chain([1, 2, 0, 25]).collect::<Vec<_>>(),
    )
}

#[test]
fn headers_are_read_as_they_are_meant() {
    let mapped = b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 1 2\r\n";
    let longest = [&b"PROXY UNKNOWN "[..], &[b'x'; 91], b"\r\n"].concat();
    assert_eq!(longest.len(), LONGEST_LINE);
    let unix = v2(0x21, 0x31, &[b'/'; 216]);
    let headers: [(&[u8], Option<&str>); 14] = [
        (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 25\r\n", Some("192.0.2.1")),
        (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", Some("255.255.255.255")),
        (b"PROXY TCP6 2001:DB8::1 2001:db8::2 0 25\r\n", Some("2001:db8::1")),
        (mapped, Some("::ffff:192.0.2.1")),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (&longest, None),
        (&tcp4(b""), Some("192.0.2.1")),
        (&tcp4(&[0xea, 0, 2, 1, 2, 0x04, 0, 0]), Some("192.0.2.1")),
        (&tcp6(), Some("2001:db8::1")),
        (&v2(0x20, 0x00, b""), None),
        (&v2(0x20, 0xff, b"anything"), None),
        (&v2(0x21, 0x00, b"anything"), None),
        (&unix, None),
    ];
    for (header, expected) in headers {
        let expected = expected.map(|address| address.parse().unwrap());
        assert_eq!(client(header), Ok(expected), "{}", header.escape_ascii());
    }
}

#[test]
fn what_is_not_exactly_a_header_is_none() {
    let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 92], b"\r\n"].concat();
    let mut other_version = tcp4(b"");
    other_version[12] = 0x11;
    let mut other_signature = tcp4(b"");
    other_signature[5] = b'\n';
    let streams: [&[u8]; 39] = [
        b"",
        b"PROXY",
        b"EHLO client.example\r\n",
        b"proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY\tTCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\0\r\n",
        b"PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 2001:db8::2 1 2\r\n",
        b"PROXY TCP6 [2001:db8::1] 2001:db8::2 1 2\r\n",
        b"PROXY UNKNOWNS\r\n",
        b"PROXY unknown\r\n",
        b"PROXY \xc3\xa9\xff UNKNOWN\r\n",
        b"PROXY UNKNOWN \r \r\n",
        &long,
        &tcp4(b"")[..27],
        &other_version,
        &other_signature,
        &v2(0x22, 0x11, &[0; 12]),
        &v2(0x21, 0x12, &[0; 12]),
        &v2(0x21, 0x41, &[0; 12]),
        &v2(0x21, 0x11, &[0; 11]),
        &v2(0x21, 0x21, &[0; 35]),
        &v2(0x21, 0x31, &[0; 215]),
        &v2(0x20, 0x00, &[0; 521]),
    ];
    for stream in streams {
        client(stream).expect_err(&stream.escape_ascii().to_string());
    }
    for added in [&[1][..], &[1, 0], &[1, 0, 1], &[1, 0, 0, 2], &[1, 0, 2, 9], &[3, 0, 0]] {
        client(&tcp4(added)).expect_err(&format!("{added:?}"));
    }
}

#[test]
fn a_checksum_is_compared_where_there_is_one() {
    assert_eq!(crc32c(b"123456789", 0..0), 0xe306_9283);
    let mut header = tcp4(&[0x04, 0, 1, 0, 0x03, 0, 4, 0, 0, 0, 0, 0x04, 0, 0]);
    let at = header.len() - 7;
    let sum = crc32c(&header, 0..0);
    header[at..at + 4].copy_from_slice(&sum.to_be_bytes());
    assert!(client(&header).is_ok());
    // Without its type byte, the addition is no checksum.
    for place in (FIXED..header.len()).filter(|place| *place != at - 3) {
        let mut forged = header.clone();
        forged[place] ^= 1;
        client(&forged).unwrap_err();
    }
}

#[test]
fn proxies_are_known_in_any_spelling() {
    let proxies = Proxies::new(vec!["192.0.2.0/24".parse().unwrap()]);
    assert!(proxies.contain("192.0.2.9".parse().unwrap()));
    assert!(proxies.contain("::ffff:192.0.2.9".parse().unwrap()));
    assert!(!proxies.contain("192.0.3.9".parse().unwrap()));
    assert!(!Proxies::default().contain("127.0.0.1".parse().unwrap()));
}

/// A header, perhaps damaged, with the client's bytes after it.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let headers = vec![
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 25\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        tcp4(&[0xea, 0, 2, 1, 2]),
        tcp6(),
        v2(0x20, 0, b""),
        Vec::new(),
    ];
    let damage = proptest::option::of((any::<prop::sample::Index>(), any::<u8>()));
    let behind = proptest::collection::vec(any::<u8>(), 0..200);
    (prop::sample::select(headers), damage, behind).prop_map(|(mut header, damage, behind)| {
        if let (Some((place, octet)), false) = (damage, header.is_empty()) {
            let place = place.index(header.len());
            header[place] = octet;
        }
        [header, behind].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_header_is_the_same_however_it_is_cut(stream in streams(), pieces in 1_usize..60) {
        let (whole, read) = cut(&stream, usize::MAX);
        let (in_pieces, read_in_pieces) = cut(&stream, pieces);
        if whole.is_err() {
            prop_assert!(in_pieces.is_err());
        } else {
            prop_assert_eq!((in_pieces, read_in_pieces), (whole, read));
        }
        if let Ok(Progress::Whole(_)) = whole {
            let (alone, _) = cut(&stream[..read], 1);
            prop_assert_eq!(alone, whole, "it ends where it ends, whatever is behind");
        }
    }
}
