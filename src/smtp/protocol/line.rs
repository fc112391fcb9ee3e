//! Framing of command lines: only CRLF ends a line (RFC 5321 §2.3.8).

use memchr::memchr3;

/// A byte that is forbidden in commands and messages. Servers that disagree about it can be made to
/// see two messages in one (CVE-2023-51764 and similar).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// LF without CR before it.
    BareLf,
    /// CR without LF after it.
    BareCr,
    Nul,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One command line, without its CRLF.
    Whole(Vec<u8>),
    /// The line exceeds the limit. Reported at once and only once, because a client that sends no
    /// CRLF would never get a reply. The rest of the line is dropped.
    TooLong,
    /// More than the limit was dropped: nothing more is read.
    Endless,
    /// The line has a forbidden byte.
    Faulty(Fault),
}

/// Collects one line at a time, within its limit.
#[derive(Debug)]
pub struct LineReader {
    kept: Vec<u8>,
    after_cr: bool,
    /// Bytes of the line beyond its limit.
    dropped: u64,
    /// The excess was reported.
    told: bool,
    limit: usize,
    max_dropped: u64,
}

impl LineReader {
    /// `limit` counts the CRLF too (RFC 5321 §4.5.3.1.4); `max_dropped` counts bytes beyond
    /// `limit`.
    pub const fn new(limit: usize, max_dropped: u64) -> Self {
        let (after_cr, dropped, told) = (false, 0, false);
        Self { kept: Vec::new(), after_cr, dropped, told, limit, max_dropped }
    }

    /// Whether no byte of the next line has come yet.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && !self.after_cr && self.dropped == 0
    }

    /// Takes bytes off the front of `input`, up to the end of the line or to a report about it.
    /// None if the input ends first.
    pub fn read(&mut self, input: &mut &[u8]) -> Option<Line> {
        loop {
            if !self.after_cr {
                let plain = memchr3(b'\r', b'\n', 0, input).unwrap_or(input.len());
                let (text, rest) = input.split_at_checked(plain).unwrap_or((*input, b""));
                self.keep(text);
                *input = rest;
            }
            if self.dropped > 0 && !std::mem::replace(&mut self.told, true) {
                return Some(Line::TooLong);
            }
            if self.dropped > self.max_dropped {
                self.clear();
                return Some(Line::Endless);
            }
            let (&octet, rest) = input.split_first()?;
            *input = rest;
            match (octet, self.after_cr) {
                (b'\n', true) => match self.end() {
                    Some(line) => return Some(line),
                    None => continue,
                },
                (b'\n', false) => return Some(self.faulty(Fault::BareLf)),
                (_, true) => return Some(self.faulty(Fault::BareCr)),
                (b'\r', false) => self.after_cr = true,
                (_, false) => return Some(self.faulty(Fault::Nul)),
            }
        }
    }

    fn keep(&mut self, text: &[u8]) {
        // Two bytes of the limit belong to the CRLF.
        let room = self.limit.saturating_sub(2).saturating_sub(self.kept.len());
        let over = if self.dropped > 0 { text.len() } else { text.len().saturating_sub(room) };
        self.dropped = self.dropped.saturating_add(u64::try_from(over).unwrap_or(u64::MAX));
        if self.dropped > 0 {
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(text);
        }
    }

    /// Returns the line; None if [`Line::TooLong`] was returned for it.
    fn end(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.kept);
        let whole = self.dropped == 0;
        self.clear();
        whole.then_some(Line::Whole(line))
    }

    fn faulty(&mut self, fault: Fault) -> Line {
        self.clear();
        Line::Faulty(fault)
    }

    fn clear(&mut self) {
        *self = Self::new(self.limit, self.max_dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, mut input: &[u8]) -> Vec<Line> {
        let mut reader = LineReader::new(limit, 30);
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
        let mut reader = LineReader::new(512, 1_000_000);
        for nth in 0..1000 {
            let said = reader.read(&mut &[b'x'; 1000][..]);
            assert_eq!(said, (nth == 0).then_some(Line::TooLong));
            assert!(reader.kept.capacity() <= 1024);
        }
        assert_eq!(reader.read(&mut &b"\r\n"[..]), None);
        assert!(reader.is_empty());
    }

    #[test]
    fn a_line_over_the_limit_is_spoken_of_before_it_ends_and_is_not_read_for_ever() {
        let whole = [&b"abcd"[..], &[b'x'; 29], b"\r\nNO\r\n"].concat();
        let endless = [&b"abcd"[..], &[b'x'; 30]].concat();
        for cut in 1..=whole.len() {
            let said = |octets: &[u8]| {
                let mut reader = LineReader::new(5, 30);
                let all = octets.chunks(cut).flat_map(|mut piece| {
                    std::iter::from_fn(|| reader.read(&mut piece)).collect::<Vec<_>>()
                });
                all.collect::<Vec<_>>()
            };
            assert_eq!(said(&whole), [Line::TooLong, Line::Whole(b"NO".into())], "{cut}");
            assert_eq!(said(&endless), [Line::TooLong, Line::Endless], "{cut}");
            assert_eq!(said(&endless[..33]), [Line::TooLong], "{cut}");
            assert_eq!(said(&endless[..4]), [Line::TooLong], "{cut}");
        }
    }
}
