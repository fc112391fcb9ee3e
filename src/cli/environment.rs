//! Environment variables: a misspelled one must not be silently ignored.

use std::ffi::OsString;

use clap::Command;
use strsim::levenshtein;

/// Prefix of all variables of this program.
const PREFIX: &str = "GATEPOST_";

/// Variables of our tests and their tools, inherited by the programs under test.
const OF_TESTS: &[&str] =
    &["GATEPOST_TEST_", "GATEPOST_BLESS", "GATEPOST_CORPUS", "GATEPOST_FUZZ_"];

/// Returns an error about the first unknown variable, or None. Known are the variables of `command`
/// and its subcommands.
pub(super) fn mistake(
    command: &Command,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<String> {
    let mut known = Vec::new();
    collect(command, &mut known);
    let ours = variables.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        Some((name, value.into_string().unwrap_or_default()))
    });
    let mut wrong: Vec<String> = ours
        .filter(|(name, value)| !known.contains(name) && !is_of_another(name, value))
        .map(|(name, _)| name)
        .collect();
    wrong.sort_unstable();
    let first = wrong.into_iter().next()?;
    let nearest = known.iter().min_by_key(|name| levenshtein(name, &first))?;
    Some(format!(
        "{first} is not a variable of gatepost; the nearest is {nearest}: correct it, or unset it"
    ))
}

fn collect(command: &Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(ToOwned::to_owned));
    command.get_subcommands().for_each(|one| collect(one, known));
}

/// Whether our tests made the variable, or Kubernetes: it tells every container of a namespace the
/// address of a service called `gatepost` or `gatepost-…` (`GATEPOST_SERVICE_HOST`,
/// `GATEPOST_PORT=tcp://…`, `GATEPOST_PORT_25_TCP_ADDR`), as Docker links once did.
fn is_of_another(name: &str, value: &str) -> bool {
    let is_link = name.ends_with("_PORT") && value.contains("://");
    let is_port = name
        .split_once("_PORT_")
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_service = name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_");
    is_link || is_port || is_service || OF_TESTS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, value: &str) -> Option<String> {
        mistake(&super::super::description(), [(name.into(), value.into())])
    }

    #[test]
    fn a_misspelled_variable_is_told_with_the_nearest_one() {
        for (wrong, right) in [
            ("GATEPOST_SMPT", "GATEPOST_SMTP"),
            ("GATEPOST_DATABSE_URL", "GATEPOST_DATABASE_URL"),
            ("GATEPOST_S3_SECRET", "GATEPOST_S3_SECRET_KEY"),
            ("GATEPOST_LOGS", "GATEPOST_LOG"),
        ] {
            let said = said(wrong, "x").unwrap();
            let words = format!("{wrong} is not a variable of gatepost; the nearest is {right}:");
            assert!(said.starts_with(&words), "{said}");
        }
    }

    #[test]
    fn what_is_ours_or_not_for_us_is_fine() {
        for (name, value) in [
            ("GATEPOST_SMTP", "x"),
            ("GATEPOST_LOG", "debug"),
            ("GATEPOST_TEST_POSTGRES", "x"),
            ("GATEPOST_BLESS", "1"),
            ("GATEPOST", "http://localhost:8080"),
            ("GATEPOST_SERVICE_HOST", "10.0.0.1"),
            ("GATEPOST_SMTP_SERVICE_PORT_SMTP", "25"),
            ("GATEPOST_PORT", "tcp://10.0.0.1:25"),
            ("GATEPOST_PORT_25_TCP_ADDR", "10.0.0.1"),
            ("PATH", "x"),
        ] {
            assert_eq!(said(name, value), None, "{name}");
        }
        assert!(said("GATEPOST_PORT", "25").is_some());
    }
}
