//! Reads a body strictly: one JSON object of known fields, each once.

use std::fmt;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use tokio::time::timeout;

use crate::domain::fault::{Fault, join};
use crate::domain::id::KeyId;
use crate::http::error::{Code, Problem};
use crate::http::limits::turns::TurnPlace;
use crate::http::request::octets::{BodyBounds, BodyError, read_whole};
use crate::http::request::query::quoted;
use crate::http::state::Http;

/// Larger bodies are parsed on a thread where they delay no other request.
const LARGE: usize = 256 * 1024;

/// Most mistakes listed in one response.
pub(in crate::http) const LISTED: usize = 20;

/// The body of an operation; names of the target are always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    None,
    /// An object of these fields, or nothing.
    Optional(&'static [&'static str]),
    /// An object of these fields.
    Required(&'static [&'static str]),
    /// An object of these fields, one of which may be a whole message.
    WithMessage(&'static [&'static str]),
}

impl BodyRule {
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Optional(names) | Self::Required(names) | Self::WithMessage(names) => names,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Fields {
    fields: Map<String, Value>,
    /// The place of a large body; freed with the fields unless it is taken.
    pub(in crate::http) place: Option<TurnPlace>,
}

impl Fields {
    pub(in crate::http) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(in crate::http) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name)
    }

    pub(in crate::http) fn pairs(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// The body that an operation allows.
#[derive(Clone, Copy)]
pub(in crate::http) struct AllowedBody {
    pub(in crate::http) rule: BodyRule,
    /// The fields that name the target.
    pub(in crate::http) targets: &'static [&'static str],
}

/// Reads the body that is allowed. A large one waits for a place of the caller's `key`, within the
/// body's time. Fails with 408 after that time, with 413 for a body that is too long, 415 for one
/// that is not plain JSON, 400 for any other mistake, and as `Turns::place` does.
pub(in crate::http) async fn read(
    http: &Http,
    headers: &HeaderMap,
    body: Body,
    allowed: AllowedBody,
    key: KeyId,
) -> Result<Fields, Problem> {
    let AllowedBody { rule, targets } = allowed;
    let limits = &http.rules.limits;
    let most = match rule {
        BodyRule::WithMessage(_) => http.max_upload_bytes(),
        _ => limits.max_body_bytes,
    };
    let bounds = BodyBounds { most, limits, expects: headers.contains_key(EXPECT) };
    let (octets, place) = collect(body, bounds, || http.uploads.place(key)).await?;
    if octets.is_empty() {
        return match rule {
            BodyRule::Required(known) | BodyRule::WithMessage(known) => Err(Problem::invalid(
                format!("a body is missing: send a JSON object with {}", known.join(", ")),
            )),
            BodyRule::None | BodyRule::Optional(_) => Ok(Fields::default()),
        };
    }
    if rule == BodyRule::None {
        return Err(Problem::invalid("this operation takes no body: use the query"));
    }
    let known = rule.names();
    is_plain_json(headers)?;
    let fields = if octets.len() > LARGE {
        let parsed = tokio::task::spawn_blocking(move || parse(&octets)).await;
        parsed.map_err(Problem::internal)??
    } else {
        parse(&octets)?
    };
    let is_unknown =
        |name: &&String| !targets.contains(&name.as_str()) && !known.contains(&name.as_str());
    let unknown: Vec<&String> = fields.keys().filter(is_unknown).take(LISTED).collect();
    if unknown.is_empty() {
        Ok(Fields { fields, place })
    } else {
        Err(strange(&unknown, &[known, targets].concat()))
    }
}

