//! The Debian package: installed, upgraded, removed and purged in a root that is thrown away, and read
//! by lintian. Its program is the one of this build, stripped.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::PATIENCE;
use crate::support::process::GATEPOST;
use crate::support::sources::root;

/// The way of an administrator with the root: fakeroot lends the rights of root, so that owners are
/// kept, and the scripts of the package get the root by DPKG_ROOT. Of what it depends on nothing is there.
const WAY: &str = r#"
set -eu
root=$1 first=$2 second=$3
mkdir -p "$root"/var/lib/dpkg/info "$root"/var/lib/dpkg/updates "$root"/var/lib/dpkg/triggers
touch "$root"/var/lib/dpkg/status "$root"/var/lib/dpkg/available
dpkg() {
  command dpkg --root="$root" --force-script-chrootless --force-depends --force-unsafe-io \
    --force-confold --log=/dev/null "$@" >&2
}
look() {
  echo "== $1"
  (cd "$root" && find . -not -type d -not -path './var/lib/dpkg/*' -o -name 'gatepost' -type d) |
    (cd "$root" && xargs stat --format '%a %u:%g %n') | sort -k 3
}
dpkg --install "$first"
look installed
echo "== users"
cat "$root"/etc/passwd
echo '#of the administrator' >>"$root"/etc/gatepost/gatepost.toml
mkdir "$root"/var/lib/gatepost/gatepost-data
systemctl --root="$root" --quiet enable gatepost.service
look enabled
dpkg --install "$second"
look upgraded
echo "== settings"
tail -n 1 "$root"/etc/gatepost/gatepost.toml
command dpkg --root="$root" --list gatepost | tail -n 1
dpkg --remove gatepost
look removed
dpkg --purge gatepost
look purged
rmdir "$root"/var/lib/gatepost/gatepost-data
dpkg --install "$first"
dpkg --purge gatepost
look empty
"#;

async fn run(command: &mut Command) -> (bool, String, String) {
    let output = timeout(PATIENCE * 3, command.kill_on_drop(true).output()).await.unwrap();
    let output = output.expect("scripts/test installs the tools");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// Makes a package of the program of this build.
async fn packed(folder: &Path, version: &str) -> String {
    let file = folder.join(format!("gatepost_{version}.deb")).display().to_string();
    let mut package = Command::new("bash");
    package.args([
        "scripts/package",
        "--binary",
        GATEPOST,
        "--version",
        version,
        "--output",
        &file,
    ]);
    let (done, _, said) = run(package.current_dir(root()).env_remove("CARGO_TARGET_DIR")).await;
    assert!(done, "{said}");
    file
}

/// Returns what each look has seen: mode and owner of each file and of the folders of the package.
fn looks(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut looks = BTreeMap::new();
    for part in text.split("== ").skip(1) {
        let mut lines = part.lines();
        looks.insert(lines.next().unwrap(), lines.collect());
    }
    looks
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_installed_upgraded_and_purged_and_lintian_has_no_word() {
    let folder = tempfile::tempdir().unwrap();
    let first = packed(folder.path(), "0.0.1-1").await;
    let second = packed(folder.path(), "9.9.9-1").await;
    let throw_away = folder.path().join("root");
    let mut way = Command::new("fakeroot");
    way.args(["bash", "-c", WAY, "bash"]).arg(&throw_away).args([&first, &second]);
    let (done, seen, said) = run(&mut way).await;
    assert!(done, "{said}\n{seen}");
    let looks = looks(&seen);
    assert!(looks["users"].iter().any(|line| {
        line.starts_with("gatepost:") && line.ends_with(":/var/lib/gatepost:/usr/sbin/nologin")
    }));
    let user = looks["users"].iter().find(|line| line.starts_with("gatepost:")).unwrap();
    let id: Vec<&str> = user.split(':').collect();
    let (uid, gid) = (id[2], id[3]);
    let installed = &looks["installed"];
    for (mode, owner, path) in [
        ("755", "0:0", "./usr/bin/gatepost"),
        ("644", "0:0", "./etc/gatepost/gatepost.toml"),
        ("750", &format!("0:{gid}"), "./etc/gatepost"),
        ("700", &format!("{uid}:{gid}"), "./var/lib/gatepost"),
        ("644", "0:0", "./lib/systemd/system/gatepost.service"),
        ("644", "0:0", "./lib/systemd/system/gatepost-smtp.socket"),
        ("644", "0:0", "./lib/systemd/system/gatepost-smtps.socket"),
        ("644", "0:0", "./lib/systemd/system/gatepost-http.socket"),
        ("644", "0:0", "./lib/systemd/system/gatepost-acme.socket"),
        ("644", "0:0", "./usr/lib/sysusers.d/gatepost.conf"),
        ("644", "0:0", "./usr/lib/tmpfiles.d/gatepost.conf"),
        ("644", "0:0", "./usr/share/man/man1/gatepost-serve.1.gz"),
        ("644", "0:0", "./usr/share/man/man1/gatepost-webhook-test.1.gz"),
        ("644", "0:0", "./usr/share/bash-completion/completions/gatepost"),
        ("644", "0:0", "./usr/share/zsh/vendor-completions/_gatepost"),
        ("644", "0:0", "./usr/share/fish/vendor_completions.d/gatepost.fish"),
        ("644", "0:0", "./usr/share/doc/gatepost/copyright"),
        ("644", "0:0", "./usr/share/doc/gatepost/book/deploy.md"),
        ("644", "0:0", "./usr/share/doc/gatepost/examples/alerts.yml"),
        ("644", "0:0", "./usr/share/doc/gatepost/examples/haproxy.cfg"),
    ] {
        let wanted = format!("{mode} {owner} {path}");
        assert!(installed.contains(&wanted.as_str()), "{wanted}: {installed:#?}");
    }
    // Nobody but root writes anything that it brings.
    let others = installed.iter().filter(|line| !line.contains(" 0:0 "));
    assert_eq!(others.count(), 2, "{installed:#?}");

    // Enabled, it is upgraded, and what the administrator changed stays.
    let is_link = |line: &&&str| line.contains(".wants/gatepost");
    assert_eq!(looks["enabled"].iter().filter(is_link).count(), 3, "{:#?}", looks["enabled"]);
    assert_eq!(looks["settings"][0], "#of the administrator");
    assert!(looks["settings"][1].contains("9.9.9-1"), "{:?}", looks["settings"]);
    let upgraded = &looks["upgraded"];
    assert!(installed.iter().all(|line| upgraded.contains(line)), "{upgraded:#?}");

    // Removed, its settings stay; purged, its mail does.
    let of_ours = |name: &str| -> Vec<&str> {
        let lines = looks[name].iter().filter(|line| line.contains("gatepost"));
        lines.map(|line| line.rsplit(' ').next().unwrap()).collect()
    };
    let kept = ["./etc/gatepost", "./etc/gatepost/gatepost.toml", "./var/lib/gatepost"];
    assert_eq!(of_ours("removed"), kept);
    assert_eq!(of_ours("purged"), ["./var/lib/gatepost"]);
    assert!(said.contains("mail and keys stay in /var/lib/gatepost"), "{said}");
    assert_eq!(of_ours("empty"), [""; 0]);

    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let (fine, listed, said) = run(lintian.arg(&first)).await;
    assert!(fine && listed.is_empty(), "{listed}{said}");
}
