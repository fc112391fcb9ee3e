//! Properties of the address type, against a model of mailboxes that shares no code with it: two
//! different mailboxes are never equal, and every spelling of one is equal to it or refused
//! (threats A7–A17, F11).

use proptest::prelude::*;
use proptest::sample::select;

use crate::domain::address::Address;
use crate::mail::mailbox;
use crate::testkit::dice::Dice;

/// Labels with their RFC 3492 A-labels, computed elsewhere. Neighbours look alike, but all are
/// different.
const LABELS: &[(&str, &str)] = &[
    ("good", "good"),
    ("g\u{43e}\u{43e}d", "xn--gd-fmca"),
    ("go-od", "go-od"),
    ("g00d", "g00d"),
    ("fa\u{df}", "xn--fa-hia"),
    ("fass", "fass"),
    ("m\u{fc}nchen", "xn--mnchen-3ya"),
    ("munchen", "munchen"),
    ("muenchen", "muenchen"),
    ("\u{3b2}\u{3cc}\u{3bb}\u{3bf}\u{3c2}", "xn--nxasmm1c"),
    ("\u{3b2}\u{3cc}\u{3bb}\u{3bf}\u{3c3}", "xn--nxasmq6b"),
    ("\u{915}\u{94d}\u{200d}\u{937}", "xn--11b2ezcw70k"),
    ("\u{915}\u{94d}\u{937}", "xn--11b2ezc"),
    ("\u{430}\u{440}\u{440}\u{4cf}\u{435}", "xn--80ak6aa92e"),
    ("apple", "apple"),
    ("\u{7528}\u{6237}", "xn--zouo53b"),
    ("kelvin", "kelvin"),
];

/// Pieces of local parts in small letters. Neighbours look alike, but all are different.
const PIECES: [&str; 22] = [
    "boss",
    "b\u{43e}ss",
    "\u{ff42}oss",
    "bo",
    "ss",
    "\u{df}",
    "b0ss",
    "o",
    "\u{3bf}",
    "j\u{f6}rg",
    "J\u{d6}rg",
    "jorg",
    "joerg",
    "+x",
    "+",
    "-",
    "_",
    "k",
    "\u{7528}",
    "\u{938}\u{902}",
    "'",
    "1",
];

/// A mailbox: dot-separated words of pieces, and labels.
#[derive(Clone, Debug)]
struct Mailbox {
    local: Vec<Vec<&'static str>>,
    domain: Vec<usize>,
}

impl Mailbox {
    /// Its one spelling in the model. The pieces beyond ASCII have no case here.
    fn key(&self) -> String {
        let local = self.local_part().to_ascii_lowercase();
        let labels: Vec<&str> = self.domain.iter().map(|label| LABELS[*label].1).collect();
        format!("{local} at {}", labels.join("."))
    }

    fn local_part(&self) -> String {
        self.local.iter().map(|word| word.concat()).collect::<Vec<_>>().join(".")
    }
}

fn mailboxes() -> impl Strategy<Value = Mailbox> {
    let word = proptest::collection::vec(select(PIECES.to_vec()), 1..3);
    let local = proptest::collection::vec(word, 1..3);
    let domain = proptest::collection::vec(0..LABELS.len(), 1..3);
    (local, domain).prop_map(|(local, domain)| Mailbox { local, domain })
}

/// Two mailboxes that differ by a small step, or not at all.
fn neighbours() -> impl Strategy<Value = (Mailbox, Mailbox)> {
    (mailboxes(), any::<proptest::sample::Index>(), 0..6_u8, select(PIECES.to_vec())).prop_map(
        |(one, at, step, piece)| {
            let mut other = one.clone();
            match step {
                0 => {
                    let label = at.index(other.domain.len());
                    other.domain[label] = (other.domain[label] + 1) % LABELS.len();
                }
                1 => {
                    let word = at.index(other.local.len());
                    other.local[word][0] = piece;
                }
                2 => other.local.push(vec![piece]),
                3 => other.local[0].push(piece),
                4 => other.domain.insert(0, at.index(LABELS.len())),
                _ => {}
            }
            (one, other)
        },
    )
}

/// Choices among spellings, made in sequence.
struct Choices(Dice);

impl Choices {
    fn case(&mut self, text: &str) -> String {
        let mut swap = |c: char| if self.0.below(3) == 0 { c.to_ascii_uppercase() } else { c };
        text.chars().map(&mut swap).collect()
    }

    /// A label in small or capital letters, as A-label or U-label.
    fn label(&mut self, label: usize) -> String {
        let (u_label, a_label) = LABELS[label];
        match self.0.below(4) {
            0 => u_label.to_owned(),
            // The capitals of ß, and of ς at the end of a word, are those of another label.
            1 if !u_label.contains(['\u{df}', '\u{3c2}', '\u{3c3}']) => u_label.to_uppercase(),
            2 => self.case(a_label),
            _ => a_label.to_owned(),
        }
    }

