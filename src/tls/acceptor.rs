//! The server's side of a handshake, within a deadline.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::domain::ports::TlsFacts;

use super::acme::Challenges;
use super::acme::tls_alpn::{PROTOCOL, WithAnswers};
use super::certificates::Certificates;

/// Encrypts streams. TLS 1.2 and 1.3 only (RFC 8996).
#[derive(Clone)]
pub struct Acceptor {
    inner: TlsAcceptor,
    deadline: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error("the TLS handshake timed out")]
    Late,
    #[error("an authority has looked for the answer to its challenge")]
    Challenge,
    /// The client got an alert, unless the connection broke.
    #[error(transparent)]
    Failed(io::Error),
}

impl Acceptor {
    /// Shows these certificates. A handshake may take `deadline`.
    pub fn new(certificates: &Certificates, deadline: Duration) -> Result<Self, rustls::Error> {
        Self::with_protocols(certificates, deadline, &[])
    }

    /// Like [`Self::new`], for protocols with ALPN (RFC 7301). A client that names protocols must
    /// name one of `protocols`, or its handshake fails.
    pub fn with_protocols(
        certificates: &Certificates,
        deadline: Duration,
        protocols: &[&str],
    ) -> Result<Self, rustls::Error> {
        let config = config(Arc::new(certificates.clone()), protocols)?;
        Ok(Self { inner: TlsAcceptor::from(Arc::new(config)), deadline })
    }

    /// Like [`Self::with_protocols`], and shows answers to an authority (RFC 8737), with which
    /// nothing is spoken.
    pub fn with_answers(
        certificates: &Certificates,
        deadline: Duration,
        protocols: &[&str],
        challenges: &Challenges,
    ) -> Result<Self, rustls::Error> {
        let resolver =
            WithAnswers { certificates: certificates.clone(), challenges: challenges.clone() };
        let mut config = config(Arc::new(resolver), protocols)?;
        config.alpn_protocols.push(PROTOCOL.to_vec());
        Ok(Self { inner: TlsAcceptor::from(Arc::new(config)), deadline })
    }

    /// Does the handshake. Closes the stream if it fails, or if it was all that an authority wants.
    pub async fn accept<S>(&self, stream: S) -> Result<(TlsStream<S>, TlsFacts), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // Boxed: a future has the size of its largest state, even while it idles for hours.
        let handshake = Box::pin(self.inner.accept(stream));
        let stream = timeout(self.deadline, handshake).await.map_err(|_| HandshakeError::Late)?;
        let mut stream = stream.map_err(HandshakeError::Failed)?;
        if stream.get_ref().1.alpn_protocol() == Some(PROTOCOL) {
            // The authority has seen the certificate, however it takes its leave.
            let _closed = timeout(self.deadline, stream.shutdown()).await;
            return Err(HandshakeError::Challenge);
        }
        let facts = facts(stream.get_ref().1);
        Ok((stream, facts))
    }
}

fn config(
    certificates: Arc<dyn ResolvesServerCert>,
    protocols: &[&str],
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // Clients keep the state for resuming sessions: the server stores nothing for strangers.
    config.ticketer = Ticketer::new()?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// In the spelling of Received fields: OpenSSL's for the version, IANA's for the suite (RFC 8314
/// §4.3).
fn facts(session: &ServerConnection) -> TlsFacts {
    let version = match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
    let cipher = suite.and_then(|suite| suite.as_str()).unwrap_or_default();
    TlsFacts { version: version.to_owned(), cipher: cipher.replacen("TLS13_", "TLS_", 1) }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