/// Reads a body that is no operation's, of `max_body_bytes` at most. Fails as [`read`] does.
pub(crate) async fn read_plain(
    http: &Http,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Problem> {
    let (limits, expects) = (&http.rules.limits, headers.contains_key(EXPECT));
    let bounds = BodyBounds { most: limits.max_body_bytes, limits, expects };
    // So small a body needs no place.
    let (octets, _) = collect(body, bounds, || std::future::ready(Ok(()))).await?;
    Ok(octets)
}

/// 400: unknown fields, with a list of the known ones.
fn strange(unknown: &[&String], known: &[&str]) -> Problem {
    let names: Vec<_> = unknown.iter().map(|name| quoted(name)).collect();
    let (noun, verb) = if names.len() == 1 { ("field", "is") } else { ("fields", "are") };
    let (names, known) = (names.join(", "), known.join(", "));
    let fault = |name: &&String| Fault {
        pointer: join("", name),
        detail: "is not known here: leave it out".to_owned(),
    };
    let detail = format!("{noun} {names} {verb} not known here: expected {known}");
    Problem { faults: unknown.iter().map(fault).collect(), ..Problem::invalid(detail) }
}

fn is_plain_json(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |detail: &str| Problem::new(Code::UnsupportedMediaType, detail);
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let essence = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
    if !essence.trim().eq_ignore_ascii_case("application/json") {
        return Err(refuse("send the body as Content-Type: application/json"));
    }
    // A compressed body could unfold to any size.
    match headers.get(CONTENT_ENCODING) {
        None => Ok(()),
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => Err(refuse("send the body without Content-Encoding")),
    }
}

async fn collect<P, R>(
    body: Body,
    bounds: BodyBounds<'_>,
    place: impl Fn() -> R,
) -> Result<(Vec<u8>, Option<P>), Problem>
where
    R: Future<Output = Result<P, Problem>>,
{
    let reading = timeout(bounds.limits.body(), read_whole(body, bounds, place));
    let read = reading.await.map_err(|_| {
        Problem::new(Code::RequestTimeout, "the body did not come in time: send it at once")
    })?;
    read.map_err(|error| match error {
        BodyError::TooLarge => {
            let detail = format!("the body has more than {} bytes: send less", bounds.most);
            Problem::new(Code::PayloadTooLarge, detail)
        }
        BodyError::CutShort => Problem::invalid("the body ended before it was complete"),
        BodyError::NoPlace(problem) => problem,
    })
}

fn parse(octets: &[u8]) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(octets) {
        Ok(Strict(Value::Object(fields))) => Ok(fields),
        Ok(_) => Err(Problem::invalid("the body must be a JSON object: {…}")),
        Err(error) => Err(Problem::invalid(format!("the body is not valid JSON: {error}"))),
    }
}

/// A JSON value without duplicate names in any object: readers differ in which one they take (RFC
/// 8259 §4). serde_json limits the depth to 128.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "field {} is sent twice",
                    quoted(&name)
                )));
            }
            let Strict(value) = fields.next_value()?;
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"a": [1, -2, 1.5, "x", true, null, {"b": {}}], "c": 18446744073709551615}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Object(parse(text.as_bytes()).unwrap()), expected);
    }

    #[test]
    fn refuses_what_readers_could_read_differently() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for (text, expected) in [
            (r#"{"a": 1, "a": 1}"#, "field \"a\" is sent twice"),
            (r#"{"a": 1, "\u0061": 2}"#, "field \"a\" is sent twice"),
            (r#"{"x": [{"a": 1, "a": 1}]}"#, "field \"a\" is sent twice"),
            ("[]", "must be a JSON object"),
            ("\"x\"", "must be a JSON object"),
            ("null", "must be a JSON object"),
            ("{} {}", "trailing characters"),
            ("{\"a\": NaN}", "not valid JSON"),
            ("{\"a\": 1,}", "not valid JSON"),
            ("\u{feff}{}", "not valid JSON"),
            (&deep, "recursion limit"),
        ] {
            let problem = parse(text.as_bytes()).unwrap_err();
            assert!(problem.detail.contains(expected), "{}", problem.detail);
        }
        assert!(parse(b"{\"a\": \"\xff\"}").is_err());
    }
}
