//! A receiver that misbehaves as a file says: `fixtures/receivers.toml`.

use std::io;
use std::sync::Arc;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, interval, timeout};

use super::{PATIENCE, sources};

#[derive(Deserialize)]
struct Cases {
    receiver: Vec<Case>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(default = "yes")]
    reads: bool,
    says: Vec<Piece>,
    ends: End,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub kept: Option<String>,
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Piece {
    text: Option<String>,
    hex: Option<String>,
    times: Option<u64>,
    #[serde(default)]
    pause_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Stalls,
    Closes,
    Resets,
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let cases: Cases = toml::from_str(&sources::read("fixtures/receivers.toml")).unwrap();
    cases.receiver
}

/// The bytes of a text of two digits each.
pub fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

/// One that listens.
pub struct Hostile {
    pub url: String,
    connections: Arc<tokio::sync::Mutex<JoinSet<()>>>,
    accepting: AbortHandle,
}

impl Hostile {
    pub async fn start(case: &Case) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/{}", listener.local_addr().unwrap(), case.name);
        let connections = Arc::new(tokio::sync::Mutex::new(JoinSet::new()));
        let (case, held) = (case.clone(), Arc::clone(&connections));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let case = case.clone();
                // It ends when the other side lets go, if not by itself.
                held.lock().await.spawn(async move {
                    let _gone = speak(stream, &case).await;
                });
            }
        });
        Self { url, connections, accepting: accepting.abort_handle() }
    }

    /// Waits until nobody is connected any more, and answers how many were.
    pub async fn left(self) -> usize {
        self.accepting.abort();
        let mut connections = self.connections.lock().await;
        let mut left = 0;
        let all = async {
            while let Some(ended) = connections.join_next().await {
                ended.unwrap();
                left += 1;
            }
        };
        let all = timeout(PATIENCE, all).await;
        all.unwrap_or_else(|_| panic!("{}: a connection is held", self.url));
        left
    }
}

/// Whether the head has come, and behind it as much as its `Content-Length` says.
pub fn is_whole(request: &[u8]) -> bool {
    let Some(head) = request.windows(4).position(|octets| octets == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    request.len() - head - 4 >= length.trim().parse::<usize>().unwrap()
}

async fn speak(mut stream: TcpStream, case: &Case) -> io::Result<()> {
    if case.reads {
        let mut request = Vec::new();
        while !is_whole(&request) {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
    }
    for piece in &case.says {
        let said = match (&piece.text, &piece.hex) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(hex)) => octets(hex),
            _ => panic!("{}: text or hex", case.name),
        };
        say(&mut stream, piece, &said).await?;
    }
    match case.ends {
        End::Closes => stream.shutdown().await?,
        End::Resets => return stream.set_zero_linger(),
        End::Stalls => {}
    }
    // Waits for the gateway to close the connection.
    loop {
        let unread =
            if case.reads { stream.read(&mut [0; 4096]).await? } else { gone(&stream).await? };
        if unread == 0 {
            return Ok(());
        }
    }
}

async fn say(stream: &mut TcpStream, piece: &Piece, said: &[u8]) -> io::Result<()> {
    let mut times = match piece.times {
        None => 1,
        Some(0) => u64::MAX,
        Some(times) => times,
    };
    // Many at a time where nothing is between them.
    let at_once = if piece.pause_ms == 0 { (16_384 / said.len() as u64).max(1) } else { 1 };
    let mut pace = (piece.pause_ms > 0).then(|| interval(Duration::from_millis(piece.pause_ms)));
    while times > 0 {
        // The pace of a receiver that drips: what is tested, and not a wait for anything.
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let now = times.min(at_once);
        stream.write_all(&said.repeat(usize::try_from(now).unwrap())).await?;
        times -= now;
    }
    Ok(())
}

/// Waits, without reading, until the other side is gone.
async fn gone(stream: &TcpStream) -> io::Result<usize> {
    loop {
        let ready = stream.ready(tokio::io::Interest::READABLE).await?;
        if ready.is_read_closed() {
            return Ok(0);
        }
        // Received bytes stay unread: WouldBlock clears the readiness, so that `ready` waits for
        // more.
        let looked = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        stream.try_io(tokio::io::Interest::READABLE, looked).unwrap_or_default();
    }
}
