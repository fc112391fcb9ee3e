//! Rules of `<style>`, as far as mail uses them: names, classes and ids, and their nesting.
//!
//! Skips rules under conditions that hold only on some screens (`@media (max-width: …)`), selectors
//! by attribute or state, and nested rules. Bounded by [`MOST_RULES`] rules and [`MOST_STEPS`]
//! comparison steps.

use std::collections::BTreeMap;

use cssparser::Parser;

use super::css::Declarations;
use super::style::{self, Style};
use super::tags::TagName;
use super::visible;

/// Most rules, one per selector; large newsletters have some hundred.
const MOST_RULES: usize = 2000;
/// Most comparisons of a compound with an element in one document: about 0.1 s.
const MOST_STEPS: usize = 2_000_000;
/// Most classes of an element that are looked up, and of a compound.
const MOST_CLASSES: usize = 8;
/// Bytes of a `class` or an `id` that are read.
const MOST_OCTETS: usize = 1024;
/// Most compounds in a selector.
const MOST_COMPOUNDS: usize = 16;

/// An element as selectors see it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element<'a> {
    pub(super) name: TagName,
    id: Option<&'a str>,
    /// Unused slots are empty.
    classes: [&'a str; MOST_CLASSES],
    /// Some classes were left out.
    is_cut: bool,
}

impl<'a> Element<'a> {
    /// Splits the attributes once, within the limits.
    pub(super) fn new(name: TagName, id: Option<&'a str>, class: Option<&'a str>) -> Self {
        let all = class.unwrap_or_default();
        let kept = visible::cut(all, MOST_OCTETS);
        let (mut words, mut classes) = (kept.split_ascii_whitespace(), [""; MOST_CLASSES]);
        for (slot, word) in classes.iter_mut().zip(words.by_ref()) {
            *slot = word;
        }
        let is_cut = kept.len() < all.len() || words.next().is_some();
        Self { name, id: id.map(|id| visible::cut(id, MOST_OCTETS)), classes, is_cut }
    }

    fn classes(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.classes.into_iter().take_while(|class| !class.is_empty())
    }
}

/// One compound of a selector, such as `td.x.y#z`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Compound {
    name: Option<TagName>,
    id: Option<String>,
    classes: Vec<String>,
    /// Must be a direct child of the compound before it (`>`).
    is_child: bool,
}

impl Compound {
    fn matches(&self, element: &Element<'_>) -> bool {
        self.name.is_none_or(|name| name == element.name)
            && self.id.as_deref().is_none_or(|id| element.id == Some(id))
            && self.classes.iter().all(|class| element.classes.contains(&class.as_str()))
    }

    /// Cost of one comparison.
    const fn steps(&self) -> usize {
        1 + self.classes.len()
    }
}

#[derive(Clone, Debug)]
struct Rule {
    /// The element's own compound first, then outwards.
    path: Vec<Compound>,
    /// Specificity (ids, classes, names), then position in the document (Selectors 4 §17).
    weight: (usize, usize, usize, usize),
    declarations: Declarations,
}

#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: Vec<Rule>,
    /// Rules by an id, class or name that the element itself must have.
    by_id: BTreeMap<String, Vec<usize>>,
    by_class: BTreeMap<String, Vec<usize>>,
    by_name: BTreeMap<TagName, Vec<usize>>,
    others: Vec<usize>,
    steps: usize,
    /// Some rules or comparisons were left out.
    pub(super) is_cut: bool,
}

impl Sheet {
    /// Adds the content of a `<style>` with this `media`.
    pub(super) fn read(&mut self, css: &str, media: &str) {
        if style::is_read(media) {
            style::read_sheet(css, self);
        }
    }

