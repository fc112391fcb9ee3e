//! Those who follow the log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// They read until they are dropped.
pub struct Readers {
    octets: Arc<AtomicU64>,
    _reading: JoinSet<()>,
}

impl Readers {
    /// So many, of whom `of_one` have one key.
    pub async fn gather(server: SocketAddr, keys: &[String], many: usize, of_one: usize) -> Self {
        let (octets, mut reading) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for number in 0..many {
            let mut stream = TcpStream::connect(server).await.unwrap();
            let request = format!(
                "GET /api/v2/events?token={} HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n",
                keys[number / of_one]
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut piece = vec![0; 1 << 16];
            let read = stream.read(&mut piece).await.unwrap();
            let head = String::from_utf8_lossy(&piece[..read]);
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let octets = Arc::clone(&octets);
            reading.spawn(async move {
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    octets.fetch_add(u64::try_from(read).unwrap(), Ordering::Relaxed);
                }
            });
        }
        Self { octets, _reading: reading }
    }

    /// What they have read, all of them.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }
}
