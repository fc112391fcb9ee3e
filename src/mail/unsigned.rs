//! Effects of unsigned fields on the body: one that is added to a signed message turns its text into
//! a file or into other text, and no signature breaks (threats A23).

use super::fields::Known;
use super::mime;
use super::structure::{Entry, Kind};

/// Tells, for each of the `unsigned` fields, how it decides about `root`, the body of a message
/// without parts. Delimiters of parts, and the fields below them, are in the signed body.
pub(super) fn effects(root: &Entry, unsigned: &[Known]) -> Vec<String> {
    if root.kind == Kind::Multipart {
        return Vec::new();
    }
    let told = |field: &Known| {
        let does = effect(root, *field)?;
        Some(format!("{} is not signed, and {does}", field.as_str()))
    };
    unsigned.iter().filter_map(told).collect()
}

fn effect(root: &Entry, field: Known) -> Option<String> {
    let attaches = |is_so: bool| is_so.then(|| "makes the body an attachment".to_owned());
    let decodes = |name: &str| Some(format!("has the body decoded as {name}"));
    match field {
        Known::ContentDisposition => {
            let is_other = root.disposition.as_deref().is_some_and(|kind| kind != "inline");
            attaches(is_other || root.is_disputed)
        }
        Known::ContentType if !(root.is("text", "plain") || root.is("text", "html")) => {
            attaches(true)
        }
        // Texts in these are the same text without the field.
        Known::ContentType => mime::charset(root)
            .filter(|name| !["utf-8", "us-ascii"].contains(&name.as_str()))
            .and_then(|name| decodes(&name)),
        Known::ContentTransferEncoding => root.transfer.decodes().and_then(decodes),
        _ => None,
    }
}
