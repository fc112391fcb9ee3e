//! Links that deceive their readers.

use icu_properties::CodePointMapData;
use icu_properties::props::Script;
use url::Url;

use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;

use super::visible::{self, Unseen};
use super::words;

/// Cyrillic, Greek and Armenian letters that look Latin in small type.
const LOOK_ALIKES: &str = "\
    \u{430}\u{441}\u{435}\u{43e}\u{440}\u{445}\u{443}\u{456}\u{458}\u{455}\u{4bb}\
    \u{501}\u{51b}\u{51d}\u{4bd}\u{4cf}\u{3bf}\u{3bd}\u{3c1}\u{3b1}\u{3ba}\u{3b9}\
    \u{3c5}\u{3c7}\u{3c9}\u{3b3}\u{57d}\u{578}\u{585}\u{570}\u{566}\u{581}\u{584}";

/// The fault of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deceit {
    /// `link_text_differs` or `deceptive_link`.
    pub(super) kind: &'static str,
    /// The link's effect in plain words: `leads to evil.example`.
    pub(super) does: String,
}

/// Compares the text of a link with its target. Returns None for an honest link.
pub(super) fn deceit(shown: &str, target: &str) -> Option<Deceit> {
    let differs = |does| Some(Deceit { kind: "link_text_differs", does });
    let deceives = |does| Some(Deceit { kind: "deceptive_link", does });
    let shown: String = shown.chars().filter(|c| Unseen::of(*c).is_none()).collect();
    let shown = shown.trim();
    let url = Url::parse(target.trim()).ok()?;
    match url.scheme() {
        "javascript" | "vbscript" => deceives("runs a script".to_owned()),
        "data" => deceives("carries its own page".to_owned()),
        "mailto" => {
            let named = Address::parse(shown).ok()?;
            let target = Address::parse(&decoded(url.path())).ok();
            (target.as_ref() != Some(&named)).then_some(())?;
            differs(format!(
                "writes to {}",
                target.map_or("nobody".to_owned(), |to| to.to_string())
            ))
        }
        "http" | "https" => {
            let host = url.host_str()?;
            if !url.username().is_empty() || url.password().is_some() {
                return deceives(format!("leads to {host} and names another before it"));
            }
            if let Some(unicode) = look_alike(host) {
                return deceives(format!("leads to {host}, which looks like {unicode}"));
            }
            let named = named_host(shown)?;
            (!is_same_site(&named, host)).then_some(())?;
            differs(format!("leads to {host}"))
        }
        _ => None,
    }
}

/// Tells whether two hosts belong to one registered domain.
fn is_same_site(one: &str, other: &str) -> bool {
    let bare = |host: &str| host.strip_prefix("www.").unwrap_or(host).to_owned();
    let site = |host: &str| psl::domain_str(host).map(ToOwned::to_owned);
    bare(one) == bare(other) || (site(one).is_some() && site(one) == site(other))
}

/// Returns the host that a link's text names: that of the first web address in it, or the whole
/// text if it is a host name under a known public suffix.
fn named_host(shown: &str) -> Option<String> {
    let web_host = |text: &str| {
        let url = Url::parse(text).ok()?;
        matches!(url.scheme(), "http" | "https").then(|| url.host_str().map(ToOwned::to_owned))?
    };
    let explicit = shown
        .split_whitespace()
        .map(|word| word.trim_start_matches(|c: char| !c.is_alphanumeric()))
        .find(|word| {
            let head = visible::cut(word, 8).to_ascii_lowercase();
            head.starts_with("http://") || head.starts_with("https://") || head.starts_with("www.")
        });
    if let Some(word) = explicit {
        let has_scheme = word.contains("://");
        return if has_scheme { web_host(word) } else { web_host(&format!("http://{word}")) };
    }
    let host = shown.split(['/', '?', '#']).next()?.trim_end_matches(['.', ',', ':', ')']);
    let name = DomainName::parse(host).ok()?;
    let is_known = psl::suffix(name.as_str().as_bytes()).is_some_and(|suffix| suffix.is_known());
    (is_known && name.as_str().contains('.')).then(|| name.as_str().to_owned())
}

