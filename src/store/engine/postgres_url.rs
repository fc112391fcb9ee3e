//! The URL of a PostgreSQL database, of one server or of several that hold the same database. sqlx
//! knows one server: here the list of libpq (`postgres://a,b:5433/mail`) becomes a URL for each.

use std::fmt;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use url::{Url, form_urlencoded};

/// Bounds how long looking at all servers takes.
const MOST_SERVERS: usize = 16;

/// `postgres://user:password@host/database`, or with hosts that commas separate; shown without the
/// password.
#[derive(Clone)]
pub struct PostgresUrl {
    text: String,
    /// How to connect to each server.
    servers: Vec<PgConnectOptions>,
    is_sought: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PostgresUrlError {
    #[error("the database URL must be postgres://USER:PASSWORD@HOST/DATABASE")]
    Form,
    #[error("cannot use the database URL")]
    Malformed(#[source] sqlx::Error),
    #[error("cannot use the database URL: in the password, write # as %23, / as %2F, ? as %3F")]
    Fragment,
    /// Without its value, which may be a password under a mistyped name.
    #[error("unknown parameter in the database URL: {0}")]
    Parameter(String),
    #[error("cannot use the servers in the database URL: {0}")]
    Servers(&'static str),
}

/// Parameters that sqlx reads (sqlx-postgres 0.9, `options/parse.rs`); it logs values of others.
const PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// libpq's name for which server to take; read here, not by sqlx.
const WHICH: &str = "target_session_attrs";

impl PostgresUrl {
    /// Returns the URL if all of it means something.
    pub(super) fn parse(text: &str) -> Result<Self, PostgresUrlError> {
        let parts = Parts::of(text)?;
        let which = parts.parameter(WHICH);
        if which.as_deref().is_some_and(|which| !matches!(which, "read-write" | "primary")) {
            return Err(PostgresUrlError::Servers(
                "a gateway writes, so target_session_attrs must be read-write or primary",
            ));
        }
        let servers = parts.servers()?;
        let servers = servers.iter().map(|url| options(url)).collect::<Result<Vec<_>, _>>()?;
        let is_sought = servers.len() > 1 || which.is_some();
        Ok(Self { text: text.to_owned(), servers, is_sought })
    }

    /// Returns the URL with its password.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// How to connect to each server.
    pub(in crate::store) fn servers(&self) -> &[PgConnectOptions] {
        &self.servers
    }

    /// Whether the server that can be written to must be looked for.
    pub(in crate::store) const fn is_sought(&self) -> bool {
        self.is_sought
    }
}

/// Returns how to connect by this URL of one server, if sqlx reads all of it.
fn options(url: &str) -> Result<PgConnectOptions, PostgresUrlError> {
    let parsed = Url::parse(url)
        .map_err(|error| PostgresUrlError::Malformed(sqlx::Error::Configuration(error.into())))?;
    // sqlx ignores a fragment: most likely it is the rest of a password.
    if parsed.fragment().is_some() {
        return Err(PostgresUrlError::Fragment);
    }
    let known = |name: &str| {
        let setting = name.strip_prefix("options[").and_then(|rest| rest.strip_suffix(']'));
        PARAMETERS.contains(&name) || setting.is_some()
    };
    if let Some((name, _)) = parsed.query_pairs().find(|(name, _)| !known(name)) {
        return Err(PostgresUrlError::Parameter(shown(&name)));
    }
    PgConnectOptions::from_url(&parsed).map_err(PostgresUrlError::Malformed)
}

/// A URL, cut where several servers may stand: `SCHEME://LOGIN@AUTHORITY/REST?PAIRS`.
struct Parts<'u> {
    scheme: &'u str,
    /// User and password, with the @ behind them.
    login: &'u str,
    hosts: &'u str,
    /// The path.
    path: &'u str,
    /// Parameters as they stand, and the fragment behind them.
    pairs: Vec<&'u str>,
    fragment: &'u str,
}

impl<'u> Parts<'u> {
    fn of(text: &'u str) -> Result<Self, PostgresUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(PostgresUrlError::Form)?;
        let (rest, fragment) = split_before(rest, &['#']);
        let (authority, rest) = split_before(rest, &['/', '?']);
        let (path, query) = split_before(rest, &['?']);
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        let (login, hosts) = authority.split_at(authority.len() - hosts.len());
        let query = query.strip_prefix('?').unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).collect();
        Ok(Self { scheme, login, hosts, path, pairs, fragment })
    }

    /// Returns the last value of a parameter, decoded.
    fn parameter(&self, name: &str) -> Option<String> {
        let named = self.pairs.iter().rev().find(|pair| is_named(pair, &[name]))?;
        let (_, value) = form_urlencoded::parse(named.as_bytes()).next()?;
        Some(value.into_owned())
    }

    /// Returns the URL of each server.
    fn servers(&self) -> Result<Vec<String>, PostgresUrlError> {
        let (named, ports) = (self.parameter("host"), self.parameter("port"));
        let several = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(','));
        let is_list = several(&named) || several(&ports);
        let is_twice = !self.hosts.is_empty() && (named.is_some() || ports.is_some());
        if several(&self.parameter("hostaddr")) {
            return Err(PostgresUrlError::Servers("name several servers by host, not by hostaddr"));
        }
        if !is_list && !self.hosts.contains(',') {
            return Ok(vec![self.server(self.hosts, None)]);
        }
        let hosts = if is_list { named.as_deref().unwrap_or_default() } else { self.hosts };
        let hosts: Vec<&str> = hosts.split(',').collect();
        let ports: Vec<&str> = ports.iter().flat_map(|ports| ports.split(',')).collect();
        let wrong = [
            (is_twice, "they are named twice, before the path and as host or port"),
            (ports.len() > 1 && ports.len() != hosts.len(), "name one port, or one for each host"),
            (hosts.contains(&""), "between two commas there is no host"),
            (hosts.len() > MOST_SERVERS, "there are more than 16"),
        ];
        if let Some((_, why)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(PostgresUrlError::Servers(why));
        }
        let server = |(place, host): (usize, &&str)| {
            if is_list {
                self.server("", Some((host, ports.get(place).or(ports.first()).copied())))
            } else {
                self.server(host, None)
            }
        };
        Ok(hosts.iter().enumerate().map(server).collect())
    }

