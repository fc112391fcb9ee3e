//! Pairs, their replacement, and handshakes over sockets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::date;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, client};

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::domain_name::DomainName;
use crate::domain::ports::TlsFacts;

use super::{
    Acceptor, Certificates, FileReload, Files, FilesError, HandshakeError, Pair, PairError, Paths,
    own_files, self_signed,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn host() -> DomainName {
    DomainName::parse("mx.gatepost.example").unwrap()
}

fn clock() -> Clock {
    Clock::new(|| Timestamp::from_utc(date(2026, 11, 21).at(12, 0, 0, 0)))
}

/// A chain and its key, PEM.
fn pair_until(year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec![host().as_str().to_owned()]).unwrap();
    parameters.not_after = date_time_ymd(year, 1, 1);
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn paths(folder: &Path) -> Paths {
    Paths { chain: folder.join("chain.pem"), key: folder.join("key.pem") }
}

fn put(paths: &Paths, (chain, key): &(String, String)) {
    std::fs::write(&paths.chain, chain).unwrap();
    std::fs::write(&paths.key, key).unwrap();
}

#[test]
fn only_a_chain_with_its_own_key_is_a_pair() {
    let (one, other) = (pair_until(2030), pair_until(2031));
    let pair = |chain: &str, key: &str| Pair::from_pem(chain.as_bytes(), key.as_bytes());
    let good = pair(&one.0, &one.1).unwrap();
    assert_eq!(good.until(), Timestamp::from_utc(date(2030, 1, 1).into()));
    assert!(good.names(&host()) && !good.names(&DomainName::parse("example").unwrap()));
    // The server's own certificate comes first, and any may follow; one text may hold both.
    let both = format!("{}{}{}", one.1, one.0, other.0);
    assert_eq!(pair(&both, &both).unwrap().tlsa(), good.tlsa());
    let wrong_order = format!("{}{}", other.0, one.0);
    assert!(matches!(pair(&wrong_order, &one.1), Err(PairError::Mismatch)));
    assert!(matches!(pair(&one.0, &other.1), Err(PairError::Mismatch)));
    assert!(matches!(pair("", &one.1), Err(PairError::NoCertificate)));
    assert!(matches!(pair(&one.1, &one.1), Err(PairError::NoCertificate)));
    assert!(matches!(pair(&one.0, &one.0), Err(PairError::Key(_))));
    let cut = one.0.replace("-----END", "");
    assert!(matches!(pair(&cut, &one.1), Err(PairError::Chain(_))));
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(pair(junk, &one.1), Err(PairError::Validity)));
    let junk = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(pair(&one.0, junk), Err(PairError::KindOfKey(_))));
}

