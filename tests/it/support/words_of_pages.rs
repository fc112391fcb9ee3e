//! Pages as a person uses them: what is there to press and to fill in is found by its words.

use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::PATIENCE;
use super::browser::Browser;

/// Finds what a click acts on by its whole words, or by their beginning; in the row that has the words
/// of the second argument, if there are any.
const PRESSED: &str = "const [words, beside] = arguments;\n\
    const said = (one) => one.innerText.trim().replace(/\\s+/g, ' ');\n\
    const rows = [...document.querySelectorAll('tr, .delivery, .card')];\n\
    const size = (one, other) => said(one).length - said(other).length;\n\
    const row = beside ? rows.filter((one) => said(one).includes(beside)).sort(size)[0] : document;\n\
    const all = [...(row?.querySelectorAll('a, button, summary') ?? [])]\n\
    \x20   .filter((one) => one.checkVisibility());\n\
    return all.find((one) => said(one) === words)\n\
    \x20   ?? all.find((one) => said(one).startsWith(words)) ?? null;";

/// Finds a field by its label.
const LABELLED: &str = "const all = [...document.querySelectorAll('main input, main select, main textarea')];\n\
    const words = (one) => one.ariaLabel ?? one.labels?.[0]?.innerText ?? '';\n\
    return all.find((one) => words(one).trim().startsWith(arguments[0])) ?? null;";

/// Finds an option by the label of its field and by its words.
const OPTION: &str = "const all = [...document.querySelectorAll('main select')];\n\
    const words = (one) => one.ariaLabel ?? one.labels?.[0]?.innerText ?? '';\n\
    const field = all.find((one) => words(one).trim().startsWith(arguments[0]));\n\
    return [...(field?.options ?? [])].find((one) => one.text.startsWith(arguments[1])) ?? null;";

impl Browser {
    /// Clicks the link, the button or the summary with these words.
    pub async fn press(&self, words: &str) {
        self.pick(PRESSED, &[json!(words), Value::Null]).await.click().await;
    }

    /// Clicks the one with these words in the row that has the words of `beside`.
    pub async fn press_beside(&self, beside: &str, words: &str) {
        self.pick(PRESSED, &[json!(words), json!(beside)]).await.click().await;
    }

    /// Types into the field with this label.
    pub async fn fill(&self, label: &str, text: &str) {
        self.pick(LABELLED, &[json!(label)]).await.send_keys(text).await;
    }

    /// Chooses what is in a field with this label.
    pub async fn choose(&self, label: &str, option: &str) {
        self.pick(OPTION, &[json!(label), json!(option)]).await.click().await;
    }

    /// Types words into the search box, and Enter.
    pub async fn search(&self, words: &str) {
        self.find("input[name=q]").await.send_keys(&format!("{words}\u{e007}")).await;
    }

    /// Waits until the page shows these words.
    pub async fn shows(&self, words: &str) {
        let shown = async || -> String {
            let text = self.run("return document.body?.innerText ?? ''", &[]).await;
            text.as_str().unwrap().to_owned()
        };
        let reached = async {
            while !shown().await.contains(words) {
                yield_now().await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            panic!("{words:?} is never on the page, which has: {}", shown().await);
        }
    }

    /// The text of an element, once it is there.
    pub async fn text_of(&self, selector: &str) -> String {
        self.find(selector).await;
        let text = "return document.querySelector(arguments[0]).innerText";
        self.run(text, &[json!(selector)]).await.as_str().unwrap().trim().to_owned()
    }
}
