//! Published suites in YAML, if `GATEPOST_CORPUS` names a folder with them.

use std::collections::HashSet;
use std::path::PathBuf;

use yaml_rust2::{Yaml, YamlLoader};

/// The documents of a suite; None without a corpus, which is reported.
pub(super) fn suite(path: &str) -> Option<Vec<Yaml>> {
    let Some(folder) = std::env::var_os("GATEPOST_CORPUS") else {
        super::corpus::say(&format!("verify: {path} was not given (GATEPOST_CORPUS)"));
        return None;
    };
    let text = std::fs::read_to_string(PathBuf::from(folder).join(path)).unwrap();
    Some(YamlLoader::load_from_str(&with_names_apart(&text)).unwrap())
}

/// Makes names unique: one suite uses a name twice, and the second one gets a stroke.
fn with_names_apart(text: &str) -> String {
    let mut names = HashSet::new();
    let mut apart = String::new();
    for line in text.lines() {
        if !line.is_empty() && !line.starts_with(' ') {
            names.clear();
        }
        let is_name = line.starts_with("  ") && !line.starts_with("   ");
        match line.split_once(':').filter(|(name, _)| is_name && !names.insert(*name)) {
            Some((name, rest)) => apart.push_str(&format!("{name}':{rest}")),
            None => apart.push_str(line),
        }
        apart.push('\n');
    }
    apart
}

/// The entries of a table, by name, in their order.
pub(super) fn entries(table: &Yaml) -> impl Iterator<Item = (&str, &Yaml)> {
    table.as_hash().unwrap().iter().map(|(name, value)| (text(name), value))
}

/// A scalar, trimmed.
pub(super) fn text(value: &Yaml) -> &str {
    value.as_str().unwrap().trim()
}
