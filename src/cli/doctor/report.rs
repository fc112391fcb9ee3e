//! Prints checks, and counts them.

use std::process::ExitCode;

use serde_json::json;

use crate::app::doctor::{Check, CheckRecord, Tone};
use crate::cli::paint::Paint;
use crate::cli::{Failure, plain, print_json, say};

/// Columns of the first two words of a line.
const RESULT: usize = 8;
const SUBJECT: usize = 12;

/// The checks so far.
pub(super) struct Report {
    /// Print JSON, at the end.
    json: bool,
    paint: Paint,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self { json, paint: Paint::for_output(), checks: Vec::new() }
    }

    /// Prints checks, each on a line, with what to do on the lines below.
    pub(super) fn show(&mut self, checks: Vec<Check>) -> Result<(), Failure> {
        if !self.json {
            for check in &checks {
                self.print(check)?;
            }
        }
        self.checks.extend(checks);
        Ok(())
    }

    fn print(&self, check: &Check) -> Result<(), Failure> {
        let result = format!("{:<RESULT$}", check.tone.as_str());
        let result = match check.tone {
            Tone::Ok => self.paint.verdict("accepted", &result),
            Tone::Warning => self.paint.verdict("deferred", &result),
            Tone::Failure => self.paint.verdict("refused", &result),
            Tone::Skipped => self.paint.faint(&result),
        };
        let about = match check.about.as_str() {
            "" => String::new(),
            about => format!("{}: ", plain::line(about)),
        };
        let subject = check.subject.as_str();
        say!("{result} {subject:<SUBJECT$} {about}{}", plain::line(&check.detail))?;
        let indent = RESULT + SUBJECT + 2;
        for more in [&check.advice, &check.line].into_iter().flatten() {
            say!("{:indent$}{}", "", plain::line(more))?;
        }
        Ok(())
    }

    fn count(&self, tone: Tone) -> usize {
        self.checks.iter().filter(|check| check.tone == tone).count()
    }

    /// Prints the sum; the exit code is 1 if a check failed.
    pub(super) fn finish(self) -> Result<ExitCode, Failure> {
        let (failures, warnings) = (self.count(Tone::Failure), self.count(Tone::Warning));
        if self.json {
            let checks: Vec<_> = self.checks.into_iter().map(CheckRecord::from).collect();
            print_json(&json!({ "checks": checks, "failures": failures, "warnings": warnings }))?;
        } else {
            let all = self.checks.len();
            say!("\n{all} checks: {failures} failures, {warnings} warnings")?;
        }
        Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
