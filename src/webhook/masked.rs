//! Masks the values of the customer's headers in a receiver's response, before it is kept.

use crate::domain::destination::CustomHeader;
use crate::domain::secret::MASK;

/// So many bytes at the end of a response that begin a value count as a value that was cut short.
const SHORTEST_CUT: usize = 4;

/// Returns the first `most` bytes of a response, with a mask for each value of these headers, as
/// sent or as JSON spells it. Reads only until so many bytes are kept.
pub(super) fn kept(answer: &[u8], headers: &[CustomHeader], most: usize) -> Vec<u8> {
    let mut secrets: Vec<Vec<u8>> = headers.iter().flat_map(spellings).collect();
    secrets.retain(|secret| !secret.is_empty());
    // Longest first, because one value may begin with another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut kept = Vec::with_capacity(most.min(answer.len()));
    let mut rest = answer;
    while kept.len() < most
        && let Some((first, behind)) = rest.split_first()
    {
        let cut = |secret: &&Vec<u8>| rest.len() >= SHORTEST_CUT && secret.starts_with(rest);
        if let Some(secret) = secrets.iter().find(|secret| rest.starts_with(secret)) {
            kept.extend_from_slice(MASK.as_bytes());
            rest = rest.get(secret.len()..).unwrap_or_default();
        } else if secrets.iter().any(|secret| cut(&secret)) {
            kept.extend_from_slice(MASK.as_bytes());
            break;
        } else {
            kept.push(*first);
            rest = behind;
        }
    }
    kept.truncate(most);
    kept
}

fn spellings(header: &CustomHeader) -> [Vec<u8>; 2] {
    let value = header.value.expose();
    let quoted = serde_json::Value::from(String::from_utf8_lossy(value)).to_string();
    let inner = quoted.trim_start_matches('"').as_bytes();
    let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
    [value.to_vec(), inner.to_vec()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;

    fn show(answer: &str, values: &[&str], most: usize) -> String {
        let header = |value: &&str| CustomHeader { name: "X-A".into(), value: Secret::new(*value) };
        let headers: Vec<_> = values.iter().map(header).collect();
        String::from_utf8(kept(answer.as_bytes(), &headers, most)).unwrap()
    }

    #[test]
    fn values_are_masked_wherever_they_stand() {
        let values = ["key", "key-of-mine", "q\"uo\\te"];
        for (answer, shown) in [
            ("", ""),
            ("fine", "fine"),
            ("x-a: key\nkey", "x-a: ********\n********"),
            ("<key-of-mine>", "<********>"),
            ("q\"uo\\te", "********"),
            (r#"{"x-a": "q\"uo\\te"}"#, r#"{"x-a": "********"}"#),
            // Values cut short by the end of the response.
            ("at key-of-m", "at ********-of-m"),
            ("at q\"uo", "at ********"),
        ] {
            assert_eq!(show(answer, &values, 100), shown, "{answer}");
        }
        assert_eq!(show("at long-secr", &["long-secret"], 100), "at ********");
    }

    #[test]
    fn what_is_cut_off_shows_no_beginning_of_a_value() {
        let answer = format!("{}password", "x".repeat(6));
        assert_eq!(show(&answer, &["password"], 10), "xxxxxx****");
        assert_eq!(show(&answer, &["password"], 3), "xxx");
    }
}
