//! The front end for mail.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

use super::readiness::FrontEndState;
use super::tls::Tls;
use super::{FrontEnd, RunError, Sockets};
use crate::app::intake::Gateway;
use crate::domain::domain_name::DomainName;
#[cfg(feature = "mailin")]
use crate::domain::ports::MailLoad;
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;
use crate::smtp::Listener;
#[cfg(feature = "mailin")]
use crate::smtp::Mailin;

/// The settings of the SMTP listener; `size` is the largest message in bytes.
pub(super) struct SmtpSettings<'s> {
    pub(super) front_end: FrontEnd,
    pub(super) address: SocketAddr,
    pub(super) hostname: &'s DomainName,
    pub(super) proxies: Vec<IpNet>,
    pub(super) size: usize,
}

pub(super) struct Incoming {
    pub(super) smtp: SocketAddr,
    pub(super) smtps: Option<SocketAddr>,
    pub(super) serve: Vec<Serve>,
    pub(super) state: FrontEndState,
}

pub(super) type Serve = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Incoming {
    pub(super) async fn listen(
        SmtpSettings { front_end, address, hostname, proxies, size }: SmtpSettings<'_>,
        sockets: &mut Sockets,
        rules: &SmtpRules,
        tls: &Tls,
        gateway: Arc<Gateway>,
        shutdown: Shutdown,
    ) -> Result<Self, RunError> {
        let (socket, smtp) = sockets.bind("smtp", address).await?;
        let (ended, min_free_bytes) = (CancellationToken::new(), rules.space.min_free_bytes);
        let watched = |serve: Serve| -> Serve {
            let ended = ended.clone().drop_guard();
            Box::pin(async move {
                let _ended = ended;
                serve.await;
            })
        };
        match front_end {
            FrontEnd::Ours => {
                let starttls = Some(tls.starttls.clone());
                let listener =
                    Listener::on(socket, hostname, gateway, rules, size, shutdown, starttls);
                let listener = listener.behind(proxies);
                let load = Arc::new(listener.load());
                let state = FrontEndState { ended: ended.clone(), load, min_free_bytes };
                let mut incoming = Self { smtp, smtps: None, serve: Vec::new(), state };
                if let Some(address) = tls.smtps.or(sockets.address("smtps")) {
                    let (socket, smtps) = sockets.bind("smtps", address).await?;
                    let listener = listener.with_implicit_tls(socket);
                    incoming.smtps = Some(smtps);
                    incoming.serve.push(watched(Box::pin(listener.serve())));
                }
                incoming.serve.push(watched(Box::pin(listener.serve())));
                Ok(incoming)
            }
            #[cfg(feature = "mailin")]
            FrontEnd::Mailin => {
                let fail = |source| RunError::Listen { address, source };
                let socket = blocking(socket).map_err(fail)?;
                let mailin = Mailin::on(socket, hostname, gateway, rules, size, shutdown);
                let serve = vec![watched(Box::pin(mailin.serve()))];
                let unknown = MailLoad { sessions: None, memory_bytes: None, has_memory: true };
                let load = Arc::new(move || unknown);
                let state = FrontEndState { ended: ended.clone(), load, min_free_bytes };
                Ok(Self { smtp, smtps: None, serve, state })
            }
        }
    }
}

/// The threads of mailin wait in their calls.
#[cfg(feature = "mailin")]
fn blocking(socket: tokio::net::TcpListener) -> std::io::Result<std::net::TcpListener> {
    let socket = socket.into_std()?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}
