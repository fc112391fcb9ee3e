//! A browser of the tests' own: Chromium without a window, driven by chromedriver on the loopback.
//! It reaches nothing but 127.0.0.1, and is gone with its test.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::yield_now;
use tokio::time::timeout;
use url::Url;

use super::PATIENCE;
use super::ports::free_port;
use super::webdriver::{Driver, Element};

/// A phone, a small window, a large one.
const WIDTHS: [u32; 3] = [400, 1024, WIDEST];
/// Shows all that the others show; colours, which take the most time, are looked at in this one.
const WIDEST: u32 = 1600;
/// The rules of axe-core whose findings depend on the colours.
const COLOURS: [&str; 2] = ["color-contrast", "link-in-text-block"];
/// The width of pictures for documents.
const PICTURE: u32 = 1440;

/// Ends chromedriver and its browsers, which are one process group, once the test is gone.
const GUARD: &str = "cat; kill -9 \"-$0\"";

/// Runs axe-core over the page and hands over what a person who needs help cannot pass.
const AXE: &str = "const [options, done] = arguments;\n\
    const why = (node) => [...node.any, ...node.all, ...node.none].map((one) => one.message);\n\
    const rows = ({ violations }) => violations\n\
    \x20   .filter(({ impact }) => impact === 'serious' || impact === 'critical')\n\
    \x20   .flatMap(({ id, impact, nodes }) => nodes.map((node) => ({\n\
    \x20       rule: id, impact, selector: node.target.flat().join(' '), why: why(node).join('; '),\n\
    \x20   })));\n\
    axe.run({ resultTypes: ['violations'], ...options })\n\
    \x20   .then((found) => done({ found: rows(found) }), (error) => done({ error: String(error) }));";

/// The colours that a reader prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    /// Its name in CSS.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// An element that breaks a rule of axe-core.
#[derive(Debug, Clone, Deserialize)]
pub struct Violation {
    /// The rule's id, such as `color-contrast`.
    pub rule: String,
    /// `serious` or `critical`.
    pub impact: String,
    /// Finds the element, by CSS.
    pub selector: String,
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, impact, selector, why } = self;
        write!(f, "{rule} ({impact}) at {selector}: {why}")
    }
}

/// A browser with one tab, for the pages of one origin.
pub struct Browser {
    driver: Driver,
    origin: Url,
    server: Child,
    /// Ends with the test, and the others with it.
    guard: Child,
    /// All that the browser writes.
    _folder: TempDir,
}

impl Browser {
    /// Starts for the pages of `origin`, such as `http://127.0.0.1:8080`. Light, 1024 x 768.
    pub async fn at(origin: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (server, guard, port) = start_driver(folder.path()).await;
        let driver = Driver::connect(port, capabilities()).await;
        let origin = Url::parse(origin).unwrap();
        let browser = Self { driver, origin, server, guard, _folder: folder };
        browser.resize(1024, 768).await;
        browser.prefer(Scheme::Light).await;
        browser
    }

    /// Opens a path of the origin, or a whole URL, and waits until it is loaded.
    pub async fn open(&self, path: &str) {
        self.driver.open(self.origin.join(path).unwrap().as_str()).await;
    }

    /// Gives the page this many CSS pixels, a scroll bar included.
    pub async fn resize(&self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.driver.devtools("Emulation.setDeviceMetricsOverride", size).await;
        self.wait_for(&format!("innerWidth === {width} && innerHeight === {height}")).await;
    }

    /// Sets what `prefers-color-scheme` says. Nothing moves, so that no colour is between two.
    pub async fn prefer(&self, scheme: Scheme) {
        let scheme = scheme.as_str();
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.driver.devtools("Emulation.setEmulatedMedia", features).await;
        self.wait_for(&format!("matchMedia('(prefers-color-scheme: {scheme})').matches")).await;
    }

