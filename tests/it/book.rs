//! The book: `README.md` and the pages in `docs`. Links lead somewhere, every page is in the summary, pages
//! are of a size, and the shell and Python in them run as they stand against a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use gatepost::http::table::OPERATIONS;
use gatepost::shutdown::Shutdown;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::openapi::run;
use crate::support::process::{GATEPOST, Server};
use crate::support::sources::{files, read, root};
use crate::support::{PATIENCE, TestGateway, letter, local_dns, python, signed};

/// The page whose server is one that its own commands set up.
const QUICKSTART: &str = "docs/quickstart.md";
/// The kinds of code, behind the three backticks. `sh names` sets what all pages use; at `sh serve` the server
/// starts; `sh no-run` is for other machines, other people's DNS, and what never ends.
const KINDS: [&str; 11] = [
    "",
    "console",
    "sh",
    "sh no-run",
    "sh names",
    "sh serve",
    "python",
    "js",
    "json",
    "toml",
    "ini",
];
/// The two commands of the README: a test of `demo` runs the first, and the second runs this.
const COMMANDS: &[&str] = &["cargo demo\n", "bash scripts/test\n"];
/// Pages whose scripts run at the same time.
const CONCURRENCY: usize = 2;
/// Lines of the README, and of a page that people wrote.
const README_LINES: usize = 150;
const PAGE_LINES: usize = 200;

/// A block of code.
struct Block {
    kind: String,
    /// The number of its first line.
    line: usize,
    text: String,
}

/// A page: the blocks of code in it, and all other lines.
struct Page {
    path: String,
    blocks: Vec<Block>,
    prose: Vec<String>,
}

impl Page {
    fn parse(path: String, text: &str) -> Self {
        let (mut blocks, mut prose) = (Vec::new(), Vec::new());
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in text.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, None) => prose.push(line.to_owned()),
                (None, Some(kind)) => {
                    let indent = line.len() - line.trim_start().len();
                    let (kind, text) = (kind.to_owned(), String::new());
                    open = Some((indent, Block { kind, line: number + 2, text }));
                }
                (Some((indent, block)), None) => {
                    block.text.push_str(line.get(*indent..).unwrap_or_default());
                    block.text.push('\n');
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            }
        }
        assert!(open.is_none(), "{path} has a block of code without an end");
        Self { path, blocks, prose }
    }

    /// The anchors of this page, as forges make them of headings, and those that it sets itself.
    fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        let headings = self.prose.iter().filter(|line| line.starts_with('#'));
        for heading in headings.map(|line| line.trim_start_matches('#').trim()) {
            let text: String = heading
                .to_lowercase()
                .chars()
                .filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign))
                .map(|sign| if sign == ' ' { '-' } else { sign })
                .collect();
            let others = (1..).map(|number| format!("{text}-{number}"));
            let mut names = std::iter::once(text.clone()).chain(others);
            anchors.extend(names.find(|name| !anchors.contains(name)));
        }
        let set =
            self.prose.iter().filter_map(|line| line.split_once("<a id=\"")?.1.split_once('"'));
        anchors.extend(set.map(|(name, _)| name.to_owned()));
        anchors
    }

    /// The targets of its links.
    fn links(&self) -> Vec<String> {
        let mut links = Vec::new();
        for line in &self.prose {
            let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            links.extend(targets.map(|(target, _)| target.to_owned()));
        }
        links
    }

    /// The code between backticks in its prose.
    fn spans(&self) -> impl Iterator<Item = &str> {
        self.prose.iter().flat_map(|line| line.split('`').skip(1).step_by(2))
    }

    /// Its paragraph below the title.
    fn first_paragraph(&self) -> String {
        let lines = self.prose.iter().skip(1).filter(|line| !line.starts_with("<!--"));
        let lines = lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
        lines.cloned().collect::<Vec<_>>().join(" ")
    }
}

/// The README and all pages of the book, by their paths.
fn book() -> BTreeMap<String, Page> {
    let readme = ("README.md".to_owned(), read("README.md"));
    let pages = files("docs", "md").into_iter().chain([readme]);
    pages.map(|(path, text)| (path.clone(), Page::parse(path, &text))).collect()
}

