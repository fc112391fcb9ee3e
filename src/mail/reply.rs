//! The new part of a reply: quoted history and the signature taken off the end.
//!
//! Conservative: only what stands at the end goes, an answer below or between quotations stays
//! whole, and a message that has text never becomes empty. One pass with a bounded look-ahead.

/// Lines that an attribution may be folded over by the sender's program.
const ATTRIBUTION_LINES: usize = 3;
/// Octets of an attribution; a longer "On … wrote:" is prose.
const ATTRIBUTION_OCTETS: usize = 400;
/// Lines of an Outlook header block that are looked at.
const BLOCK_LINES: usize = 6;
/// A longer "signature" is text below a rule.
const SIGNATURE_LINES: usize = 30;

/// `text` without the quoted history and the signature at its end.
pub(super) fn stripped(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let end = history_start(&lines);
    let kept = lines.get(..end).unwrap_or(&lines);
    let kept = without_trailing_quotes(kept);
    let kept = without_signature(kept);
    let stripped = kept.join("\n");
    let stripped = stripped.trim();
    if stripped.is_empty() { text.trim().to_owned() } else { stripped.to_owned() }
}

/// The line at which the history begins, or the number of lines.
fn history_start(lines: &[&str]) -> usize {
    // From here on there are only quoted and blank lines.
    let quotes_from = lines.len() - lines.iter().rev().take_while(|line| is_quiet(line)).count();
    let last_quote = lines.iter().rposition(|line| is_quoted(line));
    let has_quotes = last_quote.is_some_and(|last| last >= quotes_from);
    lines
        .iter()
        .enumerate()
        .find_map(|(at, line)| {
            let rest = lines.get(at..).unwrap_or_default();
            if is_separator(line) || is_header_block(rest) {
                // The rule of underscores that Outlook draws belongs to the block below it.
                let above = at.checked_sub(1).and_then(|above| lines.get(above));
                let is_rule = above.is_some_and(|line| {
                    let line = line.trim();
                    line.len() >= 10 && line.bytes().all(|b| b == b'_')
                });
                return Some(if is_rule { at - 1 } else { at });
            }
            let (length, is_dated) = attribution(rest)?;
            let ends_in_quotes = has_quotes && at + length >= quotes_from;
            let has_later_quotes = last_quote.is_some_and(|last| last >= at + length);
            // Without quotation marks only an attribution with a time or an address is one.
            (ends_in_quotes || (is_dated && !has_later_quotes)).then_some(at)
        })
        .unwrap_or(lines.len())
}

fn is_quoted(line: &str) -> bool {
    line.starts_with('>')
}

fn is_quiet(line: &str) -> bool {
    is_quoted(line) || line.trim().is_empty()
}

/// `-----Original Message-----`, in the languages of the common programs.
fn is_separator(line: &str) -> bool {
    let line = line.trim();
    let inner = line.trim_start_matches('-');
    let words = inner.trim_end_matches('-').trim().to_lowercase();
    line.len() - inner.len() >= 3
        && inner.ends_with("--")
        && matches!(
            words.as_str(),
            "original message"
                | "ursprüngliche nachricht"
                | "original-nachricht"
                | "message d'origine"
                | "mensaje original"
                | "messaggio originale"
                | "oorspronkelijk bericht"
        )
}

/// Outlook's `From: / Sent: / To: / Subject:` above the quoted message.
fn is_header_block(lines: &[&str]) -> bool {
    const FIRST: [&str; 5] = ["from", "von", "de", "da", "van"];
    const SECOND: [&str; 10] = [
        "sent",
        "date",
        "gesendet",
        "datum",
        "envoyé",
        "enviado",
        "fecha",
        "inviato",
        "data",
        "verzonden",
    ];
    const LATER: [&str; 9] = ["to", "an", "à", "para", "a", "aan", "subject", "betreff", "asunto"];
    let key = |line: &&str| {
        let (key, value) = line.trim().trim_matches('*').split_once(':')?;
        let key = key.trim().trim_matches('*').trim().to_lowercase();
        (!value.trim().is_empty()).then_some(key)
    };
    let has =
        |line: &&str, keys: &[&str]| key(line).is_some_and(|key| keys.contains(&key.as_str()));
    let Some((first, rest)) = lines.split_first() else { return false };
    let block: Vec<_> = rest.iter().take(BLOCK_LINES).collect();
    has(first, &FIRST)
        && block.iter().any(|line| has(line, &SECOND))
        && block.iter().any(|line| has(line, &LATER))
}

