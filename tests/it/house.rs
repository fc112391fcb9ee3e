//! The house holds: arrows one way, rooms of a size, words in one place, documents that are true.
//! ARCHITECTURE.md names these tests beside the invariants that they keep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gatepost::mail::findings::KINDS;

use crate::support::imports::{Imports, circle, imports};
use crate::support::sources::{self, files, read, root};

/// Sources compiled into the program, without test files and the tests at the end of files.
fn production() -> Vec<(String, String)> {
    let mut sources = files("src", "rs");
    sources.retain(|(name, _)| !is_for_tests(name));
    for (_, text) in &mut sources {
        if let Some((code, _)) = text.split_once("#[cfg(test)]\nmod tests {") {
            *text = code.to_owned();
        }
    }
    sources
}

/// A file that its module declares under `#[cfg(test)]`.
fn is_for_tests(name: &str) -> bool {
    let file = Path::new(name).file_stem().unwrap().to_str().unwrap();
    name.contains("/tests/") || ["tests", "fake", "sample", "transcripts"].contains(&file)
}

fn room_of(name: &str) -> &str {
    let inside = name.strip_prefix("src/").unwrap();
    inside.split(['/', '.']).next().unwrap()
}

/// The rooms that each room may import from.
fn arrows() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let rooms = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
    let left =
        ["domain", "wire", "rules", "mail", "metrics", "verify", "store", "egress", "traces"];
    let up_to = |more: &[&'static str]| rooms(&[left.as_slice(), more].concat());
    BTreeMap::from([
        ("lib", rooms(&[])),
        ("main", rooms(&[])),
        ("disk", rooms(&[])),
        ("domain", rooms(&[])),
        ("shutdown", rooms(&[])),
        ("telemetry", rooms(&[])),
        ("config", rooms(&["domain"])),
        ("wire", rooms(&["domain"])),
        ("rules", rooms(&["domain"])),
        ("mail", rooms(&["domain", "rules"])),
        ("metrics", rooms(&["domain"])),
        ("verify", rooms(&["domain", "rules", "mail", "metrics"])),
        ("store", rooms(&["disk", "domain", "metrics", "rules", "wire"])),
        ("egress", rooms(&["domain", "rules"])),
        ("traces", rooms(&["domain", "rules", "metrics", "store", "egress"])),
        ("app", up_to(&[])),
        ("tls", rooms(&["disk", "domain", "rules", "egress", "shutdown"])),
        ("smtp", rooms(&["domain", "rules", "shutdown", "telemetry", "tls"])),
        ("webhook", up_to(&["app", "shutdown"])),
        ("http", up_to(&["app", "webhook", "shutdown", "tls"])),
        ("console", rooms(&["domain", "app", "http"])),
        ("mcp", rooms(&["domain", "wire", "app", "http"])),
        ("testkit", rooms(&["domain", "app", "shutdown"])),
        (
            "run",
            up_to(&["app", "console", "disk", "mcp", "webhook", "http", "smtp", "shutdown", "tls"]),
        ),
        (
            "cli",
            up_to(&["app", "config", "disk", "run", "shutdown", "telemetry", "testkit", "tls"]),
        ),
    ])
}

/// The rooms that a text names as `crate::room`.
fn imported(text: &str) -> BTreeSet<&str> {
    let names = text.split("crate::").skip(1);
    names
        .filter_map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())
        .filter(|name| {
            root().join("src").join(name).exists() || root().join(format!("src/{name}.rs")).exists()
        })
        .collect()
}

