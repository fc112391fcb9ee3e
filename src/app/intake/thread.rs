//! The Message-IDs by which a message finds its thread: In-Reply-To, then References from the
//! nearest to the farthest (RFC 5322 §3.6.4).

use aws_lc_rs::digest::{SHA256, digest};

use crate::domain::message::Mail;
use crate::domain::thread::{ThreadKey, ThreadKeys};

/// Takes at most `most` ids: each is a row, and a crafted message names thousands.
pub(super) fn keys(mail: &Mail, most: usize) -> ThreadKeys {
    let mut named: Vec<ThreadKey> = Vec::new();
    for id in mail.in_reply_to.iter().chain(mail.references.iter().rev()) {
        if named.len() >= most {
            break;
        }
        let key = key(id);
        if !named.contains(&key) {
            named.push(key);
        }
    }
    ThreadKeys { own: mail.message_id.as_deref().map(key), named }
}

/// Makes the keys of a message that a platform submitted and that may name its thread.
pub(super) fn named(thread: Option<&str>) -> ThreadKeys {
    // No Message-ID contains a space, so none equals a platform's name.
    let key = |name| key(&format!("thread {name}"));
    ThreadKeys { own: thread.map(key), named: Vec::new() }
}

fn key(id: &str) -> ThreadKey {
    let mut octets = [0; 16];
    octets
        .iter_mut()
        .zip(digest(&SHA256, id.as_bytes()).as_ref())
        .for_each(|(to, from)| *to = *from);
    ThreadKey(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail;
    use crate::rules::Rules;

    fn keys_of(fields: &str, most: usize) -> ThreadKeys {
        let raw = format!("From: a@b.example\r\n{fields}\r\nHello\r\n");
        let limits = Rules::defaults().unwrap().intake.limits;
        let headers = mail::scan::scan(raw.as_bytes(), &limits).unwrap();
        keys(&mail::summarise(raw.as_bytes(), &headers, &[], &limits).unwrap(), most)
    }

    #[test]
    fn what_it_answers_comes_first_then_the_last_references() {
        let fields = "Message-ID: <own@b.example>\r\nIn-Reply-To: <3@b.example>\r\n\
                      References: <1@b.example> <2@b.example>\r\n <3@b.example>\r\n";
        let wanted = |ids: &[&str]| ids.iter().map(|id| key(id)).collect::<Vec<_>>();
        let found = keys_of(fields, 9);
        assert_eq!(found.own, Some(key("own@b.example")));
        assert_eq!(found.named, wanted(&["3@b.example", "2@b.example", "1@b.example"]));
        assert_eq!(keys_of(fields, 2).named, wanted(&["3@b.example", "2@b.example"]));
        assert_eq!(keys_of(fields, 0).named, []);
        assert_eq!(keys_of("", 9), ThreadKeys::default());
    }
}
