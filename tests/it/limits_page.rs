//! The table of every limit (docs/reference/limits.md), made from `policies/` and
//! `fixtures/limits.toml`, which says how somebody tells that one was reached.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gatepost::domain::clock::Timestamp;
use gatepost::domain::reason::Reason;
use gatepost::domain::words::Words as _;
use gatepost::http::error::Code;
use gatepost::metrics::Metrics;
use gatepost::testkit::golden;
use toml::{Table, Value};

use crate::support::sources::files;

const MADE: &str = "<!-- Made by tests/it/limits_page.rs: GATEPOST_BLESS=1 writes this page. -->\n";

const FILE: &str = "fixtures/limits.toml";

/// The settings that are numbers, whose defaults stand behind `#` in the file that explains them.
fn settings() -> (String, Table) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/gatepost.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let read =
        text.lines().filter_map(|line| toml::from_str::<Table>(line.strip_prefix('#')?).ok());
    let table = read.flatten().collect::<Table>();
    ("settings".to_owned(), Table::from_iter([("serve".to_owned(), Value::Table(table))]))
}

/// The rule files by their names, without their cases.
fn rules() -> Vec<(String, Table)> {
    let named = files("policies", "toml").into_iter().filter_map(|(path, text)| {
        let stem = path.strip_prefix("policies/")?.strip_suffix(".toml")?.to_owned();
        (!stem.contains('.')).then(|| (stem, toml::from_str(&text).unwrap()))
    });
    named.collect()
}

fn is_number(value: &Value) -> bool {
    match value {
        Value::Integer(_) | Value::Float(_) => true,
        Value::Array(all) => !all.is_empty() && all.iter().all(Value::is_integer),
        _ => false,
    }
}

/// The numbers of a table, in the order of the file.
fn numbers(table: &Value) -> Vec<(&str, &Value)> {
    let keys = table.as_table().into_iter().flatten();
    keys.filter(|(_, value)| is_number(value)).map(|(key, value)| (&**key, value)).collect()
}

fn told() -> Table {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/limits.toml"));
    toml::from_str(&text.unwrap()).unwrap()
}

/// Returns the text of each key of a table of the file; those that bound nothing have none.
fn said<'t>(told: &'t Table, stem: &str, section: &str) -> Vec<(&'t str, Option<&'t str>)> {
    let table = told.get(stem).and_then(|file| file.get(section)).and_then(Value::as_table);
    let table = table.unwrap_or_else(|| panic!("{FILE} has no [{stem}.{section}]"));
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            Value::String(text) => all.push((&**key, Some(&**text))),
            Value::Array(others) if key == "others" => {
                all.extend(others.iter().map(|other| (other.as_str().unwrap(), None)));
            }
            _ => panic!("{FILE}, [{stem}.{section}], {key}: a text, or a list of others"),
        }
    }
    all
}

#[test]
fn the_book_shows_every_limit_and_how_it_is_noticed() {
    let told = told();
    let mut page = format!(
        "# Limits\n\n{MADE}\nFor operators who ask what a gateway bounds and how they notice that a bound was \
         reached. Each number has a page with its reason and its range; [Settings and \
         rules](../deploy.md#settings-and-rules) says how to change one. [Sizing](../sizing.md) says what to \
         expect of a machine.\n"
    );
    for (stem, rules) in [settings()].into_iter().chain(rules()) {
        let sections = rules.iter().filter(|(_, table)| !numbers(table).is_empty());
        let mut is_first = true;
        for (section, table) in sections {
            let said = said(&told, &stem, section);
            let numbers = numbers(table);
            let known: BTreeSet<_> = numbers.iter().map(|(key, _)| *key).collect();
            let named: BTreeSet<_> = said.iter().map(|(key, _)| *key).collect();
            assert_eq!(named.len(), said.len(), "{FILE}, [{stem}.{section}]: a key stands twice");
            assert_eq!(named, known, "{FILE}, [{stem}.{section}]: every number of {stem}.toml");
            let rows = numbers.iter().filter_map(|(key, value)| {
                let text = said.iter().find(|(name, _)| name == key)?.1?;
                Some(format!("| `{key}` | `{value}` | {} |\n", text.replace('|', "\\|")))
            });
            let rows = rows.collect::<String>();
            if rows.is_empty() {
                continue;
            }
            if std::mem::take(&mut is_first) {
                let name = if stem == "settings" { "Settings" } else { &*format!("{stem}.toml") };
                write!(page, "\n## [{name}]({stem}.md)\n").unwrap();
            }
            write!(page, "\n`[{section}]`\n\n| limit | default | when it is reached |\n").unwrap();
            write!(page, "|---|---|---|\n{rows}").unwrap();
        }
    }
    golden::hold("docs/reference/limits.md", page.as_bytes()).unwrap();
}

#[test]
fn what_shows_that_a_limit_was_reached_exists() {
    let metrics = Metrics::new(Timestamp::from_millis(0)).unwrap();
    let metrics: BTreeSet<String> = metrics.described().into_iter().map(|one| one.name).collect();
    let codes = Code::ALL.iter().map(|code| code.as_str());
    let words: BTreeSet<&str> =
        codes.chain(Reason::all().iter().map(|reason| reason.word())).collect();
    let transcripts: String =
        files("fixtures/smtp", "smtp").into_iter().map(|file| file.1).collect();
    for (stem, sections) in &told() {
        for (section, table) in sections.as_table().unwrap() {
            for (key, text) in table.as_table().unwrap() {
                let Some(text) = text.as_str() else { continue };
                let at = format!("{FILE}, [{stem}.{section}], {key}");
                for code in text.split('`').skip(1).step_by(2) {
                    let name = code.split('{').next().unwrap();
                    if name.starts_with("gatepost_") {
                        assert!(metrics.contains(name), "{at}: no metric {name}");
                    }
                }
                for reply in text.split([';', ':', ',']).map(str::trim) {
                    let (number, rest) = reply.split_at(reply.len().min(3));
                    if !number.starts_with(['4', '5']) || number.parse::<u16>().is_err() {
                        continue;
                    }
                    let enhanced = rest.trim().split([' ', '(']).next().unwrap();
                    if enhanced.contains('.') {
                        let reply = format!("{number} {enhanced}");
                        assert!(transcripts.contains(&reply), "{at}: no reply {reply}");
                    }
                    let named =
                        rest.split('`').nth(1).filter(|word| !word.starts_with("gatepost_"));
                    if let Some(word) = named.filter(|word| !word.starts_with("max_")) {
                        assert!(words.contains(word), "{at}: no code or reason {word}");
                    }
                }
            }
        }
    }
}