    /// Runs the body of a function with `arguments`; returns what it returns.
    pub async fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.driver.execute(script, arguments).await
    }

    /// Waits until an expression is true on the page that is then open.
    pub async fn wait_for(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        let reached = async {
            while self.run(&script, &[]).await != true {
                yield_now().await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("never true: {expression}"));
    }

    /// The element that a selector of CSS finds, once it is there: to click, to type into.
    pub async fn find(&self, selector: &str) -> Element {
        self.wait_for(&format!("document.querySelector({})", json!(selector))).await;
        self.driver.find(selector).await
    }

    /// The element that the body of a function returns, once it returns one.
    pub async fn pick(&self, script: &str, arguments: &[Value]) -> Element {
        let found = async {
            loop {
                match self.driver.pick(script, arguments).await {
                    Some(element) => return element,
                    None => yield_now().await,
                }
            }
        };
        let found = timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("never on the page: {arguments:?}"))
    }

    /// Goes to an element by Tab alone, and presses Enter there.
    pub async fn enter(&self, selector: &str) {
        let is_there = "return document.activeElement?.matches(arguments[0]) ?? false";
        for _ in 0..200 {
            self.driver.press("\u{e004}").await;
            if self.run(is_there, &[json!(selector)]).await == true {
                return self.driver.press("\u{e007}").await;
            }
        }
        panic!("{selector} is out of reach by Tab");
    }

    /// Whether the page is wider than its window.
    pub async fn scrolls_sideways(&self) -> bool {
        let script = "const page = document.scrollingElement;\n\
            return page.scrollWidth > page.clientWidth";
        self.run(script, &[]).await == true
    }

    /// The serious and critical findings of axe-core on the page as it is now.
    pub async fn axe(&self) -> Vec<Violation> {
        self.axe_with(json!({})).await
    }

    /// As [`Self::axe`], with options of its `run`.
    async fn axe_with(&self, options: Value) -> Vec<Violation> {
        if self.run("return Boolean(window.axe)", &[]).await != true {
            let path = "target/tools/node/node_modules/axe-core/axe.min.js";
            let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
            let source = source
                .unwrap_or_else(|error| panic!("{path}: {error}: run the tests by scripts/test"));
            self.driver.execute(&source, &[]).await;
        }
        let answer = self.driver.execute_async(AXE, &[options]).await;
        assert!(answer["error"].is_null(), "axe-core: {}", answer["error"]);
        serde_json::from_value(answer["found"].clone()).unwrap()
    }

    /// URLs of other origins that pages asked for since this was last asked, whether or not they
    /// got an answer. What a content security policy forbids is an error of the console.
    pub async fn requests_to_others(&self) -> Vec<String> {
        let log = self.driver.log("performance").await;
        let asked = log.iter().filter_map(|entry| requested(entry["message"].as_str()?));
        asked.filter(|url| url.origin() != self.origin.origin()).map(String::from).collect()
    }

    /// Errors in the console since this was last asked: exceptions, requests that failed, breaches
    /// of the content security policy, and what pages call errors.
    pub async fn console_errors(&self) -> Vec<String> {
        let log = self.driver.log("browser").await;
        let severe = log.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.filter_map(|entry| entry["message"].as_str()).map(str::to_owned).collect()
    }

    /// The faults of the open page at each width: findings of axe-core, sideways scroll, errors and
    /// requests to others. Dark, only the colours are other than light. Leaves pictures of it if
    /// `scripts/screenshots` asks for them.
    pub async fn faults(&self, scheme: Scheme) -> Vec<String> {
        let mut faults = Vec::new();
        for width in WIDTHS {
            let path = self.run("return location.pathname", &[]).await;
            let name = path.as_str().unwrap().trim_matches('/').replace(['/', ':'], "-");
            faults.extend(self.faults_at(width, &name, scheme).await);
        }
        faults.extend(self.console_errors().await);
        faults.extend(self.requests_to_others().await);
        faults
    }

    /// The faults of the open page at the width of pictures. Leaves a picture under this name as
    /// [`Self::faults`] does.
    pub async fn picture(&self, name: &str, scheme: Scheme) -> Vec<String> {
        let faults = self.faults_at(PICTURE, name, scheme).await;
        faults.into_iter().map(|fault| format!("{name} {fault}")).collect()
    }

    async fn faults_at(&self, width: u32, name: &str, scheme: Scheme) -> Vec<String> {
        self.resize(width, 900).await;
        let others = COLOURS.map(|rule| (rule, json!({ "enabled": false })));
        let found = match (scheme, width) {
            (Scheme::Light, WIDEST | PICTURE) => self.axe().await,
            (Scheme::Light, _) => self.axe_with(json!({ "rules": BTreeMap::from(others) })).await,
            (Scheme::Dark, WIDEST | PICTURE) => self.axe_with(json!({ "runOnly": COLOURS })).await,
            (Scheme::Dark, _) => Vec::new(),
        };
        let mut faults: Vec<_> =
            found.iter().map(|one| format!("{width} {scheme:?}: {one}")).collect();
        if self.scrolls_sideways().await {
            faults.push(format!("{width}: scrolls sideways"));
        }
        faults.extend(self.out_of_reach().await.map(|link| format!("{width}: hidden: {link}")));
        if let Some(folder) = std::env::var_os("GATEPOST_SCREENSHOTS") {
            let file = format!("{name}-{width}-{}.png", scheme.as_str());
            self.screenshot(&Path::new(&folder).join(file)).await;
        }
        faults
    }

    /// Links and buttons of the page that its width hides. Those of a closed part open with it, and
    /// those of a part with `hidden` are for another moment.
    async fn out_of_reach(&self) -> impl Iterator<Item = String> {
        let hidden = "return [...document.querySelectorAll('main a[href], main button')]\n\
                      .filter((one) => !one.closest('details:not([open]), [hidden]') && !one.checkVisibility())\n\
                      .map((one) => one.outerHTML)";
        let hidden = self.run(hidden, &[]).await;
        let hidden: Vec<String> = serde_json::from_value(hidden).unwrap();
        hidden.into_iter()
    }

    /// Writes what the window shows, as PNG.
    pub async fn screenshot(&self, file: &Path) {
        std::fs::write(file, self.driver.screenshot().await).unwrap();
    }

    /// A cookie that the open page would send, those included that its scripts do not see.
    pub async fn cookie(&self, name: &str) -> Option<Value> {
        self.driver.cookies().await.into_iter().find(|cookie| cookie["name"] == name)
    }

    /// Sets a cookie of the open page's host.
    pub async fn set_cookie(&self, cookie: Value) {
        self.driver.add_cookie(cookie).await;
    }

    /// Ends the browser. One that is dropped is killed.
    pub async fn finish(mut self) {
        self.driver.quit().await;
        // Before the id of the group is free for others.
        self.guard.kill().await.unwrap();
        self.server.kill().await.unwrap();
    }
}

