//! What a style declares (CSS 2.1, and what newer modules add), reduced to what decides whether a
//! text can be seen.

use std::borrow::Cow;

use super::colour::Colour;

/// What decides about being seen. Each has a place in [`Declared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    Display,
    Opacity,
    Visibility,
    FontSize,
    Colour,
    Background,
    Indent,
    Position,
    Left,
    Top,
    Right,
    Bottom,
    Margin,
    Clip,
    Overflow,
    Height,
    MaxHeight,
    Width,
    MaxWidth,
    WhiteSpace,
    Transform,
}

const PROPERTIES: usize = Property::Transform as usize + 1;

/// The value of a property, reduced to the question whether it hides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// Whether it is such as hides, or keeps white space.
    Flag(bool),
    /// As large as the text around it.
    Inherited,
    /// A colour; `None` when it is not known or an image.
    Colour(Option<Colour>),
}

/// Declarations, the last of each property.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Declared([Option<Value>; PROPERTIES]);

impl Declared {
    pub(super) fn get(&self, property: Property) -> Option<Value> {
        self.0.get(property as usize).copied().flatten()
    }

    /// Whether a flag is declared and set.
    pub(super) fn is(&self, property: Property) -> bool {
        self.get(property) == Some(Value::Flag(true))
    }

    pub(super) fn set(&mut self, property: Property, value: Value) {
        if let Some(slot) = self.0.get_mut(property as usize) {
            *slot = Some(value);
        }
    }

