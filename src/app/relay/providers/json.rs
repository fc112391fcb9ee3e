//! The account's own adapter: it posts the JSON that `receiveMessage` takes, and signs it by Standard
//! Webhooks (github.com/standard-webhooks), with the secret that we made for its URL. The signature
//! proves the adapter, and nobody else: the record's sender is what the adapter says.

use super::{Ages, Forged, Post, Refusal, unix_seconds};
use crate::domain::clock::Timestamp;
use crate::domain::secret::Secret;
use crate::egress::signature;

/// The proof, in plain words.
pub const PROOF: &str = "a signature of Standard Webhooks over the whole request";

/// Longest `webhook-id` in bytes: that of an `Idempotency-Key`, which it is taken for.
pub const LONGEST_ID: usize = 255;

/// Checks the signature, and returns the `webhook-id`, which is the same on each attempt. The time
/// is judged last: only a genuine one tells that a clock is wrong.
pub fn read(
    post: &Post<'_>,
    secret: &Secret,
    ages: &Ages,
    now: Timestamp,
) -> Result<String, Refusal> {
    let header = |name| post.header(name).ok_or(Forged::Unsigned);
    let is_id = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|octet| octet.is_ascii_graphic())
    };
    let id = Some(header("webhook-id")?).filter(is_id).ok_or(Forged::Unsigned)?;
    let at = unix_seconds(header("webhook-timestamp")?).ok_or(Forged::Unsigned)?;
    if !signature::verify(secret, id, at, post.body, header("webhook-signature")?) {
        return Err(Forged::Json.into());
    }
    ages.check(at, ages.signed, now)?;
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::Unavailable;
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_767_607_200_000);
    const AGES: Ages = Ages {
        covering: Duration::ZERO,
        bare: Duration::ZERO,
        signed: Duration::from_secs(300),
        ahead: Duration::from_secs(300),
    };

    fn read_at(
        change: impl Fn(&mut Vec<(String, Vec<u8>)>),
        at: Timestamp,
    ) -> Result<String, Refusal> {
        let (secret, body) = (Secret::new([7; 32]), Bytes::from_static(b"{}"));
        let signed = signature::symmetric_header(&secret, "msg_1", at, &body);
        let pair = |name: &str, value: String| (name.to_owned(), value.into_bytes());
        let mut headers = vec![
            pair("webhook-id", "msg_1".to_owned()),
            pair("webhook-timestamp", at.seconds().to_string()),
            pair("webhook-signature", signed),
        ];
        change(&mut headers);
        read(&Post { headers: &headers, body: &body }, &secret, &AGES, NOW)
    }

    #[test]
    fn a_signature_lasts_five_minutes_in_either_direction() {
        let (edge, over) = (Duration::from_secs(300), Duration::from_secs(301));
        for at in [NOW, NOW.minus(edge), NOW.plus(edge)] {
            assert_eq!(read_at(|_| {}, at).as_deref(), Ok("msg_1"));
        }
        assert_eq!(read_at(|_| {}, NOW.minus(over)), Err(Forged::Old.into()));
        // The clock of this server may be slow: the adapter comes again.
        assert_eq!(read_at(|_| {}, NOW.plus(over)), Err(Unavailable::Early.into()));
        // Without a proof the time tells nothing.
        let forge = |headers: &mut Vec<(String, Vec<u8>)>| headers[2].1 = b"v1,AAAA".to_vec();
        assert_eq!(read_at(forge, NOW.plus(over)), Err(Forged::Json.into()));
    }

    #[test]
    fn each_header_is_there_once_and_as_it_must_be() {
        for place in 0..3 {
            let without = read_at(|headers| drop(headers.remove(place)), NOW);
            assert_eq!(without, Err(Forged::Unsigned.into()), "{place}");
            let twice = read_at(|headers| headers.push(headers[place].clone()), NOW);
            assert_eq!(twice, Err(Forged::Unsigned.into()), "{place}");
        }
        for id in ["", "a b", "a\u{e9}", &"x".repeat(LONGEST_ID + 1)] {
            let odd = read_at(|headers| headers[0].1 = id.as_bytes().to_vec(), NOW);
            assert_eq!(odd, Err(Forged::Unsigned.into()), "{id}");
        }
        for time in ["", "now", "-1", "1e9", "1767607200.5"] {
            let odd = read_at(|headers| headers[1].1 = time.as_bytes().to_vec(), NOW);
            assert_eq!(odd, Err(Forged::Unsigned.into()), "{time}");
        }
    }
}
