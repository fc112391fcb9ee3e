//! Reports of senders on TLS: `tls-reports`, `tls-reports-name`.

use super::{ConfigError, ServeOptions};
use crate::domain::tls_report::ReportAddress;

impl ServeOptions {
    /// Returns where reports are taken in; None takes none.
    pub fn tls_reports(&self) -> Result<Option<ReportAddress>, ConfigError> {
        if !self.tls_reports.unwrap_or(false) {
            let detail = "turn it on, too: tls-reports-name belongs to it".to_owned();
            let unused = self.tls_reports_name.is_some();
            let error = ConfigError::Invalid { setting: "tls-reports", detail };
            return if unused { Err(error) } else { Ok(None) };
        }
        let Some(name) = &self.tls_reports_name else { return Ok(Some(ReportAddress::default())) };
        let invalid = || ConfigError::Invalid {
            setting: "tls-reports-name",
            detail: format!(
                "{name:?} is no name before the @ of an address: letters, digits, dots and hyphens"
            ),
        };
        ReportAddress::named(name).map(Some).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(on: Option<bool>, name: Option<&str>) -> Result<Option<ReportAddress>, ConfigError> {
        let tls_reports_name = name.map(str::to_owned);
        ServeOptions { tls_reports: on, tls_reports_name, ..ServeOptions::default() }.tls_reports()
    }

    #[test]
    fn a_name_is_one_and_needs_the_setting() {
        assert_eq!(read(None, None).unwrap(), None);
        assert_eq!(read(Some(false), None).unwrap(), None);
        assert_eq!(read(Some(true), None).unwrap().unwrap().name(), "tls-reports");
        assert_eq!(read(Some(true), Some("TLS.rpt")).unwrap().unwrap().name(), "tls.rpt");
        assert!(read(None, Some("tlsrpt")).unwrap_err().to_string().contains("turn it on"));
        for wrong in ["", "a b", "a@b", "a+b", ".a", "münchen", "postmaster"] {
            let error = read(Some(true), Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("tls-reports-name"), "{wrong}: {error}");
        }
    }
}
