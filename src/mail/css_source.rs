//! Simplifies CSS values with the tokenizer of browsers (CSS Syntax 3): removes comments, empties
//! strings, decodes escapes. The commas, colons and parentheses that remain belong to the grammar.

use cssparser::{ParseError, Parser, ToCss as _, Token, TokenSerializationType};

/// Deepest nesting of brackets whose content is read.
const DEEPEST: usize = 16;

/// Errors carry no details: a browser just drops invalid CSS.
pub(super) type Parsed<T> = Result<T, ParseError<()>>;

/// Returns the rest of `input` simplified and trimmed.
///
/// # Errors
/// Fails on a block in braces, an unopened bracket, an unclosed string or url(): these make any
/// value invalid.
pub(super) fn plain(input: &mut Parser<'_>) -> Parsed<String> {
    let mut out = String::new();
    write(input, &mut out, 0)?;
    out.truncate(out.trim_ascii_end().len());
    out.drain(..out.len() - out.trim_ascii_start().len());
    Ok(out)
}

fn write(input: &mut Parser<'_>, out: &mut String, depth: usize) -> Parsed<()> {
    let mut before = TokenSerializationType::default();
    while let Ok(token) = input.next_including_whitespace() {
        let kind = token.serialization_type();
        if before.needs_separator_when_before(kind) {
            out.push(' ');
        }
        before = kind;
        let close = match token {
            Token::Function(_) | Token::ParenthesisBlock => Some(')'),
            Token::SquareBracketBlock => Some(']'),
            Token::CurlyBracketBlock => return Err(ParseError::unexpected_token()),
            token if token.is_parse_error() => return Err(ParseError::unexpected_token()),
            _ => None,
        };
        match token {
            Token::WhiteSpace(_) => out.push(' '),
            Token::QuotedString(_) => out.push_str("\"\""),
            Token::UnquotedUrl(_) => out.push_str("url()"),
            Token::Ident(name) => out.extend(name.chars().map(of_name)),
            Token::Hash(name) | Token::IDHash(name) => {
                out.push('#');
                out.extend(name.chars().map(of_name));
            }
            // Writing to memory does not fail.
            token => token.to_css(out).unwrap_or_default(),
        }
        if let Some(close) = close {
            if depth < DEEPEST {
                input.parse_nested_block(|inside| write(inside, out, depth + 1))?;
            }
            out.push(close);
        }
    }
    Ok(())
}

/// Replaces a character that was escaped but would now have a meaning in the grammar.
const fn of_name(c: char) -> char {
    match c {
        _ if c.is_ascii_alphanumeric() || !c.is_ascii() => c,
        '-' | '_' => c,
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_grammar() {
        for (css, expected) in [
            (" p , q\n", "p , q"),
            ("p/**/.x/* } */", "p.x"),
            ("a/**/b", "a b"),
            ("a/* b", "a"),
            ("\"/*\" '}'", "\"\" \"\""),
            ("'a\\'b;'c", "\"\"c"),
            ("'a\\\r\nb'c", "\"\"c"),
            ("url(http://x/*;})y", "url()y"),
            ("URL( 'a)' )y", "URL( \"\" )y"),
            ("rgb(1,2,3)", "rgb(1,2,3)"),
            ("rect(0 calc((1px", "rect(0 calc((1px)))"),
            ("n\\6f ne", "none"),
            ("\\64\\000069splay", "display"),
            (".\\31 a#\\32 b", ".1a#2b"),
            ("none\\9", "none\u{fffd}"),
            (".a\\:b\\{", ".a\u{fffd}b\u{fffd}"),
            ("\\ffffff x", "\u{fffd}x"),
            ("\u{e4}\\e4", "\u{e4}\u{e4}"),
            (".5em -9999px 1e3px 50% #0fa", "0.5em -9999px 1000.0px 50% #0fa"),
        ] {
            assert_eq!(plain(&mut Parser::new(css)).unwrap(), expected, "{css}");
        }
        let deep = plain(&mut Parser::new(&"(".repeat(100_000))).unwrap();
        assert_eq!(deep.len(), 2 * (DEEPEST + 1));
    }

    #[test]
    fn what_is_not_valid_is_nothing() {
        for css in ["a{b", "a}", "(a]", "'a\nb", "url(a b)"] {
            assert!(plain(&mut Parser::new(css)).is_err(), "{css}");
        }
    }
}
