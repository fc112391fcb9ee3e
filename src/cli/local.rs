//! A server for this machine alone, for `demo` and `dev`: on loopback addresses, with its own DNS,
//! and with webhooks that may lead to the loopback.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;

use super::Failure;
use crate::domain::domain_name::DomainName;
use crate::rules::Rules;
use crate::run::{FrontEnd, McpChanges, Settings, TlsSettings};
use crate::store::Location;

/// The domain of the Agents.
pub(super) const DOMAIN: &str = "agents.example";
/// The server's own name.
const HOSTNAME: &str = "mx.agents.example";
/// Networks to listen in, and allowed for webhooks.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];
/// Longest wait for anything on this machine to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A loopback address; port 0 picks a free port.
pub(super) fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(super) fn loopback() -> Result<Vec<IpNet>, Failure> {
    Ok(LOOPBACK.iter().map(|network| network.parse()).collect::<Result<_, _>>()?)
}

/// Settings of a server on this store, with these addresses and this DNS.
pub(super) fn settings(
    store: &Location,
    rules: Rules,
    dns: SocketAddr,
    [smtp, http]: [SocketAddr; 2],
) -> Result<Settings, Failure> {
    Ok(Settings {
        front_end: FrontEnd::default(),
        smtp,
        http,
        metrics: None,
        hostname: DomainName::parse(HOSTNAME)?,
        place: store.into(),
        secrets_key: None,
        public_url: None,
        start_patience: Duration::ZERO,
        postmaster: None,
        rules,
        dns: Some(vec![dns]),
        egress_allow: loopback()?,
        tls: TlsSettings::default(),
        trusted_proxy: Vec::new(),
        cors_origin: Vec::new(),
        console: true,
        mcp: Some(McpChanges::ByKey),
        releases_secrets: false,
        mta_sts: None,
        tls_reports: None,
        otlp: None,
    })
}

/// The path of this program, for a command that works in any folder.
pub(super) fn program() -> String {
    let path = env::current_exe().ok();
    path.map_or_else(|| "gatepost".to_owned(), |path| quoted(&path))
}

/// Quotes a path for the shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Joins an SMTP reply of several lines, each of which repeats the codes (RFC 5321 §4.2.1, RFC
/// 2034).
pub(super) fn one_line(reply: &str) -> String {
    let mut lines = reply.lines().map(|line| line.split_at_checked(4).unwrap_or((line, "")));
    let Some((code, first)) = lines.next() else { return String::new() };
    let enhanced = first.split(' ').next().unwrap_or_default();
    let mut text = format!("{} {first}", code.trim_end_matches(['-', ' ']));
    for (_, more) in lines {
        text.push(' ');
        text.push_str(more.strip_prefix(enhanced).unwrap_or(more).trim_start());
    }
    text
}

/// Finds the id of the intake record in a reply of one line.
pub(super) fn record_of(reply: &str) -> Option<&str> {
    reply.split_once("[record ")?.1.split(']').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_cut_them() {
        for (path, quotes) in
            [("/a/b-c.pem", "/a/b-c.pem"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")]
        {
            assert_eq!(quoted(Path::new(path)), quotes);
        }
    }

    #[test]
    fn a_folded_reply_is_one_line() {
        let folded = "550-5.7.22 no signature\n550 5.7.22 of the domain [record\n550 5.7.22 0a]";
        assert_eq!(one_line(folded), "550 5.7.22 no signature of the domain [record 0a]");
        assert_eq!(one_line("250 2.0.0 accepted"), "250 2.0.0 accepted");
        assert_eq!(one_line("no"), "no ");
    }

    #[test]
    fn a_reply_names_its_record() {
        assert_eq!(record_of("550 5.7.1 no [record 0a-1]"), Some("0a-1"));
        assert_eq!(record_of("250 2.0.0 accepted"), None);
    }
}