/// The path from the root of `link` on the page at `path`.
fn resolved(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let folder = Path::new(path).parent().unwrap();
    for part in folder.components().chain(Path::new(link).components()) {
        match part {
            Component::Normal(name) => parts.push(name.to_str().unwrap()),
            Component::ParentDir => drop(parts.pop().unwrap_or_else(|| panic!("{path}: {link}"))),
            _ => {}
        }
    }
    parts.join("/")
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages = book();
    for path in ["ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md", "benches/README.md"] {
        pages.insert(path.to_owned(), Page::parse(path.to_owned(), &read(path)));
    }
    let (mut followed, mut wrong) = (0, Vec::new());
    for page in pages.values() {
        for link in page.links() {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let file = if file.is_empty() { page.path.clone() } else { resolved(&page.path, file) };
            let is_there = match pages.get(&file) {
                _ if anchor.is_empty() => root().join(&file).exists(),
                Some(target) => target.anchors().contains(anchor),
                None => false,
            };
            followed += 1;
            if !is_there {
                wrong.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 150, "{followed} links");
}

#[test]
fn every_page_is_in_the_summary_and_the_reverse() {
    let pages = book();
    let listed = pages["docs/SUMMARY.md"].links();
    let named: BTreeSet<String> = listed.iter().map(|link| resolved("docs/x", link)).collect();
    assert_eq!(named.len(), listed.len(), "SUMMARY.md names a page twice");
    let is_page = |path: &&String| path.starts_with("docs/") && *path != "docs/SUMMARY.md";
    let there: BTreeSet<String> = pages.keys().filter(is_page).cloned().collect();
    assert_eq!(named, there);
    let from_readme: BTreeSet<String> = pages["README.md"].links().into_iter().collect();
    for page in there.iter().filter(|path| Path::new(path).parent() == Some(Path::new("docs"))) {
        assert!(from_readme.contains(page), "README.md does not lead to {page}");
    }
}

#[test]
fn every_operation_and_flag_that_a_page_names_is_there() {
    let operations: BTreeSet<String> = OPERATIONS
        .iter()
        .flat_map(|one| one.paths().map(move |path| format!("{} {path}", one.verb.as_str())))
        .collect();
    let without_key = ["GET /healthz", "GET /readyz"];
    let mut flags = BTreeSet::new();
    let mut commands = vec![gatepost::cli::description()];
    while let Some(command) = commands.pop() {
        let long = command.get_arguments().filter_map(clap::Arg::get_long);
        flags.extend(long.map(|name| format!("--{name}")));
        commands.extend(command.get_subcommands().cloned());
    }
    // Flags of certbot and of cargo.
    flags.extend(["--reuse-key", "--ignore-rust-version", "--help"].map(str::to_owned));
    let mut wrong = Vec::new();
    for page in book().values() {
        for span in page.spans() {
            let first = span.split([' ', '=', ',', '/']).next().unwrap_or_default();
            let is_flag = first.starts_with("--") && !first.ends_with('-');
            if is_flag && !flags.contains(first) {
                wrong.push(format!("{}: no command has {first}", page.path));
            }
            let is_operation = ["GET", "POST", "PUT", "DELETE"].contains(&first);
            let named = span.split('?').next().unwrap_or_default();
            let named = named.replace("/webhookRelay/smtp", "/webhookRelay/{type}");
            let named = named.replace("/webhookRelay/json", "/webhookRelay/{type}");
            let is_there = operations.contains(&named) || without_key.contains(&named.as_str());
            if is_operation && span.contains(" /") && !is_there {
                wrong.push(format!("{}: there is no {named}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_are_of_a_size_and_say_for_whom_they_are() {
    for (path, page) in book() {
        let lines = read(&path).lines().count();
        // A catalogue has as many lines as there are threats.
        let is_made = path.starts_with("docs/reference/") || path == "docs/threats.md";
        match path.as_str() {
            "README.md" => assert!(lines <= README_LINES, "README.md has {lines} lines"),
            "docs/SUMMARY.md" | "docs/contract.md" => {}
            _ => {
                assert!(is_made || lines <= PAGE_LINES, "{path} has {lines} lines");
                assert!(page.prose[0].starts_with("# "), "{path} has no title");
                let first = page.first_paragraph();
                assert!(first.starts_with("For "), "{path} does not say for whom it is: {first}");
            }
        }
        for Block { kind, line, .. } in &page.blocks {
            assert!(KINDS.contains(&kind.as_str()), "{path}:{line}: {kind:?} is no kind of code");
        }
    }
}

/// The script of these blocks; where one fails, its place is the last that was said.
fn script<'b>(path: &str, blocks: impl Iterator<Item = &'b Block>) -> String {
    let mut script = String::new();
    for Block { kind, line, text } in blocks {
        let code = match kind.as_str() {
            "sh" if COMMANDS.contains(&text.as_str()) => continue,
            "sh" | "sh names" => text.clone(),
            "python" => format!("python3 - <<'PROGRAM'\n{text}PROGRAM\n"),
            _ => continue,
        };
        script.push_str(&format!("echo '== {path}:{line}' >&2\n{code}"));
    }
    script
}

/// Before everything: what fails ends the script, also an answer that is an error.
const STRICT: &str = "set -euo pipefail\n\
    curl() { command curl --silent --show-error --fail-with-body --max-time 60 \"$@\"; }\n";

/// A server of pages, as they name it.
struct Place<'p> {
    smtp: SocketAddr,
    http: SocketAddr,
    /// The working folder of the scripts.
    folder: &'p Path,
    store: PathBuf,
}

/// The script, in a shell of its own in the folder of the place; what it said, if it fails.
async fn carry_out(place: &Place<'_>, script: &str) -> Result<(), String> {
    let script = script
        .replace("localhost:8080", &place.http.to_string())
        .replace("localhost:2525", &place.smtp.to_string());
    let bin = Path::new(GATEPOST).parent().unwrap().to_str().unwrap();
    let interpreter = python::interpreter();
    let python = interpreter.parent().unwrap().to_str().unwrap();
    let path = format!("{bin}:{python}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{STRICT}{script}")).current_dir(place.folder);
    command.env("PATH", path).env("HOME", place.folder).env("GATEPOST_DATA", &place.store);
    let (is_fine, said) = run(command).await;
    if is_fine { Ok(()) } else { Err(said) }
}

/// The names that every page uses.
fn names(pages: &BTreeMap<String, Page>) -> String {
    let names = pages[QUICKSTART].blocks.iter().filter(|block| block.kind == "sh names");
    script(QUICKSTART, names)
}

/// The scripts of pages that run on a server which is there: by their paths.
fn scripts(pages: &BTreeMap<String, Page>) -> Vec<(String, String)> {
    // The organization's domain, as the Quickstart makes it.
    let domain = "gatepost domain add agents.example.com 3\n";
    let names = [domain, &names(pages)].concat();
    let others = pages.values().filter(|page| page.path != QUICKSTART);
    let scripts = others.map(|page| (page.path.clone(), script(&page.path, page.blocks.iter())));
    let scripts = scripts.filter(|(_, script)| !script.is_empty());
    scripts.map(|(path, script)| (path, format!("{names}{script}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_snippet_runs_as_it_stands() {
    let scripts = scripts(&book());
    assert!(scripts.len() > 12, "{} pages have snippets", scripts.len());
    let mut running: JoinSet<Result<(), String>> = JoinSet::new();
    let mut failed = Vec::new();
    for (path, script) in scripts {
        if running.len() == CONCURRENCY {
            failed.extend(running.join_next().await.and_then(|page| page.unwrap().err()));
        }
        running.spawn(on_a_server_with_mail(path, script));
    }
    while let Some(page) = running.join_next().await {
        failed.extend(page.unwrap().err());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Beside a server that has accepted two messages and refused one.
async fn on_a_server_with_mail(path: String, script: String) -> Result<(), String> {
    let gateway = TestGateway::start().await;
    let to = ["support@agents.example"];
    for subject in ["invoice 17, due friday", "invoice 18"] {
        let replies = gateway.send("alice@good.example", &to, &signed(subject)).await;
        assert!(replies.accepted(), "{path}: {}", replies.settling());
    }
    let unsigned = letter("not signed");
    assert!(!gateway.send("alice@good.example", &to, unsigned.as_bytes()).await.accepted());
    gateway.counts("SELECT count(*) FROM records WHERE verdict = 'refused'", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let store = gateway.folder.path().join("store");
    let (smtp, http) = (gateway.smtp, gateway.http);
    let place = Place { smtp, http, folder: folder.path(), store };
    let done = carry_out(&place, &script).await;
    gateway.finish().await;
    done.map_err(|said| format!("{path}:\n{said}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_leads_from_nothing_to_a_refusal_that_is_explained() {
    let pages = book();
    let blocks = &pages[QUICKSTART].blocks;
    let serve = blocks.iter().position(|block| block.kind == "sh serve").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("gatepost-data");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let place = Place { smtp: nowhere, http: nowhere, folder: folder.path(), store: store.clone() };
    carry_out(&place, &script(QUICKSTART, blocks[..serve].iter())).await.unwrap();

    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let server = Server::start(&store, dns.addr()).await;
    let (smtp, http) = (server.smtp, server.http);
    let place = Place { smtp, http, folder: folder.path(), store };
    carry_out(&place, &script(QUICKSTART, blocks[serve..].iter())).await.unwrap();
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

#[test]
fn links_and_anchors_are_found_where_they_are() {
    let text = "# A `b` c, d\n\nSee [x](y.md#z) and `[no](no.md)`.\n\n## A `b` c, d\n\n```sh\n# [no](no.md)\n```\n";
    let page = Page::parse("docs/a.md".to_owned(), text);
    assert_eq!(page.links(), ["y.md#z"]);
    assert_eq!(page.anchors(), ["a-b-c-d", "a-b-c-d-1"].map(str::to_owned).into());
    assert_eq!((page.blocks[0].line, page.blocks[0].text.as_str()), (8, "# [no](no.md)\n"));
    assert_eq!(resolved("docs/reference/a.md", "../deploy.md"), "docs/deploy.md");
    assert_eq!(resolved("README.md", "docs/a.md"), "docs/a.md");
}
