//! The rules of `<style>`, as far as mail uses them: names, classes and ids, one inside the other.
//!
//! Rules under a condition (`@media (max-width: …)`) hold on some screens only and are left out, as
//! are selectors by attribute or state. Bounded: [`MOST_RULES`] rules and [`MOST_STEPS`] steps of
//! comparing them with elements.

use std::collections::BTreeMap;

use super::css::{Declared, declarations, without_comments};
use super::tags::TagName;

/// Rules that are kept, one for each selector: large newsletters have some hundred.
const MOST_RULES: usize = 2000;
/// Comparisons of a part of a selector with an element, for one document: about 0.1 s.
const MOST_STEPS: usize = 2_000_000;
/// Classes of an element that are looked up.
const MOST_CLASSES: usize = 8;

/// An element as selectors see it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element<'a> {
    pub(super) name: TagName,
    pub(super) id: Option<&'a str>,
    pub(super) class: Option<&'a str>,
}

impl<'a> Element<'a> {
    fn classes(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.class.unwrap_or_default().split_ascii_whitespace().take(MOST_CLASSES)
    }
}

/// `td.x.y#z`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Compound {
    name: Option<TagName>,
    id: Option<String>,
    classes: Vec<String>,
    /// It stands directly inside the one before it (`>`).
    is_child: bool,
}

impl Compound {
    fn matches(&self, element: &Element<'_>) -> bool {
        self.name.is_none_or(|name| name == element.name)
            && self.id.as_deref().is_none_or(|id| element.id == Some(id))
            && self.classes.iter().all(|class| element.classes().any(|other| other == class))
    }
}

#[derive(Clone, Debug)]
struct Rule {
    /// The element itself, and outwards what it must stand in.
    path: Vec<Compound>,
    /// Ids, classes, names; then the place in the document (Selectors 4 §17).
    weight: (usize, usize, usize, usize),
    normal: Declared,
    important: Declared,
}

/// The style sheets of a document.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: Vec<Rule>,
    /// By what the element itself must have.
    by_id: BTreeMap<String, Vec<usize>>,
    by_class: BTreeMap<String, Vec<usize>>,
    by_name: BTreeMap<TagName, Vec<usize>>,
    others: Vec<usize>,
    steps: usize,
    /// There were more rules, or comparisons, than are looked at.
    pub(super) is_cut: bool,
}

impl Sheet {
    /// Adds the content of a `<style>`.
    pub(super) fn read(&mut self, css: &str) {
        let css = without_comments(css).replace("<!--", " ").replace("-->", " ");
        let mut rest = css.as_str();
        while let Some((prelude, tail)) = rest.split_once('{') {
            // What ends with a semicolon before it has no block: `@import …;`.
            let prelude = prelude.rsplit([';', '}']).next().unwrap_or_default().trim();
            if let Some(condition) = prelude.strip_prefix('@') {
                // The rules of a condition that always holds are read as if it were not there.
                rest = if holds(condition) { tail } else { behind_block(tail) };
                continue;
            }
            let (block, tail) = tail.split_once('}').unwrap_or((tail, ""));
            rest = tail;
            let (normal, important) = declarations(block);
            if normal.is_empty() && important.is_empty() {
                continue;
            }
            for path in prelude.split(',').filter_map(selector) {
                if self.rules.len() >= MOST_RULES {
                    self.is_cut = true;
                    return;
                }
                self.push(path, normal, important);
            }
        }
    }

    fn push(&mut self, path: Vec<Compound>, normal: Declared, important: Declared) {
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
        self.rules.push(Rule { path, weight, normal, important });
    }

    /// What the sheets declare for `element` inside `around`, the nearest last, and what of it is
    /// important; `None` where that is nothing.
    pub(super) fn declared<'e>(
        &mut self,
        element: &Element<'_>,
        around: impl DoubleEndedIterator<Item = Element<'e>> + Clone,
    ) -> Option<(Declared, Declared)> {
        if self.rules.is_empty() || self.steps >= MOST_STEPS {
            self.is_cut |= self.steps >= MOST_STEPS;
            return None;
        }
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
        let (mut normal, mut important) = (Declared::default(), Declared::default());
        for rule in found.iter().filter_map(|(_, number)| self.rules.get(*number)) {
            normal.add(&rule.normal);
            important.add(&rule.important);
        }
        Some((normal, important))
    }
}

