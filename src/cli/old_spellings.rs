//! Old flags that the contract names but help no longer shows: flags in place of arguments (`policy
//! set --account 4 --mode open` for `policy set 4 open`).
//!
//! They are rewritten before parsing, so that no other code knows both forms, and neither help nor
//! manual shows them.

use std::ffi::{OsStr, OsString};

/// Position of an old flag's value among the arguments without a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpellingPlace {
    /// Directly after the command.
    First,
    /// After everything else.
    Last,
}

/// An old flag, and the verbs of one noun that had it.
struct OldFlag {
    noun: &'static str,
    verbs: &'static [&'static str],
    name: &'static str,
    place: SpellingPlace,
}

impl OldFlag {
    const fn new(
        noun: &'static str,
        verbs: &'static [&'static str],
        name: &'static str,
        place: SpellingPlace,
    ) -> Self {
        Self { noun, verbs, name, place }
    }

    fn is_of(&self, [noun, verb]: [&OsString; 2]) -> bool {
        noun == self.noun && self.verbs.iter().any(|known| verb == known)
    }
}

const OLD: &[OldFlag] = &[
    OldFlag::new("policy", &["show", "set", "allow", "remove"], "--account", SpellingPlace::First),
    OldFlag::new("policy", &["allow", "remove"], "--address", SpellingPlace::Last),
    OldFlag::new("policy", &["set"], "--mode", SpellingPlace::Last),
    OldFlag::new("key", &["create", "list"], "--account", SpellingPlace::First),
    OldFlag::new("console", &["link"], "--account", SpellingPlace::First),
    OldFlag::new("member", &["invite", "list"], "--account", SpellingPlace::First),
    OldFlag::new("domain", &["add", "remove", "list"], "--account", SpellingPlace::Last),
];

/// Rewrites old flags of a command line.
pub(super) fn renewed(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut commands = (1..words.len()).zip(words.windows(2).skip(1));
    let found = commands.find_map(|(at, pair)| {
        let [noun, verb] = pair else { return None };
        let flags = OLD.iter().filter(|flag| flag.is_of([noun, verb])).collect::<Vec<_>>();
        (!flags.is_empty()).then_some((at, flags))
    });
    let Some((at, flags)) = found else { return words };

    let mut rest = words.into_iter();
    let mut before: Vec<OsString> = rest.by_ref().take(at + 2).collect();
    let (mut first, mut middle, mut last) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(word) = rest.next() {
        let Some((place, value)) = old_flag(&flags, &word) else {
            middle.push(word);
            continue;
        };
        match (place, value.or_else(|| rest.next())) {
            (SpellingPlace::First, Some(value)) => first.push(value),
            (SpellingPlace::Last, Some(value)) => last.push(value),
            // Without a value it is a mistake that the parser reports.
            (_, None) => middle.push(word),
        }
    }
    before.extend(first);
    before.extend(middle);
    before.extend(last);
    before
}

/// Returns the position of an old flag's value, and the value if it is part of the word.
fn old_flag(flags: &[&OldFlag], word: &OsStr) -> Option<(SpellingPlace, Option<OsString>)> {
    let text = word.to_str()?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, None),
    };
    let flag = flags.iter().find(|flag| flag.name == name)?;
    Some((flag.place, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(line: &str) -> String {
        let words = super::renewed(line.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn old_flags_become_what_the_command_is_about() {
        for (old, new) in [
            ("g policy show --account 4 --json", "g policy show 4 --json"),
            ("g policy set --mode open --account 4", "g policy set 4 open"),
            ("g --json policy set 4 --mode=open", "g --json policy set 4 open"),
            (
                "g policy allow --account 4 --address a@b --json --address c@d",
                "g policy allow 4 --json a@b c@d",
            ),
            ("g key create --account 1 --purpose x", "g key create 1 --purpose x"),
            ("g key create --account 1 --member 2", "g key create 1 --member 2"),
            ("g member invite --account 3 --email a@b", "g member invite 3 --email a@b"),
            ("g domain add a.example --account 3", "g domain add a.example 3"),
            ("g domain list --account 3", "g domain list 3"),
        ] {
            assert_eq!(renewed(old), new, "{old}");
            assert_eq!(renewed(new), new);
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for line in [
            "g",
            "g account create --type account --parent 3 --name x --address a@b",
            "g policy show --account",
            "g send --to policy show",
            "g key revoke --account 4",
        ] {
            assert_eq!(renewed(line), line);
        }
    }
}
