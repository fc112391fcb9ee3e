//! Colours of HTML and CSS (CSS Color 4), as far as needed to see that a text has the colour of its
//! background.

use std::sync::LazyLock;

/// Largest difference of a channel that the eye does not see, as between `#f5f5f5` and white.
const NEAR: u8 = 12;
/// Longest colour in bytes.
const LONGEST: usize = 128;

/// Red, green, blue and opacity, each 0 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour([u8; 4]);

impl Colour {
    pub(super) const BLACK: Self = Self([0, 0, 0, 255]);
    pub(super) const WHITE: Self = Self([255, 255, 255, 255]);
    /// The default colour of links.
    pub(super) const LINK: Self = Self([0, 0, 238, 255]);

    /// Parses a colour of CSS or of an HTML attribute. Returns None if it is invalid or depends on
    /// the reader's program.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > LONGEST {
            return None;
        }
        let text = text.to_ascii_lowercase();
        if text == "transparent" {
            return Some(Self([0; 4]));
        }
        if let Some(digits) = text.strip_prefix('#') {
            return hex(digits);
        }
        if let Some((name, rest)) = text.split_once('(') {
            return function(name.trim(), rest.trim_end().strip_suffix(')')?);
        }
        // HTML attributes may omit the number sign. No colour name consists of six hex digits.
        if text.len() == 6
            && let Some(colour) = hex(&text)
        {
            return Some(colour);
        }
        let at = NAMED.binary_search_by_key(&text.as_str(), |(name, _)| name).ok()?;
        NAMED.get(at).and_then(|(_, digits)| hex(digits))
    }

    /// Tells whether text of this colour is invisible on any background.
    pub(super) const fn is_clear(self) -> bool {
        self.0[3] <= NEAR
    }

    /// Tells whether the colour is opaque.
    pub(super) const fn is_solid(self) -> bool {
        self.0[3] == 255
    }

    /// Tells whether text of this colour disappears on the other.
    pub(super) fn is_near(self, other: Self) -> bool {
        let [red, green, blue, _] = self.0;
        let [red2, green2, blue2, _] = other.0;
        [(red, red2), (green, green2), (blue, blue2)].iter().all(|(a, b)| a.abs_diff(*b) <= NEAR)
    }
}

fn hex(digits: &str) -> Option<Colour> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let (step, count) = match digits.len() {
        3 | 4 => (1, digits.len()),
        6 | 8 => (2, digits.len() / 2),
        _ => return None,
    };
    let mut channels = [0, 0, 0, 255];
    for (at, channel) in channels.iter_mut().enumerate().take(count) {
        let value = u8::from_str_radix(digits.get(at * step..(at + 1) * step)?, 16).ok()?;
        *channel = if step == 1 { value * 17 } else { value };
    }
    Some(Colour(channels))
}

/// `rgb(1 2 3 / 50%)`, `rgba(1, 2, 3, 0.5)`, `hsl(…)`.
fn function(name: &str, arguments: &str) -> Option<Colour> {
    let mut values = arguments.split([',', ' ', '/', '\t', '\n']).filter(|value| !value.is_empty());
    let mut next = || {
        let value = values.next()?;
        let number = value.trim_end_matches(|c: char| c == '%' || c.is_ascii_alphabetic());
        number.parse::<f32>().ok().map(|number| (number, value.ends_with('%')))
    };
    let (first, second, third) = (next()?, next()?, next()?);
    let alpha =
        next().map_or(1.0, |(number, percent)| if percent { number / 100.0 } else { number });
    let channels = match name {
        "rgb" | "rgba" => [first, second, third]
            .map(|(number, percent)| if percent { number / 100.0 } else { number / 255.0 }),
        "hsl" | "hsla" => hsl(first.0, second.0 / 100.0, third.0 / 100.0),
        _ => return None,
    };
    let [red, green, blue] = channels.map(octet);
    Some(Colour([red, green, blue, octet(alpha)]))
}