/// How many lines the attribution at the start of `lines` takes, and whether it names a time or
/// an address.
fn attribution(lines: &[&str]) -> Option<(usize, bool)> {
    const STARTS: [&str; 5] = ["On ", "Am ", "Le ", "El ", "Il "];
    const ENDS: [&str; 6] =
        ["wrote:", "schrieb:", "a écrit :", "a écrit:", "escribió:", "scritto:"];
    let first = lines.first()?.trim_start();
    if !STARTS.iter().any(|start| first.starts_with(start)) {
        return None;
    }
    let mut joined = String::new();
    for (at, line) in lines.iter().take(ATTRIBUTION_LINES).enumerate() {
        if line.trim().is_empty() || joined.len() + line.len() > ATTRIBUTION_OCTETS {
            return None;
        }
        joined.push_str(line.trim());
        let is_german =
            first.starts_with("Am ") && joined.contains("schrieb") && line.ends_with(':');
        if is_german || ENDS.iter().any(|end| joined.ends_with(end)) {
            return Some((at + 1, joined.contains('@') || has_time(&joined)));
        }
        joined.push(' ');
    }
    None
}

/// `9:05` or `12:30` somewhere.
fn has_time(text: &str) -> bool {
    text.as_bytes().windows(4).any(|window| {
        matches!(window, [hour, b':', tens, ones]
            if hour.is_ascii_digit() && tens.is_ascii_digit() && ones.is_ascii_digit())
    })
}

fn without_trailing_quotes<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let tail = lines.iter().rev().take_while(|line| is_quiet(line)).count();
    lines.get(..lines.len() - tail).unwrap_or(lines)
}

/// RFC 3676 §4.3: the signature follows a line of two hyphens and a space; the space is often lost.
fn without_signature<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let start = lines.len().saturating_sub(SIGNATURE_LINES + 1);
    let found = lines.iter().skip(start).position(|line| *line == "-- " || *line == "--");
    found.and_then(|found| lines.get(..start + found)).unwrap_or(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_and_signature_go() {
        for (text, expected) in [
            ("Yes.\n\nOn Mon, 1 Jan 2026 at 10:00, Bob <b@x.example> wrote:\n> ok?", "Yes."),
            ("Yes.\n\nOn Mon, 1 Jan 2026 at 10:00,\nBob <b@x.example>\nwrote:\n\n> ok?\n", "Yes."),
            ("Yes.\nOn Monday Bob wrote:\n> ok?\n>\n> thanks\n\n", "Yes."),
            ("Yes.\nOn Mon at 10:00 AM Bob <b@x.example> wrote:\nok?", "Yes."),
            ("Yes.\n\n> ok?\n> thanks", "Yes."),
            ("Yes.\n-- \nBob\nACME", "Yes."),
            ("Yes.\n--\nBob", "Yes."),
            ("Yes.\n\n-----Original Message-----\nFrom: Bob\nok?", "Yes."),
            ("Ja.\n\n-----Ursprüngliche Nachricht-----\nok?", "Ja."),
            (
                "Yes.\n\n________________________________\nFrom: Bob <b@x.example>\nSent: Monday\n\
                 To: Al\nSubject: ok?\n\nok?",
                "Yes.",
            ),
            ("Ja.\nAm 01.01.26 um 10:00 schrieb Bob:\n> ok?", "Ja."),
            ("Oui.\nLe lun. 1 janv. 2026 à 10:00, Bob <b@x.example> a écrit :\n> ok?", "Oui."),
            ("Yes.\n-- \nAl\n\nOn Monday Bob wrote:\n> ok?", "Yes."),
        ] {
            assert_eq!(stripped(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_new_stays() {
        for text in [
            "",
            "Hello",
            "On Monday Bob wrote:\n> ok?\n\nYes, from below.",
            "> ok?\nYes.\n> sure?\nSure.",
            "On page 5 you wrote:\nThis is wrong.",
            "I like what you wrote:\n\nit is good",
            "From: here to there\nit is far",
            "a -- b\nc",
            "Original Message",
            "> only a quotation",
            "On Mon, 1 Jan 2026 at 10:00, Bob <b@x.example> wrote:\n> only this",
            "From: Bob\nSent: Monday\nTo: Al\nSubject: x\n\nforwarded at the top",
            "-- \nonly a signature",
        ] {
            assert_eq!(stripped(text), text, "{text}");
        }
        let long = format!("a\n--\n{}", "b\n".repeat(40));
        assert_eq!(stripped(&long), long.trim());
    }

    #[test]
    fn a_long_thread_takes_linear_time() {
        let text = "On Monday\n".repeat(100_000) + &"> x\n".repeat(100_000);
        assert!(!stripped(&text).is_empty());
        let text = "On Mon 10:00 a@b wrote:\nfine\n".repeat(50_000);
        assert!(!stripped(&text).is_empty());
    }
}
