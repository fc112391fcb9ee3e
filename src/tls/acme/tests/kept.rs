//! Records of a certificate and of its authority: whose they are, and what happens to damage.

use super::*;

#[test]
fn the_key_stays_whatever_is_asked_of_whom() {
    let folder = tempfile::tempdir().unwrap();
    let one = settings(folder.path());
    let other = Settings { directory: "https://other.example/".parse().unwrap(), ..one.clone() };
    let further = AcmeFolder::of(&one, &name("mta-sts.agents.example"));
    let (one, other) = (own(&one), own(&other));
    let key = one.key().unwrap().serialize_pem();
    one.keep_chain("of one").unwrap();
    one.keep_account("{}").unwrap();
    further.keep_chain("of a further name").unwrap();
    for (folder, chain, account) in [
        (&one, Some("of one"), Some("{}")),
        (&further, Some("of a further name"), Some("{}")),
        (&other, None, None),
    ] {
        assert_eq!(folder.key().unwrap().serialize_pem(), key);
        assert_eq!(folder.chain().unwrap().as_deref(), chain);
        assert_eq!(folder.account().unwrap().as_deref(), account);
    }
}

#[test]
fn an_order_is_open_for_its_name_alone_until_its_chain_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let one = own(&settings);
    assert_eq!(one.order().unwrap(), None);
    one.keep_order("https://ca.example/order/1").unwrap();
    assert_eq!(one.order().unwrap().as_deref(), Some("https://ca.example/order/1"));
    assert_eq!(AcmeFolder::of(&settings, &name("mx2.example")).order().unwrap(), None);
    one.keep_chain("the chain").unwrap();
    assert_eq!(one.order().unwrap(), None);
    // By a version that ordered all names at once.
    let path = settings.folder.join("ca.example_9000_acme_dir/order");
    std::fs::write(path, "https://ca.example/order/1 mx.example mx2.example").unwrap();
    assert_eq!(one.order().unwrap(), None);
}

#[test]
fn what_is_stored_is_found_by_its_name_and_removed_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let key = own(&settings).key().unwrap().serialize_pem();
    let names = || {
        let found = stored(&settings).unwrap();
        found.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    for one in ["mx.example", "mta-sts.a.example", "mta-sts.b.example"] {
        AcmeFolder::of(&settings, &name(one)).keep_chain(&chain(&key, one)).unwrap();
    }
    assert_eq!(names(), ["mx.example", "mta-sts.a.example", "mta-sts.b.example"]);
    let is_a = |name: &DomainName| name.as_str() == "mta-sts.a.example";
    folder::remove(&settings, on_day(1), is_a).unwrap();
    assert_eq!(names(), ["mx.example", "mta-sts.b.example"]);
    let kept = all_files(&settings.folder).unwrap();
    let kept: Vec<_> = kept.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    let directory = "ca.example_9000_acme_dir";
    let wanted =
        ["/chain.pem", "/mta-sts.b.example/chain.pem"].map(|end| format!("{directory}{end}"));
    assert_eq!(kept, [wanted[0].as_str(), &wanted[1], "key.pem"]);
}

/// Else who toggles a domain would have the authority asked each time.
#[test]
fn waits_of_a_removed_name_stay_until_they_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let host = AcmeFolder::of(&settings, &name("mta-sts.a.example"));
    let later = |minutes: u64| on_day(1).plus(Duration::from_secs(minutes * 60));
    for (wait, until) in [(1, 60), (180, 180)] {
        let tried = AttemptRecord { at: on_day(1), not_before: later(wait), failures: 3 };
        host.note(tried).unwrap();
        host.keep_chain("the chain").unwrap();
        host.keep_order("https://ca.example/order/1").unwrap();
        folder::remove(&settings, later(until - 1), |_| true).unwrap();
        assert_eq!(host.tried().unwrap(), Some(tried));
        assert_eq!((host.chain().unwrap(), host.order().unwrap()), (None, None));
        folder::remove(&settings, later(until), |_| true).unwrap();
        let path = settings.folder.join("ca.example_9000_acme_dir/mta-sts.a.example");
        assert!(!path.exists(), "{wait}");
    }
}

#[test]
fn only_its_owner_reads_what_is_kept_and_nothing_else_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let kept = own(&settings);
    kept.key().unwrap();
    kept.keep_account("{}").unwrap();
    kept.keep_chain("one").unwrap();
    kept.keep_chain("two").unwrap();
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(2), failures: 3 };
    kept.note(tried).unwrap();
    assert_eq!(kept.tried().unwrap(), Some(tried));
    kept.keep_window("a.b 1").unwrap();
    kept.keep_order("https://ca.example/order/1").unwrap();
    let mut found = Vec::new();
    for within in ["acme", "acme/ca.example_9000_acme_dir"] {
        let within = folder.path().join(within);
        assert_eq!(std::fs::metadata(&within).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in std::fs::read_dir(&within).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                found.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["account.json", "chain.pem", "key.pem", "order", "tried", "window"]);
}

#[test]
fn a_damaged_key_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    std::fs::create_dir(&settings.folder).unwrap();
    std::fs::write(settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = AcmeError::from(own(&settings).key().unwrap_err());
    assert!(error.to_string().contains("key.pem"), "{error}");
    assert!(error.advice(AcmeChallenge::Http01, true).unwrap().contains("remove the file"));
    assert_eq!(std::fs::read(settings.folder.join("key.pem")).unwrap(), b"what is this?");
}