/// chromedriver with what ends it, and its port. It listens at that port of IPv4 and of IPv6: of its
/// own choice it takes one for IPv4 that may be taken for IPv6, and ends.
async fn start_driver(folder: &Path) -> (Child, Child, u16) {
    let mut server = Command::new("chromedriver")
        .arg(format!("--port={}", free_port()))
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("chromedriver: {error}: run the tests by scripts/test"));
    let guard = Command::new("sh")
        .args(["-c", GUARD, &server.id().unwrap().to_string()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                return port.trim_end_matches('.').parse().unwrap();
            }
        }
        panic!("chromedriver did not start");
    };
    let port = timeout(PATIENCE, port).await.unwrap();
    // Nobody must wait for what else it says to be read.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, guard, port)
}

/// A browser that keeps its logs and finds no name. Its profile is chromedriver's, in `TMPDIR`: with
/// one of ours it would begin with a page of its own, whose requests stand in the same logs.
fn capabilities() -> Value {
    let mut arguments = vec![
        "--headless=new",
        "--no-first-run",
        "--disable-background-networking",
        // A container may have little of it.
        "--disable-dev-shm-usage",
        // Without it the browser would listen on a port, for anybody on this machine.
        "--remote-debugging-pipe",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ];
    if rustix::process::geteuid().is_root() {
        // Its sandbox refuses to run as root.
        arguments.push("--no-sandbox");
    }
    json!({
        "browserName": "chrome",
        "goog:chromeOptions": { "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
    })
}

/// Finds what a page asked for in an entry of the log; nothing that the browser has in itself.
fn requested(entry: &str) -> Option<Url> {
    let message = &serde_json::from_str::<Value>(entry).unwrap()["message"];
    let url = match message["method"].as_str()? {
        "Network.requestWillBeSent" => &message["params"]["request"]["url"],
        "Network.webSocketCreated" => &message["params"]["url"],
        _ => return None,
    };
    let url = Url::parse(url.as_str()?).unwrap();
    let inner = ["about", "blob", "chrome", "chrome-untrusted", "data", "devtools"];
    (!inner.contains(&url.scheme())).then_some(url)
}