/// Matches outwards, each part at the nearest element that it fits; no way back, which mail does
/// not need and which would cost more than a bounded number of steps.
fn matches<'e>(
    path: &[Compound],
    element: &Element<'_>,
    mut outwards: impl Iterator<Item = Element<'e>>,
    steps: &mut usize,
) -> bool {
    let Some((own, rest)) = path.split_first() else { return false };
    *steps += 1;
    if !own.matches(element) {
        return false;
    }
    let mut is_child = own.is_child;
    rest.iter().all(|part| {
        let found = if is_child {
            *steps += 1;
            outwards.next().is_some_and(|other| part.matches(&other))
        } else {
            outwards.any(|other| {
                *steps += 1;
                part.matches(&other)
            })
        };
        is_child = part.is_child;
        found
    })
}

/// `media screen`, `media all`: without anything in brackets.
fn holds(condition: &str) -> bool {
    let condition = condition.to_ascii_lowercase();
    let Some(media) = condition.strip_prefix("media") else { return false };
    !media.contains('(') && (media.contains("screen") || media.contains("all"))
}

/// Behind the block that `css` begins in.
fn behind_block(css: &str) -> &str {
    let mut depth = 1_usize;
    for (at, byte) in css.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return css.get(at + 1..).unwrap_or_default();
        }
    }
    ""
}

/// The path of a selector, innermost first; `None` for what is not read.
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
        Element { name: TagName::new(name), id: None, class: Some(class) }
    }

    fn hides(css: &str, path: &[&str]) -> bool {
        let mut sheet = Sheet::default();
        sheet.read(css);
        let elements: Vec<_> = path.iter().map(|text| element(text)).collect();
        let (own, around) = elements.split_last().unwrap();
        let found = sheet.declared(own, around.iter().copied());
        let (mut declared, important) = found.unwrap_or_default();
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
            ("table>tr>.x{display:none}", &["table", "tr", "td|x"], true),
            ("div table .x{display:none}", &["table", "tr", "td|x"], false),
            // Weight, then order, then importance.
            (".x{display:none}p{display:block}", &["p|x"], true),
            (".x{display:none}.x{display:block}", &["p|x"], false),
            (".x{display:none!important}p.x{display:block}", &["p|x"], true),
            // Comments, conditions, what is not read.
            ("/*a{*/p{display:none}", &["p"], true),
            ("<!-- p{display:none} -->", &["p"], true),
            ("@import 'x'; p{display:none}", &["p"], true),
            ("@media screen{p{display:none}}", &["p"], true),
            ("@media (max-width:9px){p{display:none}}b{}", &["p"], false),
            ("@media (max-width:9px){b{}}p{display:none}", &["p"], true),
            ("p:hover{display:none}", &["p"], false),
            ("p[x]{display:none}", &["p"], false),
            ("p{display:none", &["p"], true),
            ("{}{{}}p", &["p"], false),
        ] {
            assert_eq!(hides(css, path), expected, "{css}");
        }
    }

    #[test]
    fn rules_and_steps_are_bounded() {
        let mut sheet = Sheet::default();
        sheet.read(&"p{display:none}".repeat(MOST_RULES));
        assert!(!sheet.is_cut);
        sheet.read("p{display:none}");
        assert!(sheet.is_cut && sheet.rules.len() == MOST_RULES);

        let mut sheet = Sheet::default();
        sheet.read(&".y p{display:none}".repeat(MOST_RULES));
        let around = vec![Element::default(); 128];
        let one = Element { name: TagName::new("p"), ..Element::default() };
        for _ in 0..100 {
            sheet.declared(&one, around.iter().copied());
        }
        // One element may go beyond by what all rules cost it.
        assert!(sheet.is_cut && sheet.steps <= MOST_STEPS + MOST_RULES * 129);
    }
}
