//! Renders the description as pages for people under `/docs`: one per tag, and one each for the
//! start, events, errors and shapes. Templates are in `src/http/templates`. A page loads only a
//! style and a script, both from here.

use std::collections::BTreeSet;

use askama::Template;
use axum::body::Bytes;
use serde_json::{Map, Value};
use url::form_urlencoded::byte_serialize;

use crate::app::access::identity::Level;
use crate::http::error::Code;
use crate::http::openapi::events::HEADERS;
use crate::http::openapi::fields::{
    Row, fields, items, kinds, names, parameter, resolved, rows, text,
};
use crate::http::openapi::problems::{self, ANY};
use crate::http::operation::{BASE, Operation};
use crate::http::state::Pages;
use crate::http::table::OPERATIONS;
use crate::http::tag::Tag;
use crate::http::typed::schema::{self, shown};

/// All pages, with their style and script.
pub(in crate::http) fn pages(document: &Value) -> Pages {
    let areas = areas_of(document);
    let page = |name: &str, body| (name.to_owned(), Page { document, areas: &areas, body }.html());
    let own = [
        page("", Body::Start),
        page("events", Body::Events),
        page("errors", Body::Errors),
        page("shapes", Body::Shapes),
    ];
    let of_areas = areas.iter().map(|area| page(&area.slug, Body::Area(area)));
    let files = [
        ("style.css", "text/css; charset=utf-8", include_str!("../templates/style.css")),
        (
            "search.js",
            "text/javascript; charset=utf-8",
            include_str!("../templates/docs/search.js"),
        ),
    ];
    let files = files.map(|(name, kind, text)| (name.to_owned(), (kind, text.into())));
    own.into_iter().chain(of_areas).chain(files).collect()
}

#[derive(Template)]
#[template(path = "docs/page.html", config = "src/http/templates/askama.toml")]
struct Page<'d> {
    document: &'d Value,
    areas: &'d [Area<'d>],
    body: Body<'d>,
}

enum Body<'d> {
    Start,
    Area(&'d Area<'d>),
    Events,
    Errors,
    Shapes,
}

/// The operations of a tag.
struct Area<'d> {
    tag: Tag,
    slug: String,
    operations: Vec<OperationView<'d>>,
}

struct OperationView<'d> {
    row: &'static Operation,
    /// The operation in the document.
    place: &'d Value,
    path: &'d str,
    parameters: Vec<Row<'d>>,
    /// Errors specific to this operation.
    codes: Vec<Code>,
    /// An example target: the path below the base, and the query after the key.
    target: (String, String),
}

impl Page<'_> {
    fn html(&self) -> (&'static str, Bytes) {
        // Writing to a String does not fail.
        ("text/html; charset=utf-8", self.render().unwrap_or_default().into())
    }

    fn title(&self) -> &'static str {
        match self.body {
            Body::Start => "Introduction",
            Body::Area(area) => area.tag.as_str(),
            Body::Events => "Events",
            Body::Errors => "Errors",
            Body::Shapes => "Shapes",
        }
    }
}

fn areas_of(document: &Value) -> Vec<Area<'_>> {
    let shown = |row: &'static Operation| {
        let (path, place) = fields(document, "/paths")
            .flat_map(|(path, verbs)| fields(verbs, "").map(move |(_, place)| (path, place)))
            .find(|(_, place)| text(place, "/operationId") == row.id)?;
        Some(OperationView::of(document, row, path, place))
    };
    let area = |tag: &Tag| {
        let operations = OPERATIONS.iter().filter(|row| row.tag == *tag).filter_map(shown);
        let slug = tag.as_str().to_lowercase().replace(' ', "-");
        Area { tag: *tag, slug, operations: operations.collect() }
    };
    Tag::ALL.iter().map(area).filter(|area| !area.operations.is_empty()).collect()
}

impl<'d> OperationView<'d> {
    fn of(document: &'d Value, row: &'static Operation, path: &'d str, place: &'d Value) -> Self {
        let mut codes = problems::codes(row);
        codes.retain(|code| !ANY.contains(code));
        let mut target = (path.to_owned(), String::new());
        let mut parameters = Vec::new();
        for one in items(place, "parameters").map(|one| resolved(document, one)) {
            let row = parameter(one);
            let schema = one.get("schema").unwrap_or(&Value::Null);
            let example = shown(&schema::example(schema, &Map::new()));
            let example = byte_serialize(example.as_bytes()).collect::<String>();
            match text(one, "/in") {
                "path" => target.0 = target.0.replace(&format!("{{{}}}", row.name), &example),
                _ if row.is_required => target.1 += &format!("&{}={example}", row.name),
                _ => {}
            }
            parameters.push(row);
        }
        Self { row, place, path, parameters, codes, target }
    }

    /// The request body in the document.
    fn body(&self) -> Option<&'d Value> {
        self.place.pointer("/requestBody/content/application~1json")
    }

    /// An example body; None if it would be empty, because an empty body need not be sent.
    fn sent(&self) -> Option<&'d Value> {
        self.body()?.get("example").filter(|sent| **sent != Value::Object(Map::new()))
    }

    /// Whether an answer is JSON.
    fn is_json(&self) -> bool {
        let mut answers = fields(self.place, "/responses").map(|(_, answer)| answer);
        answers.any(|answer| answer.pointer("/content/application~1json").is_some())
    }

    /// The rights that the operation needs, in words.
    fn needs(&self) -> Vec<String> {
        let need = &self.row.need;
        let mut needs = vec![match need.scope {
            Level::Agent => "any key".to_owned(),
            scope => format!("a key of {} or above", scope.account_type()),
        }];
        needs.push(format!("acts on {}", need.target.words()));
        let more = [
            (need.administrators, "members: administrators only"),
            (need.unrestricted, "not for members restricted to some Agents"),
            (self.row.linked.is_some(), "or a signed link instead of a key"),
        ];
        needs.extend(more.iter().filter(|(holds, _)| *holds).map(|(_, words)| (*words).to_owned()));
        needs.extend(need.feature.map(|feature| format!("feature {}", feature.as_str())));
        needs
    }

    /// Names of fields and parameters, for the search.
    fn words(&self, document: &Value) -> String {
        let answers = fields(self.place, "/responses").flat_map(|(_, one)| fields(one, "/content"));
        let contents = answers.map(|(_, content)| content).chain(self.body());
        let schemas = contents.filter_map(|content| content.get("schema"));
        let mut all: BTreeSet<&str> = schemas.flat_map(|schema| names(document, schema)).collect();
        all.extend(self.parameters.iter().map(|row| row.name.as_str()));
        all.into_iter().collect::<Vec<_>>().join(" ")
    }
}

fn example(document: &Value, schema: &Value) -> Value {
    let none = Map::new();
    let shapes = document.pointer("/components/schemas").and_then(Value::as_object);
    schema::example(schema, shapes.unwrap_or(&none))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A word of a POSIX shell.
fn quoted(value: &Value) -> String {
    format!("'{}'", pretty(value).replace('\'', r"'\''"))
}

/// A Python literal: JSON, one value per line, with three words replaced.
fn python(value: &Value) -> String {
    let line = |line: &str| {
        let (text, comma) = line.strip_suffix(',').map_or((line, ""), |text| (text, ","));
        let words = [("true", "True"), ("false", "False"), ("null", "None")];
        let found = words.iter().find_map(|(json, word)| Some((text.strip_suffix(json)?, word)));
        found.map_or_else(|| line.to_owned(), |(before, word)| format!("{before}{word}{comma}"))
    };
    pretty(value).lines().map(line).collect::<Vec<_>>().join("\n")
}