#[test]
fn arrows_point_one_way() {
    let arrows = arrows();
    let mut wrong = Vec::new();
    for (name, text) in production() {
        let room = room_of(&name);
        let allowed = arrows.get(room).unwrap_or_else(|| panic!("{name}: an unknown room"));
        for target in imported(&text) {
            if target != room && !allowed.contains(target) {
                wrong.push(format!("{name} imports {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The folders of a room, each with those that it may import from: all of them stand above it. Files that lie in
/// the room itself count for the folder that is named by their own paths, or for `""`.
type Folders = &'static [(&'static str, &'static [&'static str])];

/// Beside its folders lies the `Store`, which imports from each.
const FOLDERS_OF_THE_STORE: Folders = &[
    ("engine", &[]),
    ("blobs", &["engine"]),
    ("base", &["engine", "blobs"]),
    ("events", &["engine", "base"]),
    ("tenancy", &["engine", "base", "events"]),
    ("agents", &["engine", "base", "events", "tenancy"]),
    ("mailbox", &["engine", "base", "events", "tenancy"]),
    ("events/delivery", &["engine", "base", "events", "tenancy", "mailbox"]),
    ("commit", &["engine", "base", "events", "tenancy", "mailbox"]),
    ("upkeep", &["engine", "blobs", "base", "tenancy", "mailbox"]),
    (
        "",
        &[
            "engine",
            "blobs",
            "base",
            "events",
            "tenancy",
            "agents",
            "mailbox",
            "events/delivery",
            "commit",
            "upkeep",
        ],
    ),
];

const FOLDERS_OF_THE_API: Folders = &[
    ("error.rs", &[]),
    ("problems_of.rs", &["error.rs"]),
    ("verb.rs", &[]),
    ("tag.rs", &[]),
    ("remote.rs", &[]),
    ("readiness.rs", &[]),
    ("limits", &["error.rs"]),
    ("answer", &["error.rs", "limits"]),
    ("typed/bounds.rs", &[]),
    ("state.rs", &["limits", "readiness.rs", "remote.rs", "typed/bounds.rs"]),
    ("request", &["error.rs", "limits", "answer", "state.rs"]),
    ("typed", &["error.rs", "verb.rs", "answer", "typed/bounds.rs", "state.rs", "request"]),
    ("operation.rs", &["error.rs", "verb.rs", "tag.rs", "state.rs", "request", "typed"]),
    (
        "passage",
        &[
            "error.rs",
            "remote.rs",
            "limits",
            "answer",
            "state.rs",
            "request",
            "typed",
            "operation.rs",
        ],
    ),
    ("connection", &["error.rs", "remote.rs", "limits", "state.rs", "request"]),
    (
        "routes",
        &[
            "connection",
            "error.rs",
            "limits",
            "answer",
            "state.rs",
            "request",
            "typed",
            "operation.rs",
            "passage",
        ],
    ),
    (
        "table.rs",
        &["error.rs", "verb.rs", "tag.rs", "request", "typed", "operation.rs", "passage", "routes"],
    ),
    ("in_process", &[]),
    (
        "in_process.rs",
        &[
            "error.rs",
            "verb.rs",
            "limits",
            "answer",
            "state.rs",
            "request",
            "operation.rs",
            "passage",
            "table.rs",
        ],
    ),
    (
        "openapi",
        &[
            "error.rs",
            "verb.rs",
            "tag.rs",
            "state.rs",
            "request",
            "typed",
            "operation.rs",
            "passage",
            "routes",
            "table.rs",
        ],
    ),
    (
        "public",
        &[
            "error.rs",
            "remote.rs",
            "readiness.rs",
            "limits",
            "answer",
            "state.rs",
            "request",
            "operation.rs",
            "passage",
            "in_process.rs",
            "openapi",
        ],
    ),
    (
        "router.rs",
        &["error.rs", "state.rs", "operation.rs", "passage", "table.rs", "public", "connection"],
    ),
    ("mod.rs", &["readiness.rs", "state.rs", "connection", "router.rs"]),
];

/// The folder of these that a file belongs to.
fn folder_of<'n>(room: &str, folders: Folders, name: &'n str) -> &'n str {
    let inside = name.strip_prefix(room).unwrap().trim_start_matches('/');
    let folder = inside.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_named = |wanted: &str| folders.iter().any(|(known, _)| *known == wanted);
    if is_named(inside) { inside } else { folder }
}

/// Imports that no folder may have.
fn against_the_arrows(room: &str, folders: Folders, imports: &Imports) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, files) in imports {
        let folder = folder_of(room, folders, name);
        let allowed = folders.iter().find(|(known, _)| *known == folder);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name}: an unknown folder"));
        for file in files {
            let other = folder_of(room, folders, file);
            if other != folder && !allowed.contains(&other) {
                wrong.push(format!("{name} imports {file}"));
            }
        }
    }
    wrong
}

