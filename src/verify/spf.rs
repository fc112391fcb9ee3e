//! SPF (RFC 7208): evaluated and recorded; it neither accepts nor refuses a message.
//!
//! mail-auth's own evaluation is lenient and partly wrong: of two records it takes the first, void
//! look-ups are free, `/33` is a network, the qualifier of an inner `include:` counts for the outer
//! one, `%{p}` is whatever the client's PTR says. So records are parsed strictly and evaluated by
//! the letter here, and that result stands. mail-auth evaluates once over the same answers; the
//! step notes a different result. If it would need further answers, it has no result.

mod evaluation;
mod record;
mod template;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use mail_auth::hickory_resolver::proto::rr::RecordType;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{Parameters, SpfOutput, SpfResult};

use self::evaluation::{Evaluation, Verdict};
pub(super) use self::record::is_spf;
use super::answer::{Answer, EvidenceAnswers};
use super::evidence::{Purpose, Recorder, micros, one_line};
use super::examine::at_once;
use super::resolver::Resolver;
use crate::domain::domain_name::DomainName;
use crate::domain::evidence::{Facts, Step, Word, dns, results, spf};
use crate::domain::ports::Client;

#[derive(Clone)]
pub(super) struct Spf {
    pub(super) output: SpfOutput,
    /// The domain of MAIL FROM, or of HELO for the null reverse-path; None if that is not a host
    /// name.
    pub(super) domain: Option<DomainName>,
    /// `mailfrom` or `helo`.
    pub(super) identity: &'static str,
    pub(super) step: Step,
}

impl Spf {
    pub(super) fn summary(&self) -> results::Spf {
        results::Spf {
            result: word(self.output.result()),
            domain: self.domain.as_ref().map(DomainName::to_string),
            identity: self.identity.into(),
        }
    }
}

/// Key of the cache. The local part is missing: if a record uses it, the result is not cached.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SpfQuestion {
    client: IpAddr,
    helo: String,
    identity: &'static str,
    domain: DomainName,
}

/// The resolver, the deadline and the limit (RFC 7208 §4.6.4) of a check.
#[derive(Clone, Copy)]
pub(super) struct SpfInput<'a> {
    pub(super) resolver: &'a Resolver,
    /// Name of this server, `%{r}`.
    pub(super) hostname: &'a str,
    pub(super) max_voids: u32,
    pub(super) deadline: tokio::time::Instant,
}

/// Checks whether this client may use this identity. Only host names are queried: the sender
/// chooses the name, and one like `_dmarc.good.example` is another party's record.
pub(super) async fn check(input: SpfInput<'_>, client: &Client, reverse_path: &str) -> Spf {
    let start = Instant::now();
    let (identity, local_part, domain) = match reverse_path.rsplit_once('@') {
        None if reverse_path.is_empty() => ("helo", "", client.helo.as_str()),
        None => ("mailfrom", "", ""),
        Some((local, domain)) => ("mailfrom", local, domain),
    };
    // §4.3: a single label is not checked either.
    let domain = DomainName::parse(domain).ok().filter(|domain| domain.as_str().contains('.'));
    let mut asked = domain.clone().map(|domain| {
        let (client, helo) = (client.address, client.helo.clone());
        SpfQuestion { client, helo, identity, domain }
    });
    let known = &input.resolver.results().spf;
    if let Some(mut found) = asked.as_ref().and_then(|asked| known.find(asked, start)) {
        if let Facts::Spf(facts) = &mut found.step.facts {
            reverse_path.clone_into(&mut facts.reverse_path);
        }
        return found;
    }
    let (output, detail, dns, evaluated) = match &domain {
        None => {
            let output = SpfOutput::new(String::new());
            (output, format!("the {identity} identity has no host name"), Vec::new(), None)
        }
        Some(domain) => {
            let local_part = if local_part.is_empty() { "postmaster" } else { local_part };
            let checked = Checked::new(input, client, local_part, domain, identity).await;
            let output = SpfOutput::new(domain.to_string()).with_result(checked.verdict.result);
            let detail = checked.detail(client, domain);
            asked = asked.filter(|_| !checked.is_personal);
            let evaluated = checked.evaluated();
            (output, detail, checked.dns, Some(evaluated))
        }
    };
    let facts = Facts::Spf(spf::Spf {
        client: client.address.to_string(),
        helo: client.helo.clone(),
        reverse_path: reverse_path.to_owned(),
        identity: identity.into(),
        receiver: input.hostname.to_owned(),
        evaluated,
    });
    let step = Step { facts, result: word(output.result()), detail, dns, micros: micros(start) };
    let found = Spf { output, domain, identity, step };
    if let Some(asked) = asked {
        known.keep(asked, &found, start);
    }
    found
}

