//! Examples in `/docs`: every curl line and every piece of Python runs as printed. Both of an
//! operation that only reads get the same status.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tokio::process::Command;

use crate::openapi::run;
use crate::support::{TestGateway, http};

/// Says the status of each request, and nothing of its answer.
const CURL: &str = "curl() { command curl -s -o /dev/null -w '%{http_code}\\n' \"$@\"; }\n";
const PYTHON: &str = "import contextlib, io, json, sys, urllib.error, urllib.request\n\
    opened, statuses = urllib.request.urlopen, []\n\
    def urlopen(request):\n\
    \x20   answer = opened(request)\n\
    \x20   statuses.append(answer.status)\n\
    \x20   return answer\n\
    urllib.request.urlopen = urlopen\n\
    for name, code in json.load(open(sys.argv[1])):\n\
    \x20   try:\n\
    \x20       with contextlib.redirect_stdout(io.StringIO()):\n\
    \x20           exec(code, {})\n\
    \x20   except urllib.error.HTTPError as error:\n\
    \x20       statuses.append(error.code)\n\
    \x20   print(name, statuses.pop())\n";

/// Text of HTML as a browser shows it.
fn shown(text: &str) -> String {
    let entities =
        [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

/// The examples of an operation, by its id.
struct Example {
    curl: String,
    python: String,
    is_read: bool,
}

async fn examples(gateway: &TestGateway) -> BTreeMap<String, Example> {
    let page = |name: String| async move {
        http::get(&format!("http://{}/docs{name}", gateway.http)).await.text()
    };
    let first = page(String::new()).await;
    let areas = first.split("<h2><a href=\"/docs").skip(1);
    let mut found = BTreeMap::new();
    for area in areas.map(|rest| rest.split_once('"').unwrap().0.to_owned()) {
        for operation in page(area).await.split("<article class=\"operation\" id=\"").skip(1) {
            let (id, rest) = operation.split_once('"').unwrap();
            let pasted = rest.split("<pre class=\"code\" tabindex=\"0\">").skip(1);
            let mut pasted = pasted.map(|code| shown(code.split_once("</pre>").unwrap().0));
            let (curl, python) = (pasted.next().unwrap(), pasted.next().unwrap());
            let is_read = !curl.starts_with("curl -X");
            found.insert(id.to_owned(), Example { curl, python, is_read });
        }
    }
    found
}

type Statuses = BTreeMap<String, u16>;

async fn statuses(gateway: &TestGateway, key: &str, mut command: Command) -> Statuses {
    command.env("GATEPOST", format!("http://{}", gateway.http)).env("TOKEN", key);
    let (is_fine, text) = run(command).await;
    assert!(is_fine, "{text}");
    let line = |line: &str| {
        let (id, status) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        (id.to_owned(), status.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    text.lines().map(line).collect()
}

type Examples<'e> = [(&'e String, &'e Example)];

async fn by_curl(gateway: &TestGateway, key: &str, examples: &Examples<'_>) -> Statuses {
    let lines = examples.iter().map(|(id, example)| format!("printf '{id} '\n{}\n", example.curl));
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{CURL}{}", lines.collect::<String>()));
    statuses(gateway, key, command).await
}

async fn by_python(gateway: &TestGateway, key: &str, examples: &Examples<'_>) -> Statuses {
    let code: Vec<_> = examples.iter().map(|(id, example)| json!([id, example.python])).collect();
    let file = gateway.folder.path().join("examples.json");
    std::fs::write(&file, json!(code).to_string()).unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]).arg(file);
    statuses(gateway, key, command).await
}

#[tokio::test]
async fn every_example_of_the_documentation_runs_as_pasted() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["support"].id;
    let key = gateway.tenancy.create_key(agent, "docs").await.unwrap().token;
    let examples = examples(&gateway).await;
    assert!(examples.len() > 100, "{} operations", examples.len());
    // Reading operations go first, so that curl and Python read the same state.
    let (reads, others): (Vec<_>, Vec<_>) =
        examples.iter().partition(|(_, example)| example.is_read);
    let mut good = BTreeSet::new();
    for (round, examples) in [&reads, &others].into_iter().enumerate() {
        let by_curl = by_curl(&gateway, &key, examples).await;
        let by_python = by_python(&gateway, &key, examples).await;
        assert!(round > 0 || by_curl == by_python, "{by_curl:?} {by_python:?}");
        // A wrong path, method or type would be another status; ids are not those of this gateway.
        for (id, status) in by_curl.iter().chain(&by_python) {
            let is_good = (200..300).contains(status);
            assert!(is_good || [400, 403, 404, 409].contains(status), "{id}: {status}");
            good.extend(is_good.then(|| id.clone()));
        }
        let answered: Vec<_> = examples.iter().map(|(id, _)| *id).collect();
        assert!(by_curl.keys().eq(answered.iter().copied()) && by_python.keys().eq(answered));
    }
    assert!(good.len() > 40, "only {good:?} succeed");
    for id in ["getAccount", "listRecentMessages", "setInboundPolicy", "addSenders", "listEvents"] {
        assert!(good.contains(id), "{id}");
    }
    gateway.finish().await;
}
