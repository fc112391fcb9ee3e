//! Mistakes in what a client sent, each with its place.

/// The longest name that an error repeats, characters.
pub const SHOWN: usize = 64;

/// A mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// RFC 6901.
    pub pointer: String,
    /// What to do about it.
    pub detail: String,
}

impl Fault {
    /// The words go on behind the place.
    pub fn new(pointer: &str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), detail: detail.into() }
    }
}

/// The pointer of a member, as an error shows it.
pub fn join(at: &str, name: &str) -> String {
    let name: String = name.chars().take(SHOWN).collect();
    format!("{at}/{}", escaped(&name))
}

/// A name as a part of a pointer (RFC 6901 §3).
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The mistakes in words, for one line.
pub fn sentence(faults: &[Fault]) -> String {
    let one = |fault: &Fault| format!("{} {}", fault.pointer, fault.detail);
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}
