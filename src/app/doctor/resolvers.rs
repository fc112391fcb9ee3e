//! The resolvers of the settings, each by itself.

use std::time::Duration;

use super::{Check, CheckSubject};
use crate::domain::id::Mint;
use crate::verify::{LargeAnswers, ServerReport, Servers, ask_each};

/// Each message waits for several look-ups, one after the other.
const SLOW: Duration = Duration::from_millis(500);

/// Asks each resolver; each look-up ends within `within`.
pub async fn check(servers: Servers, mint: &Mint, within: Duration) -> Vec<Check> {
    let label = mint.uuid().simple().to_string();
    match ask_each(servers, &label, within).await {
        Ok(reports) => reports.iter().map(of_server).collect(),
        Err(error) => {
            let topic = Check::of(CheckSubject::Resolver, "");
            vec![topic.failure(error.to_string(), "name resolvers (--dns HOST:PORT)")]
        }
    }
}

fn of_server(report: &ServerReport) -> Check {
    let topic = Check::of(CheckSubject::Resolver, report.server.clone());
    let took = match &report.answered {
        Ok(took) => *took,
        Err(error) => {
            let advice = "correct --dns or /etc/resolv.conf, and let port 53 through (UDP and TCP): \
                          without DNS all mail is deferred";
            return topic.failure(format!("it does not answer: {error}"), advice);
        }
    };
    if let Some(name) = &report.invented {
        let detail = format!("it has an address for {name}, a name that nobody has");
        let advice = "use a resolver that answers truly: one that invents names can invent senders";
        return topic.failure(detail, advice);
    }
    let millis = took.as_millis();
    if report.large == LargeAnswers::OverTcp {
        let detail =
            format!("it answers in {millis} ms, but answers above 512 bytes only over TCP");
        let advice =
            "let large UDP answers through (EDNS): each large key costs another connection";
        return topic.warning(detail, advice);
    }
    if took > SLOW {
        let advice = "use a resolver nearby: each message waits for several answers";
        return topic.warning(format!("it takes {millis} ms to answer"), advice);
    }
    let large = match report.large {
        LargeAnswers::OverUdp => "large answers arrive over UDP",
        LargeAnswers::OverTcp | LargeAnswers::Unknown => {
            "large answers were not checked: it does not know the keys of the root"
        }
    };
    topic.ok(format!("it answers in {millis} ms, and invents no names; {large}"))
}
