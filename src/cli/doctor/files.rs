//! Settings, and the files and folders of the server: whose they are, and who may read them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::ports::Listeners;
use crate::app::doctor::{Check, CheckSubject, CheckTopic};
use crate::config::{SettingsFile, StoreOptions};
use crate::domain::causes::with_causes;
use crate::domain::clock::Timestamp;
use crate::domain::id::Mint;
use crate::run::{self, Settings};
use crate::store::{BlobPlace, Location, Store};

/// Rights of the group and of others.
const OTHERS: u32 = 0o077;
const EVERYBODY: u32 = 0o007;
const EVERYBODY_WRITES: u32 = 0o002;
const GROUP_READS: u32 = 0o040;
const GROUP_WRITES: u32 = 0o020;
const ABSENT: &str = "it does not exist";
/// No clock of a healthy machine goes back by so much.
const BACK: Duration = Duration::from_secs(60);

/// Where systemd-timesyncd has its state; it leaves a mark there once it has set the clock.
pub(super) const TIMESYNC: &str = "/run/systemd/timesync";

/// Checks the settings and the files that they were read from, the folders of the server and the
/// files with keys.
pub(super) fn check(
    settings: &Settings,
    options: &StoreOptions,
    listeners: &Listeners,
    mint: &Mint,
) -> Vec<Check> {
    let speaks_https = listeners.shown("https").is_some();
    let mut checks = vec![of_settings(settings, options.file(), speaks_https)];
    match options.files() {
        Ok(files) => checks.extend(files.iter().filter_map(of_settings_file)),
        // They were read a moment before.
        Err(error) => {
            let topic = Check::of(CheckSubject::Files, "");
            checks.push(topic.failure(with_causes(&error), "a start would fail"));
        }
    }
    if let Location::Folder(folder) = &settings.place.database {
        let advice = "make the store with `gatepost init`";
        checks.push(of_folder(folder, |topic| topic.failure(ABSENT, advice)));
        checks.extend(of_clock(folder, mint.clock().now()));
    }
    checks.extend(of_own_folders(settings));
    checks.extend(of_secrets(settings, mint));
    let pairs = [&settings.tls.smtp, &settings.tls.http];
    checks.extend(pairs.into_iter().flatten().map(|paths| of_secret(&paths.key, "key")));
    checks
}

/// Checks the folders beside the data folder: of large originals, and of ACME.
fn of_own_folders(settings: &Settings) -> impl Iterator<Item = Check> {
    let place = &settings.place;
    let data = match &place.database {
        Location::Folder(folder) => Some(folder),
        Location::Postgres(_) => None,
    };
    let blobs = match &place.blobs {
        Some(BlobPlace::Folder(folder)) => Some(folder),
        _ => None,
    };
    let acme = settings.tls.acme.as_ref().map(|acme| &acme.folder);
    // Behind the rights of the data folder, those of a folder in it add nothing.
    let beside = move |folder: &&PathBuf| data.is_none_or(|data| !folder.starts_with(data));
    [blobs, acme].into_iter().flatten().filter(beside).map(|folder| {
        of_folder(folder, |topic| topic.skipped("there is none yet; the server makes it"))
    })
}

/// Checks a file with settings; nothing is said if it holds no secret, and nobody else changes it.
fn of_settings_file(file: &SettingsFile) -> Option<Check> {
    if file.holds_secret {
        return Some(of_secret(&file.path, "settings with a password or key"));
    }
    let mode = fs::metadata(&file.path).ok()?.permissions().mode();
    (mode & EVERYBODY_WRITES != 0 && !is_closed(&file.path)).then(|| {
        let topic = Check::of(CheckSubject::Files, file.path.display().to_string());
        let advice = format!("chmod o-w {}", file.path.display());
        topic.warning("every user of this machine may change the settings", advice)
    })
}

/// Whether its folder keeps other users from a file, whatever the rights of the file are.
fn is_closed(path: &Path) -> bool {
    // The folder of the file itself, where a link leads.
    let folder = fs::canonicalize(path).ok();
    let found = folder.and_then(|path| fs::metadata(path.parent()?).ok());
    found.is_some_and(|found| found.permissions().mode() & EVERYBODY == 0)
}

/// `speaks_https`: the running server does, whatever these settings say.
fn of_settings(settings: &Settings, file: Option<&Path>, speaks_https: bool) -> Check {
    let file = file.map(|path| path.display().to_string());
    let topic = Check::of(CheckSubject::Settings, file.unwrap_or_default());
    let is_secure = speaks_https || settings.is_secure();
    if !is_secure && !settings.http.ip().is_loopback() {
        return topic.warning(
            format!("the API speaks http at {}: keys cross the network in clear", settings.http),
            "give --http-tls-cert and --http-tls-key, or put a proxy with TLS in front and name its \
             https URL by --public-url",
        );
    }
    topic.ok(format!("settings and rules can be read; this server is {}", settings.hostname))
}

