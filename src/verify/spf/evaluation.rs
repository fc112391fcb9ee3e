//! `check_host()` (RFC 7208 §4), by the letter, over the answers of our own resolver.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use mail_auth::SpfResult;
use mail_auth::hickory_resolver::proto::rr::RecordType;
use tokio::time::Instant;

use super::record::{Mechanism, Prefixes, Record, is_spf};
use super::template::{Template, Values};
use crate::verify::answer::{Answer, Outcome};
use crate::verify::iprev;
use crate::verify::resolver::{MAX_NAME, Resolver};
use crate::verify::tags::MAX_RECORD;

/// Most terms that query the DNS (§4.6.4), and most hosts of one `mx`.
const MAX_LOOKUPS: u32 = 10;
const MAX_EXCHANGES: usize = 10;

/// One check, with its cost so far.
pub(super) struct Evaluation<'e> {
    pub(super) resolver: &'e Resolver,
    pub(super) deadline: Instant,
    pub(super) client: IpAddr,
    pub(super) local_part: &'e str,
    pub(super) sender_domain: &'e str,
    pub(super) helo: &'e str,
    pub(super) max_voids: u32,
    /// Every answer used, each once.
    pub(super) answers: Vec<Arc<Answer>>,
    pub(super) lookups: u32,
    pub(super) voids: u32,
    /// The confirmed names of the client, once looked up.
    pub(super) names: Option<Vec<String>>,
}

/// A result and its reason.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) result: SpfResult,
    pub(super) why: String,
}

type Evaluated<'e, T> = Pin<Box<dyn Future<Output = T> + Send + 'e>>;

fn permanent(why: impl Into<String>) -> Verdict {
    Verdict { result: SpfResult::PermError, why: why.into() }
}