    fn push(&mut self, path: Vec<Compound>, declarations: Declarations) {
        let Some(own) = path.first() else { return };
        let slot = match (&own.id, own.classes.first(), own.name) {
            (Some(id), _, _) => self.by_id.entry(id.clone()).or_default(),
            (_, Some(class), _) => self.by_class.entry(class.clone()).or_default(),
            (_, _, Some(name)) => self.by_name.entry(name).or_default(),
            _ => &mut self.others,
        };
        slot.push(self.rules.len());
        let sum = |count: fn(&Compound) -> usize| path.iter().map(count).sum();
        let weight = (
            sum(|part| usize::from(part.id.is_some())),
            sum(|part| part.classes.len()),
            sum(|part| usize::from(part.name.is_some())),
            self.rules.len(),
        );
        self.rules.push(Rule { path, weight, declarations });
    }

    /// Returns the declarations for `element` inside `around` (nearest last); None if there are none.
    pub(super) fn declared<'e, 'f: 'e>(
        &mut self,
        element: &Element<'_>,
        around: impl DoubleEndedIterator<Item = &'e Element<'f>> + Clone,
    ) -> Option<Declarations> {
        if self.rules.is_empty() || self.steps >= MOST_STEPS {
            self.is_cut |= self.steps >= MOST_STEPS;
            return None;
        }
        self.is_cut |= element.is_cut;
        let id = element.id.and_then(|id| self.by_id.get(id));
        let classes = element.classes().filter_map(|class| self.by_class.get(class));
        let named = self.by_name.get(&element.name);
        let candidates = id.into_iter().chain(classes).chain(named).chain([&self.others]);
        let mut found = Vec::new();
        for number in candidates.flatten() {
            let Some(rule) = self.rules.get(*number) else { continue };
            if matches(&rule.path, element, around.clone().rev(), &mut self.steps) {
                found.push((rule.weight, *number));
            }
        }
        if found.is_empty() {
            return None;
        }
        found.sort_unstable();
        found.dedup();
        let mut declarations = Declarations::default();
        for rule in found.iter().filter_map(|(_, number)| self.rules.get(*number)) {
            declarations.add(&rule.declarations);
        }
        Some(declarations)
    }
}

impl Style for Sheet {
    fn rule(&mut self, selectors: &str, body: &mut Parser<'_>) {
        let declarations = Declarations::read(body);
        if declarations.is_empty() {
            return;
        }
        for path in selectors.split(',').filter_map(selector) {
            if self.rules.len() >= MOST_RULES {
                self.is_cut = true;
                break;
            }
            self.push(path, declarations);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
    }

    fn is_full(&self) -> bool {
        self.is_cut
    }
}

/// Matches outwards, each compound at the nearest element that fits. No backtracking: mail does not
/// need it, and its cost would not be bounded.
fn matches<'e, 'f: 'e>(
    path: &[Compound],
    element: &Element<'_>,
    mut outwards: impl Iterator<Item = &'e Element<'f>>,
    steps: &mut usize,
) -> bool {
    let Some((own, rest)) = path.split_first() else { return false };
    *steps += own.steps();
    if !own.matches(element) {
        return false;
    }
    let mut is_child = own.is_child;
    rest.iter().all(|part| {
        let found = if is_child {
            *steps += part.steps();
            outwards.next().is_some_and(|other| part.matches(other))
        } else {
            outwards.any(|other| {
                *steps += part.steps();
                part.matches(other)
            })
        };
        is_child = part.is_child;
        found
    })
}

