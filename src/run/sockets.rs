//! Listening sockets: those that a service manager opened before the start (`LISTEN_FDS` of
//! systemd), and those that the gateway opens itself.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener as OpenSocket};

use tokio::net::TcpListener;

use super::RunError;

/// The names of the listeners, as `FileDescriptorName=` of a .socket unit gives them, and the flags
/// with their addresses. The API has one name, with a certificate or without.
const LISTENERS: [(&str, &str); 5] = [
    ("smtp", "--smtp"),
    ("smtps", "--smtps"),
    ("http", "--http"),
    ("metrics", "--metrics"),
    ("acme", "--acme-http"),
];

/// Names the addresses of the listeners that there are, given in this order: smtp, smtps, http,
/// metrics, acme. Each comes with its name and its flag.
pub(super) fn named(
    addresses: [Option<SocketAddr>; 5],
) -> impl Iterator<Item = (&'static str, &'static str, SocketAddr)> {
    let all = LISTENERS.into_iter().zip(addresses);
    all.filter_map(|((name, flag), address)| Some((name, flag, address?)))
}

/// Sockets of a service manager, by the listener whose place each takes.
#[derive(Debug, Default)]
pub struct Sockets(BTreeMap<&'static str, OpenSocket>);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error(
        "the service manager passes a socket with the name {name:?}, which no listener has: write \
         one of {} into FileDescriptorName= of its .socket unit",
        LISTENERS.map(|(name, _)| name).join(", ")
    )]
    Unknown { name: String },
    #[error(
        "the service manager passes two sockets with the name {name}: each listener has one \
         address, so leave one ListenStream= in the .socket units with this name"
    )]
    Twice { name: &'static str },
    #[error(
        "the service manager passes a socket with the name {name} that does not listen: remove \
         Accept=yes from its .socket unit"
    )]
    Connected { name: &'static str },
    #[error(
        "the service manager passes a socket with the name {name}, but nothing is served there: \
         {remedy}, or stop its .socket unit"
    )]
    Unused { name: &'static str, remedy: &'static str },
    #[error(
        "{setting} is {set}, but the service manager passes a socket on {passed} for it: remove \
         {setting} from the settings, or write its address into ListenStream= of the .socket unit"
    )]
    Elsewhere { setting: &'static str, set: SocketAddr, passed: SocketAddr },
    #[error("cannot use the socket {name} of the service manager")]
    Broken { name: &'static str, source: io::Error },
}

impl Sockets {
    /// Fails for a name that no listener has, a name that comes twice, and a socket that does not
    /// listen.
    pub fn named(
        passed: impl IntoIterator<Item = (String, OpenSocket)>,
    ) -> Result<Self, SocketError> {
        let mut sockets = BTreeMap::new();
        for (name, socket) in passed {
            let Some((name, _)) = LISTENERS.into_iter().find(|(known, _)| *known == name) else {
                return Err(SocketError::Unknown { name });
            };
            let broken = |source| SocketError::Broken { name, source };
            if !rustix::net::sockopt::socket_acceptconn(&socket)
                .map_err(io::Error::from)
                .map_err(broken)?
            {
                return Err(SocketError::Connected { name });
            }
            socket.set_nonblocking(true).map_err(broken)?;
            if sockets.insert(name, socket).is_some() {
                return Err(SocketError::Twice { name });
            }
        }
        Ok(Self(sockets))
    }

    /// Fails if the operator set an address for a listener whose socket was passed on another one.
    /// `set` are the names, flags and addresses.
    pub fn agree_with(
        &self,
        set: impl IntoIterator<Item = (&'static str, &'static str, SocketAddr)>,
    ) -> Result<(), SocketError> {
        for (name, flag, set) in set {
            let Some(passed) = self.address(name) else { continue };
            if !is_at(passed, set) {
                let setting = flag.trim_start_matches('-');
                return Err(SocketError::Elsewhere { setting, set, passed });
            }
        }
        Ok(())
    }

    /// The address of a socket that was passed, if there is one for this listener.
    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        self.0.get(name)?.local_addr().ok()
    }

    /// Returns the socket of a listener: the one that was passed, else a new one on `address`.
    pub(super) async fn listen(
        &mut self,
        name: &'static str,
        address: SocketAddr,
    ) -> io::Result<TcpListener> {
        match self.0.remove(name) {
            Some(socket) => TcpListener::from_std(socket),
            None => TcpListener::bind(address).await,
        }
    }

    /// Like [`Self::listen`]; fails with the address. Returns the actual address, too, which has the
    /// port that was picked for port 0.
    pub(super) async fn bind(
        &mut self,
        name: &'static str,
        address: SocketAddr,
    ) -> Result<(TcpListener, SocketAddr), RunError> {
        let listen_error = |source| RunError::Listen { address, source };
        let socket = self.listen(name, address).await.map_err(listen_error)?;
        let bound = socket.local_addr().map_err(listen_error)?;
        Ok((socket, bound))
    }

    /// Fails if a socket is left that no listener took: its clients would wait forever.
    pub(super) fn all_taken(self) -> Result<(), SocketError> {
        let Some(name) = self.0.into_keys().next() else { return Ok(()) };
        let remedy = match name {
            "acme" => "set acme-directory, with the challenge http-01",
            _ => "choose the front end that has it",
        };
        Err(SocketError::Unused { name, remedy })
    }
}

