//! Style declarations (CSS 2.1 and newer modules), reduced to those that decide whether a text is
//! visible.

use cssparser::Parser;

use super::colour::Colour;
use super::measures::{self, Size};
use super::style::{self, Style};

/// Properties that affect visibility. Each is an index of [`Declared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    Display,
    Opacity,
    Filter,
    ContentVisibility,
    Visibility,
    FontSize,
    Colour,
    TextFill,
    Background,
    Image,
    Indent,
    Position,
    Left,
    Top,
    Right,
    Bottom,
    MarginLeft,
    MarginTop,
    Clip,
    ClipPath,
    Overflow,
    Height,
    MaxHeight,
    Width,
    MaxWidth,
    WhiteSpace,
    Scale,
    Translate,
    Transform,
}

const PROPERTIES: usize = Property::Transform as usize + 1;

/// The value of a property, reduced to whether it hides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// True if the value hides, or keeps white space.
    Flag(bool),
    /// As in the surrounding element.
    Inherited,
    /// None if it is unknown or an image.
    Colour(Option<Colour>),
}

/// The last declaration of each property.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Declared([Option<Value>; PROPERTIES]);

impl Declared {
    pub(super) fn get(&self, property: Property) -> Option<Value> {
        self.0.get(property as usize).copied().flatten()
    }

    /// Tells whether a flag is declared and true.
    pub(super) fn is(&self, property: Property) -> bool {
        self.get(property) == Some(Value::Flag(true))
    }

    pub(super) fn set(&mut self, property: Property, value: Value) {
        if let Some(slot) = self.0.get_mut(property as usize) {
            *slot = Some(value);
        }
    }

