//! Panics of one piece of work, which must end no other.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// The message of a panic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(String);

/// Runs `work` to its end or its panic. After a panic it is never polled again, so its half-done
/// state stays unseen.
pub async fn caught<F: Future>(work: F) -> Result<F::Output, Panicked> {
    // Boxed: whoever waits for it would have its size.
    let ended = Box::pin(AssertUnwindSafe(work).catch_unwind()).await;
    ended.map_err(|panic| Panicked(words(panic.as_ref())))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_with_its_message() {
        assert_eq!(caught(async { 7 }).await.ok(), Some(7));
        let number = 7;
        for (panicked, message) in [
            (caught(async { panic!("plain") }).await, "plain"),
            (caught(async { panic!("made {number}") }).await, "made 7"),
            (caught(async { std::panic::panic_any(number) }).await, "no words"),
        ] {
            let panicked: Result<(), Panicked> = panicked;
            assert_eq!(panicked.unwrap_err().to_string(), message);
        }
    }
}
