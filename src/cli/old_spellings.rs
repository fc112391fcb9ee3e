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

/// Commands, an old flag of each, and the position of its value.
const OLD: &[(&[[&str; 2]], &str, SpellingPlace)] = &[
    (
        &[["policy", "show"], ["policy", "set"], ["policy", "allow"], ["policy", "remove"]],
        "--account",
        SpellingPlace::First,
    ),
    (&[["policy", "allow"], ["policy", "remove"]], "--address", SpellingPlace::Last),
    (&[["policy", "set"]], "--mode", SpellingPlace::Last),
    (&[["key", "create"], ["key", "list"]], "--account", SpellingPlace::First),
    (&[["member", "invite"], ["member", "list"]], "--account", SpellingPlace::First),
    (
        &[["domain", "add"], ["domain", "remove"], ["domain", "list"]],
        "--account",
        SpellingPlace::Last,
    ),
];

/// Rewrites old flags of a command line.
pub(super) fn renewed(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.into_iter().collect();
    let is_command = |at: usize, command: &[&str; 2]| {
        let pair = words.get(at..at + 2);
        pair.is_some_and(|pair| pair.iter().zip(command).all(|(word, name)| word == name))
    };
    let commands = || OLD.iter().flat_map(|(commands, ..)| commands.iter());
    let found = (1..words.len()).find(|at| commands().any(|command| is_command(*at, command)));
    let Some(at) = found else { return words };
    let flags: Vec<(&str, SpellingPlace)> = OLD
        .iter()
        .filter(|(commands, ..)| commands.iter().any(|command| is_command(at, command)))
        .map(|(_, flag, place)| (*flag, *place))
        .collect();

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
fn old_flag(
    flags: &[(&str, SpellingPlace)],
    word: &OsStr,
) -> Option<(SpellingPlace, Option<OsString>)> {
    let text = word.to_str()?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, None),
    };
    let (_, place) = flags.iter().find(|(flag, _)| *flag == name)?;
    Some((*place, value))
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
