//! Signs that a machine wrote a message: fields of its header section, and the null reverse-path.
//! Recorded for Agents that may reply (RFC 3834 §2, contract §3). No message is refused because of
//! them.

use crate::domain::automation::{Automation, Origin};
use crate::domain::evidence::{Word, automation, count};
use crate::domain::marker::{self, Marker};
use crate::rules::IntakeLimits;

use super::fields::KnownField;
use super::scan::Headers;
use super::visible;

/// Fields of mailing lists (RFC 2919, RFC 2369, RFC 8058).
const LIST_FIELDS: &[KnownField] = &[
    KnownField::ListId,
    KnownField::ListPost,
    KnownField::ListUnsubscribe,
    KnownField::ListUnsubscribePost,
    KnownField::ListHelp,
    KnownField::ListSubscribe,
    KnownField::ListOwner,
    KnownField::ListArchive,
];

/// Also set by newsletters, where readers cannot write to each other.
const BULK_FIELDS: &[KnownField] = &[KnownField::ListUnsubscribe, KnownField::ListUnsubscribePost];

/// Signs of automation in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Signs {
    pub automation: Automation,
    /// Markers of this or other installations; bounded by the limit of header fields.
    pub markers: Vec<Marker>,
    /// The fields read, for the record.
    pub facts: automation::Automation,
}

/// Reads the signs. `null_reverse_path` is true for `MAIL FROM:<>`.
pub fn signs(headers: &Headers<'_>, null_reverse_path: bool, limits: &IntakeLimits) -> Signs {
    let found = MachineSigns {
        auto_submitted: headers.all(KnownField::AutoSubmitted).map(keyword).collect(),
        report: report_type(headers),
        precedence: headers.all(KnownField::Precedence).map(keyword).collect(),
        lists: LIST_FIELDS.iter().copied().filter(|name| headers.first(*name).is_some()).collect(),
        suppress: headers.all(KnownField::AutoResponseSuppress).flat_map(words).collect(),
        null: null_reverse_path
            || headers.all(KnownField::ReturnPath).any(|path| bare(path) == "<>"),
        markers: headers.all(KnownField::DeliveryMarker).filter_map(Marker::read).collect(),
    };
    let name = |text: &str| visible::name(text, limits.max_shown_bytes);
    let shown = |words: &[String]| -> Vec<String> {
        words.iter().take(limits.max_shown_mailboxes).filter_map(|word| name(word)).collect()
    };
    let list_id = headers.first(KnownField::ListId).map(String::from_utf8_lossy);
    let facts = automation::Automation {
        auto_submitted: shown(&found.auto_submitted),
        null_reverse_path: found.null,
        precedence: shown(&found.precedence),
        list_id: list_id.as_deref().and_then(name),
        list_fields: found.lists.iter().map(|name| Word::Borrowed(name.as_str())).collect(),
        auto_response_suppress: shown(&found.suppress),
        report_type: found.report.as_deref().and_then(name),
        delivery_markers: count(found.markers.len()),
        received_fields: count(headers.received),
    };
    Signs { automation: found.automation(), markers: found.markers, facts }
}

struct MachineSigns {
    /// Keywords in lower case, like `precedence`.
    auto_submitted: Vec<String>,
    /// Type of a `multipart/report`; empty if it names none.
    report: Option<String>,
    precedence: Vec<String>,
    lists: Vec<KnownField>,
    suppress: Vec<String>,
    null: bool,
    markers: Vec<Marker>,
}

impl MachineSigns {
    fn automation(&self) -> Automation {
        let signs = [
            (self.is_automatic(), KnownField::AutoSubmitted.as_str()),
            (self.report.is_some(), "multipart/report"),
            (self.null, "null reverse-path"),
            (
                self.precedence_is(&["auto_reply", "bulk", "junk", "list"]),
                KnownField::Precedence.as_str(),
            ),
            (self.is_suppressed(), KnownField::AutoResponseSuppress.as_str()),
            (!self.markers.is_empty(), marker::FIELD),
        ];
        let seen = signs.into_iter().filter_map(|(is_seen, name)| is_seen.then_some(name));
        let signs: Vec<String> =
            seen.chain(self.lists.iter().map(|name| name.as_str())).map(str::to_owned).collect();
        Automation { origin: self.origin(), may_auto_reply: signs.is_empty(), signs }
    }

