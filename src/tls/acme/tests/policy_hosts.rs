//! Which names get a certificate where many wait, and where they lead.

use super::*;

/// Rules with these, in `acme.toml`.
fn rules(folder: &Path, text: &str) -> Rules {
    std::fs::write(folder.join("acme.toml"), text).unwrap();
    Rules::load(folder).unwrap()
}

/// An authority that nobody finds; names lead where `lookup` says.
fn authority(rules: Rules, folder: &Path, lookup: &Lookup) -> Arc<Authority> {
    let Keeper { authority, .. } = work_by(rules, settings(folder), on_day(1), 0);
    let mut authority = Arc::into_inner(authority).unwrap();
    authority.leading = leading(lookup, &["mx.example"], || on_day(1));
    Arc::new(authority)
}

/// Every name leads here.
fn here() -> Lookup {
    Lookup::new(|_| async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
}

async fn until(is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, waiting).await.expect("it never comes");
}

fn no_domains() -> Domains {
    Domains::by(|| async { Ok(Arc::default()) })
}

/// Else one account's domains could take all certificates from others.
#[tokio::test]
async fn a_host_that_leads_elsewhere_takes_no_certificate_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\nmax_certificates = 1\n");
    let lookup = Lookup::new(|host| async move {
        let is_here = ["mx.example", "mta-sts.z.example"].contains(&host.as_str());
        Ok(vec![if is_here { "192.0.2.1" } else { "192.0.2.2" }.parse().unwrap()])
    });
    let authority = authority(rules, folder.path(), &lookup);
    let mut hosts = PolicyHosts::new(&authority, no_domains(), None);
    let (one, other) = (name("mta-sts.a.example"), name("mta-sts.z.example"));
    let shutdown = Shutdown::default();
    hosts.keep(&[one.clone(), other.clone()].into(), &shutdown).await;
    let tried = |name: &DomainName| AcmeFolder::of(&authority.settings, name).tried().unwrap();
    until(|| tried(&other).is_some()).await;
    assert_eq!(tried(&one), None);
    // It keeps its place while it leads here.
    assert!(authority.make_room().is_none());
    hosts.keep(&[one].into(), &shutdown).await;
    until(|| authority.make_room().is_some()).await;
}

#[tokio::test]
async fn certificates_that_are_there_come_first_where_there_are_too_many_and_others_need_none() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\nmax_certificates = 1\n");
    let work = work_by(rules, settings(folder.path()), on_day(1), 0);
    let (authority, shutdown) = (&work.authority, Shutdown::default());
    let of_files = self_signed::make_temporary(&name("mta-sts.a.example")).unwrap();
    let of_files = Certificates::new(of_files, None, authority.clock().clone());
    let mut hosts = PolicyHosts::new(authority, no_domains(), Some(of_files));
    let domains = ["a.example", "b.example", "c.example"].map(name).into();
    let needed = hosts.hosts(&domains);
    assert_eq!(needed, ["mta-sts.b.example", "mta-sts.c.example"].map(name).into());

    let chain = chain(&work.folder.key().unwrap().serialize_pem(), "mta-sts.c.example");
    AcmeFolder::of(&authority.settings, &name("mta-sts.c.example")).keep_chain(&chain).unwrap();
    let others = authority.certificates.others();
    hosts.keep(&needed, &shutdown).await;
    assert!(others.get("mta-sts.b.example").is_none());
    assert!(others.get("MTA-STS.c.example").is_some());
    assert_eq!(others.first_end(true), Some(on_day(100)));
    hosts.keep(&BTreeSet::new(), &shutdown).await;
    assert!(others.get("mta-sts.c.example").is_none());
    assert_eq!(stored(&authority.settings).unwrap().len(), 0);
}

/// Else as many of customers' hosts as there are places could hold up all others.
#[tokio::test]
async fn a_policy_host_that_waits_after_a_failure_takes_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(Rules::defaults().unwrap(), folder.path(), &here());
    let keeper = Keeper::new(&authority, name("mta-sts.agents.example"));
    let (next, shutdown) = (keeper.begin().await, Shutdown::default());
    let most = authority.rules.policy_hosts.max_at_once;
    let has_tried = || keeper.folder.tried().unwrap().is_some();
    tokio::select! {
        () = keeper.keep(next, &shutdown) => panic!("it never ends"),
        () = until(|| has_tried() && authority.places.available_permits() == most) => {}
    }
}

