//! The published suite of RFC 7208: our results are the expected ones, except for the listed
//! deviations. Different results of mail-auth over the same answers are listed too.

use std::collections::BTreeMap;

use yaml_rust2::Yaml;

use super::corpus::say;
use super::yaml::{entries, suite, text};
use super::{Bench, spf_of};
use crate::domain::ports::Client;
use crate::testkit::dns::Zone;

const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n";

/// Test name, our result, and why it is not the expected one: none.
const OURS: &[(&str, &str, &str)] = &[];

/// Test name, the result of mail-auth 0.15 if our answers are enough for one, and why it is not the
/// expected one.
const LIBRARY: &[(&str, &str, &str)] = &[
    ("cidr4-33", "pass", CIDR),
    ("cidr4-032", "pass", CIDR),
    ("cidr6-129", "neutral", CIDR),
    ("exp-syntax-error", "neutral", END),
    ("redirect-syntax-error", "neutral", END),
    ("a-colon-domain", "permerror", SLASH),
    ("a-colon-domain-ip4mapped", "permerror", SLASH),
    ("mx-colon-domain", "permerror", SLASH),
    ("mx-colon-domain-ip4mapped", "permerror", SLASH),
    ("modifier-charset-good", "permerror", SLASH),
    ("redirect-after-mechanisms2", "permerror", SLASH),
    ("badip4", "pass", SPACE),
    ("non-ascii-mech", "fail", ASCII),
    ("cidr6-0-ip4", "pass", MAPPED),
    ("cidr6-ip4", "pass", MAPPED),
    ("empty-modifier-name", "neutral", MOD),
    ("invalid-modifier", "neutral", MOD),
    ("multitxt1", "fail", TWO),
    ("multitxt2", "fail", TWO),
    ("ptr-match-implicit", "fail", PTR),
    ("ptr-match-ip6", "fail", PTR),
    ("void-over-limit", "neutral", VOID),
];

const CIDR: &str = "a length beyond the address, or with a leading zero, is cut to fit";
const END: &str = "the end of a name is not looked at: it must be able to be a top-level domain";
const SLASH: &str = "a slash ends a name, or the value of an unknown modifier";
const SPACE: &str = "any white space separates terms";
const ASCII: &str = "octets beyond ASCII are taken";
const MAPPED: &str = "an IPv4 client matches ip6: networks";
const MOD: &str = "the name of a modifier is not looked at";
const TWO: &str = "of several records the first one counts";
const PTR: &str = "a name of the client is compared with its final dot on";
const VOID: &str = "look-ups that find nothing are not counted";

#[tokio::test]
async fn the_suite_of_rfc_7208_comes_out_as_published() {
    let Some(scenarios) = suite("pyspf/rfc7208-tests.yml") else { return };
    let mut ran = 0;
    let (mut ours, mut library) = (BTreeMap::new(), BTreeMap::new());
    for scenario in &scenarios {
        let bench = Bench::with(zone(&scenario["zonedata"]), SHORT).await;
        for (name, test) in entries(&scenario["tests"]) {
            ran += 1;
            let client = Client {
                address: text(&test["host"]).parse().unwrap(),
                helo: text(&test["helo"]).to_owned(),
                esmtp: true,
                tls: None,
            };
            let spf = spf_of(&bench, &client, test["mailfrom"].as_str().unwrap()).await;
            let expected: Vec<&str> = match &test["result"] {
                Yaml::Array(several) => several.iter().map(text).collect(),
                one => vec![text(one)],
            };
            let result = spf["result"].as_str().unwrap();
            if !expected.contains(&result) {
                assert_ne!(result, "pass", "{name}");
                ours.insert(name, result.to_owned());
            }
            let other = spf["inputs"]["library"].as_str().unwrap_or(result);
            if !expected.contains(&other) {
                library.insert(name, other.to_owned());
            }
        }
    }
    say(&format!("verify: ran over {ran} tests of RFC 7208"));
    assert!(ran > 200);
    assert_eq!(ours, listed(OURS));
    assert_eq!(library, listed(LIBRARY));
}

fn listed(list: &[(&'static str, &str, &str)]) -> BTreeMap<&'static str, String> {
    assert!(list.iter().all(|(_, _, why)| !why.is_empty()));
    list.iter().map(|(name, result, _)| (*name, (*result).to_owned())).collect()
}

/// Type SPF is used as TXT if a name has no TXT; `TIMEOUT` applies to everything that is missing.
fn zone(data: &Yaml) -> Zone {
    let mut zone = Zone::default();
    for (name, records) in entries(data) {
        let records = records.as_vec().unwrap();
        let says_text = records.iter().any(|record| !record["TXT"].is_badvalue());
        let mut silent = vec!["TXT", "A", "AAAA", "MX", "PTR"];
        silent.retain(|_| records.iter().any(|record| record.as_str() == Some("TIMEOUT")));
        let mut texts = Vec::new();
        for (kind, value) in records.iter().filter_map(Yaml::as_hash).flatten() {
            let kind = match text(kind) {
                _ if value.as_str() == Some("NONE") => continue,
                "SPF" if says_text => continue,
                "SPF" => "TXT",
                kind => kind,
            };
            silent.retain(|other| *other != kind);
            match kind {
                "TXT" => texts.push(octets(value)),
                "MX" => {
                    let host = value[1].as_str().filter(|host| !host.is_empty()).unwrap_or(".");
                    let value = format!("{} {host}", value[0].as_i64().unwrap());
                    zone.insert(name, "MX", "NOERROR", &value).unwrap();
                }
                kind => zone.insert(name, kind, "NOERROR", text(value)).unwrap(),
            }
        }
        if !texts.is_empty() {
            zone.insert_texts(name, &texts).unwrap();
        }
        for kind in silent {
            zone.insert(name, kind, "TIMEOUT", "").unwrap();
        }
    }
    zone
}

/// One string, or several to be joined; `\x80` denotes a byte.
fn octets(value: &Yaml) -> Vec<u8> {
    match value {
        Yaml::Array(parts) => parts.iter().flat_map(octets).collect(),
        one => one.as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect(),
    }
}