/// The folders of this room import one way, and no file of it in a circle.
fn one_way(name: &str, folders: Folders) {
    for (place, (folder, allowed)) in folders.iter().enumerate() {
        let above = |name: &&str| folders[..place].iter().any(|(one, _)| one == name);
        assert!(allowed.iter().all(above), "{folder} imports from below");
    }
    let mut sources = production();
    sources.retain(|(file, _)| room_of(file) == name);
    assert!(sources.len() > 90, "{} files", sources.len());
    let room = format!("src/{name}");
    let imports = imports(&room, &sources);
    let found: usize = imports.values().map(BTreeSet::len).sum();
    assert!(found > 300, "{found} imports");
    let wrong = against_the_arrows(&room, folders, &imports);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(circle(&imports), None);
}

#[test]
fn the_folders_of_the_store_import_one_way_and_no_file_in_a_circle() {
    one_way("store", FOLDERS_OF_THE_STORE);
}

#[test]
fn the_folders_of_the_api_import_one_way_and_no_file_in_a_circle() {
    one_way("http", FOLDERS_OF_THE_API);
}

/// Proves that the test above finds imports in every form.
#[test]
fn imports_are_found_however_they_are_written() {
    let found = |texts: &[(&str, &str)]| {
        let source =
            |(name, text): &(&str, &str)| (format!("src/store/{name}"), (*text).to_owned());
        imports("src/store", &texts.iter().map(source).collect::<Vec<_>>())
    };
    let name = |name: &str| format!("src/store/{name}");
    let engine = [
        ("engine/mod.rs", "pub mod sql;\npub mod row;\npub mod many;"),
        ("engine/sql.rs", ""),
        ("engine/row.rs", "use super::sql::{Row, sql};"),
        ("engine/many.rs", "use std::fmt;\n// use super::row::Columns;\n"),
    ];
    for (text, targets) in [
        ("use crate::store::engine::sql::sql;", &["engine/sql.rs"][..]),
        (
            "use super::super::engine::{row::Columns, sql::{self, Row}};",
            &["engine/row.rs", "engine/sql.rs"],
        ),
        (
            "use crate::store::{engine::{\n    many::many,\n    row as columns,\n}};",
            &["engine/many.rs", "engine/row.rs"],
        ),
        ("fn f(row: &crate::store::engine::row::Columns) {}", &["engine/row.rs"]),
        (
            "use crate::store::engine;\nfn f() { engine::sql::sql(\"\") }",
            &["engine/mod.rs", "engine/sql.rs"],
        ),
        (
            "use crate::store::engine as low;\nfn f() { low::many::many() }",
            &["engine/many.rs", "engine/mod.rs"],
        ),
        ("use crate::store::engine::Other;", &["engine/mod.rs"]),
        (
            "use crate::domain::engine::sql;\nuse sqlx::engine::row;\n/// [`super::super::engine::sql`]",
            &[],
        ),
    ] {
        let sources = [&engine[..], &[("blobs/objects.rs", text)]].concat();
        let targets: BTreeSet<String> = targets.iter().map(|target| name(target)).collect();
        assert_eq!(found(&sources)[&name("blobs/objects.rs")], targets, "{text}");
    }
    let declared =
        found(&[&engine[..], &[("mod.rs", "mod engine;\npub use engine::sql::Row;")]].concat());
    assert_eq!(declared[&name("mod.rs")], [name("engine/sql.rs")].into());
    assert_eq!(declared[&name("engine/row.rs")], [name("engine/sql.rs")].into());
    assert_eq!(circle(&declared), None);
    assert!(against_the_arrows("src/store", FOLDERS_OF_THE_STORE, &declared).is_empty());

    let upwards = found(&[
        ("engine/sql.rs", "use crate::store::{base::Base, engine::row};"),
        ("engine/row.rs", "use super::many::many;"),
        ("engine/many.rs", "fn f() { super::sql::sql() }"),
        ("engine/mod.rs", ""),
        ("base/mod.rs", ""),
        ("mod.rs", ""),
        ("upkeep/sweep.rs", "use crate::store::Store;\nuse super::super::base::Base;"),
    ]);
    let wrong =
        ["engine/sql.rs imports src/store/base/mod.rs", "upkeep/sweep.rs imports src/store/mod.rs"];
    assert_eq!(against_the_arrows("src/store", FOLDERS_OF_THE_STORE, &upwards), wrong.map(name));
    let mut round = circle(&upwards).unwrap();
    round.sort();
    assert_eq!(round, ["engine/many.rs", "engine/row.rs", "engine/sql.rs"].map(name));
}

