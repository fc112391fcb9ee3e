//! Framing of command lines: a line ends in CRLF and nothing else (RFC 5321 §2.3.8).

use memchr::memchr3;

/// What a client must not put on the wire, in a command or in a message: servers that disagree
/// about it can be made to see two messages where there is one (CVE-2023-51764 and its kin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// LF without CR before it.
    BareLf,
    /// CR without LF after it.
    BareCr,
    /// NUL.
    Nul,
}

/// What a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One command line, without its CRLF.
    Whole(Vec<u8>),
    /// A line that went over the limit; it has been read to its CRLF and was not kept.
    TooLong,
    /// The line is not a line.
    Faulty(Fault),
}

/// Collects one line at a time, and never more than its limit.
#[derive(Debug)]
pub struct LineReader {
    kept: Vec<u8>,
    after_cr: bool,
    too_long: bool,
    limit: usize,
}

impl LineReader {
    /// `limit` counts octets with the CRLF (RFC 5321 §4.5.3.1.4).
    pub const fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), after_cr: false, too_long: false, limit }
    }

    /// Whether nothing of a next line has come yet.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && !self.after_cr && !self.too_long
    }

    /// Takes octets off the front of `input` up to the end of the line; `None` when the input ends
    /// before the line does.
    pub fn read(&mut self, input: &mut &[u8]) -> Option<Line> {
        loop {
            if !self.after_cr {
                let plain = memchr3(b'\r', b'\n', 0, input).unwrap_or(input.len());
                let (text, rest) = input.split_at_checked(plain).unwrap_or((*input, b""));
                self.keep(text);
                *input = rest;
            }
            let (&octet, rest) = input.split_first()?;
            *input = rest;
            match (octet, self.after_cr) {
                (b'\n', true) => return Some(self.end()),
                (b'\n', false) => return Some(self.faulty(Fault::BareLf)),
                (_, true) => return Some(self.faulty(Fault::BareCr)),
                (b'\r', false) => self.after_cr = true,
                (_, false) => return Some(self.faulty(Fault::Nul)),
            }
        }
    }

    fn keep(&mut self, text: &[u8]) {
        // Two octets of the limit belong to the CRLF.
        let room = self.limit.saturating_sub(2).saturating_sub(self.kept.len());
        self.too_long |= text.len() > room;
        if self.too_long {
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(text);
        }
    }

    fn end(&mut self) -> Line {
        self.after_cr = false;
        let line = std::mem::take(&mut self.kept);
        if std::mem::take(&mut self.too_long) { Line::TooLong } else { Line::Whole(line) }
    }

    fn faulty(&mut self, fault: Fault) -> Line {
        self.after_cr = false;
        self.too_long = false;
        self.kept = Vec::new();
        Line::Faulty(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, mut input: &[u8]) -> Vec<Line> {
        let mut reader = LineReader::new(limit);
        std::iter::from_fn(|| reader.read(&mut input)).collect()
    }

    #[test]
    fn a_line_ends_in_crlf_only() {
        assert_eq!(lines(99, b"a\r\n\r\nb"), [Line::Whole(b"a".into()), Line::Whole(vec![])]);
        assert_eq!(lines(99, b"a\n"), [Line::Faulty(Fault::BareLf)]);
        assert_eq!(lines(99, b"a\rb")[0], Line::Faulty(Fault::BareCr));
        assert_eq!(lines(99, b"a\r\r\n")[0], Line::Faulty(Fault::BareCr));
        assert_eq!(lines(99, b"\0")[0], Line::Faulty(Fault::Nul));
    }

    #[test]
    fn the_limit_counts_the_line_end_and_nothing_beyond_it_is_kept() {
        assert_eq!(lines(5, b"abc\r\n"), [Line::Whole(b"abc".into())]);
        assert_eq!(
            lines(5, b"abcd\r\nabcdefghijklmnop\r\nx\r\n"),
            [Line::TooLong, Line::TooLong, Line::Whole(b"x".into())]
        );
        let mut reader = LineReader::new(512);
        for _ in 0..1000 {
            assert_eq!(reader.read(&mut &[b'x'; 1000][..]), None);
            assert!(reader.kept.capacity() <= 1024);
        }
        assert_eq!(reader.read(&mut &b"\r\n"[..]), Some(Line::TooLong));
        assert!(reader.is_empty());
    }
}
