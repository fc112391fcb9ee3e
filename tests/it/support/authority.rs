//! An authority of a test's own, and TLS clients that trust it alone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use gatepost::tls::Paths;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::PATIENCE;

/// The name of the server under test.
pub const HOST: &str = "mx.agents.example";

/// Issues certificates for [`HOST`] and for the loopback.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        Self::called("Test authority")
    }

    /// Makes an authority of this name.
    pub fn called(name: &str) -> Self {
        let mut parameters = named(name, Vec::new());
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    /// The root certificate that a client must trust.
    pub fn root(&self) -> String {
        self.0.pem()
    }

    /// A new certificate and its key.
    pub fn issue(&self) -> (String, String) {
        self.issue_for(&[HOST, "127.0.0.1"], (1975, 4096))
    }

    /// Issues for these names, valid from the first to the second of these years.
    pub fn issue_for(&self, names: &[&str], (from, until): (i32, i32)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = named(names[0], names.iter().map(ToString::to_string).collect());
        parameters.not_before = date_time_ymd(from, 1, 1);
        parameters.not_after = date_time_ymd(until, 1, 1);
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Issues into files in `folder`, with the authority's own certificate in `root.pem`.
    pub fn issue_to(&self, folder: &Path) -> Paths {
        let (chain, key) = self.issue();
        let paths = Paths { chain: folder.join("chain.pem"), key: folder.join("key.pem") };
        std::fs::write(&paths.chain, chain).unwrap();
        std::fs::write(&paths.key, key).unwrap();
        std::fs::write(folder.join("root.pem"), self.root()).unwrap();
        paths
    }

    /// A client's side of TLS that trusts this authority alone.
    pub fn connector(&self) -> TlsConnector {
        trusting(&self.root())
    }
}

/// A certificate for this name that vouches for itself, and its key.
pub fn signed_by_itself(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = named(name, vec![name.to_owned()]).self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A client's side of TLS that trusts the authority of this root alone.
pub fn trusting(root: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn named(subject: &str, names: Vec<String>) -> CertificateParams {
    let mut parameters = CertificateParams::new(names).unwrap();
    // By one name for both, clients would take the certificate for one that signed itself.
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, subject);
    parameters
}

/// A client's side of TLS that takes any certificate, as most senders of mail do.
pub fn opportunistic() -> TlsConnector {
    offering(&[])
}

/// A client's side of TLS that takes any certificate, and offers these protocols (ALPN).
pub fn offering(protocols: &[&str]) -> TlsConnector {
    gatepost::testkit::presented::offering(protocols).unwrap()
}

/// An SMTP session behind STARTTLS.
pub struct Secured(BufReader<TlsStream<TcpStream>>);

impl Secured {
    /// Fails where the server's certificate is not trusted.
    pub async fn open(server: SocketAddr, connector: &TlsConnector) -> std::io::Result<Self> {
        let mut clear = BufReader::new(TcpStream::connect(server).await?);
        for (said, wanted) in [("", "220 "), ("STARTTLS\r\n", "220 2.0.0")] {
            clear.get_mut().write_all(said.as_bytes()).await?;
            let mut line = String::new();
            timeout(PATIENCE, clear.read_line(&mut line)).await.unwrap()?;
            assert!(line.starts_with(wanted), "{line}");
        }
        let name = ServerName::try_from(HOST).unwrap();
        let shaking = connector.connect(name, clear.into_inner());
        Ok(Self(BufReader::new(timeout(PATIENCE, shaking).await.unwrap()?)))
    }

    /// The certificate that the server has shown.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.get_ref().get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    /// Sends `text` and answers the last line of the reply.
    pub async fn say(&mut self, text: &str) -> String {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
        loop {
            let mut line = String::new();
            timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    /// Delivers one signed message to the Agent `support`.
    pub async fn deliver(&mut self, raw: &[u8]) {
        let raw = std::str::from_utf8(raw).unwrap();
        for (said, wanted) in [
            ("EHLO client.example\r\n", "250"),
            ("MAIL FROM:<alice@good.example>\r\n", "250"),
            ("RCPT TO:<support@agents.example>\r\n", "250"),
            ("DATA\r\n", "354"),
            (&format!("{raw}.\r\n"), "250"),
        ] {
            let reply = self.say(said).await;
            assert!(reply.starts_with(wanted), "{said}: {reply}");
        }
    }
}