    /// Picks the origin. Explicit statements take precedence over mere habits of such mail: lists
    /// pass on mail of machines, and machines reply with a null reverse-path (RFC 3834 §3.3).
    fn origin(&self) -> Origin {
        let says = |word: &str| self.auto_submitted.iter().any(|keyword| keyword == word);
        match self.report.as_deref() {
            Some("delivery-status") => return Origin::Bounce,
            // A receipt (RFC 8098) is a reply.
            Some("disposition-notification") => return Origin::AutoReplied,
            _ => {}
        }
        if says("auto-replied") || self.precedence_is(&["auto_reply"]) {
            Origin::AutoReplied
        } else if self.is_automatic() || self.report.is_some() {
            Origin::AutoGenerated
        } else if self.is_list() {
            Origin::List
        } else if self.is_bulk() {
            Origin::Bulk
        } else if self.null {
            Origin::Bounce
        } else {
            Origin::Person
        }
    }

    /// Tells whether there is any keyword but `no`, unknown ones included (RFC 3834 §5).
    fn is_automatic(&self) -> bool {
        self.auto_submitted.iter().any(|keyword| keyword != "no")
    }

    fn precedence_is(&self, words: &[&str]) -> bool {
        self.precedence.iter().any(|word| words.contains(&word.as_str()))
    }

    fn is_list(&self) -> bool {
        self.precedence_is(&["list"]) || self.lists.iter().any(|name| !BULK_FIELDS.contains(name))
    }

    fn is_bulk(&self) -> bool {
        self.precedence_is(&["bulk", "junk"]) || !self.lists.is_empty()
    }

    /// Tells whether the sender asks machines not to reply (MS-OXCMAIL 2.2.3.2.14).
    fn is_suppressed(&self) -> bool {
        self.suppress.iter().any(|word| ["all", "oof", "autoreply"].contains(&word.as_str()))
    }
}

/// Returns the type of a report (RFC 6522) in lower case; empty if a `multipart/report` names none.
fn report_type(headers: &Headers<'_>) -> Option<String> {
    let text = bare(headers.first(KnownField::ContentType)?);
    let mut parts = text.split(';').map(str::trim);
    if parts.next() != Some("multipart/report") {
        return None;
    }
    let named = parts.filter_map(|part| part.split_once('=')).find_map(|(name, value)| {
        (name.trim() == "report-type").then(|| value.trim().trim_matches('"').to_owned())
    });
    Some(named.unwrap_or_default())
}

/// Returns the first word of a value, without its parameters.
fn keyword(value: &[u8]) -> String {
    let text = bare(value);
    let word = text.split(|c: char| c == ';' || c.is_whitespace()).find(|word| !word.is_empty());
    word.unwrap_or_default().to_owned()
}

