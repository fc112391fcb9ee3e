//! Reads and writes one client's bytes, with a deadline on every wait.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use crate::domain::ports::TlsFacts;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::stream::Stream;

/// Input buffer of an idle session: ten thousand of them must fit (threats §4).
const IDLE_BUFFER: usize = 4 * 1024;

/// Input buffer inside a message, for fewer system calls.
const DATA_BUFFER: usize = 32 * 1024;

/// Unwritten reply bytes that force a write.
const MAX_UNWRITTEN: usize = 4 * 1024;

/// The longest time the timer is set to. Deadlines often move closer (a message's after a
/// command's); a short timer rarely has to be reset for that.
const LONGEST_TIMER: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Input,
    /// The client closed, or the connection broke.
    Gone,
    Deadline,
}

/// A stream with a bounded input buffer, and replies that are written together.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Start of the input that is not taken yet; `end` is its end.
    start: usize,
    end: usize,
    unwritten: Vec<u8>,
    write_deadline: Duration,
    /// The last read filled the buffer, so more input is likely.
    filled: bool,
    /// A write failed or timed out, maybe halfway: any later reply would be out of step.
    broken: bool,
    /// Timer of the waits for input, kept between them.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Connection<Stream> {
    /// Performs the TLS handshake, or closes the connection. Drops unread input, so nothing sent in
    /// clear can be read as if it had been encrypted. The caller has checked that there is none.
    pub(super) async fn secure(
        &mut self,
        acceptor: &Acceptor,
        client: IpAddr,
        shutdown: &Shutdown,
    ) -> Option<TlsFacts> {
        self.rewind();
        self.stream.secure(acceptor, client, shutdown).await
    }
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
            filled: false,
            broken: false,
            timer: None,
        }
    }

    /// Input that is not taken yet.
    pub(super) fn input(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Marks `octets` bytes of the input as taken.
    pub(super) fn take(&mut self, octets: usize) {
        self.start = self.start.saturating_add(octets).min(self.end);
    }

    /// Whether there is untaken input, read so far or readable without waiting.
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

    /// Waits for more input until `deadline`. Cancel-safe: bytes that were read stay in the buffer.
    pub(super) async fn read(&mut self, deadline: Instant) -> ReadOutcome {
        // A client that always has input ready must not outrun the clock.
        if Instant::now() >= deadline {
            return ReadOutcome::Deadline;
        }
        if self.input().is_empty() {
            self.rewind();
        }
        let Some(space) = self.buffer.get_mut(self.end..).filter(|space| !space.is_empty()) else {
            return ReadOutcome::Input;
        };
        let size = space.len();
        let Self { stream, end, timer, filled, .. } = self;
        poll_fn(|context| {
            let mut read = ReadBuf::new(space);
            match Pin::new(&mut *stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    *filled = read.filled().len() == size;
                    *end += read.filled().len();
                    Poll::Ready(ReadOutcome::Input)
                }
                Poll::Ready(_) => Poll::Ready(ReadOutcome::Gone),
                Poll::Pending => wait(timer, deadline, context).map(|()| ReadOutcome::Deadline),
            }
        })
        .await
    }

    /// Resizes the input buffer, unless it holds input. The large buffer is used inside a message,
    /// once the client has filled the small one: ten thousand clients that got 354 and send nothing
    /// must not cost more than idle ones.
    pub(super) fn expect_data(&mut self, data: bool) {
        let size = if data && self.filled { DATA_BUFFER } else { IDLE_BUFFER };
        if data && self.buffer.len() == DATA_BUFFER {
            return;
        }
        if self.input().is_empty() && self.buffer.len() != size {
            self.rewind();
            self.buffer = vec![0; size];
        }
    }

    /// Replies not written yet.
    pub(super) const fn unwritten(&mut self) -> &mut Vec<u8> {
        &mut self.unwritten
    }

    /// Whether the unwritten replies must be written now, even while input is ready.
    pub(super) const fn is_full(&self) -> bool {
        self.unwritten.len() >= MAX_UNWRITTEN
    }

    /// Writes all replies in one go (RFC 2920 §3.2). Fails once a write has failed or timed out.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.unwritten.is_empty() {
            return Ok(());
        }
        // Set first: if this future is dropped while it waits, the write may be half done.
        self.broken = true;
        let writing = async {
            self.stream.write_all(&self.unwritten).await?;
            self.stream.flush().await
        };
        let written = timeout(self.write_deadline, writing).await;
        self.unwritten.clear();
        self.broken = !matches!(written, Ok(Ok(())));
        written.map_err(io::Error::from)?
    }

    /// Ends the connection so that the last reply arrives. Closing a socket with unread input
    /// resets it, and a client that was reset retries. Input is read and dropped for up to
    /// `linger`.
    pub(super) async fn close(mut self, linger: Duration) {
        let deadline = Instant::now() + linger;
        if !matches!(timeout_at(deadline, self.stream.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        // Bounded in time, even for a client that always has input ready.
        self.rewind();
        while self.read(deadline).await == ReadOutcome::Input {
            self.rewind();
        }
    }
}

/// Pending until `deadline`. The timer is reset only when the deadline is earlier, or when the
/// timer fired before a deadline that moved on. Most clients are in time, and a new timer for each
/// command would wake the runtime for nothing.
fn wait(
    timer: &mut Option<Pin<Box<Sleep>>>,
    deadline: Instant,
    context: &mut Context<'_>,
) -> Poll<()> {
    let soon = |now: Instant| deadline.min(now + LONGEST_TIMER);
    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(soon(Instant::now()))));
    if deadline < timer.deadline() {
        timer.as_mut().reset(deadline);
    }
    while timer.as_mut().poll(context).is_ready() {
        let now = Instant::now();
        if now >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(soon(now));
    }
    Poll::Pending
}

