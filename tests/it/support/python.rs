//! The Python of the tests, with the libraries that `scripts/test` installs.

use std::path::{Path, PathBuf};

use super::program::offer;

/// Where `scripts/test` puts it.
pub fn interpreter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/python/bin/python")
}

/// Runs a script of this folder with `input`; returns its output.
pub async fn run(script: &str, input: &[u8]) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support").join(script);
    let output = offer(interpreter(), [&script], input).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", script.display());
    output.stdout
}
