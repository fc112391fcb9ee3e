//! Conversation Logs: the log as a table, and metrics over it.

use serde_json::{Map, Value, json};

use super::super::description::Description;
use super::super::schema::{
    Fields, anything, count, date, flag, like, list, moment, moment_given, number, object, one_of,
    or_null, reference, seconds, text, texts, with, within, word,
};
use super::super::verb::Verb::{Get, Post};
use crate::domain::log_field::{Kind, LogField, Op};
use crate::domain::metric::{Aggregation, Grouping, Interval};
use crate::rules::AccessRules;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    vec![log(rules), series()]
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    vec![("LogRow", row()), ("MetricDefinition", definition()), ("MetricBucket", bucket())]
}

/// A row has the fields that were asked for.
fn row() -> Value {
    let schema = |field: &LogField| {
        let kind = match field.kind() {
            Kind::Integer => json!(["integer", "null"]),
            Kind::Real => json!(["number", "null"]),
            Kind::Text | Kind::Id | Kind::Time => json!(["string", "null"]),
            Kind::Unfilled => json!("null"),
        };
        json!({ "type": kind, "description": field.about() })
    };
    let properties: Map<String, Value> =
        LogField::ALL.iter().map(|field| (field.name().to_owned(), schema(field))).collect();
    json!({
        "type": "object", "properties": properties,
        "description": "A row, with the fields that were asked for.",
    })
}

fn log(rules: &AccessRules) -> Description {
    let rules = &rules.logs;
    let truth = |about: &str| one_of(about, &["true", "false"]);
    let names: Vec<&str> = LogField::ALL.iter().map(|field| field.name()).collect();
    let fields = format!("Names with commas between them: {}.", names.join(", "));
    let filters = json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "description": format!(
            "Filters, each a parameter of its own: field=value, or field__op=value with one of {} \
             behind the field's name. At most {}.",
            Op::ALL.iter().map(|op| op.as_str()).collect::<Vec<_>>().join(", "), rules.max_filters
        ),
        "examples": [{ "outcome": "refused" }],
    });
    let about_page = vec![
        ("page", count("Its number, from 1.")),
        ("pageSize", count("How many are on a page.")),
        ("totalPages", count("How many pages there are.")),
        ("pageCount", count("The same.")),
        ("totalCount", count("How many rows match.")),
        ("hasMore", flag("Whether there is another page.")),
    ];
    let field = object(
        "A field.",
        vec![
            ("name", like(text("Its name."), "outcome")),
            ("type", like(text("What its values are."), "string")),
            ("listed", flag("Whether it is shown where no fields are asked for.")),
            ("description", text("What it says.")),
            ("operators", texts("How a filter may compare it.")),
        ],
    );
    Description::of(Get, "/logs", "Shows the conversation log")
        .about("The newest first; as JSON page by page, or as a table.")
        .query(vec![
            ("start?", moment("Only from then on.")),
            ("end?", moment("Only before.")),
            ("fields?", like(text(&fields), "date,outcome,reason")),
            ("includeFields?", truth("Whether the fields are explained.")),
            ("format?", one_of("csv is a table of all rows.", &["json", "csv"])),
            ("page?", within("Its number, from 1.", 1..=u32::MAX.into())),
            ("pageSize?", within("How many are on a page.", 1..=rules.max_page.into())),
            // `query::FILTERS`.
            ("field__op?", filters),
        ])
        .answer(
            200,
            "logs found",
            vec![
                ("count", count("How many are on this page.")),
                ("logs", list("The newest first.", reference("LogRow"))),
                ("totalCount", count("How many rows match.")),
                ("totalCountIsLowerBound", flag("Whether older rows were not looked at.")),
                ("pagination", object("Where the page lies.", about_page)),
                ("schema?", texts("The names of all fields.")),
                ("fields?", list("All of them, explained.", field)),
            ],
        )
        .or_as("text/csv")
}

fn definition() -> Value {
    let compared = vec![
        ("name?", or_null(text("Its name."))),
        ("title?", or_null(text("What it is called."))),
        ("filters?", or_null(anything("{field: {op, value}}, or a list of such."))),
        (
            "formula?",
            json!({ "type": ["string", "number", "null"], "description": "What is calculated of each row." }),
        ),
        ("fieldTypes?", or_null(anything("The types of fields, as v2 has them."))),
        (
            "aggregation?",
            or_null(word("How many values become one.", Aggregation::ALL, Aggregation::as_str)),
        ),
        ("scale?", or_null(number("What the result is multiplied by."))),
        ("format?", or_null(text("How it is shown; kept."))),
        ("precision?", or_null(within("How many digits behind the point.", 0..=10))),
        ("dateFilter?", or_null(one_of("By which moment.", &["timestamp", "date"]))),
        ("minimumSampleSize?", or_null(count("Fewer rows are no result."))),
    ];
    let definition = object("A metric.", compared);
    with(
        definition,
        "examples",
        json!([{ "name": "refused", "filters": { "outcome": { "op": "eq", "value": "refused" } } }]),
    )
}

fn point() -> Fields {
    vec![
        ("value", or_null(number("The result; null where there is none."))),
        ("eventCount", count("How many rows it rests on.")),
        ("belowMinimumSample", flag("Whether those are too few.")),
    ]
}

fn bucket() -> Value {
    let place = vec![("start", date("When it begins.")), ("timestamp", seconds("The same."))];
    object("A metric over a part of the time.", [point(), place].concat())
}

fn series() -> Description {
    let buckets = || list("Part by part.", reference("MetricBucket"));
    let metric = |about: &str| {
        json!({ "anyOf": [{ "type": "string" }, reference("MetricDefinition")],
                "description": about, "examples": ["refused"] })
    };
    let group = vec![
        (
            "key",
            json!({ "type": ["string", "integer", "null"], "description": "What the group has in common." }),
        ),
        ("series", buckets()),
    ];
    let groups = list("Group by group.", object("A group.", [point(), group].concat()));
    let grouping = |about| word(about, Grouping::ALL, Grouping::as_str);
    let interval = |about| word(about, Interval::ALL, Interval::as_str);
    let shown = vec![
        ("metric", anything("The definition as it came, with what it left open.")),
        ("start", seconds("From when on.")),
        ("end", seconds("Until when.")),
        ("interval", interval("How long a part is.")),
        ("series", buckets()),
        ("groups?", groups),
        ("groupBy?", grouping("What the groups have in common.")),
    ];
    Description::of(Post, "/logs/timeSeries", "Calculates a metric over the conversation log")
        .about("Send metric or definition.")
        .body(vec![
            ("metric?", metric("A metric by name, or a definition.")),
            ("definition?", metric("The same.")),
            ("start", moment_given("From when on.")),
            ("end", moment_given("Until when.")),
            ("interval?", interval("How long a part is; without it a day.")),
            ("groupBy?", grouping("What rows are told apart by.")),
        ])
        .sent(json!({ "metric": "refused", "start": "2026-11-01", "end": "2026-11-20" }))
        .answer(200, "metric calculated", [point(), shown].concat())
}
