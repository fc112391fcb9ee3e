//! What the program tells its operator: log lines on standard error.
//!
//! A line is a readable message plus dotted fields (`client.address`, `record.id`, `http.status`).
//! Never logged: keys, inbound keys, webhook secrets, queries of URLs, message content, header
//! values. `GATEPOST_LOG` sets the level per room (`gatepost=debug`, `gatepost::smtp=trace`).

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

/// The variable that sets what is logged.
pub const VARIABLE: &str = "GATEPOST_LOG";
/// What is logged when `GATEPOST_LOG` says nothing.
const DEFAULT_FILTER: &str = "warn,gatepost=info";

/// Logs only what is wrong, unless `GATEPOST_LOG` says otherwise: for commands whose output is
/// meant for reading.
pub fn quiet() {
    begin("error", false);
}

/// Begins logging; a second call changes nothing.
pub fn init(json: bool) {
    begin(DEFAULT_FILTER, json);
}

fn begin(default: &str, json: bool) {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let filter = without_contents(filter);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Its complaint would go to standard error, too: where that is full, whoever logs would end.
        .log_internal_errors(false)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never)
        .with_writer(std::io::stderr);
    // Whoever embeds the library may have set up a subscriber before.
    let _already = if json { builder.json().try_init() } else { builder.try_init() };
}

/// mailin logs each line that it reads, those of messages too, and its accept loop would fill a
/// disk when there are no descriptors left: nothing of it is logged, whatever `GATEPOST_LOG` says.
fn without_contents(filter: EnvFilter) -> EnvFilter {
    const SILENT: &[&str] =
        &["mailin=off", "mailin::fsm=off", "mailin::response=off", "mailin_embedded::running=off"];
    if !cfg!(feature = "mailin") {
        return filter;
    }
    let silent = SILENT.iter().filter_map(|directive| directive.parse().ok());
    silent.fold(filter, EnvFilter::add_directive)
}
