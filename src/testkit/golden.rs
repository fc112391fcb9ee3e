//! Goldens: files, and tables in documents, that a test generates and compares with those of the
//! project. With `GATEPOST_BLESS=1` the test writes them, existing ones too: read the difference
//! before you commit. Paths are relative to the root of the project, where cargo runs tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static DOCUMENTS: Mutex<()> = Mutex::new(());

#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error("{0} is stale: run this test with GATEPOST_BLESS=1, then read the difference")]
    Stale(PathBuf),
    #[error("nothing makes {0}: delete that file, or run this test with GATEPOST_BLESS=1")]
    Unknown(PathBuf),
    #[error("cannot use {file}")]
    Unusable { file: PathBuf, source: io::Error },
}

/// Compares a file with its generated content, or writes it.
pub fn hold(file: impl AsRef<Path>, made: &[u8]) -> Result<(), GoldenError> {
    let file = file.as_ref();
    let unusable = |source| GoldenError::Unusable { file: file.to_owned(), source };
    if is_blessing() {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(unusable)?;
        }
        return std::fs::write(file, made).map_err(unusable);
    }
    let is_same = std::fs::read(file).is_ok_and(|kept| kept == made);
    if is_same { Ok(()) } else { Err(GoldenError::Stale(file.to_owned())) }
}

/// Compares all files of a folder by name, or writes them and deletes all others.
pub fn hold_folder(
    folder: impl AsRef<Path>,
    made: &BTreeMap<String, String>,
) -> Result<(), GoldenError> {
    let folder = folder.as_ref();
    for (name, text) in made {
        hold(folder.join(name), text.as_bytes())?;
    }
    for file in files(folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if made.contains_key(&*name) {
            continue;
        }
        if !is_blessing() {
            return Err(GoldenError::Unknown(file));
        }
        let deleted = std::fs::remove_file(&file);
        deleted.map_err(|source| GoldenError::Unusable { file, source })?;
    }
    Ok(())
}

/// Compares the table with this header in a document with its generated rows, or writes them.
pub fn hold_table(
    file: impl AsRef<Path>,
    header: &str,
    made: &[String],
) -> Result<(), GoldenError> {
    let file = file.as_ref();
    // Tests of other tables in the same document run in parallel.
    let _alone = DOCUMENTS.lock();
    let unusable = |source| GoldenError::Unusable { file: file.to_owned(), source };
    let text = std::fs::read_to_string(file).map_err(unusable)?;
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| *line == header).map(|at| at + 2);
    let Some((before, rest)) = start.and_then(|start| lines.split_at_checked(start)) else {
        return Err(unusable(io::Error::other(format!("no table has the header {header}"))));
    };
    let after = rest.iter().skip_while(|line| line.starts_with('|')).copied();
    let rows = made.iter().map(String::as_str);
    let all = before.iter().copied().chain(rows).chain(after);
    let all: String = all.flat_map(|line| [line, "\n"]).collect();
    hold(file, all.as_bytes())
}

pub fn is_blessing() -> bool {
    std::env::var_os("GATEPOST_BLESS").is_some()
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>, GoldenError> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.and_then(|all| all.map(|one| Ok(one?.path())).collect());
    entries.map_err(|source| GoldenError::Unusable { file: folder.to_owned(), source })
}
