use super::*;
use crate::rules::Rules;

fn guard(allowed: &[&str]) -> Guard {
    let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
    Guard::new(allowed, &Rules::defaults().unwrap().webhooks)
}

/// Spellings of hosts that lead to the own machine, the own network or nowhere.
const REFUSED_HOSTS: &[&str] = &[
    // loopback: decimal, octal, hexadecimal, short, mixed, escaped, full-width, IDN dots
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.1.",
    "127.255.255.254",
    "2130706433",
    "2130706433.",
    "0x7f000001",
    "0x7f.1",
    "0X7F.1",
    "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "0177.1",
    "0177.0.0.1",
    "0177.0.0.01",
    "00000177.1",
    "017700000001",
    "127.0x1",
    "127.00.00.01",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "127.0.0.1。",
    "1２7.1",
    // this network and unspecified
    "0",
    "0.",
    "0.0.0.0",
    "0x0",
    "00",
    "0.0",
    "0.1.2.3",
    "0x",
    // private, shared, link-local, metadata
    "10.0.0.1",
    "10.1",
    "167772161",
    "0xa000001",
    "012.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "0xac100001",
    "172.16.1",
    "192.168.0.1",
    "192.168.1",
    "3232235521",
    "0xc0a80001",
    "0300.0250.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "169.254.169.254",
    "169.254.43518",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.0.8",
    // documentation, benchmarking, relays, multicast, reserved, broadcast
    "192.0.2.1",
    "198.51.100.7",
    "203.0.113.255",
    "198.18.0.1",
    "198.19.255.255",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    "0xffffffff",
    // IPv6: loopback, unspecified, link-local, unique local, multicast, documentation, discard
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000::0001]",
    "[::]",
    "[::0.0.0.1]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fdff::]",
    "[ff02::1]",
    "[ff0e::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[5f00::1]",
    "[4000::1]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    // IPv6 with IPv4 inside: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:0.0.0.0]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::8.8.8.8]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]",
    "[64:ff9b:1::8.8.8.8]",
    "[2002:7f00:1::]",
    "[2002:a00:1::1]",
    "[2002:808:808::1]",
    "[2001:0:7f00:1::]",
    "[2001::1]",
    "[2600::5efe:7f00:1]",
    "[2600::200:5efe:a00:1]",
    // names for the own machine and the own network
    "localhost",
    "localhost.",
    "LOCALHOST",
    "LocalHost.",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛocalhost",
    "local%68ost",
    "a.localhost",
    "a.localhost.",
    "localhost.localdomain",
    "printer.local",
    "metadata.google.internal",
    "metadata.google.internal.",
    "METADATA.GOOGLE.INTERNAL",
    "router.lan",
    "nas.home.arpa",
    "db.intranet",
    "metadata",
    "redis",
    "kubernetes.",
    "gateway",
];

const PUBLIC_HOSTS: &[&str] = &[
    "hooks.example",
    "hooks.example.com",
    "hooks.example.com.",
    "xn--mnchen-3ya.example",
    "münchen.example",
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.167.255.255",
    "198.17.0.1",
    "198.20.0.1",
    "223.255.255.255",
    "11.0.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.17",
    "169.253.0.1",
    "169.255.0.1",
    "[2600::1]",
    "[2a00:1450:4001::200e]",
    "[2001:4860:4860::8888]",
    "[2001:200::1]",
    "[64:ff9b::8.8.8.8]",
    "[::ffff:8.8.8.8]",
    "[2003::1]",
    "[3ffe::1]",
    "notlocalhost.example",
    "local.example",
];

#[test]
fn every_spelling_of_a_private_host_is_refused() {
    assert!(REFUSED_HOSTS.len() >= 100);
    for host in REFUSED_HOSTS {
        for url in [format!("https://{host}/hook"), format!("https://{host}:8443/hook")] {
            let refusal = guard(&[]).destination(&url).unwrap_err();
            // A spelling that the parser itself turns away never gets as far as an address.
            let known = [UrlError::PrivateHost, UrlError::Malformed].contains(&refusal);
            assert!(known, "{url}: {refusal:?}");
        }
    }
    let malformed = REFUSED_HOSTS.iter().filter(|host| {
        guard(&[]).destination(&format!("https://{host}/")) == Err(UrlError::Malformed)
    });
    assert_eq!(malformed.copied().collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn public_hosts_are_accepted() {
    for host in PUBLIC_HOSTS {
        guard(&[]).destination(&format!("https://{host}/hook?x=1")).expect(host);
    }
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