    /// Returns the URL of one server: of this authority, or of a host and port as parameters.
    fn server(&self, authority: &str, named: Option<(&str, Option<&str>)>) -> String {
        let dropped: &[&str] = if named.is_some() { &[WHICH, "host", "port"] } else { &[WHICH] };
        let kept = self.pairs.iter().filter(|pair| !is_named(pair, dropped));
        let mut pairs: Vec<String> = kept.map(|pair| (*pair).to_owned()).collect();
        if let Some((host, port)) = named {
            let mut added = form_urlencoded::Serializer::new(String::new());
            added.append_pair("host", host);
            if let Some(port) = port {
                added.append_pair("port", port);
            }
            pairs.push(added.finish());
        }
        let mark = if pairs.is_empty() { "" } else { "?" };
        let Self { scheme, login, path, fragment, .. } = self;
        // libpq lets the host be named behind a login, in which a URL must have one: it is replaced.
        let is_named = named.is_some() || self.parameter("host").is_some();
        let replaced = authority.is_empty() && !login.is_empty() && is_named;
        let authority = if replaced { "localhost" } else { authority };
        format!("{scheme}://{login}{authority}{path}{mark}{}{fragment}", pairs.join("&"))
    }
}

/// Splits before the first of these characters; the second part begins with it.
fn split_before<'t>(text: &'t str, marks: &[char]) -> (&'t str, &'t str) {
    text.split_at(text.find(marks).unwrap_or(text.len()))
}

/// Whether a parameter, as it stands in the URL, has one of these names.
fn is_named(pair: &str, names: &[&str]) -> bool {
    form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| names.contains(&&*name))
}

/// Quotes a name that can be a parameter's; others may be the rest of a password with a ? in it.
fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '-';
    if name.chars().all(plain) && name.len() <= 32 {
        format!("{name:?}")
    } else {
        "its name has unusual characters (in the password, write ? as %3F)".to_owned()
    }
}