/// Finds where names lead, of a gateway with these; theirs are kept for a minute.
fn leading(
    lookup: &Lookup,
    names: &[&str],
    now: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Leading {
    let names = names.iter().map(|one| name(one)).collect();
    Leading::new(lookup.clone(), names, Duration::from_secs(60), Clock::new(now))
}

#[tokio::test]
async fn the_gateways_own_names_are_looked_up_once_for_all_hosts() {
    let (asked, millis) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
    let (asking, now) = (Arc::clone(&asked), Arc::clone(&millis));
    let lookup = Lookup::new(move |host| {
        if host == "mx.example" {
            asking.fetch_add(1, SeqCst);
        }
        async { Ok(vec!["192.0.2.1".parse().unwrap()]) }
    });
    let now = move || Timestamp::from_millis(now.load(SeqCst));
    let leading = leading(&lookup, &["mx.example"], now);
    let hosts: Vec<_> = (0..100).map(|number| name(&format!("h{number}.example"))).collect();
    for (after, wanted) in [(0, 1), (59_999, 1), (60_000, 2)] {
        millis.store(after, SeqCst);
        let found = join_all(hosts.iter().map(|host| leading.leads_here(host))).await;
        assert!(found.iter().all(|leads| matches!(leads, Ok(true))));
        assert_eq!(asked.load(SeqCst), wanted, "after {after} ms");
    }
}

/// A look-up that fails is no word about the customer's DNS.
#[tokio::test]
async fn a_name_leads_here_leads_elsewhere_or_cannot_be_looked_up() {
    let lookup = Lookup::new(|host| async move {
        match host.as_str() {
            "mx.example" | "here.example" => Ok(vec!["192.0.2.1".parse().unwrap()]),
            "both.example" => Ok(["192.0.2.1", "192.0.2.2"].map(|at| at.parse().unwrap()).into()),
            "none.example" | "mx2.example" => Ok(Vec::new()),
            _ => Err(io::Error::other("no answer")),
        }
    });
    let ask = async |names: &[&str], host: &str| {
        let leading = leading(&lookup, names, || on_day(1));
        leading.leads_here(&name(host)).await.map_err(|error| error.to_string())
    };
    for (host, expected) in [
        ("here.example", Ok(true)),
        ("both.example", Ok(false)),
        ("none.example", Ok(false)),
        ("lost.example", Err("cannot look up lost.example".to_owned())),
    ] {
        assert_eq!(ask(&["mx.example"], host).await, expected, "{host}");
    }
    assert_eq!(ask(&["mx.example", "lost.example"], "here.example").await, Ok(true));
    for names in [&["mx.example", "lost.example"][..], &["mx2.example"]] {
        let failed = Err(format!("cannot look up {}", names[names.len() - 1]));
        assert_eq!(ask(names, "both.example").await, failed, "{names:?}");
    }
}

/// Whichever host comes first after a restart.
#[tokio::test]
async fn orders_from_before_a_start_count_before_any_other_is_placed() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\norders_per_hour = 1\n");
    let authority = authority(rules, folder.path(), &here());
    let hosts = PolicyHosts::new(&authority, no_domains(), None);
    let note = |host: &str, at: Timestamp| {
        let tried = AttemptRecord { at, not_before: at, failures: 0 };
        AcmeFolder::of(&authority.settings, &name(host)).note(tried).unwrap();
    };
    // The gateway's own names need no place, and long ago does not count.
    note("mx.example", on_day(1));
    note("mx2.example", on_day(1));
    note("mta-sts.a.example", on_day(0));
    hosts.count_attempts().await;
    assert_eq!(authority.budget.take().now_or_never(), Some(()));
    authority.budget.give_back();
    note("mta-sts.z.example", on_day(1));
    hosts.count_attempts().await;
    assert_eq!(authority.budget.take().now_or_never(), None);
}

/// Else the alert of a customer who has left would last for ever.
#[tokio::test]
async fn an_ended_certificate_whose_name_leads_elsewhere_is_forgotten() {
    for (day, is_kept) in [(99, true), (101, false)] {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path(), on_day(day), 0);
        let host = name("mta-sts.agents.example");
        let keeper = Keeper::new(&work.authority, host.clone());
        let key = keeper.folder.key().unwrap().serialize_pem();
        keeper.folder.keep_chain(&chain(&key, host.as_str())).unwrap();
        let mut next = keeper.begin().await;
        let end = || work.authority.certificates.others().first_end(true);
        assert!(end().is_some() && next.room.is_some());
        let attempt = keeper.next_attempt(&mut next, &Shutdown::default()).await;
        assert!(matches!(attempt, Ok(None)));
        let found = (end().is_some(), next.held.is_some(), next.room.is_some());
        assert_eq!(found, (is_kept, is_kept, is_kept), "on day {day}");
        assert_eq!(keeper.folder.chain().unwrap().is_some(), is_kept);
    }
}

/// The wait for an order may take hours, and the port may be taken.
#[tokio::test]
async fn an_order_counts_when_the_name_leads_here_still_and_the_port_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU64::new(0));
    let looking = Arc::clone(&looks);
    let lookup = Lookup::new(move |host| {
        // At first the host leads here.
        let is_here = host == "mx.example" || looking.fetch_add(1, SeqCst) == 0;
        async move { Ok(vec![if is_here { "192.0.2.1" } else { "192.0.2.2" }.parse().unwrap()]) }
    });
    let rules = rules(folder.path(), "[policy_hosts]\norders_per_hour = 1\n");
    let authority = authority(rules, folder.path(), &lookup);
    let keeper = Keeper::new(&authority, name("mta-sts.agents.example"));
    let (mut next, shutdown) = (keeper.begin().await, Shutdown::default());
    assert!(matches!(keeper.next_attempt(&mut next, &shutdown).await, Ok(None)));
    assert_eq!((looks.load(SeqCst), keeper.folder.tried().unwrap()), (2, None));
    assert!(next.due() > on_day(1) && next.room.is_none());

    looks.store(0, SeqCst);
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings { http: other.local_addr().unwrap(), ..authority.settings.clone() };
    let host = keeper.name.clone();
    drop(keeper);
    let mut authority = Arc::into_inner(authority).unwrap();
    (authority.settings, authority.is_open) = (settings, false.into());
    let authority = Arc::new(authority);
    let keeper = Keeper::new(&authority, host);
    let failed = keeper.next_attempt(&mut next, &shutdown).await;
    assert!(matches!(failed, Err(AcmeError::Listen { .. })));
    // The only one of the hour is left.
    timeout(SOON, authority.budget.take()).await.unwrap();
}
