//! Reads a query strictly: known parameters only, each once.

use crate::http::error::Problem;

/// The parameter with the API key.
pub(in crate::http) const TOKEN: &str = "token";

/// The parameters of a signed link.
pub(in crate::http) const SIGNED: [&str; 2] = [EXPIRES, SIGNATURE];
pub(in crate::http) const EXPIRES: &str = "expires";
pub(in crate::http) const SIGNATURE: &str = "signature";

/// Stands for filters of any field in an operation's parameters. The operation parses their names,
/// and refuses unknown ones.
pub(in crate::http) const FILTERS: &str = "field__op";

/// The parameters of one request, without the token.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query of at most `max_bytes` bytes. Fails with 400 if it is longer or malformed,
    /// for a parameter that is sent twice, and for one that is not in `known` or `targets`.
    pub(in crate::http) fn parse(
        raw: &str,
        max_bytes: usize,
        known: &[&str],
        targets: &[&str],
    ) -> Result<Self, Problem> {
        if raw.len() > max_bytes {
            return Err(Problem::invalid(format!(
                "the query is longer than {max_bytes} bytes: shorten it"
            )));
        }
        let (mut query, mut unknown) = (Self::default(), Vec::new());
        for pair in pairs(raw) {
            let (Some(name), Some(value)) = pair else {
                return Err(Problem::invalid(
                    "the query is not UTF-8 in percent-encoding: encode its names and values",
                ));
            };
            if name == TOKEN {
                continue;
            }
            let is_known = targets.contains(&name.as_str()) || known.contains(&name.as_str());
            if !is_known && !known.contains(&FILTERS) {
                unknown.push(quoted(&name));
                continue;
            }
            if query.get(&name).is_some() {
                return Err(Problem::invalid(format!(
                    "query parameter {name} is sent twice: send it once"
                )));
            }
            query.0.push((name, value));
        }
        if unknown.is_empty() {
            return Ok(query);
        }
        let parameters = if unknown.len() == 1 { "parameter" } else { "parameters" };
        let verb = if unknown.len() == 1 { "is" } else { "are" };
        let (names, known) = (unknown.join(", "), expected(known, targets));
        let detail = format!("query {parameters} {names} {verb} not known here: expected {known}");
        Err(Problem::invalid(detail))
    }

    /// All parameters, in the order received.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses true or false; fails with 400 for anything else.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        let value = self.get(name).map(|text| text.parse::<bool>()).transpose();
        value.map_err(|_| Problem::invalid(format!("{name} must be true or false")))
    }
}

/// The token, if it is there exactly once.
pub(in crate::http) fn token(raw: &str) -> Option<String> {
    let mut tokens = tokens(raw);
    tokens.next().flatten().filter(|_| tokens.next().is_none())
}

/// All values of `token`; None for one that is not UTF-8.
pub(in crate::http) fn tokens(raw: &str) -> impl Iterator<Item = Option<String>> {
    pairs(raw).filter(|(name, _)| name.as_deref() == Some(TOKEN)).map(|(_, token)| token)
}

/// The value of this parameter, if it is there exactly once and no token is there.
pub(in crate::http) fn without_token(raw: &str, wanted: &str) -> Option<String> {
    let mut values = pairs(raw).filter(|(name, _)| name.as_deref() == Some(wanted));
    let (found, more) = (values.next()?, values.next());
    found.1.filter(|_| more.is_none() && tokens(raw).next().is_none())
}

/// Makes a name of the client printable, for an error.
pub(in crate::http) fn quoted(name: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = name.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if name.chars().count() > SHOWN {
        shown.push('…');
    }
    format!("{shown:?}")
}

fn expected(known: &[&str], targets: &[&str]) -> String {
    let names = known.iter().chain(&[TOKEN]).chain(targets);
    names.copied().collect::<Vec<_>>().join(", ")
}

/// Names and values; None if not UTF-8 in percent-encoding.
fn pairs(raw: &str) -> impl Iterator<Item = (Option<String>, Option<String>)> {
    raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// Decodes `application/x-www-form-urlencoded`. None if malformed: a mistake is not guessed at.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
                high << 4 | low
            }
            _ => byte,
        });
    }
    String::from_utf8(plain).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Result<Query, Problem> {
        Query::parse(raw, 100, &["limit", "sender"], &["targetAccountId"])
    }

    #[test]
    fn each_parameter_once_and_decoded() {
        let query = parse("token=gp_x&limit=5&&sender=a%2Bb%40c.example&targetAccountId=").unwrap();
        assert_eq!(query.get("limit"), Some("5"));
        assert_eq!(query.get("sender"), Some("a+b@c.example"));
        assert_eq!(query.get("targetAccountId"), Some(""));
        assert_eq!(query.get("token"), None);
    }

    #[test]
    fn what_is_not_plain_is_refused_by_name() {
        for (raw, expected) in [
            ("limit=1&limit=1", "limit is sent twice"),
            ("limit=1&l%69mit=1", "limit is sent twice"),
            ("limits=1", "\"limits\" is not known"),
            (
                "limits=1&limit=5&x=",
                "query parameters \"limits\", \"x\" are not known here: expected limit",
            ),
            ("targetAccountId[]=1", "\"targetAccountId[]\" is not known"),
            ("limit=%zz", "percent-encoding"),
            ("limit=%f", "percent-encoding"),
            ("limit=%ff", "percent-encoding"),
            (&"a".repeat(101), "longer than 100"),
        ] {
            let problem = parse(raw).unwrap_err();
            assert!(problem.detail.contains(expected), "{raw}: {}", problem.detail);
        }
    }

    #[test]
    fn the_token_counts_once_only() {
        assert_eq!(token("a=1&token=x"), Some("x".into()));
        assert_eq!(token("t%6Fken=x"), Some("x".into()));
        for raw in ["", "token=x&token=x", "token=x&t%6fken=y", "token=%ff", "tokens=x", "Token=x"]
        {
            assert_eq!(token(raw), None, "{raw}");
        }
    }
}
