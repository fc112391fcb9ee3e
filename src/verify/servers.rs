//! Asks each DNS server by itself, for `gatepost doctor`: whether it answers, whether it has answers
//! for names that do not exist, and whether large answers come through.

use std::time::Duration;

use futures_util::future::join_all;
use mail_auth::hickory_resolver::proto::rr::RecordType;
use tokio::time::Instant;

use super::answer::Outcome;
use super::resolver::{self, LoneServer, Servers, Way};
use super::{Unanswered, VerifyError};

/// How a DNS server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// The address.
    pub server: String,
    /// The time of one answer.
    pub answered: Result<Duration, Unanswered>,
    /// A name that cannot exist and that the server has an address for.
    pub invented: Option<String>,
    pub large: LargeAnswers,
}

/// How answers above 512 bytes arrive, such as large keys of DKIM (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeAnswers {
    OverUdp,
    OverTcp,
    /// The server does not know the keys of the root, which are the large answer.
    Unknown,
}

/// Asks each of these servers, all at once. `label` is a random text that nobody has registered as
/// a name. Each look-up ends within `within`.
pub async fn ask_each(
    servers: Servers,
    label: &str,
    within: Duration,
) -> Result<Vec<ServerReport>, VerifyError> {
    let servers = resolver::each(servers)?;
    Ok(join_all(servers.into_iter().map(|one| report(one, label, within))).await)
}

async fn report(one: LoneServer, label: &str, within: Duration) -> ServerReport {
    let server = one.to_string();
    let failed = |error: VerifyError| ServerReport {
        server: server.clone(),
        answered: Err(Unanswered(error.to_string())),
        invented: None,
        large: LargeAnswers::Unknown,
    };
    let (any, udp) = match (one.resolver(Way::Any, within), one.resolver(Way::Udp, within)) {
        (Ok(any), Ok(udp)) => (any, udp),
        (Err(error), _) | (_, Err(error)) => return failed(error),
    };
    // Names below `invalid` would be answered by our own resolver (RFC 6761 §6.4).
    let names = [format!("gatepost-{label}.com"), format!("gatepost-{label}.org")];
    let began = Instant::now();
    let first = any.ask(&names[0], RecordType::A).await;
    let answered = match &first {
        Outcome::Temporary(why) => Err(Unanswered(why.clone())),
        _ => Ok(began.elapsed()),
    };
    if answered.is_err() {
        return ServerReport { server, answered, invented: None, large: LargeAnswers::Unknown };
    }
    let (second, over_udp, over_any) = tokio::join!(
        any.ask(&names[1], RecordType::A),
        udp.ask(".", RecordType::DNSKEY),
        any.ask(".", RecordType::DNSKEY),
    );
    let [one, other] = names;
    let invented = match (first, second) {
        (Outcome::Records(_), _) => Some(one),
        (_, Outcome::Records(_)) => Some(other),
        _ => None,
    };
    let large = match (over_udp, over_any) {
        (Outcome::Records(_), _) => LargeAnswers::OverUdp,
        (_, Outcome::Records(_)) => LargeAnswers::OverTcp,
        _ => LargeAnswers::Unknown,
    };
    ServerReport { server, answered, invented, large }
}