    /// Overrides these declarations with `later`.
    pub(super) fn add(&mut self, later: &Self) {
        for (own, later) in self.0.iter_mut().zip(later.0) {
            *own = later.or(*own);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Declarations by their weight: an important one overrides every normal one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Declarations {
    pub(super) normal: Declared,
    pub(super) important: Declared,
}

impl Declarations {
    /// Parses a style attribute.
    pub(super) fn of_attribute(style: &str) -> Self {
        Self::read(&mut Parser::new(style))
    }

    /// Parses the block of a rule in the same way; nested rules are skipped.
    pub(super) fn read(input: &mut Parser<'_>) -> Self {
        let mut block = Self::default();
        style::read_body(input, &mut block);
        block
    }

    pub(super) fn add(&mut self, later: &Self) {
        self.normal.add(&later.normal);
        self.important.add(&later.important);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.important.is_empty()
    }
}

impl Style for Declarations {
    fn declaration(&mut self, property: &str, value: &str) {
        let value = value.to_ascii_lowercase();
        let (value, target) = match value.strip_suffix("important") {
            Some(rest) if rest.trim_end().ends_with('!') => {
                (rest.trim_end().trim_end_matches('!').trim_end(), &mut self.important)
            }
            _ => (value.as_str(), &mut self.normal),
        };
        declare(property, value, target);
    }
}

/// Records one declaration. Unknown values are ignored, as browsers ignore invalid declarations.
fn declare(property: &str, value: &str, declared: &mut Declared) {
    use Property::{Background, Colour, FontSize, Image, MarginLeft, MarginTop, TextFill};
    let letters = |size| match size {
        Size::Relative => Value::Inherited,
        size => Value::Flag(size == Size::Tiny),
    };
    let mut set = |property, value: Option<Value>| {
        if let Some(value) = value {
            declared.set(property, value);
        }
    };
    match property {
        "font-size" => set(FontSize, measures::size(value).map(letters)),
        "font" => set(FontSize, measures::size_of_font(value).map(letters)),
        "margin" => {
            let mut far = [None; 4];
            let words = value.split_ascii_whitespace().map(offset);
            far.iter_mut().zip(words).for_each(|(slot, word)| *slot = word);
            let [top, right, _, left] = far;
            set(MarginTop, top.map(Value::Flag));
            set(MarginLeft, left.or(right).or(top).map(Value::Flag));
        }
        "color" => set(Colour, colour(value)),
        "-webkit-text-fill-color" => set(TextFill, colour(value)),
        "background-color" => set(Background, background(value)),
        "background-image" => set(Image, image(value)),
        "background" => {
            let (colour, image) = (background(value), image(value));
            // The shorthand resets the parts that it does not name.
            let is_valid = colour.is_some() || image.is_some();
            set(Background, colour.or(is_valid.then_some(Value::Inherited)));
            set(Image, image.or(is_valid.then_some(Value::Flag(false))));
        }
        _ => {
            if let Some((property, value)) = flag(property, value) {
                set(property, Some(value));
            }
        }
    }
}

fn is_global(value: &str) -> bool {
    matches!(value, "inherit" | "initial" | "unset" | "revert" | "revert-layer")
}

/// Parses all properties except colours, font sizes and margins.
fn flag(name: &str, value: &str) -> Option<(Property, Value)> {
    use Property::{
        Bottom, Clip, ClipPath, ContentVisibility, Display, Filter, Height, Left, MarginLeft,
        MarginTop, MaxHeight, MaxWidth, Opacity, Overflow, Position, Right, Scale, Top, Transform,
        Translate, Width,
    };
    // True or false from `judge`; false for the words that hide nothing.
    let or = |words: &[&str], judge: fn(&str) -> Option<bool>| {
        if is_global(value) || words.contains(&value) { Some(false) } else { judge(value) }
    };
    let among = |words: &[&str]| (is_global(value) || words.contains(&value)).then_some(false);
    let (property, hides) = match name {
        "display" if value == "none" => (Display, Some(true)),
        "display" => {
            let mut words = value.split_ascii_whitespace();
            (Display, words.all(|word| DISPLAYS.contains(&word)).then_some(false))
        }
        "content-visibility" if value == "hidden" => (ContentVisibility, Some(true)),
        "content-visibility" => (ContentVisibility, among(&["visible", "auto"])),
        "opacity" => (Opacity, or(&[], measures::is_faint)),
        "filter" => {
            let of = |inside: &str| measures::is_faint(inside.split(')').next()?);
            let fades = value.split("opacity(").skip(1).any(|inside| of(inside) == Some(true));
            (Filter, if fades { Some(true) } else { among(&["none"]) })
        }
        "position" if matches!(value, "absolute" | "fixed") => (Position, Some(true)),
        "position" => (Position, among(&["static", "relative", "sticky"])),
        "left" => (Left, offset(value)),
        "top" => (Top, offset(value)),
        "right" => (Right, offset(value)),
        "bottom" => (Bottom, offset(value)),
        "margin-left" => (MarginLeft, offset(value)),
        "margin-top" => (MarginTop, offset(value)),
        "clip" => (Clip, or(&["auto"], measures::is_clipped)),
        "clip-path" | "-webkit-clip-path" => (ClipPath, or(&["none"], measures::is_clipped)),
        "overflow" if value.starts_with("hidden") || value.starts_with("clip") => {
            (Overflow, Some(true))
        }
        "overflow" => (Overflow, among(&["visible", "auto", "scroll"])),
        // The other axis may still hide.
        "overflow-x" | "overflow-y" => {
            (Overflow, matches!(value, "hidden" | "clip").then_some(true))
        }
        "height" => (Height, or(&["auto"], measures::is_nothing)),
        "max-height" => (MaxHeight, or(&["none"], measures::is_nothing)),
        "width" => (Width, or(&["auto"], measures::is_nothing)),
        "max-width" => (MaxWidth, or(&["none"], measures::is_nothing)),
        "transform" | "-webkit-transform" => {
            (Transform, or(&["none"], measures::is_transformed_away))
        }
        "scale" => {
            let mut factors = value.split_ascii_whitespace().take(2).map(measures::is_faint);
            let hides = factors.any(|factor| factor == Some(true));
            (Scale, if hides { Some(true) } else { or(&["none"], measures::is_faint) })
        }
        "translate" => {
            let mut steps = value.split_ascii_whitespace().take(3).map(measures::is_far);
            let hides = steps.any(|step| step == Some(true));
            (Translate, if hides { Some(true) } else { or(&["none"], is_first_far) })
        }
        _ => return inherited_flag(name, value),
    };
    Some((property, Value::Flag(hides?)))
}

/// Properties that child elements inherit.
fn inherited_flag(name: &str, value: &str) -> Option<(Property, Value)> {
    let (property, hides) = match name {
        "visibility" => match value {
            "hidden" | "collapse" => (Property::Visibility, Some(true)),
            _ => (Property::Visibility, (value == "visible").then_some(false)),
        },
        "text-indent" => (Property::Indent, is_first_far(value)),
        "white-space" if value.starts_with("pre") => (Property::WhiteSpace, Some(true)),
        "white-space" => {
            (Property::WhiteSpace, matches!(value, "normal" | "nowrap").then_some(false))
        }
        _ => return None,
    };
    match value {
        "initial" => Some((property, Value::Flag(false))),
        _ if is_global(value) => Some((property, Value::Inherited)),
        _ => Some((property, Value::Flag(hides?))),
    }
}

fn is_first_far(value: &str) -> Option<bool> {
    measures::is_far(value.split_ascii_whitespace().next()?)
}

/// Values of `display` that show the element.
const DISPLAYS: &[&str] = &[
    "block",
    "inline",
    "inline-block",
    "flex",
    "inline-flex",
    "grid",
    "inline-grid",
    "flow",
    "flow-root",
    "contents",
    "list-item",
    "table",
    "inline-table",
    "table-row",
    "table-cell",
    "table-row-group",
    "table-header-group",
    "table-footer-group",
    "table-column",
    "table-column-group",
    "table-caption",
    "ruby",
    "-webkit-box",
    "-webkit-flex",
    "inherit",
    "initial",
    "unset",
    "revert",
    "revert-layer",
];

fn offset(value: &str) -> Option<bool> {
    if is_global(value) || value == "auto" { Some(false) } else { measures::is_far(value) }
}

/// Parses a text colour.
fn colour(value: &str) -> Option<Value> {
    let function = value.split_once('(').map_or("", |(name, _)| name);
    match value {
        "inherit" | "unset" | "revert" | "revert-layer" | "currentcolor" => Some(Value::Inherited),
        "initial" | "canvastext" | "windowtext" | "linktext" | "canvas" | "window" => {
            Some(Value::Colour(None))
        }
        // Valid, but the colour is unknown.
        _ => Colour::parse(value).map(|colour| Value::Colour(Some(colour))).or_else(|| {
            let is_valid = value.ends_with(')') && UNKNOWN_COLOURS.contains(&function);
            is_valid.then_some(Value::Colour(None))
        }),
    }
}

const UNKNOWN_COLOURS: &[&str] =
    &["var", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix", "light-dark", "env"];

fn image(value: &str) -> Option<Value> {
    let is_image = value.contains("url(") || value.contains("gradient(");
    let is_none = is_global(value) || value.split_ascii_whitespace().take(8).any(|w| w == "none");
    (is_image || is_none).then_some(Value::Flag(is_image))
}

/// Parses a background. `Inherited` means that it is transparent.
fn background(value: &str) -> Option<Value> {
    if value.contains("var(") || value.contains("-mix(") {
        return Some(Value::Colour(None));
    }
    if is_global(value) {
        return Some(Value::Inherited);
    }
    let found = Colour::parse(value).or_else(|| {
        // In a shorthand, the colour may be any of its first few words.
        value.split_ascii_whitespace().take(8).find_map(Colour::parse)
    })?;
    if found.is_clear() {
        return Some(Value::Inherited);
    }
    Some(Value::Colour(Some(found).filter(|colour| colour.is_solid())))
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
            ("margin:0 0 0 -5000px", Property::MarginLeft, true),
            ("margin-left:-10px", Property::MarginLeft, false),
            ("clip:rect(0 0 0 0)", Property::Clip, true),
            ("clip:rect(1px, 1px, 1px, 1px)", Property::Clip, true),
            ("clip:rect(0px,90px,50px,0px)", Property::Clip, false),
            ("clip-path:inset(50%)", Property::ClipPath, true),
            ("clip-path:circle(40%)", Property::ClipPath, false),
            ("max-height:0px", Property::MaxHeight, true),
            ("height:10px", Property::Height, false),
            ("overflow:hidden", Property::Overflow, true),
            ("transform:scale(0)", Property::Transform, true),
            ("transform:translateX(-9999px)", Property::Transform, true),
            ("transform:scale(2)", Property::Transform, false),
            ("scale:0", Property::Scale, true),
            ("translate:-9999px", Property::Translate, true),
            ("filter:blur(2px) opacity(0)", Property::Filter, true),
            ("content-visibility:hidden", Property::ContentVisibility, true),
            ("max-height:calc(0px)", Property::MaxHeight, true),
            ("d\\isplay:no\\6e e", Property::Display, true),
            // A nested rule, an error, a brace, unclosed parentheses: the next declaration counts.
            ("a{color:red}display:none", Property::Display, true),
            ("a:hover{color:red}display:none", Property::Display, true),
            ("a:b;x;{};}display:none", Property::Display, true),
            ("display:none;color:rgb(1;display:block", Property::Display, true),
            ("@media screen{display:none}", Property::Display, true),
            ("display:none;@media print{display:block}", Property::Display, true),
            // Invalid values reset nothing, and one side does not reset the other.
            ("display:none;display:x", Property::Display, true),
            ("opacity:0;opacity:x", Property::Opacity, true),
            ("visibility:hidden;visibility:0", Property::Visibility, true),
            ("font-size:0;font-size:x", Property::FontSize, true),
            ("font-size:0;font:14px", Property::FontSize, true),
            ("left:-100in;left:none", Property::Left, true),
            ("height:0;height:none", Property::Height, true),
            ("clip:rect(0,0,0,0);clip:none", Property::Clip, true),
            ("clip-path:inset(100%);clip:auto", Property::ClipPath, true),
            ("transform:scale(0);transform:x", Property::Transform, true),
            ("margin-left:-9999px;margin-top:0", Property::MarginLeft, true),
            ("overflow:hidden;overflow-x:visible", Property::Overflow, true),
            ("position:absolute;position:x", Property::Position, true),
        ] {
            let Declarations { normal: mut declared, important } =
                Declarations::of_attribute(style);
            declared.add(&important);
            assert_eq!(declared.get(property), Some(Value::Flag(hides)), "{style}");
        }
        for nothing in
            ["", ";;:", "color", "x:y", "color:zz", "background:zz", "display:\\6eone\\9"]
        {
            assert!(Declarations::of_attribute(nothing).normal.is_empty(), "{nothing}");
        }
    }

    #[test]
    fn backgrounds_are_known_or_not() {
        let white = Value::Colour(Some(Colour::WHITE));
        for (style, expected) in [
            ("background:#fff", white),
            ("background-color: White", white),
            ("background:no-repeat top #ffffff", white),
            ("background:#fff url(x.png)", white),
            ("background:#fff;background-image:none", white),
            ("background:#000;background:transparent", Value::Inherited),
            ("background:#000;background:none", Value::Inherited),
            ("background:var(--x)", Value::Colour(None)),
            ("background:rgba(0,0,0,.5)", Value::Colour(None)),
        ] {
            let declared = Declarations::of_attribute(style).normal;
            assert_eq!(declared.get(Property::Background), Some(expected), "{style}");
        }
        for (style, is_image) in [
            ("background:#fff url(x.png)", true),
            ("background-image:linear-gradient(red,blue);background-color:#fff", true),
            ("background:url(x.png);background:#fff", false),
        ] {
            let declared = Declarations::of_attribute(style).normal;
            assert_eq!(declared.is(Property::Image), is_image, "{style}");
        }
    }
}
