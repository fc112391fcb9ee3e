//! The header section, split just far enough to find the signatures before mail-auth reads it.
//!
//! mail-auth hashes the body once for every length that any signature names, and compares every
//! signed name with every field: both are the sender's to choose. So what exceeds the bounds is
//! left out of the header section that mail-auth sees. The raw message is never altered.

use bytes::Bytes;

/// One field: its name without the colon, and where its value and all of it lie in the message.
pub(super) struct Field {
    pub(super) name: String,
    /// After the colon, with folding and the line end, as mail-auth sees it.
    pub(super) value: Bytes,
    start: usize,
    end: usize,
}

/// All fields, and the offset of the empty line that ends them.
pub(super) struct Section {
    pub(super) fields: Vec<Field>,
    pub(super) end: usize,
}

/// Splits the header section of a message. The caller has scanned it strictly before, so that
/// there is only one way to read it.
pub(super) fn split(raw: &Bytes) -> Section {
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 0;
    while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(b"\r\n") || rest.starts_with(b"\n") {
            break;
        }
        let start = at;
        at = next_line(raw, at);
        while matches!(raw.get(at), Some(b' ' | b'\t')) {
            at = next_line(raw, at);
        }
        let whole = raw.get(start..at).unwrap_or_default();
        let colon = whole.iter().position(|b| *b == b':').unwrap_or(whole.len());
        let name = String::from_utf8_lossy(whole.get(..colon).unwrap_or_default());
        let value = raw.slice((start + colon + 1).min(at)..at);
        fields.push(Field { name: name.trim().to_ascii_lowercase(), value, start, end: at });
    }
    Section { fields, end: at }
}

fn next_line(raw: &[u8], at: usize) -> usize {
    let rest = raw.get(at..).unwrap_or_default();
    rest.iter().position(|b| *b == b'\n').map_or(raw.len(), |newline| at + newline + 1)
}

impl Section {
    /// The fields of one name, top to bottom.
    pub(super) fn named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Field> {
        self.fields.iter().filter(move |field| field.name == name)
    }

    /// Whether a field of this name is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.named(name).next().is_some()
    }

    /// The header section without the `DKIM-Signature` fields after the first `signatures` ones
    /// and, unless `arc`, without the ARC fields; `None` if that leaves nothing out.
    pub(super) fn bounded(&self, raw: &[u8], signatures: usize, arc: bool) -> Option<Vec<u8>> {
        let mut seen = 0;
        let mut left_out = false;
        let mut kept = Vec::new();
        for field in &self.fields {
            seen += usize::from(field.name == "dkim-signature");
            let excess = field.name == "dkim-signature" && seen > signatures;
            if excess || (!arc && field.name.starts_with("arc-")) {
                left_out = true;
            } else {
                kept.extend_from_slice(raw.get(field.start..field.end).unwrap_or_default());
            }
        }
        left_out.then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_the_offset_of_the_body() {
        let raw = Bytes::from_static(b"A: 1\r\nDKIM-Signature: x\r\n\ty\r\nb:\r\n\r\nbody: z\r\n");
        let section = split(&raw);
        let names: Vec<&str> = section.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a", "dkim-signature", "b"]);
        assert_eq!(section.fields[1].value, &b" x\r\n\ty\r\n"[..]);
        assert_eq!(&raw[section.end..], b"\r\nbody: z\r\n");
        assert_eq!(section.bounded(&raw, 1, true), None);
        assert_eq!(section.bounded(&raw, 0, true).unwrap(), b"A: 1\r\nb:\r\n");
    }

    #[test]
    fn odd_endings_end() {
        for raw in ["", "\r\n", "a", "a\n", "a:b", "a:b\r\n c", "\n\n", " a"] {
            let raw = Bytes::from_static(raw.as_bytes());
            assert!(split(&raw).end <= raw.len());
        }
    }
}