#[test]
fn files_are_of_a_size_and_named_for_what_they_hold() {
    for (name, text) in production() {
        let lines = text.lines().count();
        assert!(lines <= 500, "{name} has {lines} lines: split it by what it is about");
        let stem = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        for vague in ["util", "utils", "common", "helpers", "misc", "core", "manager"] {
            assert_ne!(stem, vague, "{name} says nothing");
        }
        assert!(text.starts_with("//!"), "{name} does not begin with what it is for");
    }
}

/// Text that may stand only in these places, and why.
fn only_in(needle: &str, places: &[&str], why: &str) {
    for (name, text) in production() {
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        let allowed = places.iter().any(|place| name.starts_with(place));
        assert!(allowed || !code.contains(needle), "{name} has {needle:?}: {why}");
    }
}

#[test]
fn sql_stays_in_the_store() {
    only_in("sqlx::", &["src/store/"], "SQL appears only under store/");
    only_in("object_store::", &["src/store/"], "so does the blob store");
}

/// A statement that PostgreSQL has prepared fails when a newer gateway adds a column to its result.
#[test]
fn statements_name_the_columns_of_tables() {
    let migrations: String =
        files("migrations/postgres", "sql").into_iter().map(|(_, text)| text).collect();
    let made = ["CREATE TABLE ", "CREATE VIEW "];
    let made = made.iter().flat_map(|making| migrations.split(making).skip(1));
    let tables: Vec<&str> = made.filter_map(|rest| rest.split([' ', '\n']).next()).collect();
    assert!(tables.contains(&"relays") && tables.contains(&"records"), "{tables:?}");
    for (name, text) in production().iter().filter(|(name, _)| room_of(name) == "store") {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!text.contains("RETURNING *"), "{name} returns all columns of a table");
        for table in &tables {
            for all in [format!("SELECT * FROM {table}"), format!(" {table}.*")] {
                assert!(!text.contains(&all), "{name} has {all}: name the columns");
            }
        }
    }
}

#[test]
fn connections_to_strangers_are_opened_in_two_places() {
    let why =
        "only verify/resolver and egress reach strangers; the test counterparts dial this machine";
    only_in("reqwest::Client", &["src/egress/"], why);
    only_in("TcpStream::connect", &["src/testkit/"], why);
    only_in("UdpSocket::bind", &["src/testkit/"], why);
    only_in("ResolverConfig", &["src/verify/resolver.rs", "src/egress/lookup.rs"], why);
    // The system's own look-up holds a thread for as long as a stranger is silent: it is for what the
    // operator's settings name, before the server starts.
    let own = &["src/config/host_port.rs"];
    only_in("lookup_host", own, "names are looked up by verify/resolver and egress/lookup");
    only_in("ToSocketAddrs", &["src/testkit/"], "so are they there");
}

