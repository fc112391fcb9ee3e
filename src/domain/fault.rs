//! Mistakes in a request, each with its place.

/// Longest name that an error repeats, in characters.
pub const SHOWN: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// JSON Pointer (RFC 6901).
    pub pointer: String,
    /// How to correct it.
    pub detail: String,
}

impl Fault {
    /// `detail` continues the sentence that the pointer begins.
    pub fn new(pointer: &str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), detail: detail.into() }
    }
}

/// Returns the pointer of member `name`, cut to [`SHOWN`] characters.
pub fn join(at: &str, name: &str) -> String {
    let name: String = name.chars().take(SHOWN).collect();
    format!("{at}/{}", escaped(&name))
}

/// Escapes a name for a pointer (RFC 6901 §3).
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Joins the mistakes to one line.
pub fn sentence(faults: &[Fault]) -> String {
    let one = |fault: &Fault| format!("{} {}", fault.pointer, fault.detail);
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}
