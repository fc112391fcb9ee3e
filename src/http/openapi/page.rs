//! The description as a page to read: `/docs`, made from the document, in one piece. It loads
//! nothing and runs nothing, so its policy allows nothing but its own style.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

const STYLE: &str = include_str!("page.css");

/// What the page may do: be styled by what is written in it.
pub(super) fn policy() -> String {
    let digest = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// The page that shows this document.
pub(super) fn page(document: &Value) -> String {
    let mut page = String::with_capacity(1 << 20);
    let title = text(document, "/info/title");
    let version = text(document, "/info/version");
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    put(&mut page, &[("title", &format!("{title} API {version}"))]);
    page.push_str("<style>");
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n<header>\n");
    put(&mut page, &[("h1", &format!("{title} API {version}"))]);
    put(&mut page, &[("p", text(document, "/info/description"))]);
    page.push_str(
        "<p>For programs: <a href=\"/api/v2/openapi.json\">openapi.json</a></p>\n</header>\n",
    );
    contents(&mut page, document);
    page.push_str("<main>\n");
    for tag in tags(document) {
        let operations = operations(document, text(tag, "/name"));
        if operations.is_empty() {
            continue;
        }
        let name = text(tag, "/name");
        let _ = writeln!(page, "<section id=\"{}\">", anchor(name));
        put(&mut page, &[("h2", name), ("p", text(tag, "/description"))]);
        for (path, verb, operation) in operations {
            one(&mut page, document, (path, verb), operation);
        }
        page.push_str("</section>\n");
    }
    events(&mut page, document);
    errors(&mut page, document);
    shapes(&mut page, document);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn tags(document: &Value) -> impl Iterator<Item = &Value> {
    document.get("tags").and_then(Value::as_array).into_iter().flatten()
}

fn fields<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// All of a tag, with path and verb.
fn operations<'d>(document: &'d Value, tag: &str) -> Vec<(&'d str, &'d str, &'d Value)> {
    let all = fields(document, "/paths").flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(verb, operation)| (path.as_str(), verb.as_str(), operation))
    });
    all.filter(|(_, _, operation)| text(operation, "/tags/0") == tag).collect()
}

fn contents(page: &mut String, document: &Value) {
    page.push_str("<nav>\n<ul>\n");
    for tag in tags(document) {
        let name = text(tag, "/name");
        let operations = operations(document, name);
        if operations.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<li><a href=\"#{}\">{}</a>\n<ul>", anchor(name), escaped(name));
        for (path, verb, operation) in operations {
            let id = escaped(text(operation, "/operationId"));
            let (verb, path) = (verb.to_ascii_uppercase(), escaped(path));
            let _ = writeln!(page, "<li><a href=\"#{id}\"><b>{verb}</b> {path}</a></li>");
        }
        page.push_str("</ul></li>\n");
    }
    for (place, name) in [("events", "Events"), ("errors", "Errors"), ("shapes", "Shapes")] {
        let _ = writeln!(page, "<li><a href=\"#{place}\">{name}</a></li>");
    }
    page.push_str("</ul>\n</nav>\n");
}

fn one(page: &mut String, document: &Value, (path, verb): (&str, &str), operation: &Value) {
    let id = escaped(text(operation, "/operationId"));
    let (shown, path) = (verb.to_ascii_uppercase(), escaped(path));
    let _ = writeln!(
        page,
        "<article id=\"{id}\">\n<h3><b class=\"{verb}\">{shown}</b> <code>{path}</code></h3>"
    );
    put(page, &[("p", text(operation, "/summary")), ("p", text(operation, "/description"))]);
    if operation.pointer("/security/1").is_some() {
        put(page, &[("p", "With a key, or with a signed link and no key.")]);
    }
    let parameters = operation.get("parameters").and_then(Value::as_array);
    if let Some(parameters) = parameters.filter(|list| !list.is_empty()) {
        page.push_str("<table>\n<tr><th>parameter</th><th>type</th><th></th></tr>\n");
        for one in parameters {
            let shared =
                one.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
            let one = shared.and_then(|to| document.pointer(to)).unwrap_or(one);
            let schema = one.get("schema").unwrap_or(&Value::Null);
            let must = one.get("required") == Some(&Value::Bool(true));
            let name = format!("{} ({})", text(one, "/name"), text(one, "/in"));
            row(page, (&name, must), schema, text(one, "/description"));
        }
        page.push_str("</table>\n");
    }
    if let Some(content) = operation.pointer("/requestBody/content/application~1json") {
        put(page, &[("h4", "Body")]);
        schema(page, content.get("schema").unwrap_or(&Value::Null));
        example(page, content.get("example"));
    }
    answers(page, operation);
    page.push_str("</article>\n");
}

fn answers(page: &mut String, operation: &Value) {
    let mut refused = Vec::new();
    for (status, answer) in fields(operation, "/responses") {
        if answer.get("$ref").is_some() {
            refused.push(format!("<a href=\"#error-{status}\">{status}</a>"));
            continue;
        }
        let heading = format!("{status}: {}", text(answer, "/description"));
        put(page, &[("h4", &heading)]);
        for (kind, content) in fields(answer, "/content") {
            match content.get("schema") {
                Some(shape) => schema(page, shape),
                None => put(page, &[("p", kind)]),
            }
            example(page, content.get("example"));
        }
    }
    let _ = writeln!(page, "<p>Errors: {}</p>", refused.join(", "));
}