/// Returns the host as displayed if it could pass for a Latin one: it mixes alphabets in a label,
/// or consists of look-alikes (UTS 39 §5).
fn look_alike(host: &str) -> Option<String> {
    if !host.contains("xn--") {
        return None;
    }
    let (unicode, outcome) = idna::domain_to_unicode(host);
    outcome.ok()?;
    unicode.split('.').any(deceives).then_some(unicode)
}

fn deceives(label: &str) -> bool {
    let scripts = CodePointMapData::<Script>::new();
    let has = |script| label.chars().any(|c| scripts.get(c) == script);
    let foreign = [Script::Cyrillic, Script::Greek, Script::Armenian, Script::Cherokee];
    let is_foreign = foreign.into_iter().any(has);
    // Phonetic letters, such as `ɡ` and `ɑ`.
    let is_phonetic = label.chars().any(|c| matches!(c, '\u{250}'..='\u{2af}'));
    let is_look_alike = |c: char| LOOK_ALIKES.contains(c) || c.is_ascii_digit() || c == '-';
    is_phonetic || (is_foreign && (has(Script::Latin) || label.chars().all(is_look_alike)))
}

/// Decodes percent signs in the address of a mailto link (RFC 6068 §2).
fn decoded(path: &str) -> String {
    let mut octets = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octet = tail.get(..2).filter(|_| *first == b'%').and_then(words::hex_octet);
        octets.push(octet.unwrap_or(*first));
        rest = if octet.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_make_an_escape() {
        for (path, octets) in [("a%40b", "a@b"), ("%+5%-1% 1", "%+5%-1% 1"), ("%4", "%4")] {
            assert_eq!(decoded(path), octets);
        }
    }

    #[test]
    fn a_link_is_compared_with_its_text() {
        const DIFFERS: &str = "link_text_differs";
        const DECEIVES: &str = "deceptive_link";
        for (shown, target, expected) in [
            ("https://good.example/x", "https://evil.example/", DIFFERS),
            ("www.good.com", "http://evil.example", DIFFERS),
            ("good.com", "https://evil.example", DIFFERS),
            ("go\u{200b}od.com", "https://evil.example", DIFFERS),
            ("good.com/login", "https://good.com.evil.example", DIFFERS),
            ("Log in at https://good.example now", "https://evil.example", DIFFERS),
            ("a.github.io", "https://b.github.io", DIFFERS),
            ("boss@good.com", "mailto:x@evil.example", DIFFERS),
            ("boss@good.com", "mailto:", DIFFERS),
            ("x", "https://good.example@evil.example/", DECEIVES),
            ("x", "https://good.example:443@evil.example/", DECEIVES),
            ("x", "javascript:alert(1)", DECEIVES),
            ("x", " JaVa\tScript:alert(1)", DECEIVES),
            ("x", "data:text/html,<script>", DECEIVES),
            ("x", "https://\u{430}pple.com/", DECEIVES),
            ("x", "https://xn--80ak6aa92e.com/", DECEIVES),
            ("x", "https://\u{261}oogle.com", DECEIVES),
            // Honest.
            ("good.com", "https://WWW.good.com/x", ""),
            ("good.com", "https://click.good.com/x", ""),
            ("https://good.example", "https://good.example:8443/y", ""),
            ("m\u{fc}nchen.de", "https://xn--mnchen-3ya.de/", ""),
            (
                "x",
                "https://\u{43f}\u{440}\u{435}\u{437}\u{438}\u{434}\u{435}\u{43d}\u{442}.\u{440}\u{444}/",
                "",
            ),
            ("x", "https://\u{65e5}\u{672c}\u{8a9e}.jp/", ""),
            ("Click here", "https://evil.example", ""),
            ("boss@good.com", "https://evil.example", ""),
            ("boss@good.com", "mailto:Boss%40good.com?subject=x", ""),
            ("Boss", "mailto:boss@good.com", ""),
            ("good.com", "mailto:x@evil.example", ""),
            ("e.g.", "https://evil.example", ""),
            ("version 1.2", "https://evil.example", ""),
            ("notes.txt", "https://evil.example", ""),
            ("x", "#top", ""),
            ("x", "tel:+491234", ""),
            ("x", "", ""),
        ] {
            let found = deceit(shown, target).map_or("", |deceit| deceit.kind);
            assert_eq!(found, expected, "{shown} {target}");
        }
    }
}
