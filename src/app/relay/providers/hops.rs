//! The client that brought a message to a provider, as the provider recorded it: for the record,
//! and for SPF, which decides nothing (contract §2, Authentication).

use std::net::IpAddr;

/// Bytes of a message that are searched for the first Received field.
const NEAR: usize = 16 * 1024;
/// The longest HELO that is kept, in bytes.
const MAX_HELO: usize = 255;

/// Returns name and address behind `from` in the first Received field, which is the provider's:
/// `Received: from NAME (… [ADDRESS]) by …` (RFC 5321 §4.4).
pub(super) fn first_received(raw: &[u8]) -> Option<(String, IpAddr)> {
    let near = raw.get(..NEAR).unwrap_or(raw);
    // A leading empty line ends the section before any field.
    let text = format!("\n{}", String::from_utf8_lossy(near).replace("\r\n", "\n"));
    let head = text.split("\n\n").next()?.replace("\n ", " ").replace("\n\t", " ");
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("received").then(|| value.trim().to_owned())
    })?;
    of_received(&field)
}

pub(super) fn of_received(value: &str) -> Option<(String, IpAddr)> {
    let from = value.trim().strip_prefix("from ")?;
    let from = from.split(" by ").next()?;
    let helo = from.split_whitespace().next()?;
    let inside = from.rsplit_once('[')?.1.split_once(']')?.0;
    let address = inside.strip_prefix("IPv6:").unwrap_or(inside).parse().ok()?;
    Some((name(helo)?, address))
}

/// Returns `client-ip=` and `helo=` of a Received-SPF field (RFC 7208 §9.1).
pub(super) fn of_received_spf(value: &str) -> (Option<IpAddr>, Option<String>) {
    let pair = |key: &str| {
        let found = value.split([';', ' ']).find_map(|pair| pair.trim().strip_prefix(key))?;
        Some(found.trim_matches('"').to_owned())
    };
    let address = pair("client-ip=").and_then(|text| text.parse().ok());
    (address, pair("helo=").and_then(|text| name(&text)))
}

fn name(text: &str) -> Option<String> {
    let fine = text.len() <= MAX_HELO && text.bytes().all(|octet| octet.is_ascii_graphic());
    (fine && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hop_is_the_providers() {
        let raw =
            b"X-Envelope-From: <a@b.example>\r\nReceived: from mx.b.example (mx.b.example\r\n\
            \t[192.0.2.7]) by mxa.provider.example with ESMTP id 1; Mon, 05 Jan 2026\r\n\
            Received: from evil.example ([192.0.2.66]) by mx.b.example\r\n\r\nbody";
        let found = first_received(raw).unwrap();
        assert_eq!(found, ("mx.b.example".to_owned(), "192.0.2.7".parse().unwrap()));
        let bare = String::from_utf8(raw.to_vec()).unwrap().replace("\r\n", "\n");
        assert_eq!(first_received(bare.as_bytes()), Some(found));
        let six = "from a (a [IPv6:2001:db8::1]) by b";
        assert_eq!(of_received(six).unwrap().1, "2001:db8::1".parse::<IpAddr>().unwrap());
        for odd in ["", "by x", "from", "from a by [192.0.2.1]", "from a [x] by b", "from [192.0.2"]
        {
            assert_eq!(of_received(odd), None, "{odd}");
        }
        assert_eq!(first_received(b"\r\nReceived: from a [192.0.2.1] by b\r\n"), None);
    }

    #[test]
    fn a_result_of_spf_names_the_client() {
        let value = "Pass (sender SPF authorized) identity=mailfrom; client-ip=192.0.2.7; \
                     helo=mx.b.example; envelope-from=a@b.example; receiver=x@y.example";
        let (address, helo) = of_received_spf(value);
        assert_eq!(address, "192.0.2.7".parse().ok());
        assert_eq!(helo.as_deref(), Some("mx.b.example"));
        assert_eq!(of_received_spf("None"), (None, None));
    }
}
