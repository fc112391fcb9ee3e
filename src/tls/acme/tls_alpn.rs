//! TLS-ALPN-01 (RFC 8737): the authority connects to port 443 of a name, offers one protocol, and
//! gets a certificate that holds the answer. Nothing is spoken after the handshake.

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::tls::Certificates;

use super::challenges::Challenges;
use super::failure::AcmeError;

/// The one protocol that an authority offers.
pub(in crate::tls) const PROTOCOL: &[u8] = b"acme-tls/1";

/// Makes the certificate that answers for `name`: self-signed, of no use for anything else. `digest`
/// is the SHA-256 of the key authorization.
pub(super) fn answer(name: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, AcmeError> {
    let mut certificate = CertificateParams::new(vec![name.to_owned()])?;
    certificate.distinguished_name = DistinguishedName::new();
    certificate.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let chain = vec![certificate.self_signed(&key)?.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| AcmeError::Answer(None))?;
    let key = default_provider().key_provider.load_private_key(key);
    let key = key.map_err(|error| AcmeError::Answer(Some(error)))?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// Shows answers to authorities, and the certificate in use to everybody else.
#[derive(Debug)]
pub(in crate::tls) struct WithAnswers {
    pub(in crate::tls) certificates: Certificates,
    pub(in crate::tls) challenges: Challenges,
}

impl ResolvesServerCert for WithAnswers {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_authority = hello.alpn().is_some_and(|mut offered| {
            offered.next() == Some(PROTOCOL) && offered.next().is_none()
        });
        if is_authority {
            return self.challenges.answer_for(hello.server_name()?);
        }
        self.certificates.resolve(hello)
    }
}
