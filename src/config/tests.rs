//! The file and its template, and settings that could never work.

use super::*;

#[test]
fn the_template_reads_and_changes_nothing() {
    let read: ServeOptions = toml::from_str(TEMPLATE).unwrap();
    assert_eq!(read, ServeOptions::default());
}

#[test]
fn the_template_names_every_setting() {
    // Without its `#`, every line must be a known key with a value of the right type.
    let uncommented: String = TEMPLATE
        .lines()
        .filter_map(|line| {
            let setting = line.strip_prefix("#").filter(|line| line.contains(" = "));
            setting.or(Some(line).filter(|line| line.starts_with('[')))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let read: ServeOptions = toml::from_str(&uncommented).unwrap();
    let ServeOptions {
        smtp,
        smtps,
        http,
        metrics,
        hostname,
        public_url,
        dns,
        egress_allow,
        trusted_proxy,
        cors_origin,
        no_console,
        no_mcp,
        mcp_changes,
        release_secrets,
        policies,
        postmaster,
        grace_seconds,
        start_patience,
        mta_sts,
        mta_sts_mx,
        mta_sts_max_age,
        tls_reports,
        tls_reports_name,
        data,
        database_url,
        database_url_file,
        secrets_key_file,
        blobs,
        // Not in the template: most builds have no choice.
        #[cfg(feature = "mailin")]
            front_end: _,
        tls: TlsOptions { smtp_cert, smtp_key, http_cert, http_key },
        s3: S3Options { endpoint, region, access_key, secret_key },
        acme,
        otlp,
        log: LogOptions { json, level, filter },
    } = read;
    assert!(json == Some(false) && level == Some(LogLevel::Info) && filter.is_some());
    assert!(smtp.is_some() && http.is_some() && hostname.is_some() && dns.is_some());
    assert!(metrics.is_some());
    assert!(trusted_proxy.is_some() && public_url.is_some() && cors_origin.is_some());
    assert_eq!([no_console, no_mcp, release_secrets], [Some(false); 3]);
    assert_eq!(mcp_changes, Some(true));
    assert!(egress_allow.is_some() && policies.is_some() && postmaster.is_some());
    assert!(smtps.is_some() && smtp_cert.is_some() && smtp_key.is_some());
    assert!(http_cert.is_some() && http_key.is_some());
    assert!(
        grace_seconds.is_some()
            && start_patience.is_some()
            && secrets_key_file.is_some()
            && data.is_some()
            && database_url.is_some()
            && database_url_file.is_some()
    );
    assert!(blobs.is_some() && endpoint.is_some() && region.is_some());
    assert!(access_key.is_some() && secret_key.is_some());
    assert!(mta_sts.is_some() && mta_sts_mx.is_some() && mta_sts_max_age.is_some());
    assert!(tls_reports == Some(true) && tls_reports_name.is_some());
    authority_and_collector_are_named(acme, otlp);
}

#[test]
fn a_level_by_a_flag_goes_before_a_filter_of_the_file() {
    let file = LogOptions { filter: Some("warn".into()), ..LogOptions::default() };
    let flag = LogOptions { level: Some(LogLevel::Debug), ..LogOptions::default() };
    assert_eq!(LogOptions::default().or(file.clone()).filter.as_deref(), Some("warn"));
    assert_eq!(flag.clone().or(file), flag);
}

fn authority_and_collector_are_named(acme: AcmeOptions, otlp: OtlpOptions) {
    let AcmeOptions {
        directory,
        agree_tos,
        contact,
        names,
        challenge,
        https,
        http,
        ca_file,
        folder,
    } = acme;
    assert!(directory.is_some() && agree_tos && contact.is_some() && names.is_some());
    assert!(challenge.is_some() && https == Some(false));
    assert!(http.is_some() && ca_file.is_some() && folder.is_some());
    let OtlpOptions { endpoint, sample, header } = otlp;
    assert!(endpoint.is_some() && sample.is_some() && header.is_some());
}

#[test]
fn a_flag_for_the_store_outdoes_the_files_whatever_either_names() {
    let folder = || ServeOptions { data: Some("here".into()), ..ServeOptions::default() };
    let url = || ServeOptions {
        database_url: Some("postgres://me:hush@h/d".into()),
        ..ServeOptions::default()
    };
    for (flag, file) in [(folder(), url()), (url(), folder())] {
        assert_eq!(flag.clone().or(file.clone()), flag);
        assert_eq!(ServeOptions::default().or(file.clone()), file);
    }
    assert!(!format!("{:?}", url()).contains("hush"));
}

#[test]
fn a_mistake_is_named_without_the_line_that_may_hold_a_password() {
    for text in [
        "smtp = \"127.0.0.1:25\"\ndatabase-url = postgres://me:hush@h/d",
        "\ndatabse-url = \"postgres://me:hush@h/d\"",
        "[s3]\nsecret-key = hush",
    ] {
        let error = parse(text, Path::new("gatepost.toml")).unwrap_err().to_string();
        assert!(error.starts_with("gatepost.toml, line 2: "), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn keys_of_the_blob_store_are_not_shown() {
    let s3 = "[s3]\nendpoint = \"https://h\"\naccess-key = \"HUSH\"\nsecret-key = \"hush\"";
    let file = parse(s3, Path::new("gatepost.toml")).unwrap();
    assert_eq!(ServeOptions::default().or(file.clone()), file);
    let shown = format!("{file:?}").to_lowercase();
    assert!(shown.contains("https://h") && !shown.contains("hush"), "{shown}");
}

#[test]
fn settings_that_could_never_work_are_refused() {
    let tagged =
        ServeOptions { postmaster: Some("a+b@c.example".into()), ..ServeOptions::default() };
    let error = tagged.postmaster().unwrap_err().to_string();
    assert!(error.contains("has a tag: use a@c.example"), "{error}");
    for all in ["0.0.0.0/0", "::/0"] {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), all.parse().unwrap()];
        let options = ServeOptions { trusted_proxy: Some(networks), ..ServeOptions::default() };
        let error = options.trusted_proxy().unwrap_err().to_string();
        assert!(error.contains(all), "{error}");
    }
    let from = |origin: &str| {
        let cors_origin = Some(vec!["https://a.example".to_owned(), origin.to_owned()]);
        ServeOptions { cors_origin, ..ServeOptions::default() }.cors_origin()
    };
    for origin in ["https://b.example:8443", "http://localhost:3000", "https://[::1]"] {
        assert_eq!(from(origin).unwrap().last().unwrap(), origin);
    }
    for other in
        ["*", "null", "b.example", "https://b.example/", "https://B.example", "", "ftp://b"]
    {
        let error = from(other).unwrap_err().to_string();
        assert!(error.contains(&format!("{other:?} is not an origin")), "{error}");
    }
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let error = toml::from_str::<ServeOptions>("smpt = \"0.0.0.0:25\"").unwrap_err();
    assert!(error.to_string().contains("smpt"), "{error}");
}