impl Evaluation<'_> {
    /// Returns the result for a domain's record. At most ten calls deep, because each costs a
    /// look-up.
    pub(super) fn check(&mut self, domain: String) -> Evaluated<'_, Verdict> {
        Box::pin(async move { self.evaluate(domain).await.unwrap_or_else(|verdict| verdict) })
    }

    async fn evaluate(&mut self, mut domain: String) -> Result<Verdict, Verdict> {
        let mut record = self.record(&domain).await?;
        loop {
            for directive in &record.directives {
                if self.matches(&directive.mechanism, &domain).await? {
                    let why = format!("{} of {domain} matches", directive.text);
                    return Ok(Verdict { result: directive.result, why });
                }
            }
            let Some(target) = &record.redirect else {
                let why = format!("nothing in the record of {domain} matches");
                return Ok(Verdict { result: SpfResult::Neutral, why });
            };
            self.count()?;
            domain = self.expand(Some(target), &domain).await;
            record = match self.record(&domain).await {
                Ok(record) => record,
                Err(verdict) => return Err(self.needed(verdict, &domain).await),
            };
        }
    }

    /// Returns the one record of a domain (§4.4, §4.5), parsed completely before anything is
    /// evaluated.
    async fn record(&mut self, domain: &str) -> Result<Record, Verdict> {
        let answer = self.ask(domain, RecordType::TXT).await;
        if let Outcome::Temporary(why) = answer.outcome() {
            return Err(unknown(domain, why));
        }
        let mut records = answer.texts().unwrap_or_default();
        records.retain(|octets| is_spf(octets));
        match records.as_slice() {
            [] => {
                let why = format!("{domain} publishes no SPF record");
                Err(Verdict { result: SpfResult::None, why })
            }
            [record] if record.len() > MAX_RECORD => {
                let why = format!("the record of {domain} is longer than {MAX_RECORD} bytes");
                Err(permanent(why))
            }
            [record] => Record::read(record)
                .map_err(|why| permanent(format!("the record of {domain} is wrong: {why}"))),
            several => {
                let why = format!("{domain} publishes {} SPF records", several.len());
                Err(permanent(format!(
                    "{why}, and it is undefined which of them counts (RFC 7208 4.5)"
                )))
            }
        }
    }

    /// The target of include: and redirect= must have a record (§5.2, §6.1).
    async fn needed(&mut self, verdict: Verdict, domain: &str) -> Verdict {
        match verdict.result {
            SpfResult::None => {
                let answer = self.ask(domain, RecordType::TXT).await;
                self.voids += u32::from(answer.is_void());
                permanent(format!("{}, but is included or redirected to", verdict.why))
            }
            _ => verdict,
        }
    }

    async fn matches(&mut self, mechanism: &Mechanism, domain: &str) -> Result<bool, Verdict> {
        match mechanism {
            Mechanism::All => return Ok(true),
            Mechanism::Ip4(network, prefix) => {
                return Ok(covers(IpAddr::V4(*network), *prefix, self.client));
            }
            Mechanism::Ip6(network, prefix) => {
                return Ok(covers(IpAddr::V6(*network), *prefix, self.client));
            }
            _ => self.count()?,
        }
        match mechanism {
            Mechanism::Include(target) => {
                let target = self.expand(Some(target), domain).await;
                let verdict = self.check(target.clone()).await;
                let verdict = self.needed(verdict, &target).await;
                match verdict.result {
                    SpfResult::Pass => Ok(true),
                    SpfResult::TempError | SpfResult::PermError => Err(verdict),
                    _ => Ok(false),
                }
            }
            Mechanism::A(target, prefixes) => {
                let target = self.expand(target.as_ref(), domain).await;
                let answer = self.addresses(&target).await?;
                self.note(answer.is_void())?;
                Ok(self.is_among(&answer, *prefixes))
            }
            Mechanism::Mx(target, prefixes) => {
                let target = self.expand(target.as_ref(), domain).await;
                self.is_exchange(&target, *prefixes).await
            }
            Mechanism::Exists(target) => {
                let target = self.expand(Some(target), domain).await;
                // §5.7: always A records, even if the client uses IPv6.
                let answer = self.certain(&target, RecordType::A).await?;
                self.note(answer.is_void())?;
                Ok(!answer.addresses().is_empty())
            }
            Mechanism::Ptr(target) => {
                let target = self.expand(target.as_ref(), domain).await;
                self.find_names().await;
                let ptr = self.ask(&iprev::name_of(self.client), RecordType::PTR).await;
                self.note(ptr.is_void())?;
                let names = self.names.as_deref().unwrap_or_default();
                Ok(names.iter().any(|name| is_within(name, &target)))
            }
            Mechanism::All | Mechanism::Ip4(..) | Mechanism::Ip6(..) => Ok(false),
        }
    }

    async fn is_exchange(&mut self, target: &str, prefixes: Prefixes) -> Result<bool, Verdict> {
        let answer = self.certain(target, RecordType::MX).await?;
        let mut hosts = answer.hosts();
        if hosts.len() > MAX_EXCHANGES {
            let why = format!("{target} has more than {MAX_EXCHANGES} MX records");
            return Err(permanent(format!("{why} (RFC 7208 4.6.4)")));
        }
        hosts.sort();
        let mut found = false;
        for (_, host) in &hosts {
            // A null MX (RFC 7505) has no host.
            if host.is_empty() {
                continue;
            }
            let answer = self.addresses(host).await?;
            found |= !answer.addresses().is_empty();
            if self.is_among(&answer, prefixes) {
                return Ok(true);
            }
        }
        let null = hosts.iter().all(|(_, host)| host.is_empty()) && !hosts.is_empty();
        self.note(!found && !null)?;
        Ok(false)
    }

    /// Counts one term that queries the DNS.
    fn count(&mut self) -> Result<(), Verdict> {
        self.lookups += 1;
        if self.lookups > MAX_LOOKUPS {
            let why = format!("more than {MAX_LOOKUPS} terms need look-ups (RFC 7208 4.6.4)");
            return Err(permanent(why));
        }
        Ok(())
    }

    /// Counts a void look-up. §4.6.4 limits the terms with void look-ups: each term counts once.
    fn note(&mut self, is_void: bool) -> Result<(), Verdict> {
        self.voids += u32::from(is_void);
        if self.voids > self.max_voids {
            let why = format!("more than {} look-ups found nothing", self.max_voids);
            return Err(permanent(format!("{why} (void look-ups, RFC 7208 4.6.4)")));
        }
        Ok(())
    }

    async fn expand(&mut self, template: Option<&Template>, domain: &str) -> String {
        let Some(template) = template else { return domain.to_owned() };
        if template.asks_for_client_name() {
            self.find_names().await;
        }
        let names = self.names.as_deref().unwrap_or_default();
        // §7.3: the domain itself, else a subdomain of it, else any.
        let client_name = names
            .iter()
            .find(|name| name.eq_ignore_ascii_case(domain))
            .or_else(|| names.iter().find(|name| is_within(name, domain)))
            .or(names.first());
        template.expand(&Values {
            client: self.client,
            local_part: self.local_part,
            sender_domain: self.sender_domain,
            domain,
            helo: self.helo,
            client_name: client_name.map(String::as_str),
        })
    }

    /// §5.5: a failed look-up means no name, not a failed check.
    async fn find_names(&mut self) {
        if self.names.is_none() {
            let ptr = self.ask(&iprev::name_of(self.client), RecordType::PTR).await;
            let mut names = Vec::new();
            for name in iprev::names(&ptr) {
                let host = self.ask(&name, iprev::kind_of(self.client)).await;
                if host.addresses().contains(&self.client) {
                    names.push(name);
                }
            }
            self.names = Some(names);
        }
    }

    async fn addresses(&mut self, name: &str) -> Result<Arc<Answer>, Verdict> {
        self.certain(name, iprev::kind_of(self.client)).await
    }

    /// Queries, and fails with `temperror` if the look-up fails for now.
    async fn certain(&mut self, name: &str, kind: RecordType) -> Result<Arc<Answer>, Verdict> {
        let answer = self.ask(name, kind).await;
        match answer.outcome() {
            Outcome::Temporary(why) => Err(unknown(name, why)),
            _ => Ok(answer),
        }
    }

    async fn ask(&mut self, name: &str, kind: RecordType) -> Arc<Answer> {
        let is_it = |a: &&Arc<Answer>| a.kind == kind && a.name.eq_ignore_ascii_case(name);
        if let Some(known) = self.answers.iter().find(is_it) {
            return Arc::clone(known);
        }
        let answer = Arc::new(self.resolver.ask(name.to_owned(), kind, self.deadline).await);
        // Too long to be queried: not part of the evidence.
        if name.len() <= MAX_NAME {
            self.answers.push(Arc::clone(&answer));
        }
        answer
    }

    fn is_among(&self, answer: &Answer, prefixes: Prefixes) -> bool {
        let prefix = if self.client.is_ipv4() { prefixes.ip4 } else { prefixes.ip6 };
        answer.addresses().into_iter().any(|address| covers(address, prefix, self.client))
    }
}

fn unknown(name: &str, why: &str) -> Verdict {
    Verdict { result: SpfResult::TempError, why: format!("{name} could not be looked up: {why}") }
}

/// Tells whether the client is in the network: same family, equal leading bits (§5).
fn covers(network: IpAddr, prefix: u8, client: IpAddr) -> bool {
    let (difference, width) = match (network, client) {
        (IpAddr::V4(network), IpAddr::V4(client)) => {
            (u128::from(network.to_bits() ^ client.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(client)) => (network.to_bits() ^ client.to_bits(), 128),
        _ => return false,
    };
    difference.checked_shr(width - u32::from(prefix)).unwrap_or(0) == 0
}

/// Tells whether `name` is `domain` or below it.
fn is_within(name: &str, domain: &str) -> bool {
    let (name, domain) = (name.to_ascii_lowercase(), domain.to_ascii_lowercase());
    name == domain || name.strip_suffix(&domain).is_some_and(|before| before.ends_with('.'))
}
