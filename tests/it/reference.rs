//! The pages in `docs/reference`: settings, rules, commands and operations, made from what the program itself has of
//! them. With `GATEPOST_BLESS=1` this writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, Command};
use gatepost::config::TEMPLATE;
use gatepost::domain::clock::Timestamp;
use gatepost::http::table::OPERATIONS;
use gatepost::metrics::Metrics;
use gatepost::testkit::golden;
use serde_json::Value;

use crate::support::sources::files;

const MADE: &str = "<!-- Made by tests/it/reference.rs: GATEPOST_BLESS=1 writes this page. -->\n";

/// A text within a table or a paragraph, where nothing of it is a mark of Markdown.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let marks = [("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*"), ("[", "\\[")];
    // Code between backticks is shown as it is, but for the end of a cell.
    let parts = text.split('`').enumerate().map(|(number, part)| {
        let marks = if number % 2 == 0 { &marks[..] } else { &marks[1..2] };
        marks.iter().fold(part.to_owned(), |part, (mark, shown)| part.replace(mark, shown))
    });
    parts.collect::<Vec<_>>().join("`")
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// A part of a file of settings or rules, as it lies there.
#[derive(Debug, PartialEq)]
enum Part {
    Section(String),
    /// A comment that is about no key in particular.
    Prose(Vec<String>),
    /// Keys that follow one comment, each with its value.
    Keys {
        about: String,
        keys: Vec<(String, String)>,
    },
}

/// The parts of a TOML file, in which a key is what `key` finds in a line.
fn parts(text: &str, key: impl Fn(&str) -> Option<(String, String)>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut comment: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines().chain([""]) {
        if let Some((name, value)) = key(line) {
            match parts.last_mut() {
                Some(Part::Keys { keys, .. }) if goes_on && comment.is_empty() => {
                    keys.push((name, value));
                }
                _ => {
                    let about = std::mem::take(&mut comment).join(" ");
                    parts.push(Part::Keys { about, keys: vec![(name, value)] });
                }
            }
            goes_on = true;
            continue;
        }
        if let Some(line) = line.strip_prefix('#') {
            comment.push(line.trim().to_owned());
            continue;
        }
        goes_on = false;
        if line.starts_with('[') {
            parts.push(Part::Section(line.to_owned()));
        }
        if !comment.is_empty() {
            parts.push(Part::Prose(std::mem::take(&mut comment)));
        }
    }
    parts
}