fn words(value: &[u8]) -> Vec<String> {
    let text = bare(value);
    let words = text.split(|c: char| c == ',' || c.is_whitespace());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns a value in lower case without its comments, which nest (RFC 5322 §3.2.2).
fn bare(value: &[u8]) -> String {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    let mut out = String::new();
    for c in String::from_utf8_lossy(value).chars() {
        let was_outside = depth == 0;
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' if was_outside => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if was_outside && depth == 0 {
            out.push(c.to_ascii_lowercase());
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mail::scan::scan;
    use crate::rules::Rules;

    fn read(fields: &str, null: bool) -> Signs {
        let limits = Rules::defaults().unwrap().intake.limits;
        let raw = format!("From: a@b.example\r\n{}", fields.replace('\n', "\r\n"));
        signs(&scan(raw.as_bytes(), &limits).unwrap(), null, &limits)
    }

    /// Field lines, expected origin, expected signs.
    const CASES: &[(&str, Origin, &str)] = &[
        ("", Origin::Person, ""),
        ("Auto-Submitted: no\n", Origin::Person, ""),
        ("Auto-Submitted: (x) NO (y); a=b\n", Origin::Person, ""),
        ("Auto-Submitted: auto-replied\n", Origin::AutoReplied, "Auto-Submitted"),
        ("Auto-Submitted: Auto-Replied (away); x=\"y\"\n", Origin::AutoReplied, "Auto-Submitted"),
        ("Auto-Submitted:\n (a (b\\) c))\n auto-replied\n", Origin::AutoReplied, "Auto-Submitted"),
        ("Auto-Submitted: auto-generated\n", Origin::AutoGenerated, "Auto-Submitted"),
        (
            "Auto-Submitted: auto-notified; owner-email=\"a@b\"\n",
            Origin::AutoGenerated,
            "Auto-Submitted",
        ),
        ("Auto-Submitted: x-new\n", Origin::AutoGenerated, "Auto-Submitted"),
        ("Auto-Submitted: no-really\n", Origin::AutoGenerated, "Auto-Submitted"),
        ("Auto-Submitted:\n", Origin::AutoGenerated, "Auto-Submitted"),
        (
            "Auto-Submitted: no\nAuto-Submitted: auto-replied\n",
            Origin::AutoReplied,
            "Auto-Submitted",
        ),
        ("Precedence: bulk\n", Origin::Bulk, "Precedence"),
        ("Precedence: JUNK\n", Origin::Bulk, "Precedence"),
        ("Precedence: list\n", Origin::List, "Precedence"),
        ("Precedence: auto_reply\n", Origin::AutoReplied, "Precedence"),
        ("Precedence: first-class\n", Origin::Person, ""),
        ("List-Id: A list <a.b.example>\n", Origin::List, "List-Id"),
        ("List-Unsubscribe: <mailto:x@b.example>\n", Origin::Bulk, "List-Unsubscribe"),
        ("List-Post: NO\nPrecedence: bulk\n", Origin::List, "Precedence, List-Post"),
        (
            "List-Id: <a.b>\nAuto-Submitted: auto-generated\n",
            Origin::AutoGenerated,
            "Auto-Submitted, List-Id",
        ),
        ("X-Auto-Response-Suppress: DR, OOF\n", Origin::Person, "X-Auto-Response-Suppress"),
        ("X-Auto-Response-Suppress: None\n", Origin::Person, ""),
        ("Return-Path: <>\n", Origin::Bounce, "null reverse-path"),
        ("Return-Path: <a@b.example>\n", Origin::Person, ""),
        (
            "Content-Type: multipart/report; boundary=x;\n Report-Type=\"delivery-status\"\n",
            Origin::Bounce,
            "multipart/report",
        ),
        (
            "Content-Type: multipart/report; report-type=disposition-notification\n",
            Origin::AutoReplied,
            "multipart/report",
        ),
        (
            "Content-Type: multipart/report; report-type=feedback-report\n",
            Origin::AutoGenerated,
            "multipart/report",
        ),
        ("Content-Type: multipart/report (x)\n", Origin::AutoGenerated, "multipart/report"),
        ("Content-Type: multipart/mixed; report-type=delivery-status\n", Origin::Person, ""),
        (
            "X-Gatepost-Delivered: 0123456789abcdef0123456789ABCDEF\n",
            Origin::Person,
            "X-Gatepost-Delivered",
        ),
    ];

    #[test]
    fn each_sign_is_seen_for_what_it_is() {
        for (fields, origin, signs) in CASES.iter().copied() {
            let found = read(fields, false).automation;
            assert_eq!(
                (found.origin, found.signs.join(", ").as_str()),
                (origin, signs),
                "{fields}"
            );
            assert_eq!(found.may_auto_reply, signs.is_empty(), "{fields}");
        }
    }

    #[test]
    fn a_null_reverse_path_is_a_bounce_unless_it_says_better() {
        for (fields, origin) in [
            ("", Origin::Bounce),
            ("Auto-Submitted: auto-replied\n", Origin::AutoReplied),
            ("Auto-Submitted: no\n", Origin::Bounce),
            ("List-Id: <a.b>\n", Origin::List),
        ] {
            let found = read(fields, true).automation;
            assert_eq!((found.origin, found.may_auto_reply), (origin, false), "{fields}");
            assert!(found.signs.iter().any(|sign| sign == "null reverse-path"));
        }
    }

    #[test]
    fn what_was_read_stands_in_the_record() {
        let fields = "Auto-Submitted: no\nList-Id: =?x <a\u{202e}b>\nPrecedence: bulk\n\
            X-Gatepost-Delivered: none\nX-Gatepost-Delivered: 0123456789abcdef0123456789abcdef\n";
        let found = read(fields, true);
        assert_eq!(found.markers.len(), 1);
        let expected = json!({
            "autoSubmitted": ["no"],
            "nullReversePath": true,
            "precedence": ["bulk"],
            "listId": "=?x <ab>",
            "listFields": ["List-Id"],
            "autoResponseSuppress": [],
            "reportType": null,
            "deliveryMarkers": 1,
            "receivedFields": 0,
        });
        assert_eq!(json!(found.facts), expected);
        let twice = read("Received: from a\nX: y\nReceived: from b\n", false);
        assert_eq!(twice.facts.received_fields, 2);
        // Bounded, whatever the message contains.
        let many = read(&format!("X-Auto-Response-Suppress: {}\n", "a, ".repeat(50_000)), false);
        assert!(json!(many.facts).to_string().len() < 2000, "{:?}", many.facts);
    }
}
