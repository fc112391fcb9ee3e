//! Keeps the visible output of tests, and notes every key that they make, for `scripts/canary`,
//! which looks for these keys in that output (threats E8). `scripts/test` says where
//! (`GATEPOST_TEST_OUTPUT`); without it nothing is kept.
//!
//! Part of both test binaries: src/http/tests includes this file, too.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Where everything is kept, if it is.
pub static FOLDER: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| std::env::var_os("GATEPOST_TEST_OUTPUT").map(PathBuf::from));

static KEPT: LazyLock<Option<Mutex<Kept>>> = LazyLock::new(|| {
    let folder = FOLDER.as_ref()?;
    let add = |kind: &str| {
        let folder = folder.join(kind);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("tests-{}", std::process::id()));
        File::options().create(true).append(true).open(file).unwrap()
    };
    Some(Mutex::new(Kept { seen: add("seen"), keys: add("keys"), noted: HashSet::new() }))
});

struct Kept {
    /// Visible output, under the names of the tests.
    seen: File,
    /// The beginning of the random part of each key, one a line.
    keys: File,
    noted: HashSet<Vec<u8>>,
}

fn kept() -> Option<MutexGuard<'static, Kept>> {
    KEPT.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes the keys that stand in what a test made or sends.
pub fn note(octets: &[u8]) {
    let Some(mut kept) = kept() else { return };
    for secret in secrets(octets) {
        kept.note(&octets[secret]);
    }
}

/// Keeps what can be seen. Of an answer to a request that makes a key ([`shows`]), the first one that
/// the request did not bring is noted and left out: that is the one place where it may stand.
pub fn keep(what: &str, octets: &[u8], made_by: Option<&[u8]>) {
    let Some(mut kept) = kept() else { return };
    let thread = std::thread::current();
    let heading = format!("\n== {} {what}\n", thread.name().unwrap_or("?"));
    kept.seen.write_all(heading.as_bytes()).unwrap();
    let made = made_by.and_then(|request| new(request, octets));
    let shown = made.or_else(|| in_button(octets)).unwrap_or_default();
    if !shown.is_empty() {
        kept.note(&octets[shown.clone()]);
    }
    kept.seen.write_all(&octets[..shown.start]).unwrap();
    kept.seen.write_all(&octets[shown.end..]).unwrap();
}

/// This request, if its answer may show a key that it made: only a success does.
pub fn shows(request: &[u8], succeeded: bool) -> Option<&[u8]> {
    let path = request.split(|octet| b"? \r".contains(octet)).nth(1).unwrap_or_default();
    // The last two sign in to the console: the answer has the cookie of the session.
    let makes = ["/tokens", "/webhooks", "/rotate", "/keys", "/console/sign-in", "/console/open"];
    let relay = path.windows(14).any(|some| some == b"/webhookRelay/");
    let makes = relay || makes.iter().any(|end| path.ends_with(end.as_bytes()));
    (succeeded && makes && request.starts_with(b"POST ")).then_some(request)
}

/// Where the ticket of a link to the console stands in the page with its button, which sends it.
fn in_button(answer: &[u8]) -> Option<Range<usize>> {
    const FIELD: &[u8] = b"name=\"ticket\" value=\"gps_";
    let start = answer.windows(FIELD.len()).position(|some| some == FIELD)? + FIELD.len();
    secrets(answer).into_iter().find(|secret| secret.start == start)
}

/// Where the first key stands that is not in the request.
fn new(request: &[u8], answer: &[u8]) -> Option<Range<usize>> {
    let brought = |secret: &[u8]| request.windows(secret.len()).any(|some| some == secret);
    secrets(answer).into_iter().find(|secret| !brought(&answer[secret.clone()]))
}

/// Returns the part of a key that is looked for, since a part is as secret as the whole. Returns
/// None for a repetitive text: a test made it up, and it may stand anywhere.
fn beginning(secret: &[u8]) -> Option<&[u8]> {
    let (length, distinct) = (20, 8);
    let some = &secret[..length.min(secret.len())];
    (some.iter().collect::<HashSet<_>>().len() >= distinct).then_some(some)
}