    /// What `later` declares takes the place of what is here.
    pub(super) fn add(&mut self, later: &Self) {
        for (own, later) in self.0.iter_mut().zip(later.0) {
            *own = later.or(*own);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// The declarations of a style attribute or the block of a rule; the important ones apart.
pub(super) fn declarations(style: &str) -> (Declared, Declared) {
    let (mut normal, mut important) = (Declared::default(), Declared::default());
    for declaration in without_comments(style).to_ascii_lowercase().split(';') {
        let Some((property, value)) = declaration.split_once(':') else { continue };
        let value = value.trim();
        let (value, target) = match value.strip_suffix("important") {
            Some(rest) if rest.trim_end().ends_with('!') => {
                (rest.trim_end().trim_end_matches('!').trim_end(), &mut important)
            }
            _ => (value, &mut normal),
        };
        declare(property.trim(), value, target);
    }
    (normal, important)
}

fn declare(property: &str, value: &str, declared: &mut Declared) {
    use Property::{
        Background, Bottom, Clip, Display, FontSize, Height, Indent, Left, Margin, MaxHeight,
        MaxWidth, Opacity, Overflow, Position, Right, Top, Transform, Visibility, WhiteSpace,
        Width,
    };
    let is_far = |value: &str| length(value).is_some_and(|pixels| pixels <= -200.0);
    let is_none = |value: &str| length(value).is_some_and(|pixels| pixels <= 0.5);
    let mut flag = |property, is_set| declared.set(property, Value::Flag(is_set));
    match property {
        "display" => flag(Display, value == "none"),
        "opacity" => flag(Opacity, number(value).is_some_and(|(n, _)| n <= 0.05)),
        "visibility" => flag(Visibility, matches!(value, "hidden" | "collapse")),
        "text-indent" => flag(Indent, is_far(value)),
        "position" => flag(Position, matches!(value, "absolute" | "fixed")),
        "left" => flag(Left, is_far(value)),
        "top" => flag(Top, is_far(value)),
        "right" => flag(Right, is_far(value)),
        "bottom" => flag(Bottom, is_far(value)),
        "margin-left" | "margin-top" => flag(Margin, is_far(value)),
        "margin" => flag(Margin, value.split_ascii_whitespace().any(is_far)),
        "clip" | "clip-path" => flag(Clip, is_clipped(value)),
        "overflow" | "overflow-x" | "overflow-y" => {
            flag(Overflow, value.starts_with("hidden") || value.starts_with("clip"));
        }
        "height" => flag(Height, is_none(value)),
        "max-height" => flag(MaxHeight, is_none(value)),
        "width" => flag(Width, is_none(value)),
        "max-width" => flag(MaxWidth, is_none(value)),
        "white-space" => flag(WhiteSpace, value.starts_with("pre")),
        "transform" => flag(
            Transform,
            matches!(value.replace(' ', "").as_str(), "scale(0)" | "scale(0,0)" | "scaley(0)")
                || value.split(['(', ',']).any(|part| is_far(part.trim_end_matches(')'))),
        ),
        "font-size" => declared.set(FontSize, size(value)),
        // The size stands before the line height and the family.
        "font" => {
            let sizes = value.split_ascii_whitespace().filter_map(|word| word.split('/').next());
            if let Some(word) = sizes.into_iter().find(|word| number(word).is_some()) {
                declared.set(FontSize, size(word));
            }
        }
        "color" => match value {
            "inherit" | "unset" | "revert" => declared.set(Property::Colour, Value::Inherited),
            _ => declared.set(Property::Colour, Value::Colour(Colour::parse(value))),
        },
        "background" | "background-color" | "background-image" => {
            if let Some(value) = background(value) {
                declared.set(Background, value);
            }
        }
        _ => {}
    }
}

/// `None` for a background that leaves what is behind it to be seen.
fn background(value: &str) -> Option<Value> {
    if value.contains("url(") || value.contains("gradient") || value.contains("var(") {
        return Some(Value::Colour(None));
    }
    let found = Colour::parse(value).or_else(|| {
        // The colour of the shorthand stands anywhere among its words.
        value.split_ascii_whitespace().find_map(Colour::parse)
    })?;
    (!found.is_clear()).then(|| Value::Colour(Some(found).filter(|colour| colour.is_solid())))
}

fn size(value: &str) -> Value {
    match number(value) {
        Some((n, "" | "px" | "pt")) => Value::Flag(n <= 1.0),
        // A share of no size is none; of any other it is seen or not as that is.
        Some((n, "em" | "%" | "ex")) if n > 0.05 => Value::Inherited,
        Some((n, _)) => Value::Flag(n <= 0.05),
        None if matches!(value, "inherit" | "smaller" | "larger") => Value::Inherited,
        None => Value::Flag(false),
    }
}

fn is_clipped(value: &str) -> bool {
    let numbers = |inside: &str| {
        let mut all = inside
            .split([' ', ',', ')'])
            .filter_map(|word| number(word).map(|(number, unit)| (number, unit.to_owned())));
        let first = all.next();
        first.map(|first| (first.clone(), all.all(|other| other.0 <= first.0.max(1.0))))
    };
    if let Some(inside) = value.strip_prefix("rect(") {
        return numbers(inside).is_some_and(|((first, _), small)| first <= 1.0 && small);
    }
    if let Some(inside) = value.strip_prefix("inset(") {
        return numbers(inside).is_some_and(|((first, unit), _)| unit == "%" && first >= 50.0);
    }
    value.strip_prefix("circle(").and_then(number).is_some_and(|(radius, _)| radius <= 0.5)
}

/// A length in pixels, roughly.
fn length(value: &str) -> Option<f32> {
    let (number, unit) = number(value)?;
    match unit {
        "" | "px" | "pt" => Some(number),
        "em" | "rem" => Some(number * 16.0),
        // A share of the screen.
        "%" | "vw" | "vh" => Some(number * 8.0),
        _ => None,
    }
}

/// The number at the start of a CSS value and the unit behind it.
fn number(value: &str) -> Option<(f32, &str)> {
    let end = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit.trim_end_matches(')').trim()))
}

pub(super) fn without_comments(style: &str) -> Cow<'_, str> {
    let Some((before, after)) = style.split_once("/*") else { return Cow::Borrowed(style) };
    let (mut out, mut rest) = (before.to_owned(), after);
    loop {
        rest = rest.split_once("*/").map_or("", |(_, tail)| tail);
        let Some((before, after)) = rest.split_once("/*") else { break };
        out.push_str(before);
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_told_from_what_does_not() {
        for (style, property, hides) in [
            ("display:none", Property::Display, true),
            ("DISPLAY : None !important", Property::Display, true),
            ("display:/**/none", Property::Display, true),
            ("display:none;display:block", Property::Display, false),
            ("opacity:0%", Property::Opacity, true),
            ("opacity:.9", Property::Opacity, false),
            ("visibility:collapse", Property::Visibility, true),
            ("font-size:1px", Property::FontSize, true),
            ("font-size:0.01em", Property::FontSize, true),
            ("font-size:9px", Property::FontSize, false),
            ("font-size:small", Property::FontSize, false),
            ("font:0/0 a", Property::FontSize, true),
            ("font:italic 12px/1 Arial", Property::FontSize, false),
            ("text-indent:-9999px", Property::Indent, true),
            ("text-indent:-1em", Property::Indent, false),
            ("left:-100%", Property::Left, true),
            ("margin:0 0 0 -5000px", Property::Margin, true),
            ("margin-left:-10px", Property::Margin, false),
            ("clip:rect(0 0 0 0)", Property::Clip, true),
            ("clip:rect(1px, 1px, 1px, 1px)", Property::Clip, true),
            ("clip:rect(0px,90px,50px,0px)", Property::Clip, false),
            ("clip-path:inset(50%)", Property::Clip, true),
            ("clip-path:circle(40%)", Property::Clip, false),
            ("max-height:0px", Property::MaxHeight, true),
            ("height:10px", Property::Height, false),
            ("overflow:hidden", Property::Overflow, true),
            ("transform:scale(0)", Property::Transform, true),
            ("transform:translateX(-9999px)", Property::Transform, true),
            ("transform:scale(2)", Property::Transform, false),
        ] {
            let (mut declared, important) = declarations(style);
            declared.add(&important);
            assert_eq!(declared.get(property), Some(Value::Flag(hides)), "{style}");
        }
        for nothing in ["", ";;:", "color", "x:y", "background:transparent", "background:none"] {
            assert!(declarations(nothing).0.is_empty(), "{nothing}");
        }
    }

    #[test]
    fn backgrounds_are_known_or_not() {
        let white = Value::Colour(Some(Colour::WHITE));
        for (style, expected) in [
            ("background:#fff", white),
            ("background-color: White", white),
            ("background:no-repeat top #ffffff", white),
            ("background:#fff url(x.png)", Value::Colour(None)),
            ("background-image:linear-gradient(red,blue)", Value::Colour(None)),
            ("background:rgba(0,0,0,.5)", Value::Colour(None)),
        ] {
            let (declared, _) = declarations(style);
            assert_eq!(declared.get(Property::Background), Some(expected), "{style}");
        }
    }
}
