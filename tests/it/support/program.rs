//! Programs that the tests give something to read.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::PATIENCE;

/// Runs a program with `input`; returns its exit status and output.
pub async fn offer(
    program: impl AsRef<Path>,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    input: &[u8],
) -> Output {
    let program = program.as_ref();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{}: {error}: run the tests by scripts/test", program.display())
        });
    let mut stdin = child.stdin.take().unwrap();
    // A program that fails at its start does not read its input; its output says why.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap()
}
