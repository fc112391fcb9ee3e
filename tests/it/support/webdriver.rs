//! The commands of the WebDriver protocol that tests give (W3C, "WebDriver"; chromedriver's own ones
//! for its logs and its DevTools). The kept clients bring `serde_json/preserve_order`, with which
//! tests would see other JSON than the server's users.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// Bounds each command: axe-core takes a minute for a long page where many tests share a core.
const PATIENCE: Duration = Duration::from_secs(300);

/// The name of an element's id in answers (§12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A session with a browser.
#[derive(Clone)]
pub struct Driver {
    client: Client,
    /// The URL of the session.
    session: String,
}

/// An element of the open page.
pub struct Element {
    driver: Driver,
    id: String,
}

impl Driver {
    /// Starts a browser with these capabilities, by chromedriver at this port.
    pub async fn connect(port: u16, capabilities: Value) -> Self {
        let client = Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
        let session = format!("http://127.0.0.1:{port}/session");
        let new = Self { client, session };
        let body = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let made = new.tell(Method::POST, "", &body).await;
        let id = made["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {made}"));
        let driver = Self { session: format!("{}/{id}", new.session), ..new };
        let millis = u64::try_from(PATIENCE.as_millis()).unwrap();
        driver.post("/timeouts", &json!({ "script": millis, "pageLoad": millis })).await;
        driver
    }

    /// Returns the value of an answer; panics with the error of one that failed.
    async fn tell(&self, method: Method, command: &str, body: &Value) -> Value {
        let url = format!("{}{command}", self.session);
        let request = self.client.request(method.clone(), &url);
        let request = if method == Method::POST { request.body(body.to_string()) } else { request };
        let answer = request.send().await.unwrap_or_else(|error| panic!("{command}: {error}"));
        let text = answer.bytes().await.unwrap();
        let mut answer: Value = serde_json::from_slice(&text).unwrap();
        let value = answer["value"].take();
        assert!(value["error"].is_null() || value["stacktrace"].is_null(), "{command}: {value}");
        value
    }

    async fn post(&self, command: &str, body: &Value) -> Value {
        self.tell(Method::POST, command, body).await
    }

    pub async fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url })).await;
    }

    /// Runs the body of a function.
    pub async fn execute(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments })).await
    }

    /// Runs the body of a function whose last argument takes the result.
    pub async fn execute_async(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/async", &json!({ "script": script, "args": arguments })).await
    }

    pub async fn find(&self, selector: &str) -> Element {
        let found = json!({ "using": "css selector", "value": selector });
        let found = self.post("/element", &found).await;
        Element { driver: self.clone(), id: found[ELEMENT].as_str().unwrap().to_owned() }
    }

    /// The element that the body of a function returns; None if it returns null.
    pub async fn pick(&self, script: &str, arguments: &[Value]) -> Option<Element> {
        let found = self.execute(script, arguments).await;
        let id = found[ELEMENT].as_str()?.to_owned();
        Some(Element { driver: self.clone(), id })
    }

    /// A command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", &body).await;
    }

    /// The entries of a log since it was last asked for: `browser` or `performance`.
    pub async fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.post("/se/log", &json!({ "type": kind })).await;
        serde_json::from_value(entries).unwrap()
    }

    /// The window as PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        let text = self.tell(Method::GET, "/screenshot", &Value::Null).await;
        BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap()
    }

    /// The cookies that the open page would send.
    pub async fn cookies(&self) -> Vec<Value> {
        let all = self.tell(Method::GET, "/cookie", &Value::Null).await;
        serde_json::from_value(all).unwrap()
    }

    pub async fn add_cookie(&self, cookie: Value) {
        self.post("/cookie", &json!({ "cookie": cookie })).await;
    }

    /// Presses a key, wherever the focus is.
    pub async fn press(&self, key: &str) {
        let strokes = ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key }));
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] })).await;
    }

    /// Ends the browser.
    pub async fn quit(&self) {
        self.tell(Method::DELETE, "", &Value::Null).await;
    }
}

impl Element {
    pub async fn click(&self) {
        self.driver.post(&format!("/element/{}/click", self.id), &json!({})).await;
    }

    /// Types this text; `\u{e007}` is Enter.
    pub async fn send_keys(&self, text: &str) {
        self.driver.post(&format!("/element/{}/value", self.id), &json!({ "text": text })).await;
    }
}
