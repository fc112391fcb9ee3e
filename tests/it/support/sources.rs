//! The project's own files, for tests about them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file, by its path from the root.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below `folder` with this ending, by their path from the root.
pub fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|have| have == ending) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no files in {folder}");
    found
}

/// The names of all tests: functions behind a `test` attribute, and those that the contract suite
/// of the store runs on both databases.
pub fn tests() -> BTreeSet<String> {
    let sources = ["src", "tests"].iter().flat_map(|folder| files(folder, "rs"));
    sources.flat_map(|(_, text)| tests_of(&text).collect::<Vec<_>>()).collect()
}

fn tests_of(text: &str) -> impl Iterator<Item = String> {
    let word = |text: &str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        text[..end].to_owned()
    };
    let marked = ["#[test]", "#[tokio::test"]
        .into_iter()
        .flat_map(|mark| text.split(mark).skip(1))
        .filter_map(move |behind| Some(word(behind.split_once("fn ")?.1)));
    let suite = text
        .split("\non_both!")
        .skip(1)
        .filter_map(|behind| behind.find(['}', ')']).map(|end| &behind[..end]))
        .flat_map(move |names| names.split([' ', '\n', ',', '{', '(']).map(word));
    marked.chain(suite).filter(|name| !name.is_empty())
}