    fn addr_spec(&mut self, mailbox: &Mailbox) -> String {
        let local = self.case(&mailbox.local_part());
        let local = match self.0.below(4) {
            0 => format!("\"{local}\""),
            1 => {
                let mut pair =
                    |c: char| if self.0.below(2) == 0 { format!("\\{c}") } else { c.into() };
                format!("\"{}\"", local.chars().map(&mut pair).collect::<String>())
            }
            _ => local,
        };
        let labels: Vec<String> = mailbox.domain.iter().map(|label| self.label(*label)).collect();
        format!("{local}@{}", labels.join("."))
    }

    /// A From value with this mailbox, written in a way that all readers understand.
    fn honest(&mut self, mailbox: &Mailbox) -> String {
        const NAMES: &[&str] = &[
            "",
            "Boss ",
            "\"x@evil.example\" ",
            "\"<x@evil.example>, \\\"y\\\"\" ",
            "=?utf-8?q?=3Cx=40evil.example=3E?= ",
            "(x@evil.example) Boss (\\) <y@evil.example>)\r\n ",
            "\u{411}\u{43e}\u{441}\u{441}\r\n\t",
            "[Team] A. Boss",
        ];
        const AROUND: [(&str, &str); 4] =
            [("", ""), (" ", "\r\n "), ("(a (b) x@evil.example) ", ""), ("", " (x@evil.example)")];
        let addr_spec = self.addr_spec(mailbox);
        if self.0.below(3) == 0 {
            let (before, after) = self.0.pick(&AROUND);
            return format!(" {before}{addr_spec}{after}");
        }
        let name = self.0.pick(NAMES);
        let after = self.0.pick(&["", " ", " (x@evil.example)"]);
        format!(" {name}<{addr_spec}>{after}")
    }

    /// Like [`Self::honest`], with something odd where readers differ.
    fn odd(&mut self, mailbox: &Mailbox) -> String {
        const ODD: &[&str] = &[
            " ",
            "\r\n ",
            "(x)",
            "(x@evil.example)",
            "\"\"",
            "\\",
            ".",
            "@",
            "<",
            ">",
            ",",
            ":",
            ";",
            "\u{200b}",
            "\u{200d}",
            "\u{3002}",
            "=?utf-8?q?x?=",
            "\0",
        ];
        let mut value = self.honest(mailbox);
        let places: Vec<usize> = value.char_indices().map(|(at, _)| at).collect();
        let place = *self.0.pick(&places);
        let odd = *self.0.pick(ODD);
        value.insert_str(place, odd);
        value
    }
}

fn from(value: &str) -> Option<Address> {
    mailbox::parse(value.as_bytes(), 1000).ok().map(|mailbox| mailbox.sender.address)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn different_mailboxes_are_never_equal(pair in neighbours(), seed in any::<u64>()) {
        let (one, other) = pair;
        let mut choices = Choices(Dice(seed));
        let texts = [choices.addr_spec(&one), choices.addr_spec(&other)];
        let [Ok(first), Ok(second)] = texts.each_ref().map(|text| Address::parse(text)) else {
            return Err(TestCaseError::fail(format!("{texts:?} are mailboxes")));
        };
        prop_assert_eq!(first == second, one.key() == other.key(), "{:?}", texts);
        prop_assert_eq!(first.to_string() == second.to_string(), first == second);
        let values = [choices.honest(&one), choices.honest(&other)];
        prop_assert_eq!(from(&values[0]) == from(&values[1]), first == second, "{:?}", values);
    }

    #[test]
    fn every_spelling_of_a_mailbox_is_that_mailbox(mailbox in mailboxes(), seed in any::<u64>()) {
        let mut choices = Choices(Dice(seed));
        let plain = Address::parse(&mailbox.key().replace(" at ", "@")).unwrap();
        let value = choices.honest(&mailbox);
        prop_assert_eq!(from(&value), Some(plain.clone()), "{:?}", value);
        let text = choices.addr_spec(&mailbox);
        prop_assert_eq!(Address::parse(&text), Ok(plain.clone()), "{}", text);
        // Shown and stored spellings read back as the same mailbox.
        let shown = plain.to_string();
        prop_assert_eq!(Address::parse(&shown), Ok(plain.clone()));
        prop_assert_eq!(Address::kept(&shown), Ok(plain.clone()));
        prop_assert_eq!(Address::parse(&shown).unwrap().to_string(), shown);
    }

    /// An oddity may make another mailbox only inside the words of the addr-spec. Anywhere around
    /// it, the result is this mailbox or none.
    #[test]
    fn what_is_odd_is_refused_or_changes_nothing(mailbox in mailboxes(), seed in any::<u64>()) {
        let plain = Address::parse(&mailbox.key().replace(" at ", "@")).unwrap();
        let value = Choices(Dice(seed)).odd(&mailbox);
        let Some(found) = from(&value) else { return Ok(()) };
        if found != plain {
            let text = found.to_string();
            let (local, domain) = text.rsplit_once('@').unwrap();
            let was = plain.to_string();
            // One more dot or empty quotation, in one of its two parts.
            prop_assert!(local.replace('.', "") == plain.local().replace('.', "")
                || domain.replace('.', "") == plain.domain().as_str().replace('.', ""),
                "{value:?} is {text} and not {was}");
            prop_assert!(!text.contains("evil"), "{value:?} is {text}");
        }
    }
}
