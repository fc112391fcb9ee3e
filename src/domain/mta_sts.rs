//! The policy of MTA-STS (RFC 8461): it tells senders to deliver over verified TLS, and to which
//! hosts. One policy is served for all domains.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::domain_name::DomainName;
use super::words::words;

words! {
    /// The word by which senders know how to treat a delivery that fails the policy.
    MtaStsMode {
        /// Deliver, and report.
        Testing = "testing",
        /// Do not deliver.
        Enforce = "enforce",
        /// As without a policy: how to withdraw one.
        None = "none",
    }
}

/// Label of the host that serves the policy of a domain (RFC 8461 §3.3).
const HOST: &str = "mta-sts.";

/// Longest time for which senders keep a policy, in seconds (RFC 8461 §3.2).
pub const LONGEST_AGE: u64 = 31_557_600;

/// Tells why senders that verify the certificate of SMTP do not deliver now; None if they may.
#[derive(Clone)]
pub struct CertificateFault(Arc<dyn Fn() -> Option<&'static str> + Send + Sync>);

impl CertificateFault {
    pub fn by(look: impl Fn() -> Option<&'static str> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub fn now(&self) -> Option<&'static str> {
        (self.0)()
    }
}

impl fmt::Debug for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateFault")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtaSts {
    pub mode: MtaStsMode,
    /// Names of MX hosts, as `mx.example.com` or `*.example.com`; at least one.
    pub mx: Vec<MxPattern>,
    /// Seconds, up to [`LONGEST_AGE`].
    pub max_age: u64,
}

/// A host, or all hosts with one more label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MxPattern {
    is_wildcard: bool,
    host: DomainName,
}

impl MxPattern {
    /// Parses `mx.example.com` or `*.example.com`; None for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_wildcard, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        Some(Self { is_wildcard, host: DomainName::parse(host).ok()? })
    }

    /// Whether it stands for this host (RFC 8461 §4.1).
    fn covers(&self, host: &DomainName) -> bool {
        let (host, own) = (host.as_str(), self.host.as_str());
        match self.is_wildcard {
            false => host == own,
            true => host.split_once('.').is_some_and(|(_, rest)| rest == own),
        }
    }
}

impl From<DomainName> for MxPattern {
    fn from(host: DomainName) -> Self {
        Self { is_wildcard: false, host }
    }
}

impl MtaSts {
    /// Whether senders that keep to the policy may deliver to this host.
    pub fn covers(&self, host: &DomainName) -> bool {
        self.mx.iter().any(|pattern| pattern.covers(host))
    }

    /// Returns the text of the policy (RFC 8461 §3.2).
    pub fn text(&self) -> String {
        let mut text = format!("version: STSv1\r\nmode: {}\r\n", self.mode.as_str());
        for mx in &self.mx {
            let wildcard = if mx.is_wildcard { "*." } else { "" };
            // Writing to a string never fails.
            let _ = write!(text, "mx: {wildcard}{}\r\n", mx.host);
        }
        let _ = write!(text, "max_age: {}\r\n", self.max_age);
        text
    }
}

/// Returns the host that serves the policy of a domain; None where the domain is too long for one.
pub fn host_of(domain: &DomainName) -> Option<DomainName> {
    DomainName::kept(&format!("{HOST}{domain}")).ok()
}

/// Returns the domain whose policy a request asks for, by the host that it names, which may have a
/// port; None if that host serves no policy.
pub fn domain_of(host: &str) -> Option<DomainName> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    DomainName::kept(name.strip_prefix(HOST)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_standard() {
        let mx = ["mail.example.com", "*.example.net", "backupmx.example.com"];
        let mx = mx.map(|text| MxPattern::parse(text).unwrap()).to_vec();
        let policy = MtaSts { mode: MtaStsMode::Enforce, mx, max_age: 604_800 };
        // RFC 8461 §3.2, Figure 1.
        let wanted = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\n\
                      mx: *.example.net\r\nmx: backupmx.example.com\r\nmax_age: 604800\r\n";
        assert_eq!(policy.text(), wanted);
    }

    #[test]
    fn a_pattern_is_a_host_or_one_label_more() {
        for wrong in
            ["", "*", "*.", "a.*.example", "**.example", "mx example", "mx.example\r\nmode"]
        {
            assert_eq!(MxPattern::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_wildcard_covers_one_label_more_and_no_other_host() {
        let covers = |pattern: &str, host: &str| {
            MxPattern::parse(pattern).unwrap().covers(&DomainName::parse(host).unwrap())
        };
        assert!(covers("mx.example", "mx.example") && covers("*.example", "mx.example"));
        for (pattern, host) in [
            ("*.example", "a.mx.example"),
            ("*.mx.example", "mx.example"),
            ("mx.example", "a.mx.example"),
            ("*.example", "mxexample.test"),
        ] {
            assert!(!covers(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn the_host_names_the_domain() {
        let domain = |host: &str| domain_of(host).map(|domain| domain.to_string());
        let agents = Some("agents.example".to_owned());
        for host in
            ["mta-sts.agents.example", "MTA-STS.Agents.Example", "mta-sts.agents.example:8443"]
        {
            assert_eq!(domain(host), agents, "{host}");
        }
        for host in
            ["agents.example", "mta-sts.", "mta-sts.a b", "", ":443", "[::1]:443", "mta-sts"]
        {
            assert_eq!(domain(host), None, "{host}");
        }
    }
}
