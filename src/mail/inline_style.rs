//! Filters style attributes for pages that show a stranger's HTML: keeps size, colour and spacing
//! of text and boxes. Drops everything that loads, moves, covers or hides content.

/// The properties that are kept; ammonia gets the same list.
pub(super) const PROPERTIES: &[&str] = &[
    "background-color",
    "border",
    "border-bottom",
    "border-collapse",
    "border-color",
    "border-left",
    "border-radius",
    "border-right",
    "border-spacing",
    "border-style",
    "border-top",
    "border-width",
    "color",
    "direction",
    "font-family",
    "font-size",
    "font-style",
    "font-weight",
    "letter-spacing",
    "line-height",
    "list-style-type",
    "margin",
    "max-width",
    "min-width",
    "padding",
    "padding-bottom",
    "padding-left",
    "padding-right",
    "padding-top",
    "text-align",
    "text-decoration",
    "vertical-align",
    "white-space",
    "width",
];

/// Longest value in bytes; font lists are the longest useful ones.
const LONGEST: usize = 200;

/// Returns the declarations of `style` that are kept, in order. Drops a declaration if its value
/// has any unusual character: a backslash, a slash, a colon, a quote outside font names, or
/// parentheses other than those of `rgb()`.
pub(super) fn kept(style: &str) -> String {
    let mut kept = String::new();
    for declaration in style.split(';') {
        let Some((name, value)) = declaration.split_once(':') else { continue };
        let name = name.trim().to_ascii_lowercase();
        let Some(name) = PROPERTIES.iter().find(|known| **known == name) else { continue };
        let mut value = value.trim().to_ascii_lowercase();
        if *name == "font-family" {
            // Font names of several words need no quotes (CSS Fonts 4 §3.1).
            value.retain(|c| c != '\'' && c != '"');
        }
        if is_plain(&value) && is_visible(name, &value) {
            kept.push_str(name);
            kept.push(':');
            kept.push_str(&value);
            kept.push(';');
        }
    }
    kept
}

fn is_plain(value: &str) -> bool {
    let inner = ["rgb(", "rgba("]
        .iter()
        .find_map(|function| value.strip_prefix(function)?.strip_suffix(')'))
        .unwrap_or(value);
    let mut before = ' ';
    let plain = inner.chars().all(|c| {
        // Negative lengths draw one thing over another, or off the page.
        let fits = match c {
            '-' => before.is_ascii_alphanumeric(),
            _ => c.is_ascii_alphanumeric() || matches!(c, ' ' | '#' | '.' | ',' | '%'),
        };
        before = c;
        fits
    });
    plain && !inner.is_empty() && value.len() <= LONGEST
}

/// Tells whether the numbers leave the content visible: at most four digits, so that nothing is
/// moved off the page, and no letters, lines or boxes of size zero.
fn is_visible(name: &str, value: &str) -> bool {
    const SIZES: &[&str] = &["font-size", "line-height", "max-width"];
    let words = || value.split([' ', ',', '(', ')']).filter(|word| !word.starts_with('#'));
    let fits = |word: &str| {
        let (number, unit) = word.split_at(word.trim_end_matches(is_of_unit).len());
        let whole = number.split('.').next().unwrap_or_default();
        let has_digits = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        if !has_digits {
            return true;
        }
        // Numbers like `1e9` are refused: few digits, huge value.
        let is_bare = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let Some(size) = number.parse::<f32>().ok().filter(|_| is_bare) else { return false };
        let least = match unit {
            _ if !SIZES.contains(&name) => 0.0,
            "px" | "pt" | "%" => 1.0,
            _ => 0.1,
        };
        whole.len() <= 4 && size >= least
    };
    name == "font-family" || words().all(fits)
}

const fn is_of_unit(c: char) -> bool {
    c.is_ascii_lowercase() || c == '%'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_colour_and_space_are_kept() {
        for (style, expected) in [
            ("COLOR: Red", "color:red;"),
            ("color:rgb(1, 2, 3);padding:0 4px", "color:rgb(1, 2, 3);padding:0 4px;"),
            (
                "font-family: 'Segoe UI', Arial, sans-serif",
                "font-family:segoe ui, arial, sans-serif;",
            ),
            ("border:1px solid #ccc; x", "border:1px solid #ccc;"),
            ("color:#123456;max-width:9999px", "color:#123456;max-width:9999px;"),
            ("line-height:1.142857;font-size:.8em", "line-height:1.142857;font-size:.8em;"),
            ("margin:0;font-size:small", "margin:0;font-size:small;"),
            ("font-family:font 12345", "font-family:font 12345;"),
            (
                "background-color:rgba(255,255,255,0.123456)",
                "background-color:rgba(255,255,255,0.123456);",
            ),
            ("", ""),
        ] {
            assert_eq!(kept(style), expected, "{style}");
        }
    }

    #[test]
    fn what_loads_moves_covers_or_hides_is_not() {
        for style in [
            "position:fixed;top:0;left:0",
            "display:none",
            "opacity:0",
            "z-index:9",
            "background:url(https://x.example/a)",
            "background-color:url(x)",
            "color:u\\72l(https://x.example)",
            "width:expression(alert(1))",
            "width:calc(1px - 9px)",
            "margin:-9999px",
            "margin:0 -1px",
            "text-indent:-9999px",
            "behavior:url(x.htc)",
            "-moz-binding:url(x)",
            "@import 'https://x.example'",
            "color:red/**/",
            "font-family:a\u{0}b",
            "font-family:</style><script>",
            "color:rgb(1",
            "color:rgb(url(x))",
            "color:",
            "width:１px",
            "font-size:0",
            "font-size:0px",
            "font-size:.0em",
            "font-size:0.01px",
            "font-size:00.00%",
            "font-size:1e-9px",
            "font-size:1..2px",
            "line-height:0",
            "line-height:0%",
            "max-width:0",
            "max-width:0.0px",
            "margin:12345px",
            "padding-left:1px 99999px",
            "border-spacing:9e9px",
            "letter-spacing:00001px",
        ] {
            assert_eq!(kept(style), "", "{style}");
        }
        assert_eq!(kept(&format!("font-family:{}", "a".repeat(201))), "");
    }
}
