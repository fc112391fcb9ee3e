//! `gatepost demo --once` ends well on a machine that has nothing but the program.

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::GATEPOST;
use crate::support::{PATIENCE, canary};

#[tokio::test]
async fn the_demo_shows_every_fixture_as_expected() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(GATEPOST);
    command.args(["demo", "--once"]).current_dir(empty.path()).kill_on_drop(true);
    command.env("GATEPOST_LOG", "gatepost=info");
    let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    canary::keep("demo", &output.stdout, Some(b"demo"));
    canary::keep("demo", &output.stderr, None);
    let shown = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{errors}");
    assert!(shown.contains(", 0 differed from what was expected"), "{shown}");
    assert!(shown.contains("accepted/plain"), "{shown}");
    assert!(shown.contains("email.received"), "{shown}");
    assert!(errors.contains("INFO"), "{errors}");
    assert!(!errors.contains('\x1b'), "colours in a log that is no terminal");
    let left: Vec<_> = std::fs::read_dir(empty.path()).unwrap().collect();
    assert!(left.is_empty(), "the demo left {left:?}");
}
