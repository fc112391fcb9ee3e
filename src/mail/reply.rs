//! The new part of a reply: without quoted history and signature at its end.
//!
//! Conservative: only text at the end is removed. A reply below or between quotations stays whole,
//! and a message with text never becomes empty. One pass has a bounded look-ahead.

use super::quotes::{
    BlockField, attribution, is_header_block, is_rule, is_sent_from, is_separator,
};

/// A longer "signature" is text below a rule.
const SIGNATURE_LINES: usize = 30;

/// Limits of a signature after hyphens without their space: more or longer lines are text below a
/// heading.
const SHORT_SIGNATURE_LINES: usize = 4;
const SHORT_SIGNATURE_OCTETS: usize = 60;

/// Most passes: each may expose another end. A text that needs more was crafted, and stays whole.
const MOST_PASSES: usize = 8;

/// Removes the quoted history and the signature at the end of `text`, which is trimmed. Idempotent.
pub(super) fn stripped(text: &str) -> String {
    let whole = text.trim();
    let mut kept: Vec<&str> = whole.lines().collect();
    for _ in 0..MOST_PASSES {
        let shorter = pass(&kept);
        if shorter.len() == kept.len() {
            return kept.join("\n");
        }
        kept.truncate(shorter.len());
    }
    whole.to_owned()
}

/// Makes one pass. Returns the lines that stay, the last of them not blank; all lines if none would
/// stay.
fn pass<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let kept = lines.get(..history_start(lines)).unwrap_or(lines);
    let kept = without_trailing_quotes(kept);
    let kept = without_signature(kept);
    let blank = kept.iter().rev().take_while(|line| line.trim().is_empty()).count();
    let kept = kept.get(..kept.len() - blank).unwrap_or(kept);
    if kept.iter().all(|line| line.trim().is_empty()) { lines } else { kept }
}

/// Returns the first line of the history, or the number of lines.
fn history_start(lines: &[&str]) -> usize {
    // After this line there are only quoted and blank lines.
    let quotes_from = lines.len() - lines.iter().rev().take_while(|line| is_quiet(line)).count();
    let last_quote = lines.iter().rposition(|line| is_quoted(line));
    let has_quotes = last_quote.is_some_and(|last| last >= quotes_from);
    let fields: Vec<_> = lines.iter().map(|line| BlockField::of(line)).collect();
    lines
        .iter()
        .enumerate()
        .find_map(|(at, line)| {
            let rest = lines.get(at..).unwrap_or_default();
            // Outlook's rule of underscores belongs to the block below it.
            let above = at.checked_sub(1).and_then(|above| lines.get(above));
            let has_rule = above.is_some_and(|line| is_rule(line));
            let block = fields.get(at..).unwrap_or_default();
            if is_separator(line) || is_header_block(block, has_rule) {
                return Some(if has_rule { at - 1 } else { at });
            }
            let (length, is_certain) = attribution(rest)?;
            let ends_in_quotes = has_quotes && at + length >= quotes_from;
            let has_later_quotes = last_quote.is_some_and(|last| last >= at + length);
            // Without quotation marks, an attribution must have a time and an address.
            (ends_in_quotes || (is_certain && !has_later_quotes)).then_some(at)
        })
        .unwrap_or(lines.len())
}

fn is_quoted(line: &str) -> bool {
    line.starts_with('>')
}

fn is_quiet(line: &str) -> bool {
    is_quoted(line) || line.trim().is_empty()
}

fn without_trailing_quotes<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let tail = lines.iter().rev().take_while(|line| is_quiet(line)).count();
    lines.get(..lines.len() - tail).unwrap_or(lines)
}

/// The signature follows a line of two hyphens and a space (RFC 3676 §4.3). Without the space, the
/// lines must also look like a signature, because headings may be underlined so.
fn without_signature<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let start = lines.len().saturating_sub(SIGNATURE_LINES + 1);
    let found = lines.iter().enumerate().skip(start).position(|(at, line)| {
        let above = at.checked_sub(1).and_then(|above| lines.get(above));
        let is_apart = above.is_none_or(|line| line.trim().is_empty());
        let below = lines.get(at + 1..).unwrap_or_default();
        *line == "-- " || (*line == "--" && is_apart && is_short_signature(below))
    });
    if let Some(kept) = found.and_then(|found| lines.get(..start + found)) {
        return kept;
    }
    match lines.split_last() {
        Some((last, kept)) if is_sent_from(last) => kept,
        _ => lines,
    }
}

