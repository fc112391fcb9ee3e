//! Which files of a folder import from which others, as their texts say.

use std::collections::{BTreeMap, BTreeSet};

/// The files that each file imports from; both by their paths from the root.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports among these sources, which all lie in `folder`, a room (`src/store`): by `use`, in
/// whatever list, by a path that stands in the code, and by a path through an imported module.
pub fn imports(folder: &str, sources: &[(String, String)]) -> Imports {
    let room = folder.rsplit('/').next().unwrap();
    let named: BTreeMap<Vec<String>, &str> = sources
        .iter()
        .map(|(name, _)| {
            let inside = name.strip_prefix(folder).unwrap().trim_start_matches('/');
            (module(inside.strip_suffix(".rs").unwrap()), name.as_str())
        })
        .collect();
    let of = |module: &Vec<String>, text: &str| {
        let code = without_comments(text);
        let mut paths = paths(&code);
        let modules = paths.iter().filter_map(|(path, called)| {
            let (found, rest) = resolve(room, &named, module, path)?;
            (rest.is_empty() && !called.is_empty()).then(|| (called.clone(), found))
        });
        for (called, found) in modules.collect::<Vec<_>>() {
            for (path, _) in behind(&code, &format!("{called}::")) {
                let whole = ["crate", room].into_iter().map(str::to_owned);
                paths.push((whole.chain(found.clone()).chain(path).collect(), String::new()));
            }
        }
        let found = paths.iter().filter_map(|(path, _)| resolve(room, &named, module, path));
        let files = found.filter_map(|(found, _)| named.get(&found).map(|name| (*name).to_owned()));
        files.collect::<BTreeSet<_>>()
    };
    let mut imports = Imports::new();
    for (name, text) in sources {
        let inside = name.strip_prefix(folder).unwrap().trim_start_matches('/');
        let mut found = of(&module(inside.strip_suffix(".rs").unwrap()), text);
        found.remove(name);
        imports.insert(name.clone(), found);
    }
    imports
}

/// Files that import from each other in a circle, in its order, if any do.
pub fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut left = imports.clone();
    // A file whose imports are all removed is in no circle.
    loop {
        let done = |files: &BTreeSet<String>| !files.iter().any(|file| left.contains_key(file));
        let free: Vec<String> =
            left.iter().filter(|(_, files)| done(files)).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            break;
        }
        left.retain(|name, _| !free.contains(name));
    }
    let mut walked = vec![left.keys().next()?.clone()];
    loop {
        let next = left[walked.last().unwrap()].iter().find(|file| left.contains_key(*file));
        let next = next.unwrap();
        if let Some(begin) = walked.iter().position(|one| one == next) {
            return Some(walked.split_off(begin));
        }
        walked.push(next.clone());
    }
}

/// The module of a file: `engine/sql`, or `engine/mod`.
fn module(path: &str) -> Vec<String> {
    path.split('/').filter(|name| *name != "mod").map(str::to_owned).collect()
}

fn without_comments(text: &str) -> String {
    let line = |line: &str| match line.trim_start().starts_with("//") {
        true => String::new(),
        false => line.split(" // ").next().unwrap().to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// All paths that begin with `crate`, `self` or `super`, or in a `use` with anything, each with the
/// name that its end has from then on.
fn paths(code: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    for beginning in ["crate::", "self::", "super::"] {
        for (path, called) in behind(code, beginning) {
            let first = beginning.trim_end_matches(':').to_owned();
            found.push(([vec![first], path].concat(), called));
        }
    }
    // `use sql::Row;` in the file that declares the module.
    for (at, _) in code.match_indices("use ") {
        let starts = code[..at].chars().next_back().is_none_or(char::is_whitespace);
        let rest = &code[at + "use ".len()..];
        let outside = ["crate::", "self::", "super::"].iter().any(|first| rest.starts_with(first));
        if starts && !outside {
            let mut tree = Vec::new();
            read_tree(rest, &[], &mut tree);
            found.extend(tree.into_iter().map(|(path, called)| {
                (std::iter::once("self".to_owned()).chain(path).collect(), called)
            }));
        }
    }
    found
}

/// Returns the paths that follow each occurrence of this beginning.
fn behind(code: &str, beginning: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(beginning) {
        let before = code[..at].chars().next_back();
        // `pub(in crate::store)` says who may import.
        let is_whole = before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == ':'));
        if is_whole && !code[..at].ends_with("(in ") {
            read_tree(&code[at + beginning.len()..], &[], &mut found);
        }
    }
    found
}

/// Reads a path, or all those of a list in braces; answers what stands behind.
fn read_tree<'t>(
    text: &'t str,
    above: &[String],
    found: &mut Vec<(Vec<String>, String)>,
) -> &'t str {
    let mut text = text.trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        loop {
            list = list.trim_start().trim_start_matches(',').trim_start();
            if list.is_empty() {
                return list;
            }
            if let Some(rest) = list.strip_prefix('}') {
                return rest;
            }
            let rest = read_tree(list, above, found);
            // The first token that is no path ends the list.
            if rest.len() == list.len() {
                return rest;
            }
            list = rest;
        }
    }
    let word = |text: &'t str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        text.split_at(end)
    };
    let (name, rest) = word(text);
    let mut path = above.to_vec();
    // `{self}` names what stands before the list.
    if !(name.is_empty() || name == "self" && !above.is_empty()) {
        path.push(name.to_owned());
    }
    text = rest;
    if let Some(rest) = text.strip_prefix("::") {
        return read_tree(rest, &path, found);
    }
    let mut called = path.last().cloned().unwrap_or_default();
    if let Some(rest) = text.strip_prefix(" as ") {
        let (name, rest) = word(rest);
        (called, text) = (name.to_owned(), rest);
    }
    found.push((path, called));
    text.strip_prefix('*').unwrap_or(text)
}

/// The file's module that a path leads to from another, and what of the path is left.
fn resolve(
    room: &str,
    named: &BTreeMap<Vec<String>, &str>,
    from: &[String],
    path: &[String],
) -> Option<(Vec<String>, Vec<String>)> {
    let mut rest = path.iter().peekable();
    let mut at = from.to_vec();
    if rest.next_if(|name| *name == "crate").is_some() {
        rest.next_if(|name| *name == room)?;
        at.clear();
    }
    while let Some(name) = rest.next_if(|name| *name == "self" || *name == "super") {
        if name == "super" {
            at.pop()?;
        }
    }
    while let Some(name) = rest.peek() {
        let deeper = [at.as_slice(), &[(*name).clone()]].concat();
        if !named.contains_key(&deeper) {
            break;
        }
        at = deeper;
        rest.next();
    }
    Some((at, rest.cloned().collect()))
}
