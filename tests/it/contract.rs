//! `docs/contract.md`: the operations, replies and fields that it lists are those of the program, and what the code
//! cites of it is there.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::domain::event::EventName;
use gatepost::domain::reason::Reason;
use gatepost::http::table::OPERATIONS;

use crate::support::sources::{files, read};

const PAGE: &str = "docs/contract.md";

/// All operations that it lists, each once: `GET /messages/recent`.
pub fn operations() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for row in rows("### Operations") {
        for listed in row[1].split('·') {
            let (verbs, path) = listed.trim().rsplit_once(' ').unwrap();
            for verb in verbs.split(',') {
                let name = format!("{} {path}", verb.trim());
                assert!(all.insert(name.clone()), "{name} is there twice");
            }
        }
    }
    all
}

/// The cells of the first table behind a heading.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = read(PAGE);
    let (_, behind) = page.split_once(&format!("\n{heading}\n")).expect(heading);
    let lines = behind.lines().skip_while(|line| !line.starts_with('|'));
    let lines = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let inside = line.trim_matches('|').replace("\\|", "/");
        inside.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows: Vec<Vec<String>> = lines.map(cells).collect();
    assert!(!rows.is_empty(), "no table behind {heading}");
    rows
}

/// Returns the texts between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_table_is_what_the_contract_lists() {
    let there: BTreeSet<String> = OPERATIONS
        .iter()
        .flat_map(|operation| {
            let verb = operation.verb.as_str();
            operation.paths().map(move |path| format!("{verb} {path}"))
        })
        .collect();
    assert_eq!(there, operations().into_iter().collect());
}

#[test]
fn each_reason_is_answered_as_the_contract_says() {
    let mut promised: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows("### Replies") {
        let code = quoted(&row[0]).next().unwrap().to_owned();
        promised.entry(code).or_default().push(row[1].clone());
    }
    for reason in Reason::ALL {
        let (code, enhanced, _) = reason.reply();
        let replies = promised.remove(reason.as_str()).unwrap_or_default();
        assert!(replies.contains(&format!("{code} {enhanced}")), "{reason}: {replies:?}");
    }
    assert!(promised.is_empty(), "no reasons of ours: {promised:?}");
}

#[test]
fn each_event_of_the_contract_is_made_in_its_category() {
    let mut page = String::new();
    for row in rows("## 5. Events and webhooks") {
        for name in quoted(&row[0]) {
            let event = EventName::ALL.iter().find(|event| event.as_str() == name);
            let event = event.unwrap_or_else(|| panic!("{name} is never made"));
            assert_eq!(event.category().as_str(), row[1], "{name}");
            page.push_str(name);
        }
    }
    assert!(page.contains("email.received"));
}

/// How comments cite it; not so here.
const CITED: &str = concat!("contract", " §");

/// `contract §2, Policy` leads to that section, and to a heading or a word of it.
#[test]
fn what_is_cited_of_the_contract_is_there() {
    let page = read(PAGE);
    let sections: BTreeMap<&str, &str> = page
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once(". ").map(|(number, _)| (number, section)))
        .collect();
    assert_eq!(sections.keys().copied().collect::<String>(), "12345678");
    let mut cited = 0;
    for (folder, ending) in [
        ("src", "rs"),
        ("tests", "rs"),
        ("benches", "rs"),
        ("policies", "toml"),
        ("fixtures", "toml"),
    ] {
        for (name, text) in files(folder, ending) {
            // A comment may break a line anywhere.
            let words: Vec<&str> = text
                .split_whitespace()
                .filter(|word| !["//", "///", "//!", "#"].contains(word))
                .collect();
            let text = words.join(" ");
            for citation in text.split(CITED).skip(1) {
                let number = &citation[..1];
                let section = sections.get(number).unwrap_or_else(|| panic!("{name}: §{number}"));
                cited += 1;
                if let Some(item) = citation[1..].strip_prefix('.') {
                    let end = item.find(|c: char| !c.is_ascii_digit()).unwrap_or(item.len());
                    let (item, _) = item.split_at(end);
                    let there = item.is_empty() || section.contains(&format!("\n{item}. "));
                    assert!(there, "{name} cites §{number}.{item}");
                }
                let Some(place) = citation[1..].strip_prefix(", ") else { continue };
                let end = place.find(|c: char| !(c.is_alphanumeric() || c == ' '));
                let place = place[..end.unwrap_or(place.len())].trim();
                if place.starts_with(char::is_uppercase) {
                    let heading = format!("### {place}\n");
                    let word = format!("| {place} |");
                    assert!(
                        section.contains(&heading) || section.contains(&word),
                        "{name} cites §{number}, {place:?}"
                    );
                }
            }
        }
    }
    assert!(cited > 50, "{cited} citations");
}
