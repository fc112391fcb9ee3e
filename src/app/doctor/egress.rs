//! The guard of outgoing requests: customers choose the URLs of webhooks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Check, CheckSubject};
use crate::egress::guard::{Guard, Reach};

/// Addresses that no customer may reach, and the reason. Metadata services hand out the keys of the
/// machine.
const DANGEROUS: [(IpAddr, &str); 4] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), "the metadata service of clouds"),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
        "the metadata service of clouds",
    ),
    (IpAddr::V4(Ipv4Addr::LOCALHOST), "this machine"),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), "this machine"),
];

/// Checks which private networks webhooks may reach; `allowed` are those of the settings, in words.
pub fn check(guard: &Guard, allowed: &str) -> Check {
    let topic = Check::of(CheckSubject::Egress, "");
    let open = DANGEROUS.iter().find(|(address, _)| guard.admits(*address, Reach::OperatorOnly));
    if let Some((address, name)) = open {
        return topic.warning(
            format!("webhooks of customers may reach {address}, {name} (--egress-allow {allowed})"),
            "name only the networks of your own receivers",
        );
    }
    match allowed {
        "" => topic.ok("webhooks reach public addresses only"),
        allowed => topic.ok(format!("webhooks reach public addresses, and {allowed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Tone;
    use crate::rules::Rules;

    #[test]
    fn networks_with_metadata_or_this_machine_are_warned_of() {
        let rules = Rules::defaults().unwrap().webhooks;
        let of = |allowed: &str| {
            let networks = allowed.split(',').filter(|one| !one.is_empty());
            let networks = networks.map(|one| one.parse().unwrap()).collect();
            check(&Guard::new(networks, &rules), allowed)
        };
        assert_eq!(of("").tone, Tone::Ok);
        assert_eq!(of("10.0.0.0/8").detail, "webhooks reach public addresses, and 10.0.0.0/8");
        for (allowed, word) in [
            ("169.254.0.0/16", "169.254.169.254"),
            ("10.0.0.0/8,0.0.0.0/0", "metadata"),
            ("127.0.0.0/8", "this machine"),
            ("::1/128", "this machine"),
            ("fd00::/8", "fd00:ec2::254"),
        ] {
            let check = of(allowed);
            assert_eq!(check.tone, Tone::Warning, "{allowed}");
            assert!(check.detail.contains(word), "{}", check.detail);
        }
    }
}
