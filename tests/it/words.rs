//! Comments and pages begin with a verb or a noun, and not with a clause that stands for one.

use crate::support::sources::{files, read, root};

/// Openings of a clause in the place of a noun, or of half a sentence.
const CLAUSES: [&str; 9] =
    ["What", "Whatever", "Who", "Whoever", "Whom", "Whose", "The same", "Of", "Likewise of"];

/// Openings that name the thing.
const EXCEPTIONS: [&str; 2] = ["What Gatepost promises to", "The same message for the same Agent"];

/// The first line of each paragraph of comments, with its number.
fn openings(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // The comment of the line above; none above code.
    let mut above: Option<&str> = None;
    for (number, line) in (1..).zip(source.lines()) {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map(|rest| rest.trim_start_matches(['/', '!']).trim());
        if let Some(text) = text {
            let ends = |above: &str| above.is_empty() || above.ends_with(['.', ':', '?', '|', '`']);
            if above.is_none_or(ends) {
                found.push((number, text));
            }
        }
        above = text;
    }
    found
}

/// The first line of each paragraph and list item of a page, with its number.
fn paragraphs(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut above = "";
    for (number, line) in (1..).zip(page.lines()) {
        let text = line.trim_start();
        let item = text.strip_prefix("- ");
        if let Some(begun) = item.or_else(|| above.is_empty().then_some(text)) {
            found.push((number, begun));
        }
        above = text;
    }
    found
}

fn begins_with_a_clause(text: &str) -> bool {
    let begins = |opening: &str| {
        text.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    CLAUSES.into_iter().any(begins) && !EXCEPTIONS.into_iter().any(begins)
}

#[test]
fn comments_and_pages_begin_with_a_verb_or_a_noun() {
    let mut faults = Vec::new();
    let mut look = |name: &str, begun: Vec<(usize, &str)>| {
        let clauses = begun.into_iter().filter(|(_, text)| begins_with_a_clause(text));
        faults.extend(clauses.map(|(number, text)| format!("{name}:{number}: {text}")));
    };
    for folder in ["src", "tests", "benches", "fuzz"] {
        for (name, source) in files(folder, "rs") {
            look(&name, openings(&source));
        }
    }
    for folder in ["policies", "src/config"] {
        for (name, rules) in files(folder, "toml") {
            look(&name, openings(&rules.replace("\n#", "\n//")));
        }
    }
    for (name, page) in files("docs", "md") {
        look(&name, paragraphs(&page));
    }
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        look(name, paragraphs(&read(name)));
    }
    assert!(faults.is_empty(), "name the thing, or begin with a verb:\n{}", faults.join("\n"));
}

#[test]
fn clauses_are_told_from_names() {
    let source =
        "/// What waits.\nfn a() {} // Of none.\n/// A row\n/// Of its own.\n\n// Who asks\n";
    let begun = openings(source);
    assert_eq!(begun, [(1, "What waits."), (3, "A row"), (6, "Who asks")]);
    let found: Vec<_> = begun.iter().map(|(_, text)| begins_with_a_clause(text)).collect();
    assert_eq!(found, [true, false, true]);
    assert!(!begins_with_a_clause("Offers a lock") && !begins_with_a_clause("Whole messages"));
    let page = "# Title\n\nWhat is new\nOf old\n- Of a list\n";
    assert_eq!(paragraphs(page), [(1, "# Title"), (3, "What is new"), (5, "Of a list")]);
}

/// A row ends with its file and, in most rows, its type: `file.rs` `Type`.
#[test]
fn the_glossary_names_each_word_once_and_types_that_exist() {
    let page = read("docs/glossary.md");
    let mut words = Vec::new();
    for row in page.lines().filter(|line| line.contains(".rs`")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        words.push(cells[0]);
        let mut names = cells[2].split('`').filter(|part| !part.trim().is_empty());
        let file = format!("src/{}", names.next().unwrap());
        assert!(root().join(&file).exists(), "{row}");
        let Some(name) = names.next() else { continue };
        let source = read(&file);
        // A noun of `words!` stands on a line of its own.
        let declared = [format!("struct {name}"), format!("enum {name}"), format!("    {name} {{")];
        assert!(declared.iter().any(|declared| source.contains(declared)), "{row}");
    }
    assert!(words.len() > 40, "{words:?}");
    let unique: std::collections::BTreeSet<_> = words.iter().collect();
    assert_eq!(unique.len(), words.len(), "{words:?}");
}
