//! The rule of RFC 5321 for the end of a message, written a second time over the whole buffer.

use crate::smtp::protocol::data::BareLineEnds;
use crate::smtp::protocol::line::Fault;

/// The message, whether it ended, its first fault, and the bytes left after it.
pub type Outcome = (Vec<u8>, bool, Option<Fault>, Vec<u8>);

/// Cuts at CRLF, stops at the line with a lone dot, drops a leading dot, then looks for faults in
/// the bytes on the wire.
pub fn reference(wire: &[u8], bare: BareLineEnds) -> Outcome {
    let (mut message, mut from) = (Vec::new(), 0);
    loop {
        let end = wire[from..].windows(2).position(|pair| pair == b"\r\n");
        let line = end.map_or(&wire[from..], |end| &wire[from..from + end]);
        if line == b"." && end.is_some() {
            let rest = wire[from + 3..].to_vec();
            return (message, true, first_fault(&wire[..from + 3], bare), rest);
        }
        let Some(end) = end else {
            // A decoder holds back a possible beginning of the end, and the LF that completes a
            // last bare CR, because the CR may be followed by its own LF.
            if !matches!(line, b"." | b".\r") {
                shown(line.strip_prefix(b".").unwrap_or(line), bare, &mut message);
                let waits = bare == BareLineEnds::Normalised && line.ends_with(b"\r");
                message.truncate(message.len() - usize::from(waits));
            }
            return (message, false, first_fault(wire, bare), vec![]);
        };
        shown(line.strip_prefix(b".").unwrap_or(line), bare, &mut message);
        message.extend_from_slice(b"\r\n");
        from += end + 2;
    }
}

fn shown(line: &[u8], bare: BareLineEnds, message: &mut Vec<u8>) {
    message.extend(line.iter().flat_map(|octet| match (octet, bare) {
        (b'\r' | b'\n', BareLineEnds::Normalised) => b"\r\n",
        _ => std::slice::from_ref(octet),
    }));
}

fn first_fault(wire: &[u8], bare: BareLineEnds) -> Option<Fault> {
    (0..wire.len()).find_map(|at| match (wire[at], bare) {
        (0, _) => Some(Fault::Nul),
        (_, BareLineEnds::Normalised) => None,
        (b'\n', _) if at == 0 || wire[at - 1] != b'\r' => Some(Fault::BareLf),
        (b'\r', _) if wire.get(at + 1).is_some_and(|next| *next != b'\n') => Some(Fault::BareCr),
        _ => None,
    })
}