impl<S> Connection<S> {
    fn rewind(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Always readable; takes and counts any write.
    struct Counting {
        writes: usize,
        written: Vec<u8>,
    }

    impl AsyncRead for Counting {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            into.put_slice(b"x");
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Counting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.writes += 1;
            self.written.extend_from_slice(octets);
            Poll::Ready(Ok(octets.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn connection() -> Connection<Counting> {
        Connection::new(Counting { writes: 0, written: vec![] }, Duration::from_secs(9))
    }

    #[tokio::test]
    async fn replies_that_wait_together_are_one_write() {
        let mut connection = connection();
        for _ in 0..100 {
            connection.unwritten().extend_from_slice(b"250 2.0.0 OK\r\n");
        }
        assert!(!connection.is_full());
        connection.flush().await.unwrap();
        assert_eq!((connection.stream.writes, connection.stream.written.len()), (1, 1400));
        connection.flush().await.unwrap();
        assert_eq!(connection.stream.writes, 1);
    }

    #[tokio::test]
    async fn the_deadline_counts_even_while_input_is_ready() {
        let mut connection = connection();
        assert_eq!(connection.read(Instant::now()).await, ReadOutcome::Deadline);
        let later = Instant::now() + Duration::from_secs(9);
        assert_eq!(connection.read(later).await, ReadOutcome::Input);
        assert!(connection.has_input().await);
        connection.take(1);
        assert!(connection.input().is_empty());
        assert!(connection.has_input().await, "what only the socket has counts too");
    }

    #[tokio::test]
    async fn a_deadline_that_has_moved_is_the_one_that_counts() {
        let (stream, mut client) = tokio::io::duplex(9);
        let mut connection = Connection::new(stream, Duration::from_secs(9));
        let after = |millis| Instant::now() + Duration::from_millis(millis);
        // Each first poll finds no input and the timer as the previous wait left it.
        let (arrival, _) = tokio::join!(connection.read(after(3_600_000)), client.write_all(b"x"));
        assert_eq!(arrival, ReadOutcome::Input);
        let earlier = timeout(Duration::from_secs(20), connection.read(after(1)));
        assert_eq!(earlier.await, Ok(ReadOutcome::Deadline));
        let (arrival, _) = tokio::join!(connection.read(after(3_600_000)), client.write_all(b"y"));
        assert_eq!(arrival, ReadOutcome::Input);
        assert_eq!(connection.input(), b"xy");
    }

    #[tokio::test]
    async fn a_client_that_never_stops_cannot_hold_the_close() {
        let closing = connection().close(Duration::from_millis(50));
        timeout(Duration::from_secs(20), closing).await.unwrap();
    }
}
