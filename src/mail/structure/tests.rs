//! Shapes of messages; that no content is lost; how often a line is read.

use super::*;

const BOUNDS: Bounds =
    Bounds { parts: 1000, depth: 50, header_bytes: 262_144, header_fields: 1000 };

/// One line per part: `parent kind type [body]`.
fn tree(text: &str) -> Vec<String> {
    let raw = text.replace('\n', "\r\n").into_bytes();
    let show = |entry: &Entry| {
        let media = entry.media.as_ref();
        let name = media.map_or("-", |media| media.kind.as_str());
        let parent = entry.parent.map_or("-".to_owned(), |parent| parent.to_string());
        let body = if entry.kind == Kind::Leaf {
            format!(" {:?}", str::from_utf8(&raw[entry.body.clone()]).unwrap())
        } else {
            String::new()
        };
        format!("{parent} {name}{body}")
    };
    walk(&raw, BOUNDS).unwrap().iter().map(show).collect()
}

#[test]
fn parts_end_where_delimiters_are() {
    const O: &str = "Content-Type: multipart/mixed; boundary=o\n\n";
    for (rest, expected) in [
        ("pre\n--o\n\none\n--o \t\n\ntwo\n\n--o--\nepi\n", vec!["one", "two\r\n"]),
        // No blank line, no header section, no close delimiter, nothing after a delimiter.
        ("--o\none\n--o\nX: y\n--o\n\ntwo", vec!["one", "", "two"]),
        ("--o\n\none\n--o\n", vec!["one"]),
        // Not delimiters: inside a line, a prefix, folded, quoted.
        ("--o\n\nx --o\n--oo\n--o-\n --o\n>--o\n--o--", {
            vec!["x --o\r\n--oo\r\n--o-\r\n --o\r\n>--o"]
        }),
        // After the close delimiter this boundary has no effect.
        ("--o\n\none\n--o--\n--o\n\ntwo\n", vec!["one"]),
    ] {
        let found = tree(&format!("{O}{rest}"));
        let expected: Vec<_> = expected.iter().map(|body| format!("0 - {body:?}")).collect();
        assert_eq!(found[0], "- multipart", "{rest}");
        assert_eq!(found[1..], expected, "{rest}");
    }
}

#[test]
fn containers_nest_and_end_together() {
    let found = tree(
        "Content-Type: multipart/mixed; boundary=a\n\n--a\n\
         Content-Type: multipart/related; boundary=a--\n\n--a--\n\none\n--a----\n\
         --a\nContent-Type: message/rfc822\n\nSubject: x\n\
         Content-Type: multipart/digest; boundary=\"b c\"\n\n--b c\n\nFrom: y\n\ntwo\n\
         --a\n\nthree\n--a--\n",
    );
    assert_eq!(
        found,
        [
            "- multipart",
            "0 multipart",
            "1 - \"one\"",
            "0 message",
            "3 multipart",
            "4 -",
            "5 - \"two\"",
            "0 - \"three\"",
        ]
    );
}

#[test]
fn a_container_without_parts_is_a_leaf_and_loses_nothing() {
    for head in ["multipart/mixed", "multipart/mixed; boundary=\"\"", "multipart/x; boundary=o"] {
        let found = tree(&format!("Content-Type: {head}\n\nx\n--o--\ny"));
        assert_eq!(found, ["- multipart \"x\\r\\n--o--\\r\\ny\""], "{head}");
    }
    assert_eq!(tree(""), ["- - \"\""]);
    assert_eq!(
        tree("Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nRnJvbTo="),
        ["- message \"RnJvbTo=\""]
    );
}

/// Threats D1 to D3: input that made mail-parser read the same lines again and again.
#[test]
fn every_line_is_looked_at_a_bounded_number_of_times() {
    const LINES: usize = 40_000;
    let nested =
        (0..45).map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n"));
    let dense = nested.collect::<String>() + "\n" + &"--b\n".repeat(LINES);
    let opening = |n| format!("x--o\n--o\nContent-Type: multipart/x; boundary=never{n}\n\n");
    let endless = "Content-Type: multipart/mixed; boundary=o\n\n--o\n".to_owned()
        + &(0..900).map(opening).collect::<String>()
        + &"--x\n".repeat(LINES)
        + "--o--\n";
    let one = "Content-Type: multipart/mixed; boundary=b\n\n".to_owned();
    for bomb in [
        dense,
        endless,
        one.clone() + &"--b5Content-Type:\n".repeat(LINES),
        one.clone() + &"--\n".repeat(LINES),
        one.clone() + "--b\n" + &"X: y\n --b\n".repeat(900),
        one + "--b\n" + &"no field\n".repeat(LINES),
        format!("Content-Type: multipart/x; boundary={}\n\n", "b".repeat(8000))
            + &format!("--{}\n", "b".repeat(7999)).repeat(100),
    ] {
        let raw = bomb.into_bytes();
        let lines = raw.iter().filter(|byte| **byte == b'\n').count() + 1;
        let (entries, looked_at) = counted(&raw, BOUNDS);
        let parts = entries.map_or(BOUNDS.parts, |entries| entries.len());
        assert!(looked_at <= 2 * lines + 2 * parts, "{looked_at} of {lines}, {parts} parts");
    }
}

#[test]
fn each_limit_refuses() {
    let bounds = Bounds { parts: 3, depth: 2, header_bytes: 100, header_fields: 3 };
    let o = "Content-Type: multipart/mixed; boundary=o\n\n";
    let nested = |levels: usize| {
        let level = |n| format!("Content-Type: multipart/x; boundary=b{n}\n\n--b{n}\n");
        (0..levels).map(level).collect::<String>() + "\nx"
    };
    let forwarded = |levels: usize| "Content-Type: message/rfc822\n\n".repeat(levels) + "\nx";
    let section = |head: &str| format!("{o}--o\n{head}\nx");
    let too_many = Err(StructureError::TooManyParts);
    let too_long = Err(StructureError::TooLongHeader);
    for (text, expected) in [
        (format!("{o}{}", "--o\n\nx\n".repeat(2)), Ok(3)),
        (format!("{o}{}", "--o\n\nx\n".repeat(3)), too_many),
        (nested(2), Ok(3)),
        (nested(3), too_many),
        (forwarded(2), Ok(3)),
        (forwarded(3), too_many),
        (section("A: b\nC: d\nE: f\n"), Ok(2)),
        (section("A: b\nC: d\nE: f\nG: h\n"), too_long),
        (section(&format!("A: {}\n", "b".repeat(96))), Ok(2)),
        (section(&format!("A: {}\n", "b".repeat(97))), too_long),
        (section(&format!("A:\n {}\n", "b".repeat(97))), too_long),
    ] {
        let found = walk(text.as_bytes(), bounds).map(|entries| entries.len());
        assert_eq!(found, expected, "{text}");
    }
}
