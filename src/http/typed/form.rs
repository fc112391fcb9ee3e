//! The form of an operation, derived from its request type: where each field is sent, how it is
//! checked, and how it is described.

use std::fmt;
use std::sync::Arc;

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserializer;
use serde::de::value::Error as Unread;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde_json::{Map, Value};

use crate::domain::fault::{Fault, join};
use crate::egress::guard::UrlError;
use crate::http::error::Problem;
use crate::http::request::body::BodyRule;
use crate::http::request::call::Call;
use crate::http::request::query::FILTERS;
use crate::http::request::target::TARGET;
use crate::http::typed::answers::Answers;
use crate::http::typed::bounds::Bounds;
use crate::http::typed::check::Check;
use crate::http::typed::description::Description;
use crate::http::typed::schema::{self, Fields, fields_of, shown};
use crate::http::verb::{Verb, names};
use crate::wire::mark;
use crate::wire::tidy::{plain, published, tidy};

/// A request type. The first line of its documentation is the operation's summary, the rest the
/// description. A field named in the path stands there. Others stand in the query of a GET, in the
/// body of a POST or PUT, and in either for a DELETE, which has no body without such a field.
/// `x-place` overrides this. `minProperties` of the struct requires a body even if no field is
/// required; 0 on a DELETE without fields allows one.
pub trait Request: DeserializeOwned + JsonSchema {}

impl<R: DeserializeOwned + JsonSchema> Request for R {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldPlace {
    Path,
    Query,
    Body,
    Either,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    place: FieldPlace,
    is_required: bool,
    schema: Value,
}

/// The form of one operation; made once, with texts that live as long as the process.
#[derive(Debug)]
pub struct Form {
    fields: Vec<Field>,
    description: Description,
    /// Named shapes of the request; `answer_shapes` has those of the answers.
    request_shapes: Map<String, Value>,
    one_of: Vec<String>,
    answer_shapes: Map<String, Value>,
    /// The names of query parameters, beside `token` and the target.
    pub query: &'static [&'static str],
    /// The fields of the body, beside the target.
    pub body: BodyRule,
}