/// Parses a selector, innermost compound first; None if it is not supported.
fn selector(text: &str) -> Option<Vec<Compound>> {
    if text.contains(['[', ':', '+', '~', '\\', '&']) {
        return None;
    }
    let spaced = text.replace('>', " > ");
    let (mut path, mut is_child): (Vec<Compound>, bool) = (Vec::new(), false);
    for word in spaced.split_ascii_whitespace() {
        if word == ">" {
            is_child = true;
            continue;
        }
        if path.len() >= MOST_COMPOUNDS || word.len() > MOST_OCTETS {
            return None;
        }
        let mut compound = Compound { is_child, ..Compound::default() };
        is_child = false;
        let first = word.find(['.', '#']).unwrap_or(word.len());
        let (name, mut rest) = word.split_at_checked(first)?;
        compound.name = (!name.is_empty() && name != "*").then(|| TagName::new(name));
        while let Some(kind) = rest.chars().next() {
            let tail = rest.get(1..)?;
            let end = tail.find(['.', '#']).unwrap_or(tail.len());
            let (value, after) = tail.split_at_checked(end)?;
            if value.is_empty() {
                return None;
            }
            if kind == '#' {
                compound.id = Some(value.to_owned());
            } else if compound.classes.len() >= MOST_CLASSES {
                return None;
            } else {
                compound.classes.push(value.to_owned());
            }
            rest = after;
        }
        path.push(compound);
    }
    path.reverse();
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::super::css::Property;
    use super::*;

    fn element(text: &str) -> Element<'_> {
        let (name, class) = text.split_once('|').unwrap_or((text, ""));
        Element::new(TagName::new(name), None, Some(class))
    }

    fn hides(css: &str, path: &[&str]) -> bool {
        let mut sheet = Sheet::default();
        sheet.read(css, "");
        let elements: Vec<_> = path.iter().map(|text| element(text)).collect();
        let (own, around) = elements.split_last().unwrap();
        let found = sheet.declared(own, around.iter());
        let Declarations { normal: mut declared, important } = found.unwrap_or_default();
        declared.add(&important);
        declared.is(Property::Display)
    }

    #[test]
    fn selectors_find_their_elements() {
        for (css, path, expected) in [
            ("p{display:none}", &["p"][..], true),
            ("P{display:none}", &["p"], true),
            ("p{display:none}", &["b"], false),
            (".x{display:none}", &["b|y x"], true),
            ("b.x{display:none}", &["p|x"], false),
            ("b.x.y{display:none}", &["b|x y"], true),
            ("*{display:none}", &["p"], true),
            ("h1,.x , p{display:none}", &["p"], true),
            ("table .x{display:none}", &["table", "tr", "td|x"], true),
            ("table > .x{display:none}", &["table", "tr", "td|x"], false),
            // Each table has an implicit body.
            ("table>tr>.x{display:none}", &["table", "tbody", "tr", "td|x"], false),
            ("table>tbody>tr>.x{display:none}", &["table", "tbody", "tr", "td|x"], true),
            ("div table .x{display:none}", &["table", "tr", "td|x"], false),
            // Specificity, then order, then importance.
            (".x{display:none}p{display:block}", &["p|x"], true),
            (".x{display:none}.x{display:block}", &["p|x"], false),
            (".x{display:none!important}p.x{display:block}", &["p|x"], true),
            // Comments, conditions, unsupported rules.
            ("/*a{*/p{display:none}", &["p"], true),
            ("<!-- p{display:none} -->", &["p"], true),
            ("@import 'x'; p{display:none}", &["p"], true),
            ("@media screen{p{display:none}}", &["p"], true),
            ("@media (max-width:9px){p{display:none}}b{}", &["p"], false),
            ("@media (max-width:9px){b{}}p{display:none}", &["p"], true),
            ("@media not all{p{display:none}}", &["p"], false),
            ("@media not screen{p{display:none}}", &["p"], false),
            ("@media print, only screen{p{display:none}}", &["p"], true),
            ("@media print{p{display:none}}", &["p"], false),
            ("@media screen and (min-width: 1px){p{display:none}}", &["p"], true),
            ("@media (min-width:20em) and (max-width:99999px){p{display:none}}", &["p"], true),
            ("@media (min-width:600px){p{display:none}}", &["p"], false),
            ("@supports (display:grid){p{display:none}}", &["p"], true),
            ("@layer a;@layer b{p{display:none}}", &["p"], true),
            ("@font-face{x:y}p{display:none}", &["p"], true),
            ("b::after{content:\"/*\"}p{display:none}/**/", &["p"], true),
            ("b{content:'}b{'}p{d\\isplay:none}", &["p"], true),
            ("template-card{display:none}", &["template"], false),
            ("p:hover{display:none}", &["p"], false),
            ("p[x]{display:none}", &["p"], false),
            ("p{display:none", &["p"], true),
            ("p/**/.x{display:none}", &["p|x"], true),
            ("p{color:red;b{x:y}display:none}", &["p"], true),
            ("p{@media screen{display:none}}", &["p"], true),
            ("p{@media print{display:none}}", &["p"], false),
            ("@media screen{@media all{p{display:none}}}", &["p"], true),
            ("p{a:(}display:none}", &["p"], false),
            ("@media screen{;p{display:none}}", &["p"], true),
            ("@media screen{x:y;p{display:none}}", &["p"], true),
            ("@media screen{b:hover{x:y}p{display:none}}", &["p"], true),
            (".\\31 {display:none}", &["p|1"], true),
            (".\\31 x{display:none}", &["p|1x"], true),
            ("b{a:(})}p{display:none}", &["p"], true),
            ("{}{{}}p", &["p"], false),
        ] {
            assert_eq!(hides(css, path), expected, "{css}");
        }
    }

    #[test]
    fn rules_and_steps_are_bounded() {
        let mut sheet = Sheet::default();
        sheet.read(&"p{display:none}".repeat(MOST_RULES), "");
        assert!(!sheet.is_cut);
        sheet.read("p{display:none}", "screen");
        assert!(sheet.is_cut && sheet.rules.len() == MOST_RULES);

        let mut sheet = Sheet::default();
        let (open, close) =
            ("@media all{".repeat(style::DEEPEST + 1), "}".repeat(style::DEEPEST + 1));
        sheet.read(&format!("{}p{{display:none}}", &open[11..]), "screen/**/");
        assert!(!sheet.is_cut && sheet.rules.len() == 1);
        sheet.read(&format!("{open}p{{}}{close}p{{display:none}}"), "");
        assert!(sheet.is_cut);

        let mut sheet = Sheet::default();
        sheet.read(&".y p{display:none}".repeat(MOST_RULES), "");
        let around = vec![Element::default(); 128];
        let one = Element::new(TagName::new("p"), None, None);
        for _ in 0..100 {
            sheet.declared(&one, around.iter());
        }
        // One element may exceed the limit by the cost of all rules.
        assert!(sheet.is_cut && sheet.steps <= MOST_STEPS + MOST_RULES * 257);
    }

    #[test]
    fn attributes_and_selectors_are_cut() {
        let name = TagName::new("p");
        let spaces = " ".repeat(100_000) + "x";
        let cut = Element::new(name, None, Some(&spaces));
        assert_eq!((cut.classes().count(), cut.is_cut), (0, true));
        let many = "x ".repeat(100_000);
        let cut = Element::new(name, Some(&many), Some(&many));
        assert_eq!((cut.classes().count(), cut.is_cut), (MOST_CLASSES, true));
        assert_eq!(cut.id.map(str::len), Some(MOST_OCTETS));
        assert!(!Element::new(name, None, Some(" a b ")).is_cut);
        for (text, is_read) in [
            (".x".repeat(MOST_CLASSES), true),
            (".x".repeat(MOST_CLASSES + 1), false),
            (".x".repeat(100_000), false),
            ("a ".repeat(MOST_COMPOUNDS), true),
            ("a ".repeat(MOST_COMPOUNDS + 1), false),
            ("a ".repeat(2_000_000), false),
            ("a".repeat(MOST_OCTETS + 1), false),
        ] {
            assert_eq!(selector(&text).is_some(), is_read, "{}", text.len());
        }
        // A comparison costs as many steps as the compound has parts.
        let mut sheet = Sheet::default();
        sheet.read(&format!("{}{{display:none}}", ".x".repeat(MOST_CLASSES)), "");
        sheet.declared(&cut, [].iter());
        assert!(sheet.is_cut && sheet.steps >= MOST_CLASSES);
    }
}