/// Whether a socket on `passed` is what `set` asks for: port 0 is any port, and a socket of systemd
/// on all addresses of IPv6 has those of IPv4, too.
fn is_at(passed: SocketAddr, set: SocketAddr) -> bool {
    let (passed_ip, set_ip) = (passed.ip().to_canonical(), set.ip().to_canonical());
    let same_ip = passed_ip == set_ip || passed_ip.is_unspecified() && set_ip.is_unspecified();
    same_ip && (set.port() == 0 || set.port() == passed.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> OpenSocket {
        OpenSocket::bind("127.0.0.1:0").unwrap()
    }

    fn error(passed: Vec<(&str, OpenSocket)>) -> String {
        let passed = passed.into_iter().map(|(name, socket)| (name.to_owned(), socket));
        Sockets::named(passed).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_socket_takes_the_place_of_its_listener_alone() {
        let passed = open();
        let address = passed.local_addr().unwrap();
        let mut sockets = Sockets::named([("smtp".to_owned(), passed)]).unwrap();
        assert_eq!((sockets.address("smtp"), sockets.address("http")), (Some(address), None));
        let other = "127.0.0.1:0".parse().unwrap();
        let (_http, bound) = sockets.bind("http", other).await.unwrap();
        assert_ne!(bound, address);
        let (_smtp, bound) = sockets.bind("smtp", other).await.unwrap();
        assert_eq!(bound, address);
        sockets.all_taken().unwrap();
    }

    #[test]
    fn names_that_cannot_be_served_are_refused() {
        let unknown = error(vec![("mail", open())]);
        assert!(unknown.contains("\"mail\"") && unknown.contains("smtp, smtps, http"), "{unknown}");
        let twice = error(vec![("http", open()), ("http", open())]);
        assert!(twice.contains("two sockets with the name http"), "{twice}");
        let left = Sockets::named([("acme".to_owned(), open())]).unwrap().all_taken();
        assert!(left.unwrap_err().to_string().contains("set acme-directory, with"));
    }

    #[test]
    fn an_address_that_the_operator_set_is_not_replaced_in_silence() {
        let passed = open();
        let address = passed.local_addr().unwrap();
        let sockets = Sockets::named([("http".to_owned(), passed)]).unwrap();
        let set = |text: &str| named([Some(address), None, text.parse().ok(), None, None]);
        for same in
            ["", &address.to_string(), "127.0.0.1:0", &format!("[::ffff:{}]:0", address.ip())]
        {
            sockets.agree_with(set(same)).unwrap();
        }
        for other in ["127.0.0.1:1", "127.0.0.2:0", "0.0.0.0:0", "[::1]:0"] {
            let error = sockets.agree_with(set(other)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("http is {other}, but")), "{error}");
            assert!(error.contains(&address.to_string()), "{error}");
        }
        let all = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(is_at(all("[::]:25"), all("0.0.0.0:25")));
        assert!(!is_at(all("[::]:25"), all("0.0.0.0:26")) && !is_at(all("[::]:25"), address));
    }
}
