//! PostgreSQL over TCP, by TLS and with a password.

use gatepost::run;
use gatepost::store::{Location, Store};

use crate::support::postgres;
use crate::support::store_rules;
use crate::support::tls_postgres::TlsServer;

/// With what has a meaning of its own in a URL.
const PASSWORD: &str = "pa#s/s?w:r@d%";
const ENCODED: &str = "pa%23s%2Fs%3Fw%3Ar%40d%25";

async fn open(url: &str) -> Result<Store, String> {
    let location = Location::parse(None, Some(url)).unwrap();
    let opened = Store::create(&location, &store_rules(), run::system_mint()).await;
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let said = format!("{error} {error:?} {}", cause.unwrap_or_default());
        assert!(!said.contains(PASSWORD) && !said.contains(ENCODED), "{said}");
        said
    })
}

/// `sslmode` means what PostgreSQL says that it means (its documentation, §34.19).
#[tokio::test]
async fn a_server_is_reached_by_tls_and_is_who_it_says() {
    // Needs PostgreSQL's programs; whoever names a server may have none, and tests with that one.
    if postgres::is_given() {
        return;
    }
    let server = tokio::task::spawn_blocking(|| TlsServer::start(PASSWORD)).await.unwrap();
    let (port, authority) = (server.port, &server.authority);
    let url = |password: &str, host: &str, query: &str| {
        format!("postgres://me:{password}@{host}:{port}/postgres?{query}")
    };
    let trusted = format!("sslmode=verify-full&sslrootcert={authority}");
    let by_authority = format!("sslmode=verify-ca&sslrootcert={authority}");

    let store = open(&url(ENCODED, "localhost", &trusted)).await.unwrap();
    store.ping().await.unwrap();
    let mut direct = postgres::connect(&url(ENCODED, "localhost", &trusted)).await;
    let plain = "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                 WHERE application_name = 'gatepost' AND ssl";
    let encrypted: i64 = sqlx::query_scalar(plain).fetch_one(&mut direct).await.unwrap();
    assert!(encrypted >= 1, "the store's connections are not encrypted");
    store.close().await;

    for (password, host, query, words) in [
        (ENCODED, "localhost", "sslmode=verify-full", "UnknownIssuer"),
        // The certificate does not name the address.
        (ENCODED, "127.0.0.1", trusted.as_str(), "not valid for"),
        (ENCODED, "localhost", "sslmode=disable", "no encryption"),
        ("wrong", "localhost", &trusted, "password authentication failed"),
    ] {
        let refused = open(&url(password, host, query)).await.unwrap_err();
        assert!(refused.contains(words), "{host} {query}: {refused}");
    }
    for (host, query) in [("127.0.0.1", by_authority.as_str()), ("localhost", "sslmode=require")] {
        open(&url(ENCODED, host, query)).await.unwrap().close().await;
    }
}
