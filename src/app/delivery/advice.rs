//! Explains failed attempts, with the remedy for the receiver's owner.

use crate::domain::delivery::Attempt;

/// Explains an attempt and names the remedy; `None` after a 2xx. If no response came, the attempt's
/// own error says why.
pub fn explanation(attempt: &Attempt) -> Option<String> {
    let status = match attempt.status {
        Some(200..=299) => return None,
        Some(status) => status,
        None => {
            let words = attempt.error.as_deref().unwrap_or("no answer came");
            return Some(words.to_owned());
        }
    };
    let meaning = match status {
        100..=199 => "this is an interim answer: finish with a 2xx",
        300..=399 => "redirects are not followed: create a webhook with the final URL",
        401 | 403 => {
            "the receiver requires authentication: let deliveries in and verify their signature, \
             or set a header of your own in headers, such as X-Api-Key"
        }
        404 => {
            "the receiver has nothing at this path: check the URL, and that the receiver is \
             deployed"
        }
        405 => {
            "the receiver does not accept POST at this path: check the URL and the receiver's \
             routes"
        }
        408 | 504 => "the receiver, or a server behind it, took too long: answer first, work later",
        410 => "the receiver is gone for good: this webhook was removed",
        413 => "the event is too large for the receiver: allow more, or set payload to summary",
        415 => "the receiver does not accept application/json at this path: check its routes",
        429 => {
            "the receiver asks for fewer requests: the delivery is tried again later, as \
             Retry-After says"
        }
        400..=499 => "the receiver refused the delivery: see its answer, and its own log",
        502 | 503 => "the receiver, or a server behind it, is not running at the moment",
        508 if ours(attempt) => {
            "the URL leads back to this gateway: give the URL of your own application"
        }
        500..=599 => "the receiver failed on the delivery: see its answer, and its own log",
        _ => "this is not an HTTP status: see which server answers at this URL",
    };
    Some(format!("the receiver answered {status}: {meaning}"))
}

/// Whether a gateway refused its own event as a loop. Others send 508 for reasons of their own.
fn ours(attempt: &Attempt) -> bool {
    attempt.response.windows(LOOP.len()).any(|octets| octets == LOOP)
}

/// The code in the body of that refusal.
const LOOP: &[u8] = b"\"loop_detected\"";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::Timestamp;
    use crate::domain::id::AttemptId;

    fn told(status: Option<u16>, error: Option<&str>) -> Option<String> {
        answered(status, error, "")
    }

    fn answered(status: Option<u16>, error: Option<&str>, response: &str) -> Option<String> {
        explanation(&Attempt {
            id: AttemptId(uuid::Uuid::nil()),
            at: Timestamp::from_millis(0),
            latency_ms: 1,
            status,
            response: response.into(),
            error: error.map(str::to_owned),
        })
    }

    #[test]
    fn a_status_is_explained_and_says_what_to_do() {
        for (status, words) in [
            (301, "the final URL"),
            (308, "the final URL"),
            (401, "X-Api-Key"),
            (403, "signature"),
            (404, "check the URL"),
            (405, "POST"),
            (413, "summary"),
            (429, "Retry-After"),
            (500, "its own log"),
            (503, "not running"),
            (508, "its own log"),
            (600, "not an HTTP status"),
        ] {
            let told = told(Some(status), None).unwrap();
            assert!(told.contains(&format!("answered {status}: ")), "{told}");
            assert!(told.contains(words), "{status}: {told}");
        }
        assert_eq!(told(Some(204), None), None);
        let back = answered(Some(508), None, r#"{"code":"loop_detected"}"#).unwrap();
        assert!(back.contains("your own application"), "{back}");
    }

    #[test]
    fn where_no_answer_came_the_attempt_says_why() {
        let why = "the host name could not be looked up";
        assert_eq!(told(None, Some(why)).as_deref(), Some(why));
        assert_eq!(told(None, None).as_deref(), Some("no answer came"));
    }
}
