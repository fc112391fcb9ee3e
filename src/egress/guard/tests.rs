use super::*;
use crate::rules::Rules;

fn guard(allowed: &[&str]) -> Guard {
    let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
    Guard::new(allowed, &Rules::defaults().unwrap().webhooks)
}

/// `fixtures/egress.toml`.
#[derive(serde::Deserialize)]
struct Table {
    refused: Vec<Spelling>,
    public: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Spelling {
    url: String,
    is: String,
}

fn table() -> Table {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/egress.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The URL with its default port, and with another allowed port.
fn with_ports(url: &str) -> [String; 2] {
    ["", ":8443"].map(|port| url.replace("{port}", port))
}

#[test]
fn every_spelling_of_a_private_host_is_refused() {
    use UrlError::{Fragment, Malformed, NotHttps, Port, PrivateHost, UserInfo};
    let table = table();
    assert!(table.refused.len() >= 150);
    for Spelling { url, is } in &table.refused {
        let expected = match is.as_str() {
            "host" => Some(PrivateHost),
            "malformed" => Some(Malformed),
            "scheme" => Some(NotHttps),
            "user" => Some(UserInfo),
            "port" => Some(Port),
            "fragment" => Some(Fragment),
            "name" => None,
            other => panic!("{url}: {other}?"),
        };
        for url in with_ports(url) {
            assert_eq!(guard(&[]).destination(&url).err(), expected, "{url:?}");
        }
    }
}

#[test]
fn public_hosts_are_accepted() {
    for url in table().public.iter().flat_map(|url| with_ports(url)) {
        let url = guard(&[]).destination(&url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let address = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ => continue,
        };
        assert!(guard(&[]).admits(address, Reach::Public), "{url}");
    }
}

/// An operator without private networks must not open them by naming one.
#[test]
fn what_an_operator_allows_opens_nothing_beside_it() {
    let guard = guard(&["10.1.0.0/16"]);
    for Spelling { url, is } in table().refused.iter().filter(|row| row.is != "name") {
        let url = url.replace("{port}", "");
        let Ok(url) = guard.destination(&url) else { continue };
        // The name may be in that network: its addresses decide.
        assert!(url.domain().is_some() && ["host", "scheme", "port"].contains(&is.as_str()));
    }
}

#[test]
fn nothing_leads_back_to_the_gateway_by_its_own_names() {
    let own = ["https://api.example/", "https://8.8.8.8/", "http://127.0.0.1:8080/"];
    let own = own.map(|url| Url::parse(url).unwrap().host().unwrap().to_owned());
    for guard in [guard(&[]), guard(&["127.0.0.0/8"])] {
        let guard = guard.for_gateway_at(own.clone());
        for url in [
            "https://api.example/",
            "https://API.example.:8443/x",
            "https://%61pi.example/",
            "https://8.8.8.8/",
            "https://134744072/",
            "https://[::ffff:8.8.8.8]/",
        ] {
            assert_eq!(guard.destination(url), Err(UrlError::OwnHost), "{url}");
        }
        for url in ["https://hooks.api.example/", "https://xapi.example/", "https://8.8.8.9/"] {
            guard.destination(url).unwrap();
        }
    }
    // Loopback names are not refused as the gateway's own: its receivers may be there too.
    let guard = guard(&["127.0.0.0/8"]).for_gateway_at(own);
    guard.destination("http://127.0.0.1:3000/").unwrap();
}

#[test]
fn what_is_not_an_https_url_is_refused() {
    use UrlError::{Fragment, Malformed, NotHttps, Port, PrivateHost, TooLong, UserInfo};
    let long = format!("https://hooks.example/{}", "a".repeat(2048));
    for (url, expected) in [
        ("", Malformed),
        ("hooks.example", Malformed),
        ("https://", Malformed),
        ("https:///", Malformed),
        ("//hooks.example/", Malformed),
        (" https://hooks.example/", Malformed),
        ("https://hooks.example/\n", Malformed),
        ("ht\ttps://hooks.example/", Malformed),
        ("https://hooks.\u{a0}example/", Malformed),
        ("https://hooks.exa\0mple/", Malformed),
        ("https://[fe80::1%25eth0]/", Malformed),
        ("https://[fe80::1%eth0]/", Malformed),
        ("https://256.256.256.256/", Malformed),
        ("https://127.0.0.1.1.1/", Malformed),
        ("https://hooks.example:99999/", Malformed),
        ("http://hooks.example/", NotHttps),
        ("HTTP://hooks.example/", NotHttps),
        ("http://8.8.8.8/", NotHttps),
        ("http://127.0.0.1/", NotHttps),
        ("ftp://hooks.example/", NotHttps),
        ("file:///etc/passwd", NotHttps),
        ("gopher://hooks.example/", NotHttps),
        ("data:text/plain,x", NotHttps),
        ("javascript:alert(1)", NotHttps),
        ("wss://hooks.example/", NotHttps),
        ("https://foo@127.0.0.1/", UserInfo),
        ("https://foo:bar@hooks.example/", UserInfo),
        ("https://:bar@hooks.example/", UserInfo),
        ("https://hooks.example%40@127.0.0.1/", UserInfo),
        ("https://hooks.example/#a", Fragment),
        ("https://hooks.example/#", Fragment),
        ("https://hooks.example:22/", Port),
        ("https://hooks.example:25/", Port),
        ("https://hooks.example:6379/", Port),
        ("https://8.8.8.8:0/", Port),
        ("https://a\\@b/", PrivateHost),
        ("https:127.0.0.1", PrivateHost),
        ("https:/127.0.0.1/", PrivateHost),
        ("https:\\\\127.0.0.1/", PrivateHost),
        (long.as_str(), TooLong),
    ] {
        assert_eq!(guard(&[]).destination(url), Err(expected), "{url:?}");
    }
}

#[test]
fn an_operators_network_takes_plain_http_and_any_port() {
    let guard = guard(&["127.0.0.0/8", "fd00::/8"]);
    for (url, expected) in [
        ("http://127.0.0.1:4711/", Ok(Reach::OperatorOnly)),
        ("http://[::ffff:127.0.0.1]/", Ok(Reach::OperatorOnly)),
        ("http://[fd12::1]:22/", Ok(Reach::OperatorOnly)),
        ("https://127.0.0.1:4711/", Ok(Reach::OperatorOnly)),
        ("https://127.0.0.1/", Ok(Reach::Public)),
        ("http://receiver:8080/", Ok(Reach::OperatorOnly)),
        ("https://localhost/", Ok(Reach::Public)),
        ("https://hooks.example/", Ok(Reach::Public)),
        ("https://10.0.0.1/", Err(UrlError::PrivateHost)),
        ("http://10.0.0.1/", Err(UrlError::NotHttps)),
        ("http://8.8.8.8/", Err(UrlError::NotHttps)),
        ("https://8.8.8.8:22/", Err(UrlError::Port)),
        ("http://x@127.0.0.1/", Err(UrlError::UserInfo)),
    ] {
        assert_eq!(guard.reach(&url.parse().unwrap()), expected, "{url}");
    }
}

#[test]
fn an_address_is_admitted_only_within_reach() {
    let guard = guard(&["10.1.0.0/16"]);
    for (address, public, operator_only) in [
        ("8.8.8.8", true, false),
        ("10.1.2.3", true, true),
        ("::ffff:10.1.2.3", true, true),
        ("10.2.0.1", false, false),
        ("127.0.0.1", false, false),
        ("::1", false, false),
    ] {
        let address = address.parse().unwrap();
        assert_eq!(guard.admits(address, Reach::Public), public, "{address}");
        assert_eq!(guard.admits(address, Reach::OperatorOnly), operator_only, "{address}");
    }
}
