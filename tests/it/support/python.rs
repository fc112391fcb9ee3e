//! The Python of the tests, with the libraries that `scripts/test` installs.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::PATIENCE;

/// Where `scripts/test` puts it.
pub fn interpreter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/python/bin/python")
}

/// What a script of this folder answers to `input`.
pub async fn run(script: &str, input: &[u8]) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support").join(script);
    let mut child = Command::new(interpreter())
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("python: {error}: run the tests by scripts/test"));
    let mut stdin = child.stdin.take().unwrap();
    // A script that cannot begin does not read; what it says matters then.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", script.display());
    output.stdout
}
