//! Makes names of attachments harmless (threats D5): nothing in them can mislead a file system, a
//! header or a reader.

use super::visible::Unseen;

/// Longest file name in bytes, the limit of common file systems.
const MOST_OCTETS: usize = 255;
/// Longest extension in bytes that is kept when a name is cut.
const LONGEST_EXTENSION: usize = 32;

/// Returns a file name for people: the last path component, without controls, invisible characters
/// and characters that Windows forbids; no device name; at most 255 bytes with the extension kept.
/// If nothing is left, returns `attachment` with the extension for `content_type`. Idempotent:
/// links identify parts by the result.
pub(super) fn sanitise(name: Option<&str>, content_type: &str) -> String {
    let name = name.unwrap_or_default();
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = base
        .chars()
        .filter(|c| !c.is_control() && Unseen::of(*c).is_none())
        .map(|c| match c {
            '<' | '>' | ':' | '"' | '|' | '?' | '*' => '_',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    let mut settled = clean;
    // A cut name may end in a dot or be a device name; after the third round nothing changes.
    for _ in 0..3 {
        settled = settle(&settled);
    }
    match settled.is_empty() {
        true => format!("attachment{}", extension(content_type)),
        false => settled,
    }
}

/// Removes final dots and spaces, which Windows drops, and defuses device names.
fn settle(name: &str) -> String {
    let name = name.trim().trim_end_matches(['.', ' ']);
    if is_device(name) { cut(&format!("_{name}")) } else { cut(name) }
}

fn cut(name: &str) -> String {
    if name.len() <= MOST_OCTETS {
        return name.to_owned();
    }
    let extension = name
        .rfind('.')
        .and_then(|dot| name.get(dot..))
        .filter(|extension| extension.len() <= LONGEST_EXTENSION)
        .unwrap_or_default();
    let stem = super::visible::cut(name, MOST_OCTETS - extension.len());
    format!("{stem}{extension}")
}

/// Tells whether Windows opens a device for the name, whatever its extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let numbered = |prefix| {
        stem.strip_prefix(prefix).is_some_and(|rest| {
            let mut digits = rest.chars();
            let is_one = matches!(digits.next(), Some('0'..='9' | '¹' | '²' | '³'));
            is_one && digits.next().is_none()
        })
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
        || numbered("com")
        || numbered("lpt")
}

/// The usual extension of types that often come without a name.
fn extension(content_type: &str) -> &'static str {
    match content_type {
        "application/gzip" => ".gz",
        "application/json" => ".json",
        "application/msword" => ".doc",
        "application/pdf" => ".pdf",
        "application/pgp-signature" => ".asc",
        "application/pkcs7-mime" | "application/x-pkcs7-mime" => ".p7m",
        "application/pkcs7-signature" | "application/x-pkcs7-signature" => ".p7s",
        "application/rtf" | "text/rtf" => ".rtf",
        "application/vnd.ms-excel" => ".xls",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation" => ".pptx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => ".xlsx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => ".docx",
        "application/zip" => ".zip",
        "audio/mpeg" => ".mp3",
        "audio/wav" | "audio/x-wav" => ".wav",
        "image/gif" => ".gif",
        "image/jpeg" => ".jpg",
        "image/png" => ".png",
        "image/svg+xml" => ".svg",
        "image/webp" => ".webp",
        "message/delivery-status" | "text/plain" | "text/rfc822-headers" => ".txt",
        "message/rfc822" | "message/global" => ".eml",
        "text/calendar" => ".ics",
        "text/csv" => ".csv",
        "text/html" => ".html",
        "text/vcard" | "text/x-vcard" => ".vcf",
        "video/mp4" => ".mp4",
        _ => ".bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_names_become_harmless() {
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("Jahresbericht – März.pdf", "Jahresbericht – März.pdf"),
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            ("C:\\Windows\\x.exe", "x.exe"),
            ("C:x.exe", "C_x.exe"),
            ("a\r\nX-Evil: y", "aX-Evil_ y"),
            ("a.html\0.png", "a.html.png"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("in\u{200b}voice.pdf\u{e0041}", "invoice.pdf"),
            ("x.txt. . ", "x.txt"),
            ("CON", "_CON"),
            ("🙂 \"a\".png", "🙂 _a_.png"),
            ("con.txt", "_con.txt"),
            ("Lpt1.tar.gz", "_Lpt1.tar.gz"),
            ("com¹", "_com¹"),
            ("comet.txt", "comet.txt"),
            ("a\u{2028}b", "a b"),
            (".htaccess", ".htaccess"),
        ] {
            assert_eq!(sanitise(Some(name), "x/y"), expected, "{name:?}");
        }
    }

    #[test]
    fn a_name_is_made_where_none_is_left() {
        for name in ["", ".", "..", "...", "/", "a/", "\\", " ", "\0", "\u{202e}"] {
            assert_eq!(sanitise(Some(name), "application/pdf"), "attachment.pdf", "{name:?}");
        }
        assert_eq!(sanitise(None, "message/rfc822"), "attachment.eml");
        assert_eq!(sanitise(None, "x/y"), "attachment.bin");
    }

    #[test]
    fn what_it_has_made_it_leaves_as_it_is() {
        let (dots, spaces, long) = (".".repeat(300), " ".repeat(300), "a".repeat(300));
        for name in [
            format!("{}{dots}b{long}", "a".repeat(251)),
            format!("{}{spaces}b{long}", "a".repeat(251)),
            format!("{dots}{long}"),
            format!("{dots}x"),
            format!("con{spaces}{long}"),
            format!("con{spaces}{long}.pdf"),
            format!("con.{long}"),
            format!("com1{spaces}.{long}"),
            format!("{long}. . .{long}"),
            format!("{long}.{}", "b".repeat(31)),
            format!("ä{}", "🙂.".repeat(100)),
            format!("{spaces}{dots}{spaces}"),
            "con .txt".into(),
            ". x".into(),
        ] {
            let once = sanitise(Some(&name), "application/pdf");
            assert_eq!(sanitise(Some(&once), "application/pdf"), once, "{name}");
            assert!((1..=255).contains(&once.len()) && !once.ends_with(['.', ' ']), "{once}");
            assert!(!is_device(&once), "{once}");
        }
        let all = [sanitise(Some(&format!("{dots}{long}")), "application/pdf")];
        assert_eq!(all, ["attachment.pdf"]);
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let long = sanitise(Some(&format!("{}.pdf", "ä".repeat(5000))), "x/y");
        assert!(long.len() <= 255 && long.len() > 250 && long.ends_with("ä.pdf"), "{long}");
        let endless = sanitise(Some(&format!("a.{}", "b".repeat(5000))), "x/y");
        assert_eq!(endless.len(), 255);
    }
}
