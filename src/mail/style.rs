//! Parses styles (CSS Syntax 3) and their conditions (Media Queries 4, CSS Conditional Rules 3).
//! Rules under a condition that holds on every screen are read; rules under any other condition are
//! skipped.

use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState,
    QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser, StyleSheetParser,
};

use super::css_source::{self, Parsed};
use super::measures;

/// Pixels that every screen has in width and height, and pixels that none has.
const EVERY_SCREEN: f32 = 320.0;
const NO_SCREEN: f32 = 5000.0;
/// Deepest nesting of conditions that is read.
pub(super) const DEEPEST: usize = 16;

/// Receives declarations or rules. The defaults ignore them.
pub(super) trait Style {
    /// Gets a property in lower case and its value, simplified by [`css_source::plain`].
    fn declaration(&mut self, _property: &str, _value: &str) {}

    /// Gets the selectors, simplified by [`css_source::plain`], and the block.
    fn rule(&mut self, _selectors: &str, _body: &mut Parser<'_>) {}

    /// Called if conditions are nested too deep to be read.
    fn cut(&mut self) {}

    /// Returns true to stop reading.
    fn is_full(&self) -> bool {
        false
    }
}

/// Reads a style attribute, or the block of a rule.
pub(super) fn read_body(input: &mut Parser<'_>, style: &mut impl Style) {
    Body { style, depth: 0 }.read(input);
}

/// Reads the content of a `<style>`.
pub(super) fn read_sheet(css: &str, style: &mut impl Style) {
    let mut input = Parser::new(css);
    let mut body = Body { style, depth: 0 };
    let mut rules = StyleSheetParser::new(&mut input, &mut body);
    while !rules.parser.style.is_full() && rules.next().is_some() {}
}

struct Body<'s, S> {
    style: &'s mut S,
    /// Number of enclosing conditions.
    depth: usize,
}

impl<S: Style> Body<'_, S> {
    fn read(&mut self, input: &mut Parser<'_>) {
        let mut items = RuleBodyParser::new(input, self);
        while !items.parser.style.is_full() && items.next().is_some() {}
    }
}

impl<'i, S: Style> DeclarationParser<'i> for Body<'_, S> {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        property: CowRcStr<'i>,
        value: &mut Parser<'i>,
        _: &ParserState,
    ) -> Parsed<()> {
        let value = css_source::plain(value)?;
        self.style.declaration(&property.to_ascii_lowercase(), &value);
        Ok(())
    }
}

impl<'i, S: Style> QualifiedRuleParser<'i> for Body<'_, S> {
    /// The text of the selectors.
    type Prelude = String;
    type QualifiedRule = ();
    type Error = ();

    fn parse_prelude(&mut self, selectors: &mut Parser<'i>) -> Parsed<String> {
        css_source::plain(selectors)
    }

    fn parse_block(
        &mut self,
        selectors: String,
        _: &ParserState,
        body: &mut Parser<'i>,
    ) -> Parsed<()> {
        self.style.rule(&selectors, body);
        Ok(())
    }
}

impl<'i, S: Style> AtRuleParser<'i> for Body<'_, S> {
    type Prelude = ();
    type AtRule = ();
    type Error = ();

    fn parse_prelude(&mut self, name: CowRcStr<'i>, condition: &mut Parser<'i>) -> Parsed<()> {
        if self.depth >= DEEPEST {
            self.style.cut();
            return Err(ParseError::unexpected_token());
        }
        let condition = css_source::plain(condition)?.to_ascii_lowercase();
        let holds = match name.to_ascii_lowercase().as_str() {
            "media" => is_for_screens(&condition),
            "supports" => !condition.starts_with("not"),
            "layer" => true,
            _ => false,
        };
        holds.then_some(()).ok_or_else(ParseError::unexpected_token)
    }

    fn parse_block(&mut self, (): (), _: &ParserState, input: &mut Parser<'i>) -> Parsed<()> {
        self.depth += 1;
        self.read(input);
        self.depth -= 1;
        Ok(())
    }
}

impl<S: Style> RuleBodyItemParser<'_, (), ()> for Body<'_, S> {
    fn parse_declarations(&self) -> bool {
        true
    }

    fn parse_qualified(&self) -> bool {
        true
    }
}

/// Tells whether the `media` of a `<style>` holds on every screen.
pub(super) fn is_read(media: &str) -> bool {
    css_source::plain(&mut Parser::new(media)).is_ok_and(|media| is_for_screens(&media))
}

/// Tells whether a media query list (Media Queries 4 §3) holds on every screen.
fn is_for_screens(media: &str) -> bool {
    let media = media.to_ascii_lowercase();
    let holds = |query: &str| {
        let query = query.trim();
        let query = query.strip_prefix("only ").unwrap_or(query);
        query.split(" and ").all(|part| match part.trim() {
            "all" | "screen" => true,
            part => is_no_condition(part),
        })
    };
    media.trim().is_empty() || media.split(',').any(holds)
}

/// Tells whether a feature such as `(min-width: 1px)` holds on every screen.
fn is_no_condition(part: &str) -> bool {
    let inside = part.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
    let Some((feature, value)) = inside.and_then(|inside| inside.split_once(':')) else {
        return false;
    };
    let Some(pixels) = measures::length(value.trim()) else { return false };
    match feature.trim() {
        "min-width" | "min-height" | "min-device-width" | "min-device-height" => {
            pixels <= EVERY_SCREEN
        }
        "max-width" | "max-height" | "max-device-width" | "max-device-height" => {
            pixels >= NO_SCREEN
        }
        _ => false,
    }
}