/// Keeps the log of servers in this process.
pub fn listen() {
    static LISTENING: LazyLock<()> = LazyLock::new(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("info,gatepost=debug")
            .with_ansi(false)
            .with_writer(|| Log)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    if FOLDER.is_some() {
        LazyLock::force(&LISTENING);
    }
}

/// A line of a log.
struct Log;

impl Write for Log {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        kept().map_or(Ok(octets.len()), |mut kept| kept.seen.write(octets))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn note(&mut self, secret: &[u8]) {
        let Some(sought) = beginning(secret) else { return };
        if self.noted.insert(sought.to_vec()) {
            self.keys.write_all(&[sought, b"\n"].concat()).unwrap();
        }
    }
}

/// The random parts of API keys (`gp_` and 43 characters of base64url), of sessions of the console
/// and links to it (`gps_`), and of signing secrets (`whsec_` and 43 characters of base64 before its
/// `=`). Inbound keys (`gpi_`) are not sought: the API shows the URL that a provider is given.
fn secrets(octets: &[u8]) -> Vec<Range<usize>> {
    const LENGTH: usize = 43;
    let is = |octet: u8, more: &[u8]| octet.is_ascii_alphanumeric() || more.contains(&octet);
    let mut found = Vec::new();
    for (prefix, more) in [(&b"gp_"[..], &b"-_"[..]), (b"gps_", b"-_"), (b"whsec_", b"+/")] {
        for start in 0..octets.len() {
            if !octets[start..].starts_with(prefix) {
                continue;
            }
            let secret = start + prefix.len()..start + prefix.len() + LENGTH;
            let whole = octets.get(secret.clone());
            if whole.is_some_and(|whole| whole.iter().all(|octet| is(*octet, more))) {
                found.push(secret);
            }
        }
    }
    found.sort_by_key(|secret| secret.start);
    found
}

#[test]
fn keys_are_found_in_what_is_sent_and_shown() {
    let (api, signing) = ("aB3_-".repeat(9)[..43].to_owned(), "aB3+/".repeat(9)[..43].to_owned());
    let text = format!("gp_{api}&x=gp_short \"whsec_{signing}=\" gp_{api}");
    let found: Vec<_> = secrets(text.as_bytes()).into_iter().map(|one| &text[one]).collect();
    assert_eq!(found, [&api, &signing, &api]);
    let console = format!("Cookie: gatepost_console=gps_{api}; gps_short");
    assert_eq!(secrets(console.as_bytes()).len(), 1);
    let page = format!("gps_{api} <input name=\"ticket\" value=\"gps_{api}\">");
    let start = page.rfind(&api).unwrap();
    assert_eq!(in_button(page.as_bytes()), Some(start..start + api.len()));
    assert_eq!(in_button(format!("value=\"gps_{api}\"").as_bytes()), None);
    for request in [
        "POST /api/v2/webhooks?token=x HTTP/1.1\r\n",
        "POST http://h/tokens?a=b",
        "POST /console/sign-in HTTP/1.1\r\n",
    ] {
        assert_eq!(shows(request.as_bytes(), true), Some(request.as_bytes()));
        assert_eq!(shows(request.as_bytes(), false), None, "an error shows none");
    }
    for request in ["GET /api/v2/webhooks HTTP/1.1\r\n", "POST /tokens/x", ""] {
        assert_eq!(shows(request.as_bytes(), true), None);
    }
    let request = format!("POST /tokens?token=gp_{api}");
    let whsec = text.find(&signing).unwrap();
    assert_eq!(new(request.as_bytes(), text.as_bytes()), Some(whsec..whsec + signing.len()));
    assert_eq!(new(request.as_bytes(), format!("gp_{api}").as_bytes()), None, "it brought it");
    let random = b"Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3A";
    assert_eq!(beginning(random), Some(&random[..20]));
    assert_eq!(beginning(api.as_bytes()), None);
}
