//! `gatepost console link`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use url::Url;

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::app::access::{Access, ConsoleLink};
use crate::app::tenancy::Tenancy;
use crate::domain::audit::Actor;
use crate::run;
use crate::testkit::presented::reachable;

#[derive(Args, Debug)]
pub(super) struct ConsoleArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a link that signs one browser in (shown only once, opens only once)
    #[command(after_help = "Prints {\"url\":…,\"expires\":…,\"key\":…} with --json. The key is \
                            that of the link's session: `gatepost key revoke` ends both.")]
    Link {
        /// The account to sign in as, by its id; an Agent by one of its addresses, too
        account: AccountName,
        /// Minutes within which the link must be opened
        #[arg(long, value_name = "N", default_value_t = 15)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=43_200))]
        minutes: u64,
        /// The URL under which browsers reach the server [default: --public-url of the server, or
        /// its --http port on 127.0.0.1]
        #[arg(long, value_name = "URL", value_parser = web_url)]
        url: Option<Url>,
    },
}

impl ConsoleArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let Action::Link { account, minutes, url } = self.action;
        let base = match url {
            Some(url) => url,
            None => own_url(global).await?,
        };
        let (store, rules, mint) = (global.open().await?, global.rules()?, run::system_mint());
        let access_rules = Arc::new(rules.access);
        let access = Access::new(store.clone(), mint.clone(), &access_rules, &rules.apps);
        let account = account.id(&Tenancy::new(store, mint, access_rules)).await?;
        let ConsoleLink { secret, expires_at, key, session } =
            access.link(account, minutes, &Actor::OPERATOR).await?;
        let url = opening(base, &secret);
        if global.json {
            print_json(&json!({
                "url": url.as_str(),
                "expires": expires_at.to_string(),
                "key": key.id.to_string(),
            }))?;
        } else {
            let (within, lasts) = (in_minutes(minutes), in_minutes(session.as_secs() / 60));
            say!("{url}")?;
            say!(
                "It opens once, within {within}; the session then lasts {lasts}. Whoever opens it \
                 first is signed in as account {account}. To end both: gatepost key revoke {}",
                key.id
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected a URL that begins with https:// or http://, like https://mail.example.com")]
struct NotWebUrl;

fn web_url(text: &str) -> Result<Url, NotWebUrl> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
    url.ok_or(NotWebUrl)
}

/// Returns the URL of the server with these settings.
async fn own_url(global: &GlobalArgs) -> Result<Url, Failure> {
    let options = global.options()?;
    if let Some(url) = options.public_url()? {
        return Ok(url);
    }
    let scheme = if options.serves_https() { "https" } else { "http" };
    Ok(Url::parse(&format!("{scheme}://{}", reachable(options.http().await?)))?)
}

/// Returns the URL that opens a link on the server at `base`.
fn opening(mut base: Url, ticket: &str) -> Url {
    // Only a URL without a host has no segments; `web_url` takes none.
    if let Ok(mut path) = base.path_segments_mut() {
        path.pop_if_empty().extend(["console", "open"]);
    }
    base.set_fragment(None);
    base.query_pairs_mut().clear().append_pair("ticket", ticket);
    base
}

fn in_minutes(number: u64) -> String {
    if number == 1 { "1 minute".to_owned() } else { format!("{number} minutes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_of_the_url_whatever_its_end() {
        for (base, link) in [
            ("https://a.example", "https://a.example/console/open?ticket=gps_x"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/console/open?ticket=gps_x"),
            ("https://a.example/mail/?a=b#c", "https://a.example/mail/console/open?ticket=gps_x"),
        ] {
            let base = web_url(base).expect("a URL of the web");
            assert_eq!(opening(base, "gps_x").as_str(), link);
        }
        for wrong in ["", "a.example", "ftp://a.example", "mailto:a@b.example", "https://"] {
            assert!(web_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!([1, 15].map(in_minutes), ["1 minute", "15 minutes"]);
    }
}