fn example(page: &mut String, example: Option<&Value>) {
    let Some(example) = example.filter(|value| !value.is_null()) else { return };
    let text = serde_json::to_string_pretty(example).unwrap_or_default();
    let _ = writeln!(
        page,
        "<details><summary>Example</summary><pre>{}</pre></details>",
        escaped(&text)
    );
}

fn events(page: &mut String, document: &Value) {
    page.push_str("<section id=\"events\">\n");
    let about =
        "What is sent to webhooks, signed by Standard Webhooks 1.0, and shown by GET /events.";
    put(page, &[("h2", "Events"), ("p", about)]);
    for (name, event) in fields(document, "/webhooks") {
        let _ = writeln!(page, "<article id=\"event-{}\">", escaped(name));
        put(page, &[("h3", name), ("p", text(event, "/post/summary"))]);
        put(page, &[("p", text(event, "/post/description"))]);
        let content = event.pointer("/post/requestBody/content/application~1json");
        schema(page, content.and_then(|content| content.get("schema")).unwrap_or(&Value::Null));
        example(page, content.and_then(|content| content.get("example")));
        page.push_str("</article>\n");
    }
    page.push_str("</section>\n");
}

fn errors(page: &mut String, document: &Value) {
    page.push_str("<section id=\"errors\">\n");
    put(page, &[("h2", "Errors"), ("p", "All are application/problem+json.")]);
    for (status, answer) in fields(document, "/components/responses") {
        let _ = writeln!(page, "<article id=\"error-{status}\">\n<h3>{status}</h3>");
        for (code, one) in fields(answer, "/content/application~1problem+json/examples") {
            put(page, &[("h4", code), ("p", text(one, "/summary"))]);
            example(page, one.get("value"));
        }
        page.push_str("</article>\n");
    }
    page.push_str("</section>\n");
}

fn shapes(page: &mut String, document: &Value) {
    page.push_str("<section id=\"shapes\">\n");
    put(page, &[("h2", "Shapes")]);
    for (name, shape) in fields(document, "/components/schemas") {
        let _ = writeln!(page, "<article id=\"shape-{}\">", escaped(name));
        put(page, &[("h3", name), ("p", text(shape, "/description"))]);
        schema(page, shape);
        page.push_str("</article>\n");
    }
    page.push_str("</section>\n");
}

/// The fields of an object, one a row, with those of the objects in it.
fn schema(page: &mut String, schema: &Value) {
    if schema.get("properties").is_none() {
        let _ = writeln!(page, "<p>{}</p>", kind(schema));
        return;
    }
    page.push_str("<table>\n<tr><th>field</th><th>type</th><th></th></tr>\n");
    rows(page, "", schema);
    page.push_str("</table>\n");
}

fn rows(page: &mut String, prefix: &str, schema: &Value) {
    let required = schema.get("required").and_then(Value::as_array);
    for (name, field) in fields(schema, "/properties") {
        let must = required.is_some_and(|names| names.iter().any(|one| one == name.as_str()));
        let path = format!("{prefix}{name}");
        row(page, (&path, must), field, text(field, "/description"));
        rows(page, &format!("{path}."), field);
        if let Some(items) = field.get("items") {
            rows(page, &format!("{path}[]."), items);
        }
    }
}

fn row(page: &mut String, (name, must): (&str, bool), schema: &Value, about: &str) {
    let must = if must { "" } else { " <i>optional</i>" };
    let (name, kind, about) = (escaped(name), kind(schema), escaped(about));
    let _ = writeln!(
        page,
        "<tr><td><code>{name}</code>{must}</td><td>{kind}</td><td>{about}</td></tr>"
    );
}

/// Of what kind a value is, in a few words; a shape by its name, with a link.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let list = |name: &str| schema.get(name).and_then(Value::as_array);
    if let Some(words) = list("enum") {
        return escaped(&words.iter().map(shown).collect::<Vec<_>>().join(", "));
    }
    if let Some(only) = schema.get("const") {
        return escaped(&shown(only));
    }
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().map(shown).collect::<Vec<_>>().join(" or "),
        Some(kind) => shown(kind),
        None => "anything".to_owned(),
    };
    let mut kinds = escaped(&kinds);
    if let Some(items) = schema.get("items") {
        kinds = format!("{kinds} of {}", kind(items));
    }
    let bound = |name: &str| schema.get(name).map(shown);
    if let (Some(least), Some(most)) = (bound("minimum"), bound("maximum")) {
        let _ = write!(kinds, " {least}…{most}");
    }
    if let Some(pattern) = bound("pattern") {
        let _ = write!(kinds, " <code>{}</code>", escaped(&pattern));
    }
    kinds
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn anchor(name: &str) -> String {
    escaped(&name.replace(' ', "-"))
}

/// Elements with these texts; without a text there is none.
fn put(page: &mut String, elements: &[(&str, &str)]) {
    for (element, text) in elements.iter().filter(|(_, text)| !text.is_empty()) {
        let _ = writeln!(page, "<{element}>{}</{element}>", escaped(text));
    }
}

fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '"' => plain.push_str("&quot;"),
            other => plain.push(other),
        }
    }
    plain
}
