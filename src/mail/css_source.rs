//! CSS as it is written, made simple (CSS Syntax 3 §4): no comments, no strings, no addresses, no
//! escapes, so that braces, colons and semicolons that are left are those of the grammar.

use std::borrow::Cow;

/// Stands for an escaped character that a name of CSS is not made of.
const OTHER: char = '\u{fffd}';

/// `css` without comments, with empty strings and addresses, and with its escapes decoded.
pub(super) fn plain(css: &str) -> Cow<'_, str> {
    let is_plain = !css.contains(['\\', '"', '\'', '(']) && !css.contains("/*");
    if is_plain {
        return Cow::Borrowed(css);
    }
    let (mut out, mut rest) = (String::with_capacity(css.len()), css);
    while let Some(at) = rest.find(['\\', '"', '\'', '(', '/']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let tail = from.get(1..).unwrap_or_default();
        rest = match from.as_bytes().first() {
            Some(b'\\') => escape(tail, &mut out),
            Some(b'/') => match tail.strip_prefix('*') {
                Some(comment) => comment.split_once("*/").map_or("", |(_, behind)| behind),
                None => {
                    out.push('/');
                    tail
                }
            },
            Some(b'(') => {
                out.push('(');
                if ends_with_url(&out) { address(tail) } else { tail }
            }
            Some(quote) => {
                out.push_str("\"\"");
                string(tail, *quote)
            }
            None => "",
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn ends_with_url(out: &str) -> bool {
    let bytes = out.as_bytes();
    let name = bytes.get(bytes.len().saturating_sub(4)..).unwrap_or_default();
    name.eq_ignore_ascii_case(b"url(")
}

/// Behind the content of `url(`; one in quotation marks is a string like any other.
fn address(tail: &str) -> &str {
    if tail.trim_ascii_start().starts_with(['"', '\'']) {
        return tail;
    }
    let mut is_escaped = false;
    let end = tail.bytes().position(|byte| {
        let ends = byte == b')' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.and_then(|end| tail.get(end..)).unwrap_or_default()
}

/// Behind a string whose opening mark came before; a line end that is not escaped ends it, too.
fn string(tail: &str, quote: u8) -> &str {
    let mut is_escaped = false;
    for (at, byte) in tail.bytes().enumerate() {
        if !is_escaped && byte == quote {
            return tail.get(at + 1..).unwrap_or_default();
        }
        if !is_escaped && byte == b'\n' {
            return tail.get(at..).unwrap_or_default();
        }
        // The line feed of an escaped CRLF is escaped as well.
        is_escaped = (byte == b'\\' && !is_escaped) || (byte == b'\r' && is_escaped);
    }
    ""
}

/// Decodes an escape whose backslash came before (§4.3.7) and returns what is behind it.
fn escape<'a>(tail: &'a str, out: &mut String) -> &'a str {
    let digits = tail.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
    let (c, behind) = if digits == 0 {
        let mut chars = tail.chars();
        (chars.next(), chars.as_str())
    } else {
        let (hex, behind) = tail.split_at_checked(digits).unwrap_or((tail, ""));
        let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
        let behind = behind.strip_prefix("\r\n").unwrap_or_else(|| {
            behind.strip_prefix([' ', '\t', '\n', '\r', '\u{c}']).unwrap_or(behind)
        });
        (Some(c.unwrap_or(OTHER)), behind)
    };
    // What has a meaning in the grammar has none when it is escaped.
    let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii();
    out.extend(c.map(|c| Some(c).filter(is_name).unwrap_or(OTHER)));
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_grammar() {
        for (css, expected) in [
            ("p{color:red}", "p{color:red}"),
            ("a/**/b/* } */c/d", "abc/d"),
            ("a/* b", "a"),
            ("content:\"/*\";x:'}'", "content:\"\";x:\"\""),
            ("'a\\'b;'c", "\"\"c"),
            ("'a\nb", "\"\"\nb"),
            ("'a\\\r\nb'c", "\"\"c"),
            ("url(http://x/*;})y", "url()y"),
            ("URL( 'a)' )y", "URL( \"\" )y"),
            ("rgb(1,2,3)", "rgb(1,2,3)"),
            ("d\\isplay:n\\6f ne", "display:none"),
            ("\\64\\000069splay", "display"),
            ("none\\9", "none\u{fffd}"),
            (".a\\:b\\{", ".a\u{fffd}b\u{fffd}"),
            ("\\", ""),
            ("\\ffffff x", "\u{fffd}x"),
            ("\\e4\u{e4}", "\u{e4}\u{e4}"),
        ] {
            assert_eq!(plain(css), expected, "{css}");
        }
    }
}
