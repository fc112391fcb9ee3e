//! The least that a durable commit can cost: bytes appended to one file, all waiting writers
//! together, with one `fdatasync`.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::measure::Figures;

/// Most writes that wait for the thread: more than there are sessions.
const QUEUE: usize = 1024;

/// A handle of the thread that writes.
#[derive(Clone)]
pub struct PlainLog {
    waiting: mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl PlainLog {
    /// Creates the file; the thread ends with the last handle.
    pub fn create(path: &Path) -> Self {
        let mut file = File::create_new(path).unwrap();
        let (waiting, mut queue) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(QUEUE);
        std::thread::spawn(move || {
            let mut group = Vec::with_capacity(QUEUE);
            while queue.blocking_recv_many(&mut group, QUEUE) > 0 {
                let octets: Vec<&[u8]> = group.iter().map(|(octets, _)| &octets[..]).collect();
                file.write_all(&octets.concat()).unwrap();
                file.sync_data().unwrap();
                for (_, written) in group.drain(..) {
                    // A receiver that is gone belongs to a measurement that has ended.
                    let _unheard = written.send(());
                }
            }
        });
        Self { waiting }
    }

    /// Returns when these bytes are on the disk.
    pub async fn append(&self, octets: Vec<u8>) {
        let (written, answer) = oneshot::channel();
        self.waiting.send((octets, written)).await.expect("the writer ended");
        answer.await.expect("the writer ended");
    }
}

/// How long the disk takes for 4 KiB appended to a file.
pub fn sync_latency(path: &Path) -> Figures {
    let mut file = File::create_new(path).unwrap();
    let begun = Instant::now();
    let waits: Vec<Duration> = (0..200)
        .map(|_| {
            let begun = Instant::now();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_data().unwrap();
            begun.elapsed()
        })
        .collect();
    Figures::new(waits, begun.elapsed())
}
