//! Stands between a gateway and its PostgreSQL, and can fall silent as a machine does that is gone:
//! connections stay open, and nothing more comes through.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, copy};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Passing {
    Both,
    /// The server's words only: nothing is read from the gateway.
    Answers,
    Nothing,
}

pub struct Proxy {
    port: u16,
    /// The state of the connections made since the last recovery; older ones stay silent.
    passing: Arc<watch::Sender<watch::Receiver<Passing>>>,
    now: watch::Sender<Passing>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Before the server of this URL.
    pub async fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (now, first) = watch::channel(Passing::Both);
        let passing = Arc::new(watch::Sender::new(first));
        let (server, current) = (Server::of(url), passing.subscribe());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let passing = current.borrow().clone();
                connections.spawn(server.clone().serve(client, passing));
            }
        });
        Self { port, passing, now, _accepting: accepting }
    }

    /// The URL, by way of the proxy.
    pub fn url(&self, direct: &str) -> String {
        let mut url = Url::parse(direct).unwrap();
        let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        pairs.retain(|(key, _)| !["host", "port", "sslmode", "user"].contains(&key.as_str()));
        let user = direct.split_once("user=").map(|(_, rest)| rest.split('&').next().unwrap());
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.query_pairs_mut().clear().extend_pairs(pairs);
        if let Some(user) = user {
            url.set_username(user).unwrap();
        }
        url.to_string()
    }

    /// The server still speaks on the connections that there are, and hears nothing.
    pub fn go_deaf(&self) {
        self.now.send_replace(Passing::Answers);
    }

    /// Nothing comes through any more, on the connections that there are and on new ones.
    pub fn fall_silent(&self) {
        self.now.send_replace(Passing::Nothing);
    }

    /// New connections are served; the ones before stay silent.
    pub fn recover(&mut self) {
        let (now, first) = watch::channel(Passing::Both);
        self.now.send_replace(Passing::Nothing);
        self.passing.send_replace(first);
        self.now = now;
    }
}

#[derive(Clone)]
enum Server {
    Socket(String),
    Address(String),
}

impl Server {
    fn of(url: &str) -> Self {
        let url = Url::parse(url).unwrap();
        let port = url.port().unwrap_or(5432);
        match url.query_pairs().find(|(key, _)| key == "host") {
            Some((_, folder)) => Self::Socket(format!("{folder}/.s.PGSQL.{port}")),
            None => Self::Address(format!("{}:{port}", url.host_str().unwrap())),
        }
    }

    async fn serve(self, client: TcpStream, passing: watch::Receiver<Passing>) {
        let (from, to) = client.into_split();
        match self {
            Self::Socket(path) => {
                let (answers, questions) = UnixStream::connect(path).await.unwrap().into_split();
                pass((from, questions), (answers, to), passing).await;
            }
            Self::Address(address) => {
                let (answers, questions) = TcpStream::connect(address).await.unwrap().into_split();
                pass((from, questions), (answers, to), passing).await;
            }
        }
    }
}

/// Carries bytes both ways, as long as they pass; then holds the connection open.
async fn pass<A, B, C, D>(questions: (A, B), answers: (C, D), passing: watch::Receiver<Passing>)
where
    A: AsyncRead + Unpin,
    B: AsyncWrite + Unpin,
    C: AsyncRead + Unpin,
    D: AsyncWrite + Unpin,
{
    // Either end that hangs up ends both; one that is silent holds the other.
    tokio::select! {
        () = carry(questions, until(passing.clone(), Passing::Answers)) => {}
        () = carry(answers, until(passing, Passing::Nothing)) => {}
    }
}

async fn until(mut passing: watch::Receiver<Passing>, end: Passing) {
    let _or_gone = passing.wait_for(|now| *now >= end).await.map(drop);
}

async fn carry<A, B>((mut from, mut to): (A, B), end: impl Future<Output = ()>)
where
    A: AsyncRead + Unpin,
    B: AsyncWrite + Unpin,
{
    tokio::select! {
        biased;
        () = end => std::future::pending().await,
        _ = copy(&mut from, &mut to) => {}
    }
}
