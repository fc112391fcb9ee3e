//! The line ends of mail, for messages that come from files.

/// Mail has CRLF line ends; an editor writes LF. What has a single CRLF is left as it is.
pub fn with_crlf(raw: Vec<u8>) -> Vec<u8> {
    if raw.windows(2).any(|pair| pair == b"\r\n") {
        return raw;
    }
    let mut text = Vec::with_capacity(raw.len() + raw.len() / 32);
    for octet in raw {
        if octet == b'\n' {
            text.push(b'\r');
        }
        text.push(octet);
    }
    text
}
