//! The look of an element: inherited from its parent and changed by its own style, as far as needed
//! to tell whether its text is visible and what hides it.

use super::colour::Colour;
use super::css::{Declarations, Declared, Property, Value};
use super::tags::{Tag, decode_entities};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComputedStyle {
    /// Hidden for good: nothing inside can undo it.
    gone: Option<&'static str>,
    /// A size inside undoes it.
    is_tiny: bool,
    /// `visible` inside undoes it.
    is_invisible: bool,
    is_indented: bool,
    /// None if unknown.
    colour: Option<Colour>,
    /// Fill colour of the letters, if declared; it overrides `colour`.
    fill: Option<Option<Colour>>,
    /// Background colour; None if it is an image or unknown.
    behind: Option<Colour>,
    pub(super) is_preformatted: bool,
}

impl Default for ComputedStyle {
    fn default() -> Self {
        Self {
            gone: None,
            is_tiny: false,
            is_invisible: false,
            is_indented: false,
            colour: Some(Colour::BLACK),
            fill: None,
            behind: Some(Colour::WHITE),
            is_preformatted: false,
        }
    }
}

impl ComputedStyle {
    /// Returns the property that hides text of this look; None if it is visible.
    pub(super) fn hidden_by(self) -> Option<&'static str> {
        let blends = match (self.fill.unwrap_or(self.colour), self.behind) {
            (Some(colour), Some(behind)) => {
                colour.is_clear() || (colour.is_solid() && colour.is_near(behind))
            }
            // Unknown colours: the letters may be cut out of an image.
            _ => false,
        };
        self.gone
            .or(self.is_invisible.then_some("visibility"))
            .or(self.is_tiny.then_some("font-size"))
            .or(self.is_indented.then_some("text-indent"))
            .or(blends.then_some("color"))
    }

    /// Returns the look of an element with this style inside this look.
    pub(super) fn inside(self, style: &Style) -> Self {
        // Most elements declare nothing.
        let mut look = style.declared.as_ref().map_or(self, |declared| self.styled(declared));
        look.gone = look.gone.or(style.gone);
        look.is_preformatted |= style.is_preformatted;
        look
    }

    fn styled(mut self, declared: &Declared) -> Self {
        let is = |property| declared.is(property);
        let any = |properties: &[Property]| properties.iter().any(|property| is(*property));
        let flows = !is(Property::Position);
        let sides = [Property::Left, Property::Top, Property::Right, Property::Bottom];
        let sizes = [Property::Height, Property::MaxHeight, Property::Width, Property::MaxWidth];
        for (hides, how) in [
            (is(Property::Display), "display"),
            (is(Property::Opacity), "opacity"),
            (is(Property::Filter), "filter"),
            (is(Property::ContentVisibility), "content-visibility"),
            (any(&[Property::Clip, Property::ClipPath]), "clip"),
            (any(&[Property::Transform, Property::Scale, Property::Translate]), "transform"),
            (any(&[Property::MarginLeft, Property::MarginTop]), "margin"),
            (!flows && any(&sides), "position"),
            (is(Property::Overflow) && any(&sizes), "overflow"),
        ] {
            if hides {
                self.gone = self.gone.or(Some(how));
            }
        }
        let flag = |property, before| match declared.get(property) {
            Some(Value::Flag(is_set)) => is_set,
            _ => before,
        };
        self.is_invisible = flag(Property::Visibility, self.is_invisible);
        self.is_tiny = flag(Property::FontSize, self.is_tiny);
        self.is_indented = flag(Property::Indent, self.is_indented);
        self.is_preformatted = flag(Property::WhiteSpace, self.is_preformatted);
        if let Some(Value::Colour(colour)) = declared.get(Property::Colour) {
            self.colour = colour;
        }
        match declared.get(Property::TextFill) {
            Some(Value::Colour(fill)) => self.fill = Some(fill),
            Some(Value::Inherited) => self.fill = None,
            _ => {}
        }
        if let Some(Value::Colour(behind)) = declared.get(Property::Background) {
            self.behind = behind;
        }
        if is(Property::Image) {
            self.behind = None;
        }
        self
    }
}

/// The style of an element, independent of its position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Style {
    declared: Option<Declared>,
    gone: Option<&'static str>,
    is_preformatted: bool,
}

impl Style {
    /// Returns the style of `tag`, to which the style sheets apply `sheet`.
    pub(super) fn of(tag: &Tag<'_>, sheet: Option<&Declarations>) -> Self {
        let own = tag.style.map(|style| Declarations::of_attribute(&decode_entities(style)));
        let mut declared = None;
        if own.is_some() || sheet.is_some() || has_hints(tag) {
            let declared = declared.insert(hints(tag));
            // The style attribute overrides the sheets, also among important declarations.
            let layers = || sheet.into_iter().chain(&own);
            layers().for_each(|layer| declared.add(&layer.normal));
            layers().for_each(|layer| declared.add(&layer.important));
        }
        let name = tag.name.as_str();
        let gone = match name {
            _ if tag.is_hidden => Some("hidden"),
            "template" => Some("template"),
            "script" | "style" | "title" => Some("head"),
            "dialog" if !tag.is_open => Some("dialog"),
            // Only shown by programs that do not support the element.
            "canvas" | "video" | "audio" | "datalist" | "meter" | "progress" => Some("fallback"),
            _ => None,
        };
        let is_preformatted = matches!(name, "pre" | "textarea" | "listing");
        Self { declared, gone, is_preformatted }
    }
}

fn has_hints(tag: &Tag<'_>) -> bool {
    tag.href.is_some() || tag.has_image || tag.bgcolor.is_some() || tag.colour.is_some()
}

/// Declarations of HTML attributes and of browsers' defaults; weaker than any style.
fn hints(tag: &Tag<'_>) -> Declared {
    let mut declared = Declared::default();
    let mut colour = |property, text: Option<&str>| {
        if let Some(text) = text {
            declared.set(property, Value::Colour(Colour::parse(text)));
        }
    };
    match tag.name.as_str() {
        "font" | "body" => colour(Property::Colour, tag.colour),
        _ => {}
    }
    colour(Property::Background, tag.bgcolor);
    if tag.href.is_some() {
        declared.set(Property::Colour, Value::Colour(Some(Colour::LINK)));
    }
    if tag.has_image {
        declared.set(Property::Image, Value::Flag(true));
    }
    declared
}
