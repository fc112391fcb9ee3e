//! Texts of strangers on a terminal, which they must not command.

/// The sign in the place of one that is not shown.
const HIDDEN: char = '\u{fffd}';

/// Keeps a text in its line, its colour and its reading direction.
pub(super) fn line(text: &str) -> String {
    text.replace(is_command, &HIDDEN.to_string())
}

/// Likewise a text of several lines.
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
