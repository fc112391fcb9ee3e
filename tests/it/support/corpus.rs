//! Other people's messages, where `GATEPOST_CORPUS` names a folder of them: `index.tsv` says what
//! each is and what should come of it, `zones/` holds the DNS.

use std::io::Write as _;
use std::path::Path;

/// The suites whose keys are published in a zone of theirs.
const ZONES: [(&str, &str); 2] =
    [("stalwartlabs+mail-auth/", "mail-auth.tsv"), ("lieser+dkim_verifier/", "dkim_verifier.tsv")];

/// Suites in forms of their own, and descriptions, which are no messages.
const NO_MESSAGES: [&str; 2] = [".yml", ".json"];

/// One message as it would come over the wire.
pub struct Message {
    /// Its path in the folder.
    pub path: String,
    pub raw: Vec<u8>,
    /// The expected result; empty where none is stated.
    pub expected: String,
    /// The DNS of its suite, in the form of `testkit::dns`; empty where it has none.
    pub zone: String,
}

/// All messages, or `None` where the folder was not given.
pub fn messages() -> Option<Vec<Message>> {
    let folder = std::env::var_os("GATEPOST_CORPUS")?;
    let folder = Path::new(&folder);
    let index = std::fs::read_to_string(folder.join("index.tsv")).unwrap();
    let rows = index.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let messages = rows.filter(|row| !NO_MESSAGES.iter().any(|ending| row[0].ends_with(ending)));
    Some(messages.map(|row| read(folder, &row)).collect())
}

fn read(folder: &Path, row: &[&str]) -> Message {
    let path = row[0];
    let stored = std::fs::read(folder.join(path)).unwrap();
    let suite = ZONES.iter().find(|(suite, _)| path.starts_with(suite));
    let mut zone = suite.map_or_else(String::new, |(_, file)| {
        std::fs::read_to_string(folder.join("zones").join(file)).unwrap()
    });
    let mut raw = &stored[..];
    // Some files keep their keys in front of the message.
    let head = raw.windows(2).position(|two| two == b"\n\n");
    if let (Some(end), Some(_)) = (head, suite.filter(|_| path.ends_with(".txt"))) {
        for line in String::from_utf8_lossy(&raw[..end]).lines() {
            if let Some((name, value)) = line.split_once(' ').filter(|(name, _)| name.contains('.'))
            {
                zone = zone
                    .lines()
                    .filter(|row| !row.starts_with(&format!("{name}\t")))
                    .fold(String::new(), |kept, row| kept + row + "\n");
                zone += &format!("{name}\tTXT\tNOERROR\t{value}\n");
            }
        }
        raw = &raw[end + 2..];
    }
    // The first line of a mailbox file is its own, not the message's.
    if raw.starts_with(b"From ") {
        raw = raw.splitn(2, |octet| *octet == b'\n').nth(1).unwrap_or_default();
    }
    let expected = row.get(5).copied().unwrap_or_default().to_owned();
    Message { path: path.to_owned(), raw: on_the_wire(raw), expected, zone }
}

/// Line ends as they would be on the wire: most messages are kept with bare LFs.
fn on_the_wire(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    for (at, octet) in raw.iter().enumerate() {
        if *octet == b'\n' && (at == 0 || raw[at - 1] != b'\r') {
            out.push(b'\r');
        }
        out.push(*octet);
    }
    out
}

/// Past the harness, which hides what a passing test prints: whoever reads a run must see what it
/// ran over.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}