/// A key of a file of rules.
fn rule(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(" = ")?;
    let is_name = name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

/// A key of the template of settings, which are all commented out.
fn setting(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix('#')?.split_once(" = ")?;
    let is_name = name.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

/// Prose, with what is TOML in it as such.
fn prose(lines: &[String]) -> String {
    let is_toml = |line: &&String| line.starts_with('[') || rule(line).is_some();
    let words = lines.iter().filter(|line| !is_toml(line)).map(String::as_str);
    let toml = lines.iter().filter(is_toml).map(|line| format!("{line}\n")).collect::<String>();
    let words = plain(&words.collect::<Vec<_>>().join(" "));
    if toml.is_empty() { format!("{words}\n") } else { format!("{words}\n\n```toml\n{toml}```\n") }
}

/// The introduction of a rule file, without the lines that all of them share.
fn about(parts: &[Part]) -> String {
    let Some(Part::Prose(lines)) = parts.first() else {
        panic!("a file that does not explain itself")
    };
    let all = lines.join(" ");
    all.split("Compiled in as the default").next().unwrap().trim().to_owned()
}

/// The page of metrics, in the order of their declaration.
fn metrics_page() -> String {
    let metrics = Metrics::new(Timestamp::from_millis(0)).unwrap();
    let mut page = format!(
        "# Metrics\n\n{MADE}\nFor operators who [watch a gateway](../monitoring.md): all figures of `/metrics`. \
         Durations are in seconds, sizes in bytes. No label holds an account, an address, a name or an id.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n"
    );
    for one in metrics.described() {
        let labels: Vec<_> = one.labels.iter().map(|label| code(label)).collect();
        let meaning = plain(&one.meaning);
        writeln!(
            page,
            "| {} | {} | {} | {meaning} |",
            code(&one.name),
            one.kind,
            labels.join(", ")
        )
        .unwrap();
    }
    page
}

#[test]
fn the_book_shows_every_metric() {
    golden::hold("docs/reference/metrics.md", metrics_page().as_bytes()).unwrap();
}

fn rules_page(name: &str, parts: &[Part]) -> String {
    let mut page = format!(
        "# {name}\n\n{MADE}\nFor operators who change a rule or a number. {} Copy the section and the key that \
         you change into a file `{name}` of [your own folder](../deploy.md#settings-and-rules).\n",
        plain(&about(parts)),
    );
    let mut is_table = false;
    for part in &parts[1..] {
        match part {
            Part::Section(section) => {
                write!(page, "\n## {}\n", code(section)).unwrap();
                is_table = false;
            }
            Part::Prose(lines) => {
                write!(page, "\n{}", prose(lines)).unwrap();
                is_table = false;
            }
            Part::Keys { about, keys } => {
                if !is_table {
                    page.push_str("\n| key | default | meaning |\n|---|---|---|\n");
                }
                is_table = true;
                let names = keys.iter().map(|(name, _)| code(name)).collect::<Vec<_>>();
                let values = keys.iter().map(|(_, value)| code(value)).collect::<Vec<_>>();
                let row = [names.join(", "), values.join(", "), plain(about)].join(" | ");
                writeln!(page, "| {row} |").unwrap();
            }
        }
    }
    page
}

#[test]
fn the_book_shows_every_rule() {
    let mut rows = String::new();
    for (path, text) in files("policies", "toml") {
        let name = path.strip_prefix("policies/").unwrap();
        let Some(stem) = name.strip_suffix(".toml").filter(|stem| !stem.contains('.')) else {
            continue;
        };
        let parts = parts(&text, rule);
        let shown = parts.iter().map(|part| match part {
            Part::Keys { keys, .. } => keys.len(),
            _ => 0,
        });
        let there = text.lines().filter(|line| !line.starts_with(['#', '[']) && !line.is_empty());
        assert_eq!(shown.sum::<usize>(), there.count(), "{path}");
        writeln!(rows, "| [`{name}`]({stem}.md) | {} |", plain(&about(&parts))).unwrap();
        let page = rules_page(name, &parts);
        golden::hold(format!("docs/reference/{stem}.md"), page.as_bytes()).unwrap();
    }
    let page = format!(
        "# Policy files\n\n{MADE}\nFor operators who look for a rule or a number: each file in `policies/` has \
         a page, made from its comments. [Settings and rules](../deploy.md#settings-and-rules) says how to \
         change one.\n\n| file | what it holds |\n|---|---|\n{rows}"
    );
    golden::hold("docs/reference/policies.md", page.as_bytes()).unwrap();
}

/// The flag of a key of the settings file.
fn flag(section: &str, key: &str) -> String {
    match (section, key.split_once('-')) {
        ("", _) => key.to_owned(),
        ("tls", Some((port, rest))) => format!("{port}-tls-{rest}"),
        _ => format!("{section}-{key}"),
    }
}

/// The whole command line, without what some builds alone have.
fn commands() -> Command {
    let mut root = gatepost::cli::description();
    root.build();
    root
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let left_out = ["help", "version", "front_end"];
    command
        .get_arguments()
        .filter(move |arg| !arg.is_hide_set() && !left_out.contains(&arg.get_id().as_str()))
}

/// An argument as it is written.
fn written(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    match arg.get_long() {
        None => code(&values),
        Some(long) if arg.get_action().takes_values() => code(&format!("--{long} {values}")),
        Some(long) => code(&format!("--{long}")),
    }
}

fn help(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = arg.get_default_values().iter().filter_map(|value| value.to_str());
    let defaults: Vec<_> = defaults.filter(|value| !value.is_empty()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        write!(text, " [default: {}]", defaults.join(", ")).unwrap();
    }
    plain(&text)
}

fn variable(arg: &Arg) -> Option<String> {
    Some(code(arg.get_env()?.to_str()?))
}

#[test]
fn the_book_shows_every_setting() {
    let root = commands();
    let serve = root.find_subcommand("serve").unwrap();
    // `--check` asks for another run, and changes no setting.
    let settings = arguments(serve).filter(|arg| arg.get_long() != Some("check"));
    let mut by_flag: BTreeMap<&str, &Arg> =
        settings.map(|arg| (arg.get_long().unwrap(), arg)).collect();
    let mut page = format!(
        "# Settings\n\n{MADE}\nFor operators: every setting of `gatepost serve`, as a key of `gatepost.toml`, a \
         flag and a variable. [Settings and rules](../deploy.md#settings-and-rules) says which of them wins.\n"
    );
    let mut section = "";
    let parts = parts(TEMPLATE, setting);
    for part in &parts[1..] {
        match part {
            Part::Section(name) => {
                section = name.trim_matches(['[', ']']);
                write!(page, "\n## {}\n", code(name)).unwrap();
            }
            Part::Prose(lines) => write!(page, "\n{}", prose(lines)).unwrap(),
            Part::Keys { about, keys } => {
                if !about.is_empty() {
                    write!(page, "\n{}\n", plain(about)).unwrap();
                }
                page.push_str(
                    "\n| key | flag, variable | for example | meaning |\n|---|---|---|---|\n",
                );
                for (name, value) in keys {
                    let flag = flag(section, name);
                    let arg = by_flag.remove(&*flag).unwrap_or_else(|| panic!("no flag --{flag}"));
                    let flag = [written(arg), variable(arg).unwrap()].join(", ");
                    let row = [code(name), flag, code(value), help(arg)].join(" | ");
                    writeln!(page, "| {row} |").unwrap();
                }
            }
        }
    }
    page.push_str("\n## Not in the file\n\n| flag, variable | meaning |\n|---|---|\n");
    for arg in by_flag.values() {
        let row = [written(arg), variable(arg).unwrap()].join(", ");
        writeln!(page, "| {row} | {} |", help(arg)).unwrap();
    }
    let outside: BTreeSet<_> = by_flag.keys().copied().collect();
    assert_eq!(outside, ["config"].into());
    golden::hold("docs/reference/settings.md", page.as_bytes()).unwrap();
}

/// Says where the store is; nearly every command takes all of these.
fn is_of_the_store(arg: &Arg) -> bool {
    let long = arg.get_long().unwrap_or_default();
    ["data", "database-url", "blobs", "config"].contains(&long) || long.starts_with("s3-")
}

/// The arguments of every command, which are explained once.
fn is_shared(arg: &Arg) -> bool {
    arg.is_global_set() && (is_of_the_store(arg) || arg.get_long() == Some("json"))
}

fn show_command(page: &mut String, command: &Command, name: &str) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(page, "\n## {}\n\n{}.\n", code(name), plain(&about)).unwrap();
    let mut deeper = command.get_subcommands().filter(|one| one.get_name() != "help").peekable();
    if deeper.peek().is_some() {
        for one in deeper {
            show_command(page, one, &format!("{name} {}", one.get_name()));
        }
        return;
    }
    let usage = command.clone().render_usage().to_string();
    write!(page, "\n```console\n$ {}\n```\n", usage.trim_start_matches("Usage: ")).unwrap();
    if name == "gatepost serve" {
        page.push_str("\nTakes every [setting](settings.md).\n");
        return;
    }
    let takes = |name: &str| arguments(command).any(|arg| arg.get_long() == Some(name));
    let (is_open, has_json) = (takes("database-url"), takes("json"));
    let own: Vec<&Arg> = arguments(command).filter(|arg| !is_shared(arg)).collect();
    if !own.is_empty() {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in own {
            let variable = variable(arg).map(|name| format!(", {name}")).unwrap_or_default();
            writeln!(page, "| {}{variable} | {} |", written(arg), help(arg)).unwrap();
        }
    }
    match (has_json, is_open) {
        (true, true) => {
            page.push_str("\nAlso takes `--json`, and those of [the store](#the-store).\n")
        }
        (true, false) => page.push_str("\nAlso takes `--json`.\n"),
        (false, true) => page.push_str("\nAlso takes those of [the store](#the-store).\n"),
        (false, false) => {}
    }
    if let Some(more) = command.get_after_help() {
        write!(page, "\n{}\n", plain(&more.to_string())).unwrap();
    }
}

#[test]
fn the_book_shows_every_command() {
    let root = commands();
    let mut page = format!(
        "# Command line\n\n{MADE}\nFor operators: every command of `gatepost` with its arguments, made from the \
         texts of `--help`. Commands act as the operator, on the store itself. They exit with 0 for success, 1 for \
         failure and 2 for a mistake in the arguments; results go to standard output (as JSON with `--json`), \
         everything else to standard error. An account is named by its id, an Agent by any of its inbound \
         addresses, too.\n\n## The store\n\n| argument | meaning |\n|---|---|\n"
    );
    for arg in arguments(&root).filter(|arg| is_of_the_store(arg)) {
        writeln!(page, "| {}, {} | {} |", written(arg), variable(arg).unwrap(), help(arg)).unwrap();
    }
    for command in root.get_subcommands().filter(|one| one.get_name() != "help") {
        show_command(&mut page, command, &format!("gatepost {}", command.get_name()));
    }
    golden::hold("docs/reference/commands.md", page.as_bytes()).unwrap();
}

#[test]
fn the_book_shows_every_operation() {
    let mut page = format!(
        "# Operations\n\n{MADE}\nFor programmers who look for an operation: all of them, by area. [The HTTP \
         API](../api.md) explains them; the server describes each at `/docs`, with its parameters, answers and \
         examples, and for generators at `/api/v2/openapi.json`.\n"
    );
    let described: Vec<Value> = files("fixtures/openapi", "json")
        .into_iter()
        .map(|(_, text)| serde_json::from_str(&text).unwrap())
        .collect();
    // A description names a path once, whatever its segments are called for each verb.
    let nameless = |path: &str| {
        let segments = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        segments.collect::<Vec<_>>().join("/")
    };
    let mut summaries = BTreeMap::new();
    for (path, operations) in
        described.iter().filter_map(|part| part["paths"].as_object()).flatten()
    {
        for (verb, operation) in operations.as_object().unwrap() {
            let (tag, summary) = (&operation["tags"][0], &operation["summary"]);
            let about = (tag.as_str().unwrap(), summary.as_str().unwrap());
            summaries.insert((verb.to_uppercase(), nameless(path)), about);
        }
    }
    let tags = described.iter().find_map(|part| part["tags"].as_array()).unwrap();
    for tag in tags.iter().map(|tag| tag["name"].as_str().unwrap()) {
        write!(page, "\n## {tag}\n\n| operation | what it does |\n|---|---|\n").unwrap();
        for operation in OPERATIONS {
            let (verb, path) = (operation.verb.as_str(), operation.path);
            let (its_tag, summary) = summaries[&(verb.to_owned(), nameless(operation.described))];
            if its_tag == tag {
                writeln!(page, "| {} | {} |", code(&format!("{verb} {path}")), plain(summary))
                    .unwrap();
            }
        }
    }
    golden::hold("docs/reference/operations.md", page.as_bytes()).unwrap();
}

#[test]
fn parts_of_a_file_are_told_apart() {
    let text = "# Of it all.\n\n[one]\n# A number, 1 to 9.\na = 1\nb = 2\n# Another.\nc = [1, 2]\n\n# By the way.\n";
    let keys = |about: &str, keys: &[(&str, &str)]| Part::Keys {
        about: about.to_owned(),
        keys: keys.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let wanted = [
        Part::Prose(vec!["Of it all.".to_owned()]),
        Part::Section("[one]".to_owned()),
        keys("A number, 1 to 9.", &[("a", "1"), ("b", "2")]),
        keys("Another.", &[("c", "[1, 2]")]),
        Part::Prose(vec!["By the way.".to_owned()]),
    ];
    assert_eq!(parts(text, rule), wanted);
    assert_eq!(plain("a | b <c> [d] `e|<f>`"), "a \\| b &lt;c> \\[d] `e\\|<f>`");
    assert_eq!(flag("tls", "http-cert"), "http-tls-cert");
    assert_eq!(flag("acme", "agree-tos"), "acme-agree-tos");
}
