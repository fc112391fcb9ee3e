//! What could make a person take an address for another one (UTS #39, threats A13). Addresses are
//! never equal because they look alike; whoever enters one in a list is told that it may not be the
//! one that is meant.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::Script;

use super::address::Address;

/// Small letters of other scripts that have the shape of a Latin one: a word of nothing but these
/// reads as a Latin word.
const LATIN_SHAPES: &str = "асԁеһіјӏоорԛѕԝхуѵαικνορυωօոսհ";

/// Scripts that are written together, with Latin letters or without (UTS #39 §5.2, "highly
/// restrictive").
const TOGETHER: [&[Script]; 3] = [
    &[Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Han, Script::Hangul],
    &[Script::Han, Script::Bopomofo],
];

/// Says what is remarkable about an address, each in a sentence; nothing about most of them. The
/// local part and each label of the domain are words of their own, which may be of different
/// scripts.
pub fn warnings(address: &Address) -> Vec<String> {
    let domain = address.domain().to_unicode();
    let words = std::iter::once(address.local()).chain(domain.split('.'));
    let mut found: Vec<String> = words.filter_map(of_word).collect();
    let local = address.local();
    if !ComposingNormalizerBorrowed::new_nfkc().is_normalized(local) {
        found.push(format!("{local:?} has variants of other letters, which are not those letters"));
    }
    if local.chars().any(|c| !c.is_ascii() && c.is_uppercase()) {
        found.push(format!(
            "{local:?} has capital letters outside ASCII, which are not equal to small ones"
        ));
    }
    found
}

fn of_word(word: &str) -> Option<String> {
    let scripts = scripts(word);
    let is_usual = TOGETHER.iter().any(|together| {
        scripts.iter().all(|script| *script == Script::Latin || together.contains(script))
    });
    if scripts.len() > 1 && !is_usual {
        return Some(format!("{word:?} mixes letters of several scripts, which may look alike"));
    }
    let mut letters = word.chars().filter(|c| c.is_alphabetic()).peekable();
    let looks_latin = letters.peek().is_some() && letters.all(|c| LATIN_SHAPES.contains(c));
    looks_latin.then(|| format!("{word:?} looks like Latin letters and is of another script"))
}

/// Those of the letters, each once; digits, signs and marks are of all.
fn scripts(word: &str) -> Vec<Script> {
    let mut found = Vec::new();
    for script in word.chars().map(|c| CodePointMapData::<Script>::new().get(c)) {
        let is_of_all = [Script::Common, Script::Inherited].contains(&script);
        if !is_of_all && !found.contains(&script) {
            found.push(script);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(text: &str) -> Vec<String> {
        warnings(&Address::parse(text).unwrap())
    }

    #[test]
    fn what_is_usual_in_any_script_is_not_remarked_on() {
        for text in [
            "boss@good.example",
            "b.o-s_s+1@xn--mnchen-3ya.example",
            "jörg@münchen.example",
            "用户.名@日本語.example",
            "さくらサクラ桜a1@good.example",
            "김民@good.example",
            "संपर्क@डाटा.example",
            "борис@почта.example",
            "ivan@почта.example",
            "γιώργος@good.example",
        ] {
            assert_eq!(warned(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn what_may_be_taken_for_another_is() {
        for (text, piece) in [
            ("b\u{43e}ss@good.example", "mixes"),
            ("boss@g\u{43e}od.example", "mixes"),
            ("boss@xn--gd-fmca.example", "\"g\u{43e}\u{43e}d\" mixes"),
            ("αβв@good.example", "mixes"),
            ("用ж@good.example", "mixes"),
            ("김さ@good.example", "mixes"),
            ("boss@\u{430}\u{440}\u{440}\u{4cf}\u{435}.example", "looks like Latin"),
            ("\u{3bf}\u{3bd}1@good.example", "looks like Latin"),
            ("\u{ff42}oss@good.example", "variants"),
            ("J\u{d6}RG@good.example", "capital"),
        ] {
            let found = warned(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(piece), "{text}: {found:?}");
        }
    }
}
