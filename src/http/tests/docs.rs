//! The pages of `/docs`: each operation is on one of them, all links lead somewhere, only the two
//! files that a page loads run or style anything in it, and every text is escaped.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::openapi;
use crate::http::state::Pages;
use crate::http::table::OPERATIONS;
use crate::http::tests::House;
use crate::rules::Rules;

fn made(change: impl FnOnce(&mut Value)) -> Pages {
    let rules = Rules::defaults().unwrap().access;
    let mut document = openapi::document(&rules);
    change(&mut document);
    openapi::pages(&document)
}

/// The pages that are HTML, by the path that each is at.
fn texts(pages: &Pages) -> Vec<(String, String)> {
    let html = pages.iter().filter(|(_, (kind, _))| kind.starts_with("text/html"));
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
    let place = |name: &str| if name.is_empty() { String::new() } else { format!("/{name}") };
    html.map(|(name, (_, octets))| (format!("/docs{}", place(name)), text(octets))).collect()
}

/// Returns the text between each `<` and `>`.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).map(|rest| rest.split_once('>').expect("a tag ends").0)
}

#[test]
fn each_operation_is_on_one_page_with_a_place_of_its_own() {
    let pages = texts(&made(|_| {}));
    let (_, index) = pages.iter().find(|(place, _)| place == "/docs").unwrap();
    for operation in OPERATIONS {
        let id = format!("id=\"{}\"", operation.id);
        let places: Vec<&str> = pages
            .iter()
            .flat_map(|(place, text)| text.matches(&id).map(move |_| place.as_str()))
            .collect();
        let slug = operation.tag.as_str().to_lowercase().replace(' ', "-");
        assert_eq!(places, [format!("/docs/{slug}")], "{}", operation.name());
        assert!(index.contains(&format!("href=\"/docs/{slug}#{}\"", operation.id)));
    }
}

#[test]
fn a_search_finds_an_operation_by_the_fields_of_its_request_and_of_its_answer() {
    let pages = made(|_| {});
    let index = String::from_utf8(pages[""].1.to_vec()).unwrap();
    let words = index.split_once("data-words=\"createReseller ").unwrap().1;
    let words: BTreeSet<&str> = words.split_once('"').unwrap().0.split(' ').collect();
    for word in ["targetPartnerId", "Idempotency-Key", "resellerName", "accountType", "message"] {
        assert!(words.contains(word), "{word}: {words:?}");
    }
}

#[test]
fn all_links_lead_somewhere() {
    let files = made(|_| {});
    let pages = texts(&files);
    for (place, text) in &pages {
        for tag in tags(text) {
            let links = ["href=\"", "src=\""].iter().filter_map(|name| tag.split_once(*name));
            for link in links.map(|(_, rest)| rest.split_once('"').unwrap().0) {
                let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
                let to = if to.is_empty() { place } else { to };
                let page = pages.iter().find(|(place, _)| place == to);
                let file = to.strip_prefix("/docs/").is_some_and(|name| files.contains_key(name));
                assert!(page.is_some() || file || to == "/api/v2/openapi.json", "{place}: {link}");
                let id = format!("id=\"{anchor}\"");
                let there = page.is_some_and(|(_, text)| text.contains(&id));
                assert!(anchor.is_empty() || there, "{place}: {link} leads nowhere");
            }
        }
    }
}

/// Proves that a reader's browser sends no request to other hosts.
#[tokio::test]
async fn pages_load_a_style_and_a_script_from_here_and_nothing_else() {
    let house = House::new().await;
    let loads = [
        "link rel=\"stylesheet\" href=\"/docs/style.css\"",
        "script src=\"/docs/search.js\" defer",
    ];
    for (place, text) in texts(&made(|_| {})) {
        let page = house.send("GET", &place, None).await;
        assert_eq!((page.status, page.text()), (200, text.clone()), "{place}");
        page.carries_what_every_answer_carries();
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(
            page.headers["content-security-policy"],
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        for tag in tags(&text).filter(|tag| !loads.contains(tag)) {
            assert!(!tag.contains("javascript:"), "{place}: <{tag}>");
            // Within quotes all is text.
            let names: String = tag.split('"').step_by(2).collect();
            for part in ["link ", "script ", "style", "src=", "img", "form", "base", " on"] {
                assert!(!names.contains(part), "{place}: <{tag}>");
            }
        }
        assert_eq!(text.matches(" defer></script>").count(), text.matches("<script").count());
    }
    for (file, kind) in [("style.css", "text/css"), ("search.js", "text/javascript")] {
        let reply = house.send("GET", &format!("/docs/{file}"), None).await;
        assert_eq!(reply.headers["content-type"], format!("{kind}; charset=utf-8"));
        for part in ["url(", "@import", "http:", "https:", "innerHTML", "eval"] {
            assert!(!reply.text().contains(part), "{file}: {part}");
        }
    }
    for nothing in ["/docs/nothing", "/docs/%ff", "/docs/Accounts"] {
        let reply = house.send("GET", nothing, None).await;
        assert_eq!((reply.status, &reply.json()["code"]), (404, &json!("not_found")), "{nothing}");
    }
}

const HOSTILE: &str =
    "\"'`-->]]></pre></code><img src=x onerror=alert(1)><script>alert(1)</script>&lt;";

/// Appends markup to every text, except to names.
fn spoil(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, inner)| spoil(inner, name));
            if name == "properties" || name == "examples" {
                fields.insert(HOSTILE.to_owned(), json!({ "type": HOSTILE, "value": HOSTILE }));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|one| spoil(one, name)),
        Value::String(text) if !["$ref", "operationId", "in"].contains(&name) => *text += HOSTILE,
        _ => {}
    }
}

#[test]
fn every_text_is_escaped() {
    let kinds = |pages: &[(String, String)]| -> BTreeSet<String> {
        let all = pages.iter().flat_map(|(_, text)| tags(text));
        all.map(|tag| tag.split(' ').next().unwrap().to_owned()).collect()
    };
    let clean = texts(&made(|_| {}));
    let spoiled = texts(&made(|document| spoil(document, "")));
    assert_eq!(clean.len(), spoiled.len());
    assert_eq!(kinds(&spoiled), kinds(&clean));
    for (place, text) in &spoiled {
        assert!(text.contains("onerror"), "{place} shows none of it");
        for tag in tags(text) {
            // Within quotes all is text.
            let outside: String = tag.split('"').step_by(2).collect();
            assert!(!outside.contains("onerror") && !outside.contains('\''), "{place}: <{tag}>");
        }
    }
}
