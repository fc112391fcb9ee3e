//! Foreign text on a terminal, stripped of control sequences.

/// Stands in place of each removed character.
const HIDDEN: char = '\u{fffd}';

/// Replaces the characters that would leave the line, its colour or its reading direction.
pub(super) fn line(text: &str) -> String {
    text.replace(is_command, &HIDDEN.to_string())
}

/// Like [`line`], but keeps line breaks and tabs.
pub(super) fn lines(text: &str) -> String {
    text.replace(|c: char| is_command(c) && c != '\n' && c != '\t', &HIDDEN.to_string())
}

/// A control character, or one that turns the reading direction (UAX #9).
fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_commands_the_terminal() {
        let text = "a\u{1b}[2J\ty\n\u{9b}z\u{202e}c";
        assert_eq!(line(text), "a\u{fffd}[2J\u{fffd}y\u{fffd}\u{fffd}z\u{fffd}c");
        assert_eq!(lines(text), "a\u{fffd}[2J\ty\n\u{fffd}z\u{fffd}c");
    }
}
