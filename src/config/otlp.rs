//! Traces for a collector: the section `[otlp]`. Naming an endpoint turns them on.

use std::fmt;

use clap::Args;
use serde::Deserialize;
use url::Url;

use super::ConfigError;

/// The path for traces below the endpoint (OTLP, §OTLP/HTTP Request).
const TRACES: &str = "v1/traces";

#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OtlpOptions {
    /// Send traces to this collector by OTLP, HTTP with protobuf, such as http://localhost:4318;
    /// /v1/traces is added [default: no traces]
    // Another id than the endpoint of `s3`, a flag of every command.
    #[arg(id = "otlp-endpoint", long, env = "GATEPOST_OTLP_ENDPOINT", value_name = "URL")]
    pub endpoint: Option<String>,
    /// The part of all traces that is sent, from 0 to 1 [default: 1]
    #[arg(long = "otlp-sample", env = "GATEPOST_OTLP_SAMPLE", value_name = "RATIO")]
    #[arg(allow_negative_numbers = true)]
    pub sample: Option<f64>,
    /// Header fields for that collector, such as its key; better by the variable or the file,
    /// because flags are seen by everybody
    #[arg(long = "otlp-header", env = "GATEPOST_OTLP_HEADER", value_name = "NAME=VALUE")]
    #[arg(value_delimiter = ',', hide_env_values = true)]
    pub header: Option<Vec<OtlpHeader>>,
}

/// A header field as `NAME=VALUE`; Debug hides it.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct OtlpHeader(String);

impl OtlpHeader {
    /// Splits name and value, without the spaces around them; None without a `=`.
    pub fn expose(&self) -> Option<(&str, &str)> {
        self.0.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
    }
}

impl fmt::Debug for OtlpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OtlpHeader(…)")
    }
}

impl From<&str> for OtlpHeader {
    fn from(field: &str) -> Self {
        Self(field.to_owned())
    }
}

impl OtlpOptions {
    pub(super) fn or(self, file: Self) -> Self {
        Self {
            endpoint: self.endpoint.or(file.endpoint),
            sample: self.sample.or(file.sample),
            header: self.header.or(file.header),
        }
    }

    /// Returns the URL for traces; None if none are wanted.
    pub fn url(&self) -> Result<Option<Url>, ConfigError> {
        let invalid = |detail: &str| ConfigError::Invalid {
            setting: "otlp.endpoint (--otlp-endpoint)",
            detail: detail.to_owned(),
        };
        let Some(text) = &self.endpoint else {
            let unused = *self != Self::default();
            let error = invalid("name the collector: other otlp settings are given without one");
            return if unused { Err(error) } else { Ok(None) };
        };
        // The text itself may hold a password.
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
        let mut url = url.ok_or_else(|| {
            invalid("expected a URL that begins with https:// or http://, such as http://localhost:4318")
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("give the collector's key by otlp.header, not in the URL"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("leave out what begins with ? or #"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.ends_with(TRACES) {
            return Err(invalid("leave out /v1/traces: it is added"));
        }
        url.set_path(&format!("{path}/{TRACES}"));
        Ok(Some(url))
    }

    /// Returns the part of all traces that is sent.
    pub fn ratio(&self) -> Result<f64, ConfigError> {
        let ratio = self.sample.unwrap_or(1.0);
        if (0.0..=1.0).contains(&ratio) {
            return Ok(ratio);
        }
        Err(ConfigError::Invalid {
            setting: "otlp.sample (--otlp-sample)",
            detail: format!("{ratio} is no part: expected a number from 0 to 1"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoint: &str) -> OtlpOptions {
        OtlpOptions { endpoint: Some(endpoint.to_owned()), ..OtlpOptions::default() }
    }

    #[test]
    fn the_path_for_traces_is_added() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://otel.example/", "https://otel.example/v1/traces"),
            ("https://otel.example/otlp", "https://otel.example/otlp/v1/traces"),
        ] {
            assert_eq!(options(endpoint).url().unwrap().unwrap().as_str(), url);
        }
        assert_eq!(OtlpOptions::default().url().unwrap(), None);
    }

    #[test]
    fn what_is_no_collector_is_refused_and_not_shown() {
        for (endpoint, said) in [
            ("localhost:4318", "begins with https://"),
            ("ftp://otel.example", "begins with https://"),
            ("https://user:hunter2@otel.example", "otlp.header"),
            ("https://otel.example/?key=hunter2", "leave out what begins with ?"),
            ("https://otel.example/v1/traces", "leave out /v1/traces"),
        ] {
            let error = options(endpoint).url().unwrap_err().to_string();
            assert!(error.contains("--otlp-endpoint") && error.contains(said), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let header = OtlpHeader::from("authorization=hunter2");
        assert!(!format!("{header:?}").contains("hunter2"));
        let unused = OtlpOptions { header: Some(vec![header]), ..OtlpOptions::default() };
        let error = unused.url().unwrap_err().to_string();
        assert!(error.contains("name the collector"), "{error}");
    }

    #[test]
    fn a_part_is_between_nothing_and_all() {
        let ratio = |sample| OtlpOptions { sample, ..options("http://localhost:4318") }.ratio();
        assert_eq!(ratio(None).unwrap(), 1.0);
        assert_eq!(ratio(Some(0.25)).unwrap(), 0.25);
        for wrong in [-1.0, 1.5, f64::NAN] {
            let error = ratio(Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("--otlp-sample") && error.contains("from 0 to 1"), "{error}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_sign() {
        let split = |text: &str| {
            let header = OtlpHeader::from(text);
            header.expose().map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        assert_eq!(split("Authorization = Basic a=="), pair("Authorization", "Basic a=="));
        assert_eq!(split("x="), pair("x", ""));
        assert_eq!(split("hunter2"), None);
    }
}