#[test]
fn the_nouns_have_no_wire_shape_and_do_no_io() {
    for (name, text) in production().iter().filter(|(name, _)| room_of(name) == "domain") {
        for banned in ["std::fs", "std::net::Tcp", "tokio", "SystemTime", "sqlx"] {
            assert!(!text.contains(banned), "{name} has {banned}");
        }
        // Evidence is kept, shown and read back as it is declared.
        let is_evidence = name.starts_with("src/domain/evidence/");
        let has_shape = text.contains("Serialize") || text.contains("Deserialize");
        assert!(is_evidence || !has_shape, "{name} has a shape");
    }
}

#[test]
fn the_path_of_a_message_has_types_and_no_json() {
    // JSON that a customer wrote is kept as it came.
    let of_customers =
        ["account", "agent_config", "app", "computer", "delivery", "event", "message"]
            .map(|noun| format!("src/domain/{noun}.rs"));
    for (name, text) in production() {
        let is_typed = ["src/domain/", "src/verify/", "src/mail/", "src/app/intake/"]
            .iter()
            .any(|room| name.starts_with(room));
        if is_typed && !of_customers.contains(&name) {
            let reads_or_writes_types = |used: &str| {
                let ways = ["::from_str(", "::to_vec(", "::Error", "::value::RawValue"];
                ways.iter().any(|way| used.starts_with(way))
            };
            assert!(!text.contains("json!"), "{name}");
            assert!(text.split("serde_json").skip(1).all(reads_or_writes_types), "{name}");
        }
    }
}

#[test]
fn the_protocol_machine_and_the_scanner_do_no_io() {
    let pure = |name: &str| {
        name.starts_with("src/smtp/protocol/")
            || name.starts_with("src/mail/")
            || name == "src/webhook/outcome.rs"
    };
    for (name, text) in production().iter().filter(|(name, _)| pure(name)) {
        for banned in ["tokio::", "std::fs", "SystemTime", "Instant::now", ".await"] {
            assert!(!text.contains(banned), "{name} has {banned}");
        }
    }
}

#[test]
fn header_fields_are_read_by_the_names_of_one_list() {
    // Fields read by these names are listed in `unsignedHeaders` where the signature leaves them
    // open.
    let places = ["src/mail/scan.rs", "src/verify/bounds.rs", "src/app/intake/arrival.rs"];
    only_in("headers.fields", &places, "fields are found by mail::fields::KnownField");
}

#[test]
fn time_and_randomness_come_in_through_constructors() {
    only_in("SystemTime::now", &["src/run.rs"], "time comes from domain::clock::Clock");
    only_in("rand::fill", &["src/run.rs"], "randomness comes from domain::id::Mint");
    only_in("cfg!(test)", &[], "nothing in production knows that it is under test");
}

#[test]
fn scopes_are_made_by_access_alone() {
    only_in("Scope::subtree", &["src/app/access/"], "app::access decides every right");
}

#[test]
fn the_map_names_every_room_and_a_real_test_for_every_invariant() {
    let map = read("ARCHITECTURE.md");
    assert!(map.lines().count() < 200, "ARCHITECTURE.md is for one sitting");
    for room in arrows().keys().filter(|room| **room != "lib") {
        assert!(
            map.contains(&format!("{room}/")) || map.contains(&format!("{room}.rs")),
            "{room} is not on the map"
        );
    }
    let tests = sources::tests();
    let invariants: Vec<&str> = map
        .lines()
        .skip_while(|line| *line != "## Invariants")
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(invariants.len() >= 12, "{} invariants", invariants.len());
    for line in invariants {
        let named = line.rsplit_once("| `").and_then(|(_, rest)| rest.split_once('`'));
        let (test, _) = named.unwrap_or_else(|| panic!("no test is named: {line}"));
        assert!(tests.contains(test), "there is no test {test}: {line}");
    }
}

#[test]
fn the_documents_name_every_remark() {
    let page = read("docs/message.md");
    for kind in KINDS {
        assert!(page.contains(&format!("`{kind}`")), "docs/message.md does not explain {kind}");
    }
}

