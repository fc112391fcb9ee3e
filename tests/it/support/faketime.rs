//! A wall clock that can be set under a server that runs: libfaketime, which leaves its other clocks
//! as they are.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The wall clock of servers that are started with its [`WallClock::environment`].
pub struct WallClock {
    folder: TempDir,
    library: String,
}

impl WallClock {
    /// One that is so many seconds off.
    pub fn off_by(seconds: i64) -> Self {
        let library = library().expect("libfaketime is not installed: run scripts/test");
        let library = library.to_str().unwrap().to_owned();
        let clock = Self { folder: tempfile::tempdir().unwrap(), library };
        clock.set(seconds);
        clock
    }

    /// Sets it so many seconds off, in one step.
    pub fn set(&self, seconds: i64) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let file = self.file().to_str().unwrap().to_owned();
        let set = [
            ("LD_PRELOAD", self.library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            // Read anew whenever it is asked for.
            ("FAKETIME_NO_CACHE", "1"),
            // Nobody can set these, and all waiting is by them.
            ("DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

/// Where Debian's package `faketime` puts it.
fn library() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let of = |folder: PathBuf| folder.join("faketime/libfaketimeMT.so.1");
    let places = machines.map(|one| of(one.path())).chain([of(Path::new("/usr/lib").into())]);
    places.into_iter().find(|place| place.is_file())
}