#[test]
fn an_rsa_key_is_as_good_and_what_has_expired_is_told_from_what_is_valid() {
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let mut parameters = CertificateParams::new(vec![host().as_str().to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(2026, 1, 1);
    parameters.not_after = date_time_ymd(2026, 12, 1);
    let chain = parameters.self_signed(&key).unwrap().pem();
    let pair = Pair::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let valid =
        |year, month, day| pair.is_valid(Timestamp::from_utc(date(year, month, day).into()));
    assert!(!valid(2025, 12, 31) && valid(2026, 1, 1));
    assert!(valid(2026, 12, 1) && !valid(2026, 12, 2));
    // RFC 7672 §3.1.1: the hash of the public key, as a TLSA record has it.
    let tlsa = pair.tlsa();
    assert!(tlsa.starts_with("3 1 1 ") && tlsa.len() == 6 + 64, "{tlsa}");
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_pair_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let paths = paths(folder.path());
    let (old, new) = (pair_until(2030), pair_until(2031));
    assert!(matches!(
        Files::open(paths.clone(), Some(&host()), clock()).await,
        Err(FilesError::Read { .. })
    ));
    put(&paths, &(old.0.clone(), new.1.clone()));
    let error = Files::open(paths.clone(), Some(&host()), clock()).await.unwrap_err();
    assert!(error.to_string().contains("chain.pem"), "{error}");
    assert!(matches!(error, FilesError::Pair { source: PairError::Mismatch, .. }));

    put(&paths, &old);
    let files = Files::open(paths.clone(), Some(&host()), clock()).await.unwrap();
    let shown = || files.certificates().current().until();
    let first = shown();
    assert_eq!(files.reload(false).await, FileReload::Unchanged);
    // One file has been replaced, the other not yet.
    std::fs::write(&paths.chain, &new.0).unwrap();
    assert_eq!(files.reload(false).await, FileReload::Refused);
    assert_eq!(files.reload(false).await, FileReload::Unchanged, "told once");
    assert_eq!(files.reload(true).await, FileReload::Refused, "unless it is asked for");
    assert_eq!(shown(), first);
    std::fs::write(&paths.key, &new.1).unwrap();
    assert_eq!(files.reload(false).await, FileReload::Installed);
    assert_eq!(shown(), Timestamp::from_utc(date(2031, 1, 1).into()));
    for chain in ["", "x", &"x".repeat((1 << 20) + 1)] {
        std::fs::write(&paths.chain, chain).unwrap();
        assert_eq!(files.reload(false).await, FileReload::Refused);
    }
    std::fs::remove_file(&paths.chain).unwrap();
    assert_eq!(files.reload(false).await, FileReload::Refused);
    assert_ne!(shown(), first);
    put(&paths, &old);
    assert_eq!(files.reload(false).await, FileReload::Installed);
    assert_eq!(shown(), first);
}

#[tokio::test]
async fn files_are_followed_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let paths = paths(folder.path());
    put(&paths, &pair_until(2030));
    let files = Files::open(paths.clone(), Some(&host()), clock()).await.unwrap();
    put(&paths, &pair_until(2031));
    let changed = async {
        while files.certificates().current().until() < Timestamp::from_utc(date(2031, 1, 1).into())
        {
            tokio::task::yield_now().await;
        }
    };
    let second = Duration::from_secs(1);
    timeout(PATIENCE, files.follow(second, second, changed)).await.unwrap();
}

#[test]
fn a_self_signed_pair_is_kept_with_its_key_and_for_its_owner_only() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("tls");
    let first = self_signed::load_or_make(&folder, &host()).unwrap();
    assert!(first.names(&host()) && first.is_valid(clock().now()));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = folder.join("self-signed.pem");
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    let text = std::fs::read(&path).unwrap();
    let again = self_signed::load_or_make(&folder, &host()).unwrap();
    assert_eq!(again.tlsa(), first.tlsa());
    assert_eq!(std::fs::read(&path).unwrap(), text);
    // Another name gets another certificate with the same key.
    let other = DomainName::parse("mail.example").unwrap();
    let renamed = self_signed::load_or_make(&folder, &other).unwrap();
    assert!(renamed.names(&other) && !renamed.names(&host()));
    assert_eq!(renamed.tlsa(), first.tlsa());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::write(&path, "no key").unwrap();
    let error = self_signed::load_or_make(&folder, &host()).unwrap_err();
    assert!(error.to_string().contains("self-signed.pem is damaged: remove the file"), "{error}");
    // A file that cannot be read is not said to be damaged, or not to be written.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let read = self_signed::load(&folder).map(drop);
    let made = self_signed::load_or_make(&folder, &host()).map(drop);
    for error in [read.unwrap_err(), made.unwrap_err()] {
        assert_eq!(error.to_string(), format!("cannot read {}", path.display()));
    }
    assert_ne!(self_signed::make_temporary(&host()).unwrap().tlsa(), first.tlsa());
}

/// The names of the server's own files in this folder, with the chain and the key among them.
fn own(folder: &Path) -> (Vec<String>, Option<Vec<u8>>, Option<Vec<u8>>) {
    let files = own_files(folder).unwrap();
    let text = |end: &str| {
        let found = files.iter().find(|(name, _)| name.ends_with(end));
        found.map(|(_, text)| text.expose().to_vec())
    };
    let (chain, key) = (text("chain.pem"), text("acme/key.pem"));
    (files.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect(), chain, key)
}