/// CSS Color 4 §7.1.
fn hsl(hue: f32, saturation: f32, lightness: f32) -> [f32; 3] {
    [0.0, 8.0, 4.0].map(|offset| {
        let k = (offset + hue.rem_euclid(360.0) / 30.0) % 12.0;
        let a = saturation * lightness.min(1.0 - lightness);
        lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what an octet holds; no number becomes 0"
)]
fn octet(part: f32) -> u8 {
    (part.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// The colour names of CSS Color 4 §6.1 with their hex digits, sorted.
static NAMED: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let mut words = NAMES.split_ascii_whitespace();
    std::iter::from_fn(|| Some((words.next()?, words.next()?))).collect()
});

const NAMES: &str = "\
    aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc \
    bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a \
    burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 \
    cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan \
    008b8b darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki \
    bdb76b darkmagenta 8b008b darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred \
    8b0000 darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f \
    darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493 deepskyblue \
    00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222 floralwhite fffaf0 \
    forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700 goldenrod \
    daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0 hotpink \
    ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa \
    lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080 \
    lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey \
    d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa \
    lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime \
    00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa \
    mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db mediumseagreen 3cb371 \
    mediumslateblue 7b68ee mediumspringgreen 00fa9a mediumturquoise 48d1cc mediumvioletred \
    c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite \
    ffdead navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23 orange ffa500 orangered \
    ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee \
    palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd \
    powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue \
    4169e1 saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee \
    sienna a0522d silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey \
    708090 snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8 \
    tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 \
    yellow ffff00 yellowgreen 9acd32";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_every_notation() {
        for (text, expected) in [
            ("#fff", [255, 255, 255, 255]),
            ("#FF00007f", [255, 0, 0, 127]),
            ("#0008", [0, 0, 0, 136]),
            ("White", [255, 255, 255, 255]),
            ("rebeccapurple", [0x66, 0x33, 0x99, 255]),
            ("aliceblue", [0xf0, 0xf8, 0xff, 255]),
            ("yellowgreen", [0x9a, 0xcd, 0x32, 255]),
            ("ff8000", [255, 128, 0, 255]),
            ("rgb(255, 128, 0)", [255, 128, 0, 255]),
            ("rgb(100% 50% 0% / 50%)", [255, 128, 0, 128]),
            ("RGBA( 1,2,3,0 )", [1, 2, 3, 0]),
            ("rgb(999 -4 0)", [255, 0, 0, 255]),
            ("hsl(0, 0%, 100%)", [255, 255, 255, 255]),
            ("hsl(120deg 100% 25%)", [0, 128, 0, 255]),
            ("hsla(-120, 100%, 50%, 0.5)", [0, 0, 255, 128]),
            ("transparent", [0, 0, 0, 0]),
        ] {
            assert_eq!(Colour::parse(text), Some(Colour(expected)), "{text}");
        }
        for text in ["", "#", "#ff", "#ggg", "inherit", "currentcolor", "var(--x)", "rgb(1,2)", "x"]
        {
            assert_eq!(Colour::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMED.is_sorted() && NAMED.len() == 148);
        for (name, digits) in NAMED.iter() {
            assert_eq!(Colour::parse(name), hex(digits), "{name}");
        }
        assert_eq!(Colour::parse(&"f".repeat(LONGEST + 1)), None);
    }

    #[test]
    fn near_colours_hide_and_clear_ones_do() {
        let colour = |text| Colour::parse(text).unwrap();
        assert!(colour("#fdfdfd").is_near(Colour::WHITE));
        assert!(!colour("#eee").is_near(Colour::WHITE));
        assert!(!Colour::BLACK.is_near(Colour::WHITE));
        assert!(colour("rgba(0,0,0,.02)").is_clear() && !colour("#0001").is_clear());
        assert!(!colour("#fffe").is_solid());
    }
}
