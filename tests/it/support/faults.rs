//! A disk that fails when a test says so, under a server that runs: `faults.c`, loaded before libc.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::{interval, timeout};

use super::PATIENCE;

/// The library, compiled once in a run.
static LIBRARY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/faults.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
    assert!(compiler.arg("-ldl").status().unwrap().success(), "faults.c does not compile");
    (folder, library)
});

/// Calls that touch a file, as `enum kind` of `faults.c` has them.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Write,
    Flush,
    Rename,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: Call,
    /// The call that fails, counted from 1.
    pub number: i64,
    /// errno(3).
    pub error: i64,
    /// Whether each later call fails, too, until the disk is mended.
    pub stays: bool,
    /// Whether a write that fails leaves its first half.
    pub torn: bool,
}

/// errno(3), as on Linux.
pub const EIO: i64 = 5;
pub const ENOSPC: i64 = 28;

/// Places of `struct control` in `faults.c`.
const ERROR: usize = 3;
const STAYS: usize = 4;
const TORN: usize = 5;
const HITS: usize = 6;
const PLACES: usize = 7;

/// The disk below a folder.
pub struct Disk {
    shared: tempfile::NamedTempFile,
    folder: PathBuf,
}

impl Disk {
    /// One that works.
    pub fn below(folder: &Path) -> Self {
        let shared = tempfile::NamedTempFile::new().unwrap();
        shared.as_file().set_len(8 * u64::try_from(PLACES).unwrap()).unwrap();
        Self { shared, folder: fs::canonicalize(folder).unwrap() }
    }

    /// For a server that is to use it.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        vec![
            ("LD_PRELOAD", LIBRARY.1.to_str().unwrap()),
            ("FAULTS_FILE", self.shared.path().to_str().unwrap()),
            ("FAULTS_FOLDER", self.folder.to_str().unwrap()),
        ]
    }

    /// From now on it fails like this.
    pub fn fail(&self, fault: Fault) {
        self.mend();
        self.set(ERROR, fault.error);
        self.set(STAYS, fault.stays.into());
        self.set(TORN, fault.torn.into());
        self.set(fault.call as usize, fault.number);
    }

    /// It works again.
    pub fn mend(&self) {
        for call in [Call::Write, Call::Flush, Call::Rename] {
            self.set(call as usize, 0);
        }
    }

    /// How often it has failed so far.
    pub fn hits(&self) -> i64 {
        let mut octets = [0; 8];
        self.file().read_exact_at(&mut octets, 8 * u64::try_from(HITS).unwrap()).unwrap();
        i64::from_ne_bytes(octets)
    }

    /// Waits until it has failed more often than so.
    pub async fn failed_beyond(&self, hits: i64) {
        let mut looks = interval(Duration::from_millis(2));
        let failed = async {
            while self.hits() <= hits {
                looks.tick().await;
            }
        };
        timeout(PATIENCE, failed).await.expect("no call came to the disk that was to fail");
    }

    fn set(&self, place: usize, value: i64) {
        let at = 8 * u64::try_from(place).unwrap();
        self.file().write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn file(&self) -> &File {
        self.shared.as_file()
    }
}