#[test]
fn the_servers_own_files_are_known_and_no_chain_is_of_another_key() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path();
    assert!(own(&folder.join("none")).0.is_empty());
    let acme = folder.join("acme/ca.example_9000_dir");
    std::fs::create_dir_all(&acme).unwrap();
    std::fs::create_dir(folder.join("acme/not ours")).unwrap();
    let ((chain, key), other) = (pair_until(2030), pair_until(2031));
    for (name, text) in [
        ("self-signed.pem", "own"),
        ("mine.pem", "the operator's"),
        (".tmpAbc", "half of it"),
        ("acme/key.pem", &key),
        ("acme/not ours/chain.pem", &chain),
        ("acme/ca.example_9000_dir/chain.pem", &chain),
        ("acme/ca.example_9000_dir/account.json", "{}"),
        ("acme/ca.example_9000_dir/tried", "1 2 0"),
        ("acme/ca.example_9000_dir/.tmpDef", "half of it"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let place = "acme/ca.example_9000_dir";
    let all = ["account.json", "chain.pem", "tried"].map(|name| format!("{place}/{name}"));
    let (names, found, _) = own(folder);
    let ends = ["self-signed.pem".to_owned(), "acme/key.pem".to_owned()];
    assert_eq!(names, [&ends[..1], &all[..], &ends[1..]].concat());
    assert_eq!(found.unwrap(), chain.as_bytes());
    // The key was replaced, and the authority has not issued its certificate yet.
    std::fs::write(folder.join("acme/key.pem"), &other.1).unwrap();
    let (names, found, key) = own(folder);
    assert_eq!((names.len(), found), (4, None));
    assert_eq!(key.unwrap(), other.1.as_bytes());
}

#[test]
fn a_chain_that_is_replaced_with_its_key_is_never_read_without_it() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path();
    let acme = folder.join("acme/ca.example_dir");
    std::fs::create_dir_all(&acme).unwrap();
    let pairs = [pair_until(2030), pair_until(2031)];
    let put = |(chain, key): &(String, String)| {
        for (path, text) in [(folder.join("acme/key.pem"), key), (acme.join("chain.pem"), chain)] {
            std::fs::write(path.with_extension("new"), text).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }
    };
    put(&pairs[0]);
    let read = || {
        let (_, chain, key) = own(folder);
        let (chain, key) = (chain?, key.unwrap());
        Pair::from_pem(&chain, &key).unwrap();
        Some(chain)
    };
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| (0..300).for_each(|_| pairs.iter().for_each(put)));
        while !replacing.is_finished() {
            read();
        }
    });
    assert_eq!(read().unwrap(), pairs[1].0.as_bytes());
}

