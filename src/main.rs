//! Parses the command line and maps how it ended to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    gatepost::cli::main()
}
