//! Colours of printed lines: on a terminal, unless the environment says otherwise.

use anstream::{AutoStream, ColorChoice};

const BOLD: &str = "1";
const FAINT: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";

#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    colours: bool,
}

impl Paint {
    /// Chooses by standard output and the environment: NO_COLOR, CLICOLOR_FORCE, CLICOLOR, TERM
    /// (<https://no-color.org>, <https://bixense.com/clicolors/>).
    pub(super) fn for_output() -> Self {
        Self { colours: AutoStream::choice(&std::io::stdout()) != ColorChoice::Never }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with(BOLD, text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.with(FAINT, text)
    }

    /// Text about an error.
    pub(super) fn alarm(self, text: &str) -> String {
        self.with(RED, text)
    }

    /// Text about an event.
    pub(super) fn news(self, text: &str) -> String {
        self.with(BLUE, text)
    }

    /// Text in the colour of a verdict: an SMTP reply, or the word of a record.
    pub(super) fn verdict(self, verdict: &str, text: &str) -> String {
        let code = match verdict.as_bytes().first() {
            Some(b'a' | b'2') => GREEN,
            Some(b'd' | b'4') => YELLOW,
            _ => RED,
        };
        self.with(code, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_colours_where_colours_are_wanted() {
        let (with, without) = (Paint { colours: true }, Paint { colours: false });
        for (verdict, code) in
            [("accepted", "32"), ("550 5.7.1", "31"), ("451", "33"), ("deferred", "33")]
        {
            assert_eq!(with.verdict(verdict, verdict), format!("\x1b[{code}m{verdict}\x1b[0m"));
            assert_eq!(without.verdict(verdict, verdict), verdict);
        }
    }
}