fn is_short_signature(lines: &[&str]) -> bool {
    let is_short = |line: &&str| !line.trim().is_empty() && line.len() <= SHORT_SIGNATURE_OCTETS;
    (1..=SHORT_SIGNATURE_LINES).contains(&lines.len()) && lines.iter().all(is_short)
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
            ("Yes.\n\n--\nBob\nACME", "Yes."),
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
            ("Sí.\n\nEl lun, 1 ene 2026 a las 10:00, Bob (<b@x.example>) escribió:\n> ok?", "Sí."),
            ("Sim.\nEm seg., 1 de jan. de 2026 às 10:00, Bob escreveu:\n\n> ok?", "Sim."),
            ("Sì.\nIl giorno lun 1 gen 2026 alle ore 10:00 Bob ha scritto:\n> ok?", "Sì."),
            ("Ja.\nOp ma 1 jan. 2026 om 10:00 schreef Bob <b@x.example>:\n> ok?", "Ja."),
            ("Ja.\nDen mån 1 jan. 2026 kl 10:00 skrev Bob <b@x.example>:\n> ok?", "Ja."),
            ("Tak.\nW dniu 01.01.2026 o 10:00, Bob pisze:\n> ok?", "Tak."),
            ("Да.\nпн, 1 янв. 2026 г. в 10:00, Bob <b@x.example> написал:\n> ok?", "Да."),
            ("はい\n2026年1月1日(月) 10:00 Bob <b@x.example>のメール:\n> ok?", "はい"),
            ("2026-01-01 10:00, Bob <b@x.example> wrote:\n> ok?\n\n> thanks", {
                "2026-01-01 10:00, Bob <b@x.example> wrote:\n> ok?\n\n> thanks"
            }),
            ("Ja.\n\nVon: Bob <b@x.example>\nGesendet: Montag\nAn: Al\nBetreff: ok?\n\nok?", "Ja."),
            ("Oui.\n\nDe : Bob <b@x.fr>\nEnvoyé : lundi\nÀ : Al\nObjet : ok?\n\nok?", "Oui."),
            ("Да.\n\nОт: Bob <b@x.ru>\nОтправлено: сегодня\nКому: Al\nТема: ok?\n\nok?", "Да."),
            ("好\n\n发件人： Bob <b@x.cn>\n发送时间： 2026\n收件人： Al\n主题： ok?\n\nok?", "好"),
            ("Yes.\n\n*From:* b@x.example\n*Sent:* Monday\n*To:* Al\n*Subject:* ok?\n\nok?", {
                "Yes."
            }),
            ("Yes.\n\n---- Original Message ----\nok?", "Yes."),
            ("Yes.\n---------- Forwarded message ---------\nFrom: Bob", "Yes."),
            ("Yes.\n\nSent from my iPhone\n\nOn Monday Bob wrote:\n> ok?", "Yes."),
            ("Ja.\n\nVon meinem iPhone gesendet", "Ja."),
            (
                "Yes.\nGet Outlook for iOS\n________________________________\nFrom: Bob\nSent: x\n\
                 To: y\nSubject: z\n",
                "Yes.",
            ),
            // Removing one end exposes another.
            ("Yes.\nOn Mon at 10:00 Bob <b@x.example> wrote:\nfine\n> x", "Yes."),
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
            "Sent from my iPhone",
            "Sent from my heart, with a list of all the things that I would like you to do today:\nx",
            "Von: hier\nnach dort",
            "Data: see below\nFrom: the archive",
            "The report that you wrote:\nfine",
            "Please book:\nFrom: Berlin\nTo: Munich\nDate: 5 May\nPassengers: 2",
            "Please book:\nFrom: Berlin\nTo: Munich\nDate: 5 May\nSubject: a journey",
            "Please write:\nFrom: a@x.example\nTo: b@x.example\nDate: 5 May\n\nThe goods are here",
            "Hi,\nOn 5 May at 10:30 our client wrote:\nI want a refund.\n\nWhat should we do?",
            "Hi,\nOn 5 May b@x.example wrote:\nI want a refund.\n\nWhat should we do?",
            "Hallo,\nVon meinem Arzt habe ich nichts gehört.",
            "Summary\n--\nDetails",
            "Summary\n\n--\n\nDetails",
            "Summary\n\n--\nDetails\nof\nwhat\nis\nmeant",
        ] {
            assert_eq!(stripped(text), text, "{text}");
        }
        let long = format!("a\n--\n{}", "b\n".repeat(40));
        assert_eq!(stripped(&long), long.trim());
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let pieces = [
            "Yes.",
            "",
            "  ",
            "> ok?",
            "-- ",
            "On Mon at 10:00 Bob <b@x.example> wrote:",
            "From: Bob <b@x.example>",
            "Sent: x",
            "To: y",
            "Subject: z",
            "--",
            "-----Original Message-----",
            "Sent from my iPhone",
            "__________",
        ];
        let mut state = 1_usize;
        for length in 0..4000 {
            let mut text = String::new();
            for _ in 0..length % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
                text += pieces[(state >> 33) % pieces.len()];
                text += "\n";
            }
            let once = stripped(&text);
            assert_eq!(stripped(&once), once, "{text}");
            assert_eq!(once.is_empty(), text.trim().is_empty(), "{text}");
            assert!(text.contains(&once), "{text}");
        }
        let made = "On Mon at 10:00 a@b wrote:\nfine\n> x\n".repeat(50);
        assert_eq!(stripped(&made), made.trim());
    }

    #[test]
    fn a_long_thread_gets_an_answer() {
        let text = "On Monday\n".repeat(100_000) + &"> x\n".repeat(100_000);
        assert!(!stripped(&text).is_empty());
        let text = "On Mon 10:00 a@b wrote:\nfine\n".repeat(50_000);
        assert!(!stripped(&text).is_empty());
    }
}
