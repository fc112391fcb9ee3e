//! Readers of the event log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

/// As `policies/access.toml` has it for the threads of streams. Real readers are on other machines,
/// so their work here must give way to the senders.
const NICE: i32 = 10;
/// Silence after which all events have come.
const QUIET: Duration = Duration::from_millis(500);

/// They read on a thread of their own until they are dropped.
pub struct Readers {
    octets: Arc<AtomicU64>,
    threads: Option<Runtime>,
}

impl Readers {
    /// Opens a reader with each of these keys.
    pub async fn gather(server: SocketAddr, keys: impl Iterator<Item = String>) -> Self {
        let threads = Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(|| rustix::process::setpriority_process(None, NICE).unwrap())
            .enable_all()
            .build()
            .unwrap();
        let octets = Arc::new(AtomicU64::new(0));
        for key in keys {
            let octets = Arc::clone(&octets);
            let opened = async move {
                let mut stream = TcpStream::connect(server).await.unwrap();
                let request = format!(
                    "GET /api/v2/events?token={key} HTTP/1.1\r\nHost: h\r\n\
                     Accept: text/event-stream\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut piece = vec![0; 1 << 16];
                let read = stream.read(&mut piece).await.unwrap();
                let head = String::from_utf8_lossy(&piece[..read]);
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                tokio::spawn(async move {
                    while let Ok(read @ 1..) = stream.read(&mut piece).await {
                        octets.fetch_add(u64::try_from(read).unwrap(), Ordering::Relaxed);
                    }
                });
            };
            threads.spawn(opened).await.unwrap();
        }
        Self { octets, threads: Some(threads) }
    }

    /// Bytes that all readers have read together.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Waits until all readers have read everything; returns how long the last byte took.
    pub async fn caught_up(&self) -> Duration {
        let begun = Instant::now();
        let (mut last, mut read) = (Duration::ZERO, self.octets());
        while begun.elapsed() - last < QUIET {
            sleep(Duration::from_millis(10)).await;
            if self.octets() != read {
                (last, read) = (begun.elapsed(), self.octets());
            }
        }
        last
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.threads.take().unwrap().shutdown_background();
    }
}
