//! The container, Compose and Kubernetes files of `ops/`: checked by the linters of each, and held
//! against the program. They are not run here: there is no daemon.

use std::collections::BTreeSet;

use clap::Command as Described;
use gatepost::config::ServeOptions;
use gatepost::rules::Rules;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::PATIENCE;
use crate::support::sources::{files, read, root};

/// Runs a tool that scripts/test installs from PyPI; it must find nothing.
async fn passes(tool: &str, arguments: &[&str]) {
    let (done, said) = run(tool, arguments).await;
    assert!(done, "{tool} {arguments:?}: {said}");
}

async fn run(tool: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(root().join("target/tools/python/bin").join(tool));
    command.args(arguments).current_dir(root()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.unwrap();
    let output = output.expect("scripts/test installs the linters");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn the_linters_find_nothing_in_the_files_for_containers() {
    passes("hadolint", &["--failure-threshold=style", "ops/Containerfile"]).await;
    let compose = ["--builtin-schema", "vendor.compose-spec", "ops/compose.yaml"];
    passes("check-jsonschema", &compose).await;
    let manifests = files("ops/kubernetes", "yaml");
    assert_eq!(manifests.len(), 4);
    for (name, _) in &manifests {
        passes("kubernetes-validate", &["--strict", name]).await;
    }
}

/// Proves that the linters above find mistakes.
#[tokio::test]
async fn the_linters_find_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let name = file.to_str().unwrap();
    for (tool, before, source, right, wrong) in [
        ("hadolint", &["--failure-threshold=style"][..], "Containerfile", "nonroot\n", "latest\n"),
        (
            "check-jsonschema",
            &["--builtin-schema", "vendor.compose-spec"],
            "compose.yaml",
            "stop_grace_period: 90s",
            "stop_grace_perod: 90s",
        ),
        ("kubernetes-validate", &["--strict"], "kubernetes/gatepost.yaml", "preStop:", "preStopp:"),
    ] {
        let text = read(&format!("ops/{source}"));
        assert!(text.contains(right), "{source}");
        std::fs::write(&file, text.replace(right, wrong)).unwrap();
        let (fine, said) = run(tool, &[before, &[name]].concat()).await;
        assert!(!fine, "{tool} takes {wrong:?}: {said}");
    }
}

/// All files of `ops/` by which somebody runs the program.
fn texts() -> Vec<(String, String)> {
    let mut texts: Vec<_> =
        ["yaml", "service"].into_iter().flat_map(|ending| files("ops", ending)).collect();
    texts.push(("ops/Containerfile".to_owned(), read("ops/Containerfile")));
    texts
}

fn name_at(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    &text[..end.unwrap_or(text.len())]
}

/// Settings by their variables, each with the text behind it.
fn variables(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("GATEPOST_").map(|(place, _)| {
        let name = name_at(&text[place..]);
        (name, &text[place + name.len()..])
    })
}

/// The value behind a variable, in the way of each of these files; None for one that comes from a
/// secret, or that is only spoken of.
fn value(behind: &str) -> Option<&str> {
    let value =
        ["=", ": ", "\n              value: "].iter().find_map(|by| behind.strip_prefix(by))?;
    Some(value.split_whitespace().next()?.trim_matches('"'))
}

/// `serve` with all that it takes.
fn serve() -> Described {
    let mut root = gatepost::cli::description();
    root.build();
    root.find_subcommand("serve").unwrap().clone()
}

#[test]
fn every_variable_in_ops_is_one_of_the_program_with_a_value_that_it_takes() {
    let serve = serve();
    let mut checked = BTreeSet::new();
    for (file, text) in texts() {
        for (name, behind) in variables(&text).filter(|(name, _)| *name != "GATEPOST_") {
            let by_it = |arg: &&clap::Arg| arg.get_env().is_some_and(|env| env == name);
            let arg = serve.get_arguments().find(by_it);
            let arg = arg.unwrap_or_else(|| panic!("{file}: {name} is no variable of serve"));
            let takes_value = arg.get_action().takes_values();
            let Some(value) = value(behind).filter(|_| takes_value) else { continue };
            let flag = format!("--{}={value}", arg.get_long().unwrap());
            let read = serve.clone().try_get_matches_from(["serve", &flag]);
            assert!(read.is_ok(), "{file}: {name}: {}", read.unwrap_err());
            checked.insert(name.to_owned());
        }
    }
    assert!(checked.len() > 6, "{checked:?}");
}

/// Words between brackets, as JSON has them, or YAML without quotes.
fn words(list: &str) -> Vec<String> {
    let inside = list.split_once('[').unwrap().1.split_once(']').unwrap().0;
    inside.split(',').map(|word| word.trim().trim_matches('"').to_owned()).collect()
}

#[test]
fn every_command_line_in_ops_is_one_of_the_program() {
    let mut lines = 0;
    for (file, text) in texts() {
        for line in text.lines().map(str::trim) {
            let command = match line {
                _ if line.starts_with("args: [") => words(line),
                _ if line.starts_with("CMD [") => words(line),
                _ if line.starts_with("ExecStart=") => {
                    line.split(' ').skip(1).map(ToOwned::to_owned).collect()
                }
                _ => continue,
            };
            let command = command.into_iter().filter(|word| !word.ends_with("/gatepost"));
            let command: Vec<_> = ["gatepost".to_owned()].into_iter().chain(command).collect();
            let read = gatepost::cli::description().try_get_matches_from(&command);
            assert!(read.is_ok(), "{file}: {line}: {}", read.unwrap_err());
            lines += 1;
        }
    }
    assert_eq!(lines, 5);
}

/// The number behind this in a file.
fn number(file: &str, before: &str) -> u64 {
    let text = read(file);
    let (_, behind) = text.split_once(before).unwrap_or_else(|| panic!("{file}: no {before}"));
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("{file}: {before}{digits}"))
}

/// A manager that stops the server waits for longer than it takes: sessions and deliveries have their
/// grace, and the store a last word.
#[test]
fn nobody_kills_a_server_that_is_stopping() {
    let store = Rules::defaults().unwrap().store;
    let needs = (ServeOptions::default().grace() + store.gateways.silence()).as_secs();
    let kubernetes = "ops/kubernetes/gatepost.yaml";
    let pause = number(kubernetes, "seconds: ");
    for (who, waits) in [
        ("systemd", number("ops/gatepost.service", "\nTimeoutStopSec=")),
        ("Compose", number("ops/compose.yaml", "\n  stop_grace_period: ")),
        ("Kubernetes", number(kubernetes, "terminationGracePeriodSeconds: ") - pause),
    ] {
        assert!(waits > needs, "{who} waits {waits} seconds, and it needs {needs}");
    }
    // Nor one whose database is silent: a commit is given up in half the time of the watchdog.
    let minutes = number("ops/gatepost.service", "\nWatchdogSec=");
    let given_up = store.connections.acquire() + 3 * store.connections.deadline();
    assert!(minutes * 30 > given_up.as_secs(), "{given_up:?}");
}