#[test]
fn the_readmes_two_commands_are_the_ones_that_are_run() {
    let readme = read("README.md");
    assert!(readme.contains("cargo demo"));
    assert!(readme.contains("bash scripts/test"));
    assert!(read(".ci/run").contains("\nbash scripts/test\n"));
}

/// Parsers of foreign text: DNS records, signatures of mail, the PROXY header.
const PARSERS: [&str; 2] = ["src/verify/", "src/smtp/proxied.rs"];

/// A text cannot be told apart by whoever gets it, and an error within a success is looked at twice.
#[test]
fn errors_are_types_and_stand_in_one_result() {
    for (name, text) in production() {
        for (at, _) in text.match_indices("Result<") {
            let line = text[..at].lines().count();
            let types = type_arguments(&text[at + "Result<".len()..]);
            let nested = types[0].starts_with("Result<");
            assert!(!nested, "{name}:{line} has a Result in a Result: make an enum");
            let words = types
                .get(1)
                .is_some_and(|error| ["String", "&str", "&'static str"].contains(&error.as_str()));
            let is_parser = PARSERS.iter().any(|place| name.starts_with(place));
            assert!(!words || is_parser, "{name}:{line} has an error that is a text: make a type");
        }
        let is_text = text.contains("type Err = String");
        assert!(!is_text, "{name} has an error that is a text: make a type");
    }
}

/// Splits the type arguments up to the closing `>` at their commas.
fn type_arguments(text: &str) -> Vec<String> {
    let (mut depth, mut types, mut before) = (0_usize, vec![String::new()], ' ');
    for sign in text.chars() {
        match sign {
            '>' if before == '-' => {}
            '>' | ')' | ']' if depth == 0 => break,
            '>' | ')' | ']' => depth -= 1,
            '<' | '(' | '[' => depth += 1,
            ',' if depth == 0 => types.push(String::new()),
            _ => {}
        }
        if depth > 0 || sign != ',' {
            types.last_mut().unwrap().push(sign);
        }
        before = sign;
    }
    types.into_iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

#[test]
fn type_arguments_are_told_apart() {
    for (text, types) in [
        ("(), String> {", &["()", "String"][..]),
        ("Vec<(A, B)>, &'static str>;", &["Vec<(A, B)>", "&'static str"]),
        ("Result<(), A>, B>,", &["Result<(), A>", "B"]),
        ("\n    Box<dyn Fn(A, B) -> C>,\n    String,\n>", &["Box<dyn Fn(A, B) -> C>", "String"]),
        ("Self>", &["Self"]),
    ] {
        assert_eq!(type_arguments(text), types, "{text}");
    }
}

/// So that `scripts/canary` sees all of them.
#[test]
fn tests_read_answers_of_the_api_in_one_place() {
    for (name, text) in files("tests/it", "rs") {
        let others = [
            "house.rs",
            "support/http.rs",
            "support/bucket.rs",
            "support/pebble.rs",
            "support/webdriver.rs",
        ];
        if !others.iter().any(|end| name.ends_with(end)) {
            for reading in [".text().await", ".bytes().await", ".json().await", "reqwest::get("] {
                assert!(!text.contains(reading), "{name} has {reading}: use support::http");
            }
        }
    }
}

#[test]
fn no_machine_of_ours_is_named() {
    let texts = ["src", "tests", "benches"].iter().flat_map(|folder| files(folder, "rs"));
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", ".ci/run"];
    let documents = documents.iter().map(|name| ((*name).to_owned(), read(name)));
    let programs = ["py", "ts", "sh", "md"].iter().flat_map(|ending| files("examples", ending));
    let documents = documents.chain(files("docs", "md")).chain(programs);
    for (name, text) in texts.chain(documents) {
        for path in ["/work", "/farm", "/root"] {
            let path = format!("{path}/");
            assert!(!text.contains(&path), "{name} names {path}");
        }
    }
}