/// The text says it all.
impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PostgresUrl {}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query is left out: it may hold a password, too. Percent-encoding is kept.
        let Ok(parts) = Parts::of(&self.text) else { return f.write_str("postgres://…") };
        let user = parts.login.split([':', '@']).next().unwrap_or_default();
        let mark = if user.is_empty() { "" } else { "@" };
        let named = parts.parameter("host").filter(|named| named.contains(','));
        let hosts = named.as_deref().unwrap_or(parts.hosts);
        write!(f, "{}://{user}{mark}{hosts}{}", parts.scheme, parts.path)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresUrl, PostgresUrlError> {
        PostgresUrl::parse(url)
    }

    #[test]
    fn several_servers_are_one_url_each() {
        let servers = |url: &str| Parts::of(url).unwrap().servers().unwrap();
        let three = "postgres://me:pw%2C@a,b:5433,[::1]:5434/mail?sslmode=verify-full\
                     &target_session_attrs=read-write&sslrootcert=/ca,s";
        assert_eq!(
            servers(three),
            ["a", "b:5433", "[::1]:5434"].map(|host| {
                format!("postgres://me:pw%2C@{host}/mail?sslmode=verify-full&sslrootcert=/ca,s")
            })
        );
        let named = "postgres:///mail?user=me&host=/run/a,b&port=5433,5434";
        assert_eq!(
            servers(named),
            [("%2Frun%2Fa", 5433), ("b", 5434)]
                .map(|(host, port)| format!("postgres:///mail?user=me&host={host}&port={port}"))
        );
        for (login, named) in [("me:pw@", "a,b"), ("me@", "a,b"), ("me:pw@", "a")] {
            let url = format!("postgres://{login}/mail?host={named}");
            let found = parse(&url).unwrap().servers;
            let hosts: Vec<_> = found.iter().map(PgConnectOptions::get_host).collect();
            assert_eq!(hosts, named.split(',').collect::<Vec<_>>(), "{url}");
        }
        let one_port = "postgres:///mail?host=a,b&port=77";
        assert_eq!(
            servers(one_port),
            ["a", "b"].map(|host| format!("postgres:///mail?host={host}&port=77"))
        );
        for (url, is_sought) in [
            (three, true),
            (named, true),
            ("postgres://h/d", false),
            ("postgres://h/d?target_session_attrs=primary", true),
        ] {
            assert_eq!(parse(url).unwrap().is_sought(), is_sought, "{url}");
        }
    }

    /// TLS and login hold for every server as for one.
    #[test]
    fn every_server_has_the_settings_of_the_url() {
        let url = "postgres://me:hush@a,b/mail?sslmode=verify-full&sslrootcert=/ca.crt";
        let found = parse(url).unwrap().servers;
        let hosts: Vec<_> = found.iter().map(PgConnectOptions::get_host).collect();
        assert_eq!(hosts, ["a", "b"]);
        for one in &found {
            let shown = format!("{one:?}");
            for part in ["VerifyFull", "/ca.crt", "hush", "mail"] {
                assert!(shown.contains(part), "{part}: {shown}");
            }
        }
    }

    #[test]
    fn lists_that_mean_nothing_are_refused_without_the_password() {
        for (url, why) in [
            ("postgres://me:hush@a,,b/d", "no host"),
            ("postgres://me:hush@a,b/d?host=c", "named twice"),
            ("postgres://me:hush@a/d?host=c,d", "named twice"),
            ("postgres://me:hush@/d?host=c,d&port=1,2,3", "one for each host"),
            ("postgres://me:hush@/d?hostaddr=192.0.2.1,192.0.2.2", "hostaddr"),
            ("postgres://me:hush@a,b/d?target_session_attrs=any", "must be read-write"),
            ("postgres://me:hush@a,b:port/d", "cannot use the database URL"),
            ("postgres://me:hush@a,b/d?pasword=hush", "\"pasword\""),
            ("postgres://me:hush@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/d", "more than 16"),
        ] {
            let refused = parse(url).unwrap_err();
            let said = format!("{refused} {refused:?}");
            assert!(refused.to_string().contains(why), "{url}: {refused}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }

    #[test]
    fn all_servers_are_shown_and_no_password() {
        for (url, shown) in [
            ("postgres://me:hush@a,b:5433/mail?sslmode=require", "postgres://me@a,b:5433/mail"),
            ("postgres://a,b/mail?password=hush", "postgres://a,b/mail"),
            ("postgres:///mail?host=a,b&password=hush", "postgres://a,b/mail"),
        ] {
            assert_eq!(parse(url).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_a_url_says_in_vain_is_refused_and_its_values_are_not_shown() {
        for (url, name) in [
            ("postgres://me@h/mail?pasword=hush", "\"pasword\""),
            ("postgres://me@h/mail?sslmode=require&sslrootcrt=/hush", "\"sslrootcrt\""),
            ("postgres://me@h/mail?options[x=hush", "unusual characters"),
            ("postgres://me:12?hush@h/mail", "unusual characters"),
            ("postgres://me:12#hush@h/mail", "%23"),
            ("postgres://me@h/mail#hush", "%23"),
        ] {
            let refused = parse(url).unwrap_err();
            let said = format!("{refused} {refused:?}");
            assert!(refused.to_string().contains(name), "{url}: {refused}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }

    #[test]
    fn every_parameter_in_the_list_means_something_to_sqlx() {
        let plain: PgConnectOptions = "postgres://h/d".parse().unwrap();
        for name in PARAMETERS.iter().copied() {
            let value = match name {
                "port" | "statement-cache-capacity" => "77",
                "sslmode" | "ssl-mode" => "verify-full",
                "hostaddr" => "192.0.2.77",
                _ => "seventy-seven",
            };
            let with: PgConnectOptions = format!("postgres://h/d?{name}={value}").parse().unwrap();
            assert_ne!(format!("{with:?}"), format!("{plain:?}"), "{name}");
        }
    }

    #[test]
    fn percent_encoding_stays_as_it_was() {
        let url = "postgres://m%2Fe:p%23%3Fw@h/ma%20il?host=/run/post%20gres&options[a.b]=c%26d";
        let parsed = parse(url).unwrap();
        assert_eq!(parsed.expose(), url);
        assert_eq!(parsed.to_string(), "postgres://m%2Fe@h/ma%20il");
        let options = format!("{:?}", parsed.servers);
        for part in ["m/e", "p#?w", "ma il", "/run/post gres", "a.b=c&d"] {
            assert!(options.contains(part), "{part}: {options}");
        }
    }
}