impl Form {
    /// The form of the operation with this verb and path.
    pub(super) fn of<R: Request, A: Answers>(verb: Verb, path: &'static str) -> Self {
        let mut generator = generator(Contract::Deserialize);
        let mut request = R::json_schema(&mut generator).to_value();
        tidy(&mut request, true);
        let mut request_shapes = generator.take_definitions(true);
        request_shapes.values_mut().for_each(|shape| tidy(shape, true));
        let mut generator = self::generator(Contract::Serialize);
        let answers = A::described(&mut generator);
        let mut answer_shapes = generator.take_definitions(true);
        answer_shapes.values_mut().for_each(|shape| tidy(shape, false));
        let (named, about) = fields_of(&request, names_of::<R>());
        let fields: Vec<_> =
            named.into_iter().map(|(name, schema)| field(verb, path, name, schema)).collect();
        let in_body = |field: &&Field| matches!(field.place, FieldPlace::Body | FieldPlace::Either);
        let names: &'static [&'static str] =
            fields.iter().filter(in_body).map(|field| field.name).collect::<Vec<_>>().leak();
        let least = request.get("minProperties").and_then(Value::as_u64);
        let needs_body = least.is_some_and(|least| least > 0 || verb != Verb::Delete)
            || fields.iter().any(|field| field.is_required && field.place == FieldPlace::Body);
        let body = match verb {
            Verb::Get => BodyRule::None,
            Verb::Delete if names.is_empty() && least.is_none() => BodyRule::None,
            _ if request.get(mark::MESSAGE).is_some() => BodyRule::WithMessage(names),
            _ if needs_body => BodyRule::Required(names),
            _ => BodyRule::Optional(names),
        };
        let in_query =
            |field: &&Field| matches!(field.place, FieldPlace::Query | FieldPlace::Either);
        let query =
            fields.iter().filter(in_query).map(|field| field.name).collect::<Vec<_>>().leak();
        let (summary, about) = about.split_once("\n\n").unwrap_or((&about, ""));
        let leak = |text: &str| &*plain(text).leak();
        let described = |in_place: &[FieldPlace]| {
            let fields = fields.iter().filter(|field| in_place.contains(&field.place));
            fields.map(|field| field.described(in_place)).collect::<Fields>()
        };
        let description = Description {
            summary: leak(summary),
            about: leak(about),
            path_names: described(&[FieldPlace::Path]),
            query: described(&[FieldPlace::Query, FieldPlace::Either]),
            headers: A::request_headers(),
            body: (body != BodyRule::None)
                .then(|| described(&[FieldPlace::Body, FieldPlace::Either])),
            sent: request.pointer("/examples/0").cloned(),
            answers,
        };
        let one_of =
            request.get(mark::ONE_OF).cloned().and_then(|names| serde_json::from_value(names).ok());
        let one_of = one_of.unwrap_or_default();
        Self { fields, description, request_shapes, one_of, answer_shapes, query, body }
    }

    /// Reads the request. Fails with all its mistakes, or with 404 for an id that cannot exist.
    pub(super) fn read<R: Request>(&self, call: &mut Call) -> Result<R, Problem> {
        let http = Arc::clone(&call.http);
        let mut check = Check::new(&self.request_shapes, &http.bounds);
        let mut given = Map::new();
        for field in &self.fields {
            match field.value(call, self) {
                Ok(Some(value)) => {
                    let noun = field.schema.get(mark::NOUN).and_then(Value::as_str);
                    if let Some(noun) = noun.filter(|_| !check.is_of(&field.schema, &value)) {
                        return Err(Problem::not_found(noun));
                    }
                    check.value(&field.schema, &value, &join("", field.name));
                    given.insert(field.name.to_owned(), value);
                }
                Ok(None) if field.is_required => check.missing(&field.schema, "", field.name),
                Ok(None) => {}
                Err(fault) => check.faults.push(fault),
            }
        }
        if !self.one_of.is_empty() {
            let names: Vec<_> = self.one_of.iter().map(String::as_str).collect();
            check.one_of(&names, &given);
        }
        if !check.faults.is_empty() {
            return Err(Problem::mistaken(check.faults));
        }
        serde_json::from_value(Value::Object(given)).map_err(Problem::invalid)
    }

    /// The description, with the numbers of these rules.
    pub(in crate::http) fn description(&self, bounds: &Bounds) -> Description {
        let mut description = self.description.clone();
        let body = description.body.iter_mut().flatten();
        body.chain(&mut description.query).for_each(|(_, schema)| bounds.fill(schema));
        description
    }

    /// Named shapes of request and answers.
    pub(in crate::http) fn shapes(&self, bounds: &Bounds) -> impl Iterator<Item = (String, Value)> {
        let all = self.request_shapes.iter().chain(&self.answer_shapes);
        all.map(|(name, shape)| {
            let mut shape = published(shape.clone());
            bounds.fill(&mut shape);
            (name.clone(), shape)
        })
    }
}

/// 400: a field (`emails`, `emails/2`) has a mistake that its type cannot know. `detail` follows
/// the name of the field.
pub(in crate::http) fn wrong(name: &str, detail: impl Into<String>) -> Problem {
    Problem::mistaken(vec![Fault { pointer: format!("/{name}"), detail: detail.into() }])
}

/// 400: a field is refused for a reason.
pub(in crate::http) fn refused(name: &str, why: &impl fmt::Display) -> Problem {
    wrong(name, format!("is refused: {why}"))
}

/// 400: the URL in this field leads to a forbidden destination.
pub(in crate::http) fn refused_url(name: &str, error: &UrlError) -> Problem {
    refused(
        name,
        &format!(
            "{error}; send the https:// URL of a public host, or ask the operator of this gateway to allow a \
             private network"
        ),
    )
}

