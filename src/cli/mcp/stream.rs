//! Server-sent events (HTML, "Server-sent events"), as far as MCP uses them: the data of each.

/// A line or an event that is longer than an answer may be, or no UTF-8.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("an event of the server is longer than {0} bytes")]
    TooLong(usize),
    #[error("an event of the server is not UTF-8")]
    NotUtf8,
}

/// Puts events together of pieces, however they are cut.
pub(super) struct Events {
    most: usize,
    /// A line without its end.
    line: Vec<u8>,
    /// The data of the event so far; None without a line of data.
    data: Option<String>,
}

impl Events {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, line: Vec::new(), data: None }
    }

    /// Takes the next piece; returns the data of each event that it ends. Events without data, such as
    /// comments that keep the connection open, are left out.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, StreamError> {
        let mut ended = Vec::new();
        for octet in piece {
            if *octet != b'\n' {
                self.line.push(*octet);
                if self.line.len() > self.most {
                    return Err(StreamError::TooLong(self.most));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| StreamError::NotUtf8)?;
            ended.extend(self.end_line(line.strip_suffix('\r').unwrap_or(line))?);
        }
        Ok(ended)
    }

    fn end_line(&mut self, line: &str) -> Result<Option<String>, StreamError> {
        if line.is_empty() {
            return Ok(self.data.take().filter(|data| !data.is_empty()));
        }
        let Some(data) = line.strip_prefix("data:") else { return Ok(None) };
        let data = data.strip_prefix(' ').unwrap_or(data);
        let whole = match self.data.take() {
            None => data.to_owned(),
            Some(before) => before + "\n" + data,
        };
        if whole.len() > self.most {
            return Err(StreamError::TooLong(self.most));
        }
        self.data = Some(whole);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = b": keep\r\n\r\nid: 1\nevent: message\ndata: {\"a\":\ndata:1}\n\ndata: two\r\n\r\ndata:\n\ndata: cut";
        for size in 1..stream.len() {
            let mut events = Events::new(64);
            let pieces = stream.chunks(size).flat_map(|piece| events.push(piece).unwrap());
            assert_eq!(pieces.collect::<Vec<_>>(), ["{\"a\":\n1}", "two"], "{size}");
        }
    }

    #[test]
    fn a_line_and_an_event_are_bounded() {
        assert!(matches!(Events::new(4).push(b"data: 1"), Err(StreamError::TooLong(4))));
        let many = b"data: a\n".repeat(8);
        assert!(matches!(Events::new(9).push(&many), Err(StreamError::TooLong(9))));
        assert!(matches!(Events::new(9).push(b"\xff\n"), Err(StreamError::NotUtf8)));
    }
}
