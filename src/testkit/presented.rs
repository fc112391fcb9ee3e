//! Looks at a server as its clients see it: what it greets with, and the certificate that it shows.
//! Verifies nothing: it is for those who look, not for those who trust.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::http_client;
use super::smtp_client::Connection;

/// How a client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Clear,
    /// TLS from the first byte on.
    Tls,
}

impl Opening {
    pub const fn of(is_encrypted: bool) -> Self {
        if is_encrypted { Self::Tls } else { Self::Clear }
    }
}

/// An address that a client on this machine can connect to.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(host) if host.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(host) if host.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        host => host,
    };
    SocketAddr::new(host, address.port())
}

/// How an SMTP server presents itself.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub banner: String,
    /// The server's own certificate; None if it offers no STARTTLS.
    pub certificate: Option<CertificateDer<'static>>,
}

/// The response to a GET.
#[derive(Clone, Debug)]
pub struct Page {
    pub status: u16,
    pub body: Vec<u8>,
    pub certificate: Option<CertificateDer<'static>>,
}

/// Opens a session, and asks for the certificate by STARTTLS where it is offered.
pub async fn smtp(server: SocketAddr, opening: Opening) -> io::Result<Greeting> {
    let stream = TcpStream::connect(server).await?;
    if opening == Opening::Tls {
        let (stream, certificate) = encrypt(stream).await?;
        let banner = Connection::over(stream).reply().await?;
        return Ok(Greeting { banner, certificate });
    }
    let mut session = Connection::over(stream);
    let banner = session.reply().await?;
    // A stranger may break off after its banner, which is enough to know it.
    let certificate = match banner.starts_with("220") {
        true => starttls(session).await.unwrap_or_default(),
        false => None,
    };
    Ok(Greeting { banner, certificate })
}

/// Returns the certificate that the server shows after STARTTLS; None if it offers none.
async fn starttls(
    mut session: Connection<TcpStream>,
) -> io::Result<Option<CertificateDer<'static>>> {
    let offered = session.command("EHLO localhost").await?;
    if !offered.contains("STARTTLS") || !session.command("STARTTLS").await?.starts_with("220") {
        return Ok(None);
    }
    Ok(encrypt(session.into_stream()).await?.1)
}

/// Gets a page without a key.
pub async fn page(server: SocketAddr, opening: Opening, path: &str) -> io::Result<Page> {
    let request = format!("GET {path} HTTP/1.0\r\nhost: {server}\r\n\r\n");
    let stream = TcpStream::connect(server).await?;
    let (answer, certificate) = match opening {
        Opening::Clear => (http_client::exchange(stream, &request).await?, None),
        Opening::Tls => {
            let (stream, certificate) = encrypt(stream).await?;
            (http_client::exchange(stream, &request).await?, certificate)
        }
    };
    let (status, body) = http_client::parts(&answer).ok_or_else(|| {
        let expected = if opening == Opening::Tls { "https" } else { "plain http" };
        let detail = format!("what answers there does not speak {expected}");
        io::Error::new(io::ErrorKind::InvalidData, detail)
    })?;
    Ok(Page { status, body: body.to_vec(), certificate })
}

/// Returns the encrypted stream, and the certificate that the server has shown.
async fn encrypt(
    stream: TcpStream,
) -> io::Result<(TlsStream<TcpStream>, Option<CertificateDer<'static>>)> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connector = opportunistic().map_err(io::Error::other)?;
    let stream = connector.connect(name, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    Ok((stream, shown.map(CertificateDer::into_owned)))
}

/// A client's side of TLS that takes any certificate, as most senders of mail do.
pub fn opportunistic() -> Result<TlsConnector, rustls::Error> {
    offering(&[])
}

/// Makes such a client, which offers these protocols (ALPN).
pub fn offering(protocols: &[&str]) -> Result<TlsConnector, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
