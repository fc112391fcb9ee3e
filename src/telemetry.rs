//! The program's log: lines on standard error.
//!
//! A line is a readable message and dotted fields (`client.address`, `record.id`, `http.status`).
//! Never logged: keys, inbound keys, webhook secrets, queries of URLs, message content, header
//! values. `GATEPOST_LOG` sets the level per room (`gatepost=debug`, `gatepost::smtp=trace`); `serve`
//! takes it as `--log-filter` and from `[log]` of its settings, too.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// The variable that sets the log filter.
const VARIABLE: &str = "GATEPOST_LOG";
/// The filter without `GATEPOST_LOG`, or if it cannot be parsed. The pool of sqlx calls each
/// connection an error that `store` refuses, which is tried again and which `store` logs itself.
const DEFAULT_FILTER: &str = "warn,sqlx_core::pool::inner=off,gatepost=info";

/// A filter that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no filter of the log: {why}; write LEVEL or ROOM=LEVEL, separated by commas")]
pub struct FilterError {
    text: String,
    why: String,
}

/// Logs only errors, unless `GATEPOST_LOG` says otherwise: for commands whose output is read by
/// people.
pub fn quiet() {
    begin(of_environment("error,sqlx_core::pool::inner=off"), false);
}

/// Begins logging; a second call changes nothing.
pub fn init(json: bool) {
    begin(of_environment(DEFAULT_FILTER), json);
}

/// Begins logging by this filter, or else at this level of our own lines.
pub fn init_by(filter: Option<&str>, level: Option<&str>, json: bool) -> Result<(), FilterError> {
    let of_level = level.map(|level| format!("warn,sqlx_core::pool::inner=off,gatepost={level}"));
    let text = filter.or(of_level.as_deref()).unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::builder().parse(text);
    let fail = |why: ParseError| FilterError { text: text.to_owned(), why: why.to_string() };
    begin(filter.map_err(fail)?, json);
    Ok(())
}

fn of_environment(default: &str) -> EnvFilter {
    EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(default))
}

fn begin(filter: EnvFilter, json: bool) {
    let filter = without_contents(filter);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Its own errors would also go to standard error; if that is full, logging would panic.
        .log_internal_errors(false)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never)
        .with_writer(std::io::stderr);
    // A program that embeds the library may have installed a subscriber.
    let begun = if json { builder.json().try_init() } else { builder.try_init() };
    if json && begun.is_ok() {
        log_panics();
    }
}

/// Makes panics lines that a collector can read, unless the filter hides them.
fn log_panics() {
    let as_text = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!(%panic, "a thread has panicked");
        } else {
            as_text(panic);
        }
    }));
}

/// Silences libraries that log content, whatever `GATEPOST_LOG` says: the SDK of MCP logs requests and
/// answers; mailin logs each line that it reads, and its accept loop would fill a disk when there are no
/// descriptors left.
fn without_contents(filter: EnvFilter) -> EnvFilter {
    const SDK: &[&str] = &[
        "rmcp=off",
        "rmcp::handler=off",
        "rmcp::handler::server=off",
        "rmcp::service=off",
        "rmcp::service::server=off",
        "rmcp::transport=off",
        "rmcp::transport::common::server_side_http=off",
        "rmcp::transport::streamable_http_server::tower=off",
    ];
    const MAILIN: &[&str] =
        &["mailin=off", "mailin::fsm=off", "mailin::response=off", "mailin_embedded::running=off"];
    let mailin = if cfg!(feature = "mailin") { MAILIN } else { &[] };
    let silent = SDK.iter().chain(mailin).filter_map(|directive| directive.parse().ok());
    silent.fold(filter, EnvFilter::add_directive)
}