/// Checks a folder that the server has to itself; `absent` says how it is if there is none.
fn of_folder(folder: &Path, absent: impl FnOnce(CheckTopic) -> Check) -> Check {
    let topic = Check::of(CheckSubject::Files, folder.display().to_string());
    let found = match fs::metadata(folder) {
        Ok(found) if found.is_dir() => found,
        Ok(_) => return topic.failure("it is not a folder", "name a folder in the settings"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return absent(topic),
        Err(error) => return topic.failure(reading(&error), "let the user of the server enter it"),
    };
    if let Some(owner) = another_owner(&found) {
        return topic.warning(
            format!("it belongs to user {owner}, and this command runs as {}", own_user()),
            "run commands as the user of the server: files made by another one may lock it out",
        );
    }
    if found.permissions().mode() & OTHERS != 0 {
        let advice = format!("chmod 700 {}", folder.display());
        return topic.warning("other users of this machine may enter it", advice);
    }
    match tempfile::tempfile_in(folder) {
        Ok(_) => topic.ok("it is private, and can be written to"),
        Err(error) => topic.failure(
            format!("no file can be written there: {error}"),
            "let the user of the server write there, and make room",
        ),
    }
}

/// Warns if the last change of the store is in the future.
fn of_clock(folder: &Path, now: Timestamp) -> Option<Check> {
    let changed = fs::read_dir(folder).ok()?.filter_map(|entry| {
        let changed = entry.ok()?.metadata().ok()?.modified().ok()?;
        let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?))
    });
    let changed = changed.max()?;
    (changed > now.plus(BACK)).then(|| {
        Check::of(CheckSubject::Clock, "").warning(
            format!("files of the store were changed at {changed}, and now it is {now}"),
            "set the clock (chrony or systemd-timesyncd): signatures are judged by it",
        )
    })
}

/// Says whether systemd-timesyncd, of which this is the folder, has set the clock; None where it does
/// not run.
pub(super) fn of_time_service(folder: &Path) -> Option<Check> {
    let runs = folder.exists();
    let topic = Check::of(CheckSubject::Clock, "systemd-timesyncd");
    runs.then(|| match folder.join("synchronized").exists() {
        true => topic.ok("it has set the clock by a time server"),
        false => topic.warning(
            "it runs, and has not set the clock: no time server has answered since it began",
            "let it reach its servers (timedatectl timesync-status): signatures are judged by the clock",
        ),
    })
}

fn of_secrets(settings: &Settings, mint: &Mint) -> Option<Check> {
    let path = run::secrets_key_file(settings.secrets_key.as_deref(), &settings.place)?;
    let topic = Check::of(CheckSubject::Files, path.display().to_string());
    if settings.secrets_key.is_none() && !path.exists() {
        return Some(topic.skipped("there is none yet; the first start makes one"));
    }
    Some(match run::read_secrets_key(&path, mint) {
        Err(error) => topic.failure(with_causes(&error), "a start would fail: correct the file"),
        Ok(_) => of_secret(&path, "key"),
    })
}

/// Checks whether the keys open all secrets of the store; nothing is said if they do.
pub(super) async fn of_sealed(settings: &Settings, store: &Store, mint: &Mint) -> Vec<Check> {
    let path = run::secrets_key_file(settings.secrets_key.as_deref(), &settings.place);
    let path = path.map_or_else(String::new, |path| path.display().to_string());
    let topic = Check::of(CheckSubject::Files, path);
    let named = settings.secrets_key.as_deref();
    match run::check_secrets(named, &settings.place, store, mint).await {
        Ok(true) => Vec::new(),
        Ok(false) => vec![topic.failure(
            "the store holds secrets of relays, apps or computers that none of the keys opens",
            "add the key that sealed them to the file of --secrets-key-file",
        )],
        Err(error) => vec![topic.failure(with_causes(&error), "a start would fail")],
    }
}

/// Checks a file with a secret, which is named by `secret`.
fn of_secret(path: &Path, secret: &str) -> Check {
    let topic = Check::of(CheckSubject::Files, path.display().to_string());
    let found = match fs::File::open(path).and_then(|file| file.metadata()) {
        Err(error) => {
            return topic.failure(reading(&error), "let the user of the server read it");
        }
        Ok(found) => found,
    };
    let (mode, owner) = (found.permissions().mode(), found.uid());
    if mode & EVERYBODY != 0 && !is_closed(path) {
        let detail = format!("every user of this machine may use the file of the {secret}");
        return topic.warning(detail, format!("chmod o= {}", path.display()));
    }
    if mode & GROUP_WRITES != 0 {
        let detail = format!("group {} may change the {secret}", found.gid());
        return topic.warning(detail, format!("chmod g-w {}", path.display()));
    }
    match mode & GROUP_READS {
        0 => topic.ok(format!("the {secret} can be read, by its owner alone (user {owner})")),
        _ => {
            let detail = format!("the {secret} can be read, by user {owner}");
            topic.ok(format!("{detail} and group {}", found.gid()))
        }
    }
}

fn reading(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => ABSENT.to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The owner, if it is not the user of this command.
fn another_owner(found: &Metadata) -> Option<u32> {
    (found.uid() != own_user()).then(|| found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Tone;

    #[test]
    fn the_clock_is_set_once_the_time_service_has_left_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("timesync");
        assert_eq!(of_time_service(&state), None);
        fs::create_dir(&state).unwrap();
        assert_eq!(of_time_service(&state).unwrap().tone, Tone::Warning);
        fs::write(state.join("synchronized"), "").unwrap();
        assert_eq!(of_time_service(&state).unwrap().tone, Tone::Ok);
    }
}