impl Field {
    /// Returns the value of this field. Filters get all parameters that the form does not know. A
    /// large body with a message gives its values away instead of copying them.
    fn value(&self, call: &mut Call, form: &Form) -> Result<Option<Value>, Fault> {
        let is_large = matches!(form.body, BodyRule::WithMessage(_));
        let text = |text: &str| of_text(&self.schema, text);
        match self.place {
            FieldPlace::Path => Ok(Some(text(call.path(self.name)))),
            FieldPlace::Query if self.name == FILTERS => {
                let is_other =
                    |name: &str| name != TARGET && (name == FILTERS || !form.query.contains(&name));
                let others = call.query.pairs().filter(|(name, _)| is_other(name));
                let others = others.map(|(name, text)| (name.to_owned(), text.into()));
                Ok(Some(Value::Object(others.collect())))
            }
            FieldPlace::Query => Ok(call.query.get(self.name).map(text)),
            FieldPlace::Body if is_large => Ok(call.body.take(self.name)),
            FieldPlace::Body => Ok(call.body.get(self.name).cloned()),
            FieldPlace::Either => {
                match (call.query.get(self.name).map(text), call.body.get(self.name).cloned()) {
                    // An id is equal as a number and as text.
                    (Some(one), Some(other)) if shown(&one) != shown(&other) => Err(Fault {
                        pointer: join("", self.name),
                        detail: "differs between query and body: send it once".to_owned(),
                    }),
                    (one, other) => Ok(one.or(other)),
                }
            }
        }
    }

    fn described(&self, places: &[FieldPlace]) -> (&'static str, Value) {
        let in_body = places.contains(&FieldPlace::Body);
        let about = self.schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let described = match self.schema.get(mark::KIND).and_then(Value::as_str) {
            Some(mark::MOMENT) if in_body && self.schema.get(mark::NULL).is_some() => {
                schema::or_null(schema::moment_given(about))
            }
            Some(mark::MOMENT) if in_body => schema::moment_given(about),
            Some(mark::MOMENT) => schema::moment(about),
            Some(mark::USER_ID) if !in_body => schema::id_text(about),
            _ => published(self.schema.clone()),
        };
        // A field that may stand in either place is optional in each.
        let is_marked =
            self.place == FieldPlace::Either || !self.is_required && self.place != FieldPlace::Path;
        (if is_marked { format!("{}?", self.name).leak() } else { self.name }, described)
    }
}

fn field(verb: Verb, path: &str, name: &'static str, schema: Value) -> Field {
    let plain = schema::plain(name);
    let place = match verb {
        _ if names(path).any(|one| one == plain) => FieldPlace::Path,
        _ if schema.get(mark::PLACE).is_some_and(|place| place == "body") => FieldPlace::Body,
        Verb::Get => FieldPlace::Query,
        Verb::Post | Verb::Put => FieldPlace::Body,
        Verb::Delete => FieldPlace::Either,
    };
    Field { name: plain, place, is_required: plain == name, schema }
}

/// Converts text of a query or a path to the type of its schema.
fn of_text(schema: &Value, text: &str) -> Value {
    let number = || text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => number().map(Value::from),
        Some("boolean") => text.parse::<bool>().ok().map(Value::from),
        _ => None,
    }
    .unwrap_or_else(|| text.into())
}

pub(super) fn generator(contract: Contract) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.contract = contract;
    settings.into_generator()
}

/// The named shape of this type, and those that it refers to.
pub(in crate::http) fn shapes_of<T: JsonSchema>() -> Map<String, Value> {
    let mut generator = generator(Contract::Serialize);
    generator.subschema_for::<T>();
    let mut shapes = generator.take_definitions(true);
    shapes.values_mut().for_each(|shape| tidy(shape, false));
    shapes.into_iter().map(|(name, shape)| (name, published(shape))).collect()
}

/// The field names of a struct, in the order of declaration.
pub(super) fn names_of<R: DeserializeOwned>() -> &'static [&'static str] {
    struct Names<'n>(&'n mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = Unread;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unread> {
            Err(Unread::custom("only its names are asked for"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            names: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Unread> {
            *self.0 = names;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    // Always an error. A struct without fields has no names.
    let _unread = R::deserialize(Names(&mut names));
    names
}
