//! One client's octets, both ways, with a deadline on every wait.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

/// An idle session costs this much; ten thousand of them must fit (threats §4).
const IDLE_BUFFER: usize = 4 * 1024;

/// Inside a message: fewer system calls.
const DATA_BUFFER: usize = 32 * 1024;

/// Replies are written at the latest when this much of them waits, octets.
const MAX_UNWRITTEN: usize = 4 * 1024;

/// What ended a wait for input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Input,
    /// The client has closed, or the connection broke.
    Gone,
    Deadline,
}

/// A stream with an input buffer of bounded size and replies that wait to be written together.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Where the input that nobody has taken yet begins and ends.
    start: usize,
    end: usize,
    unwritten: Vec<u8>,
    write_deadline: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S, write_deadline: Duration) -> Self {
        Self {
            stream,
            buffer: vec![0; IDLE_BUFFER],
            start: 0,
            end: 0,
            unwritten: Vec::new(),
            write_deadline,
        }
    }

    /// The input that nobody has taken yet.
    pub(super) fn input(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Marks `octets` of the input as taken.
    pub(super) fn take(&mut self, octets: usize) {
        self.start = self.start.saturating_add(octets).min(self.end);
    }

    /// Whether the client has sent something that nobody has taken, as far as is known without
    /// waiting.
    pub(super) async fn has_input(&mut self) -> bool {
        if !self.input().is_empty() {
            return true;
        }
        self.rewind();
        let Self { stream, buffer, end, .. } = self;
        poll_fn(|context| {
            let mut read = ReadBuf::new(buffer);
            if let Poll::Ready(Ok(())) = Pin::new(&mut *stream).poll_read(context, &mut read) {
                *end = read.filled().len();
            }
            Poll::Ready(())
        })
        .await;
        !self.input().is_empty()
    }

    /// Waits for more input. Cancel-safe: what was read is in the buffer.
    pub(super) async fn read(&mut self, deadline: Instant) -> Arrival {
        // A client that always has something ready must not outrun the clock.
        if Instant::now() >= deadline {
            return Arrival::Deadline;
        }
        if self.input().is_empty() {
            self.rewind();
        }
        let Some(space) = self.buffer.get_mut(self.end..).filter(|space| !space.is_empty()) else {
            return Arrival::Input;
        };
        match timeout_at(deadline, self.stream.read(space)).await {
            Err(_) => Arrival::Deadline,
            Ok(Ok(0) | Err(_)) => Arrival::Gone,
            Ok(Ok(octets)) => {
                self.end += octets;
                Arrival::Input
            }
        }
    }

    /// Between commands a small buffer is enough, inside a message a larger one is faster. Changes
    /// nothing while there is input.
    pub(super) fn expect_data(&mut self, data: bool) {
        let size = if data { DATA_BUFFER } else { IDLE_BUFFER };
        if self.input().is_empty() && self.buffer.len() != size {
            self.rewind();
            self.buffer = vec![0; size];
        }
    }

    /// The replies that wait to be written.
    pub(super) const fn unwritten(&mut self) -> &mut Vec<u8> {
        &mut self.unwritten
    }

    /// Whether so many replies wait that they must be written now, input or not.
    pub(super) const fn is_full(&self) -> bool {
        self.unwritten.len() >= MAX_UNWRITTEN
    }

    /// Writes all replies in one go (RFC 2920 §3.2).
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let writing = async {
            self.stream.write_all(&self.unwritten).await?;
            self.stream.flush().await
        };
        timeout(self.write_deadline, writing).await.map_err(io::Error::from)??;
        self.unwritten.clear();
        Ok(())
    }

    /// Ends the connection so that the last reply arrives: closing a socket with unread input
    /// resets it, and a client that was reset tries again. The input until then is dropped.
    pub(super) async fn close(mut self, linger: Duration) {
        let closing = async {
            if self.stream.shutdown().await.is_err() {
                return;
            }
            while matches!(self.stream.read(&mut self.buffer).await, Ok(1..)) {}
        };
        // Bounded by time; the buffer bounds the memory.
        let _in_time = timeout(linger, closing).await.is_ok();
    }

    fn rewind(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}
