//! Addresses that people could confuse (UTS #39, threats A13). Addresses are never equal because
//! they look alike. A customer who puts a doubtful address on a list gets a warning.

use std::iter::once;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, Script};
use icu_properties::{CodePointMapData, CodePointSetData};

use super::address::Address;

/// Letters of other scripts with the shape of a small Latin letter: a word of only these reads as a
/// Latin word.
const LATIN_SHAPES: &str = "асԁеһіјӏорԛѕԝхуѵαικνορυωօոսհ";
/// The Latin letters of those shapes, in the same order.
const LATIN_LETTERS: &str = "acdehijlopqswxyvaikvopuwonuh";

/// Scripts that are used together, with or without Latin letters (UTS #39 §5.2, "highly
/// restrictive").
const TOGETHER: &[&[Script]] = &[
    &[Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Han, Script::Hangul],
    &[Script::Han, Script::Bopomofo],
];

/// Returns one sentence for each doubt about an address; none for most addresses. The local part
/// and each label of the domain may be of different scripts.
pub fn warnings(address: &Address) -> Vec<String> {
    let domain = address.domain().to_unicode();
    let words = once(address.local()).chain(domain.split('.'));
    let mut found: Vec<String> = words.filter_map(of_word).collect();
    found.extend(domain.split(['.', '-']).filter_map(of_digits));
    let local = address.local();
    if !ComposingNormalizerBorrowed::new_nfkc().is_normalized(local) {
        found.push(format!(
            "{local:?} has variant letters, which differ from the plain letters that they look like"
        ));
    }
    if local.chars().any(|c| !c.is_ascii() && c.is_uppercase()) {
        found.push(format!(
            "{local:?} has capital letters outside ASCII, which do not match small letters"
        ));
    }
    found
}

/// Returns a warning if a display name shows another address than the sender's `own`. Returns None
/// if the name is or contains `own`, or shows no address. The name is read as people see it:
/// without invisible characters, and with letter variants and signs (fullwidth @) as plain letters.
///
/// The Agent's list is not consulted: any address in a name that is not the sender's own is
/// deceptive. The warning also says which address it looks like.
pub fn deceit_of_name(name: &str, own: &Address) -> Option<String> {
    if !name.contains(['@', '\u{ff20}', '\u{fe6b}']) {
        return None;
    }
    let seen: String = name.chars().filter(|c| !is_unseen(*c)).map(with_plain_dots).collect();
    let seen = ComposingNormalizerBorrowed::new_nfkc().normalize(&seen);
    let is_own = |text: &str| Address::parse(text).as_ref() == Ok(own);
    if is_own(name) || is_own(seen.trim()) {
        return None;
    }
    let between =
        |c: char| c.is_whitespace() || "<>()[],;:\"\u{ab}\u{bb}\u{2039}\u{203a}".contains(c);
    let shown = seen.split(between).filter(|word| !is_own(word)).find_map(|word| {
        // Strips quotation marks and final punctuation.
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        (is_address_like(bare) && !is_own(bare)).then_some(bare)
    })?;
    let plain: String = shown.chars().map(latin).collect();
    let looks = if plain == shown { String::new() } else { format!(", which looks like {plain}") };
    Some(format!("the display name shows {shown}{looks}, but the sender is {own}"))
}

/// Characters of no width, or too narrow to be noticed.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{2005}'..='\u{200a}' | '\u{202f}')
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Replaces the other full stops that separate labels (UTS #46).
const fn with_plain_dots(c: char) -> char {
    match c {
        '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => '.',
        other => other,
    }
}

/// A local part, an @, and labels of which the last has a letter.
fn is_address_like(word: &str) -> bool {
    let Some((local, domain)) = word.rsplit_once('@') else { return false };
    let Some((labels, last)) = domain.rsplit_once('.') else { return false };
    !local.is_empty() && !labels.is_empty() && last.chars().any(char::is_alphabetic)
}

/// Returns the Latin letter with the shape of `c`, or `c`.
fn latin(c: char) -> char {
    let mut shapes = LATIN_SHAPES.chars().zip(LATIN_LETTERS.chars());
    shapes.find(|(shape, _)| *shape == c).map_or(c, |(_, letter)| letter)
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
    looks_latin.then(|| format!("{word:?} looks like Latin letters but is in another script"))
}

/// A word whose digits read as letters, with letters around them: `examp1e`. Digits at the ends of
/// names are usual, and so are numerals between letters: `win10help`.
fn of_digits(word: &str) -> Option<String> {
    let inner = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
    let mut runs =
        inner.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).peekable();
    let is_ascii = inner.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_ascii || runs.peek().is_none() || !runs.all(|run| ["0", "00", "1", "11"].contains(&run))
    {
        return None;
    }
    let plain = inner.replace('0', "o");
    let (l, i) = (plain.replace('1', "l"), plain.replace('1', "i"));
    let or_i = if l == i { String::new() } else { format!(" or {i:?}") };
    Some(format!("{word:?} has digits that look like letters: {inner:?} reads as {l:?}{or_i}"))
}

