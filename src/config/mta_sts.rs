//! The policy of MTA-STS: `mta-sts`, `mta-sts-mx`, `mta-sts-max-age`. A mode turns it on.

use serde::Deserialize;

use super::{ConfigError, ServeOptions};
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts::{LONGEST_AGE, MtaSts, MtaStsMode, MxPattern};

/// A week: short enough to withdraw a policy, long enough to protect (RFC 8461 §10.2).
const MAX_AGE: u64 = 604_800;

/// The modes of a policy.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MtaStsOption {
    Testing,
    Enforce,
    None,
}

impl ServeOptions {
    /// Returns the policy to serve; None if none is wanted. `is_shared`: other gateways may serve
    /// the same domains, whose hosts the policy must name, too.
    pub fn mta_sts(
        &self,
        hostname: &DomainName,
        is_shared: bool,
    ) -> Result<Option<MtaSts>, ConfigError> {
        let Some(mode) = self.mta_sts else {
            let unused = self.mta_sts_mx.is_some() || self.mta_sts_max_age.is_some();
            let detail = "give the mode, too: mta-sts-mx and mta-sts-max-age belong to a policy";
            let error = ConfigError::Invalid { setting: "mta-sts", detail: detail.to_owned() };
            return if unused { Err(error) } else { Ok(None) };
        };
        let mode = match mode {
            MtaStsOption::Testing => MtaStsMode::Testing,
            MtaStsOption::Enforce => MtaStsMode::Enforce,
            MtaStsOption::None => MtaStsMode::None,
        };
        let parse = |text: &String| {
            MxPattern::parse(text).ok_or_else(|| ConfigError::Invalid {
                setting: "mta-sts-mx",
                detail: format!("{text:?} is no host: expected mx.example.com or *.example.com"),
            })
        };
        let named = self.mta_sts_mx.iter().flatten().map(parse).collect::<Result<Vec<_>, _>>()?;
        let invalid = |detail| Err(ConfigError::Invalid { setting: "mta-sts-mx", detail });
        if named.is_empty() && is_shared && mode != MtaStsMode::None {
            let detail = "name the hosts of all MX records, the same on every gateway of this \
                          PostgreSQL: senders refuse a host that the policy does not name";
            return invalid(detail.to_owned());
        }
        let mx = if named.is_empty() { vec![hostname.clone().into()] } else { named };
        let max_age = self.mta_sts_max_age.unwrap_or(MAX_AGE);
        if max_age > LONGEST_AGE {
            return Err(ConfigError::Invalid {
                setting: "mta-sts-max-age",
                detail: format!("{max_age} is too long: at most {LONGEST_AGE} seconds, a year"),
            });
        }
        let policy = MtaSts { mode, mx, max_age };
        // `none` withdraws a policy, whatever it names.
        if mode != MtaStsMode::None && !policy.covers(hostname) {
            return invalid(format!(
                "no name covers {hostname}, so that senders would refuse this server: add it, or set \
                 hostname to the host of the MX record"
            ));
        }
        Ok(Some(policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mx: &[&str], max_age: Option<u64>) -> ServeOptions {
        ServeOptions {
            mta_sts: Some(MtaStsOption::Testing),
            mta_sts_mx: Some(mx.iter().map(|one| (*one).to_owned()).collect()),
            mta_sts_max_age: max_age,
            ..ServeOptions::default()
        }
    }

    #[test]
    fn the_hostname_is_the_mx_where_none_is_named() {
        let host = DomainName::parse("mx.example").unwrap();
        let text = options(&[], None).mta_sts(&host, false).unwrap().unwrap().text();
        assert!(text.contains("mx: mx.example\r\nmax_age: 604800\r\n"), "{text}");
        let named = options(&["a.example", "*.example"], Some(86_400));
        let text = named.mta_sts(&host, true).unwrap().unwrap().text();
        let wanted = "mode: testing\r\nmx: a.example\r\nmx: *.example\r\nmax_age: 86400";
        assert!(text.contains(wanted), "{text}");
        assert_eq!(ServeOptions::default().mta_sts(&host, true).unwrap(), None);
    }

    #[test]
    fn a_policy_that_this_server_or_another_one_cannot_meet_is_refused() {
        let host = DomainName::parse("mx.example").unwrap();
        let read = |mode, mx: &[&str], is_shared| {
            let mode = Some(mode);
            ServeOptions { mta_sts: mode, ..options(mx, None) }.mta_sts(&host, is_shared)
        };
        for mode in [MtaStsOption::Testing, MtaStsOption::Enforce] {
            for other in ["other.example", "*.mx.example", "*.other.example"] {
                let error = read(mode, &[other], false).unwrap_err().to_string();
                assert!(error.contains("no name covers mx.example"), "{other}: {error}");
            }
            let error = read(mode, &[], true).unwrap_err().to_string();
            assert!(error.contains("the same on every gateway"), "{error}");
        }
        for mx in [&[][..], &["other.example"]] {
            assert!(read(MtaStsOption::None, mx, true).unwrap().is_some(), "withdrawn");
        }
    }

    #[test]
    fn what_makes_no_policy_is_refused_by_name() {
        let host = DomainName::parse("mx.example").unwrap();
        let error = |options: ServeOptions| options.mta_sts(&host, false).unwrap_err().to_string();
        assert!(error(options(&["a b"], None)).contains("mta-sts-mx"));
        assert!(error(options(&[], Some(31_557_601))).contains("mta-sts-max-age"));
        let without = ServeOptions { mta_sts: None, ..options(&["mx.example"], None) };
        assert!(error(without).contains("give the mode"));
    }
}
