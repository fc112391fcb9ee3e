//! (founding)
pub struct Http { pub access: crate::app::access::Access, pub tenancy: crate::app::tenancy::Tenancy, pub mailbox: crate::app::mailbox::Mailbox, pub destinations: crate::app::delivery::Destinations, pub store: crate::store::Store, pub guard: crate::egress::guard::Guard, pub mint: crate::domain::id::Mint, pub rules: std::sync::Arc<crate::rules::AccessRules> }
pub fn router(_: Http) -> axum::Router { axum::Router::new() }
pub async fn serve(l: tokio::net::TcpListener, r: axum::Router, s: crate::shutdown::Shutdown) { let s2=s.clone(); drop(axum::serve(l, r).with_graceful_shutdown(async move { s2.soft().await }).await); }