/// Returns the scripts of the letters, each once. Digits, signs and marks belong to all scripts.
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
            "b0ss1@web1.h0.3com.o2o.1and1.good.example",
            "boss@a-1-b.x1-y2.win10help.top100jobs.mx01a.paypa1.good.example",
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
            ("\u{ff42}oss@good.example", "variant letters"),
            ("J\u{d6}RG@good.example", "capital"),
            ("boss@examp1e.com", "\"examp1e\" reads as \"example\" or \"exampie\""),
            ("boss@mail.1g00gle9-mail.com", "\"g00gle\" reads as \"google\""),
        ] {
            let found = warned(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(piece), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_name_that_shows_another_address_is_remarked_on() {
        let own = Address::parse("m@attack.com").unwrap();
        for (name, shown) in [
            ("admin@legitimate.com", "admin@legitimate.com,"),
            ("'admin@legitimate.com' via Team", "admin@legitimate.com,"),
            ("Admin (admin@legitimate.com).", "admin@legitimate.com,"),
            ("m@attack.com admin@legitimate.com", "admin@legitimate.com,"),
            ("admin\u{200b}@legit\u{ad}imate.c\u{2060}om", "admin@legitimate.com,"),
            ("admin\u{200a}@\u{202f}legitimate.com", "admin@legitimate.com,"),
            ("admin\u{ff20}legitimate\u{ff0e}com", "admin@legitimate.com,"),
            ("admin\u{fe6b}legitimate\u{3002}com", "admin@legitimate.com,"),
            ("\u{ff41}dmin@legitimate.com", "admin@legitimate.com,"),
            ("b\u{43e}ss@g\u{43e}\u{43e}d.example", "which looks like boss@good.example,"),
            ("m@\u{430}ttack.com", "which looks like m@attack.com,"),
            ("борис@почта.example", "борис@почта.example"),
            ("boss@xn--mnchen-3ya.example", "boss@xn--mnchen-3ya.example,"),
            ("m+x@attack.com", "m+x@attack.com,"),
            ("a@b@legitimate.com", "a@b@legitimate.com,"),
        ] {
            let found = deceit_of_name(name, &own).unwrap_or_default();
            assert!(found.contains(shown), "{name}: {found:?}");
            assert!(found.ends_with("but the sender is m@attack.com"), "{found}");
        }
    }

    #[test]
    fn a_name_without_another_address_is_not() {
        for (name, own) in [
            ("", "m@attack.com"),
            ("Alice Example", "m@attack.com"),
            ("борис", "m@attack.com"),
            ("さくら サクラ桜", "m@attack.com"),
            ("김민 (서울)", "m@attack.com"),
            ("Jane @ Acme", "m@attack.com"),
            ("@jane.example", "m@attack.com"),
            ("Team @ 3.0", "m@attack.com"),
            ("legitimate.com", "m@attack.com"),
            ("M@ATTACK.com", "m@attack.com"),
            ("\"m@attack.com\"", "m@attack.com"),
            ("Me <m@attack.com>", "m@attack.com"),
            ("boss@m\u{fc}nchen.example", "boss@xn--mnchen-3ya.example"),
            ("Boss (boss@XN--mnchen-3ya.example)", "boss@m\u{fc}nchen.example"),
            ("o'brien@good.example", "o'brien@good.example"),
            ("jo\u{308}rg@good.example", "j\u{f6}rg@good.example"),
            ("_x_@good.example", "_x_@good.example"),
        ] {
            let own = Address::parse(own).unwrap();
            assert_eq!(deceit_of_name(name, &own), None, "{name}");
        }
    }

    #[test]
    fn each_shape_has_its_letter() {
        assert_eq!(LATIN_SHAPES.chars().count(), LATIN_LETTERS.chars().count());
        assert_eq!("\u{43e}\u{3c9}\u{570}".chars().map(latin).collect::<String>(), "owh");
        assert!(LATIN_LETTERS.chars().all(|c| latin(c) == c));
    }
}
