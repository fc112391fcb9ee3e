//! How long certificates last, and for whom they are.

use std::time::Duration;

use super::{Check, CheckSubject};
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::egress::certificate::Certificate;

/// How long a certificate lasts, in words.
pub(super) enum Lasting {
    Well(String),
    /// It has expired, is not valid yet, or expires soon.
    Badly(String),
}

/// Looks at the period of a certificate.
pub(super) fn lasting(certificate: &Certificate, now: Timestamp, warning: Duration) -> Lasting {
    let until = certificate.until();
    let day = |at: Timestamp| at.utc().date();
    if now > until {
        Lasting::Badly(format!("the certificate expired on {}", day(until)))
    } else if now < certificate.from() {
        Lasting::Badly(format!("the certificate is not valid before {}", day(certificate.from())))
    } else if now.plus(warning) > until {
        Lasting::Badly(format!("the certificate expires on {}", day(until)))
    } else {
        Lasting::Well(format!("until {}", day(until)))
    }
}

/// Checks the one that ends first of the certificates for hosts of policies. Their DNS is customers',
/// so nothing here fails.
pub fn check_of_policies(certificate: &Certificate, now: Timestamp, warning: Duration) -> Check {
    let topic = Check::of(CheckSubject::Certificate, "mta-sts");
    match lasting(certificate, now, warning) {
        Lasting::Well(until) => topic.ok(until),
        Lasting::Badly(why) => topic.warning(
            why,
            "the log says whose it is: it is renewed when the name leads here, and forgotten when it \
             has ended and the name leads elsewhere",
        ),
    }
}

/// Checks the certificate of a listener; `host` is its name for clients, if known.
pub fn check(
    listener: &str,
    certificate: &Certificate,
    host: Option<&DomainName>,
    now: Timestamp,
    warning: Duration,
) -> Check {
    let topic = Check::of(CheckSubject::Certificate, listener);
    let is_for = match host {
        Some(host) if !certificate.names(host) => {
            return topic.warning(
                format!("it is not for {host}: clients that verify it do not connect"),
                format!("install a certificate for {host}, or correct --hostname"),
            );
        }
        Some(host) => format!("for {host}, "),
        None => String::new(),
    };
    match lasting(certificate, now, warning) {
        Lasting::Well(until) => topic.ok(format!("{is_for}{until}")),
        Lasting::Badly(why) if certificate.is_valid(now) => {
            topic.warning(why, "replace it in time")
        }
        Lasting::Badly(why) => topic.failure(why, "install a new certificate"),
    }
}