/// Both results, and the cost of ours.
struct Checked {
    verdict: Verdict,
    library: Option<SpfResult>,
    lookups: u32,
    voids: u32,
    /// The result may depend on the local part.
    is_personal: bool,
    dns: Vec<dns::UsedAnswer>,
}

impl Checked {
    async fn new(
        input: SpfInput<'_>,
        client: &Client,
        local_part: &str,
        domain: &DomainName,
        identity: &str,
    ) -> Self {
        // §5: an IPv4-mapped IPv6 address is an IPv4 address.
        let address = client.address.to_canonical();
        let helo = DomainName::parse(&client.helo).ok();
        let helo = helo.as_ref().map_or("unknown", DomainName::as_str);
        let sender = format!("{local_part}@{domain}");
        let parameters = if identity == "helo" {
            SpfParameters::helo(address, domain.as_str(), input.hostname)
        } else {
            SpfParameters::mail_from(address, helo, input.hostname, &sender)
        };
        let mut evaluation = Evaluation {
            resolver: input.resolver,
            deadline: input.deadline,
            client: address,
            local_part,
            sender_domain: domain.as_str(),
            helo,
            max_voids: input.max_voids,
            answers: Vec::new(),
            lookups: 0,
            voids: 0,
            names: None,
        };
        let verdict = evaluation.check(domain.to_string()).await;
        let library = library_result(input.resolver, parameters, address, &evaluation.answers);
        let dns = EvidenceAnswers::all(evaluation.answers.iter().map(AsRef::as_ref));
        let is_personal = evaluation.answers.iter().any(|answer| asks_for_local_part(answer));
        let Evaluation { lookups, voids, .. } = evaluation;
        Self { verdict, library, lookups, voids, is_personal, dns }
    }

    /// Returns mail-auth's result if it differs.
    fn other(&self) -> Option<Word> {
        self.library.filter(|other| *other != self.verdict.result).map(word)
    }

    fn evaluated(&self) -> spf::Evaluated {
        spf::Evaluated {
            lookups: self.lookups,
            void_lookups: self.voids,
            library: self.library.map(word),
            corrected_from: self.other(),
        }
    }

    fn detail(&self, client: &Client, domain: &DomainName) -> String {
        let Verdict { result, why } = &self.verdict;
        let mut detail = one_line(&format!("{result} for {} by {domain}: {why}", client.address));
        if let Some(other) = self.other() {
            detail.push_str(&format!("; mail-auth would say {other}"));
        }
        detail
    }
}

/// Tells whether a text has `%{l}` or `%{s}` anywhere: mail-auth may evaluate terms that we do not.
fn asks_for_local_part(answer: &Answer) -> bool {
    let is_one = |piece: &[u8]| matches!(piece, [b'%', b'{', b'l' | b'L' | b's' | b'S']);
    let texts = answer.texts().unwrap_or_default();
    texts.iter().any(|text| text.windows(3).any(is_one))
}

/// The result word of RFC 8601 §2.7.2.
const fn word(result: SpfResult) -> Word {
    Word::Borrowed(match result {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    })
}

/// Returns mail-auth's result over these answers; None if it needs another one.
fn library_result(
    resolver: &Resolver,
    parameters: SpfParameters<'_>,
    client: IpAddr,
    answers: &[Arc<Answer>],
) -> Option<SpfResult> {
    let recorder = Recorder::over(Purpose::Spf, client, answers);
    let parameters = Parameters::new(parameters).with_cache(&recorder);
    let output = at_once(resolver.mail_auth().verify_spf(parameters))?;
    let is_whole = match recorder.missing() {
        None => true,
        // For the text of `exp=`, which comes last and is not shown.
        Some(RecordType::TXT) => output.result() == SpfResult::Fail,
        Some(_) => false,
    };
    is_whole.then(|| output.result())
}