/// Starts a server that echoes over TLS, and does one handshake with it.
async fn meet(
    acceptor: &Acceptor,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
    trusted: &Pair,
) -> (Result<TlsFacts, HandshakeError>, std::io::Result<client::TlsStream<TcpStream>>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(trusted.chain()[0].clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(host().as_str().to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let server = async {
        let (mut stream, facts) = acceptor.accept(socket.accept().await.unwrap().0).await?;
        tokio::spawn(async move {
            let mut octets = [0; 4];
            while stream.read_exact(&mut octets).await.is_ok() {
                stream.write_all(&octets).await.unwrap();
            }
        });
        Ok(facts)
    };
    timeout(PATIENCE, async { tokio::join!(server, connector.connect(name, stream)) })
        .await
        .unwrap()
}

async fn echoes(stream: &mut client::TlsStream<TcpStream>) {
    stream.write_all(b"ping").await.unwrap();
    let mut octets = [0; 4];
    timeout(PATIENCE, stream.read_exact(&mut octets)).await.unwrap().unwrap();
    assert_eq!(&octets, b"ping");
}

#[tokio::test]
async fn open_sessions_outlive_a_new_certificate() {
    let made = |year| {
        let (chain, key) = pair_until(year);
        (Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap(), chain, key)
    };
    let ((old, ..), (new, chain, key)) = (made(2030), made(2031));
    let certificates = Certificates::new(old.clone(), Some(host()), clock());
    let acceptor = Acceptor::new(&certificates, PATIENCE).unwrap();
    let mut open = meet(&acceptor, &[&TLS13], &[], &old).await.1.unwrap();
    echoes(&mut open).await;
    certificates.install(chain.as_bytes(), b"").unwrap_err();
    meet(&acceptor, &[&TLS13], &[], &old).await.1.unwrap();
    certificates.install(chain.as_bytes(), key.as_bytes()).unwrap();
    echoes(&mut open).await;
    meet(&acceptor, &[&TLS13], &[], &old).await.1.unwrap_err();
    let mut later = meet(&acceptor, &[&TLS13], &[], &new).await.1.unwrap();
    echoes(&mut later).await;
    echoes(&mut open).await;
}

#[tokio::test]
async fn what_was_agreed_on_is_named_as_in_received_fields() {
    let pair = self_signed::make_temporary(&host()).unwrap();
    let certificates = Certificates::new(pair.clone(), Some(host()), clock());
    let acceptor = Acceptor::new(&certificates, PATIENCE).unwrap();
    for (version, named, suite) in [
        (&TLS13, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (&TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ] {
        let (facts, stream) = meet(&acceptor, &[version], &["imap"], &pair).await;
        let facts = facts.unwrap();
        assert_eq!((facts.version.as_str(), facts.cipher.as_str()), (named, suite));
        echoes(&mut stream.unwrap()).await;
    }
    let web = Acceptor::with_protocols(&certificates, PATIENCE, &["http/1.1"]).unwrap();
    let (facts, stream) = meet(&web, &[&TLS13], &["h2", "http/1.1"], &pair).await;
    assert!(facts.is_ok());
    assert_eq!(stream.unwrap().get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (facts, stream) = meet(&web, &[&TLS13], &["h2"], &pair).await;
    assert!(matches!(facts, Err(HandshakeError::Failed(_))) && stream.is_err());
}

/// A ClientHello that offers nothing above TLS 1.1 (RFC 4346 §7.4.1.2) with a suite of its time.
fn hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![0x03, 0x02];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]);
    // Only this is missing otherwise: signature_algorithms.
    hello.extend([0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    let mut handshake = vec![1, 0, 0, u8::try_from(hello.len()).unwrap()];
    handshake.extend(hello);
    let mut record = vec![0x16, 0x03, 0x01, 0, u8::try_from(handshake.len()).unwrap()];
    record.extend(handshake);
    record
}

#[tokio::test]
async fn what_is_no_handshake_of_today_is_told_so_and_what_stalls_is_cut() {
    let pair = self_signed::make_temporary(&host()).unwrap();
    let certificates = Certificates::new(pair, Some(host()), clock());
    let acceptor = Acceptor::new(&certificates, PATIENCE).unwrap();
    // A fatal alert: protocol_version (RFC 8446 §6), or the one for an unknown record.
    for (sent, alert) in [(hello_of_tls_1_1(), Some(70)), (b"EHLO client\r\n".to_vec(), None)] {
        let (mut client, server) = tokio::io::duplex(4096);
        client.write_all(&sent).await.unwrap();
        let failed = timeout(PATIENCE, acceptor.accept(server)).await.unwrap().unwrap_err();
        assert!(matches!(failed, HandshakeError::Failed(_)), "{failed}");
        let mut told = Vec::new();
        timeout(PATIENCE, client.read_to_end(&mut told)).await.unwrap().unwrap();
        assert_eq!((told[0], told[5]), (0x15, 2));
        assert!(alert.is_none_or(|alert| told[6] == alert), "{told:?}");
    }
    let hasty = Acceptor::new(&certificates, Duration::from_millis(50)).unwrap();
    let (mut client, server) = tokio::io::duplex(4096);
    client.write_all(&hello_of_tls_1_1()[..20]).await.unwrap();
    let failed = timeout(PATIENCE, hasty.accept(server)).await.unwrap().unwrap_err();
    assert!(matches!(failed, HandshakeError::Late), "{failed}");
}
