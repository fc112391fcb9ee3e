//! SPF (RFC 7208): evaluated and recorded, never what accepts or refuses a message.
//!
//! mail-auth's evaluation differs from the RFC in some corners (void look-ups, two records); since
//! nothing depends on the result, those corners stay its own.

use std::time::Instant;

use mail_auth::spf::verify::SpfParameters;
use mail_auth::{Parameters, SpfOutput, SpfResult};
use serde_json::{Value, json};

use super::evidence::{Purpose, Recorder, Step, micros};
use super::resolver::Resolver;
use crate::domain::domain_name::DomainName;
use crate::domain::ports::Client;

/// The result, and whose.
pub(super) struct Spf {
    pub(super) output: SpfOutput,
    /// The domain of MAIL FROM, or of HELO for the null reverse-path; `None` where that is not a
    /// host name.
    pub(super) domain: Option<DomainName>,
    /// `mailfrom` or `helo`.
    pub(super) identity: &'static str,
    pub(super) step: Step,
}

impl Spf {
    pub(super) fn summary(&self) -> Value {
        json!({
            "result": self.output.result().to_string(),
            "domain": self.domain.as_ref().map(DomainName::as_str),
            "identity": self.identity,
        })
    }
}

/// Asks whether this client may use this identity. Only host names are asked about: the sender
/// chooses the name, and one like `_dmarc.good.example` is somebody else's record.
pub(super) async fn check(
    resolver: &Resolver,
    client: &Client,
    reverse_path: &str,
    hostname: &str,
    deadline: tokio::time::Instant,
) -> Spf {
    let start = Instant::now();
    let (identity, domain) = match reverse_path.rsplit_once('@') {
        None if reverse_path.is_empty() => ("helo", client.helo.as_str()),
        None => ("mailfrom", ""),
        Some((_, domain)) => ("mailfrom", domain),
    };
    let domain = DomainName::parse(domain).ok();
    let helo = DomainName::parse(&client.helo).ok();
    let helo = helo.as_ref().map_or("unknown", DomainName::as_str);
    let recorder = Recorder::new(Purpose::Spf, client.address);
    let (output, detail) = match &domain {
        None => {
            let output = SpfOutput::new(String::new());
            (output, format!("the {identity} identity has no host name"))
        }
        Some(domain) => {
            let local = reverse_path.rsplit_once('@').map_or("postmaster", |(local, _)| local);
            let sender = format!("{local}@{domain}");
            let parameters = if identity == "helo" {
                SpfParameters::helo(client.address, domain.as_str(), hostname)
            } else {
                SpfParameters::mail_from(client.address, helo, hostname, &sender)
            };
            let asked = || Parameters::new(parameters).with_cache(&recorder);
            let check = || resolver.mail_auth().verify_spf(asked());
            let output = recorder.evaluate(resolver, deadline, check).await;
            let output = output.filter(|_| !recorder.failed()).unwrap_or_else(|| {
                SpfOutput::new(domain.to_string()).with_result(SpfResult::TempError)
            });
            let detail = format!("{} for {} by {domain}", output.result(), client.address);
            (output, detail)
        }
    };
    let step = Step {
        name: "spf",
        result: output.result().to_string(),
        detail,
        inputs: json!({
            "client": client.address.to_string(), "helo": client.helo,
            "reversePath": reverse_path, "identity": identity, "receiver": hostname,
        }),
        dns: recorder.evidence(),
        micros: micros(start),
    };
    Spf { output, domain, identity, step }
}
