//! The least: a tokio loop that leads the same dialogue, undoes dots and keeps the message, without
//! limits, deadlines or checks.

use std::hint::black_box;
use std::io;

use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BUFFER: usize = 32 * 1024;

pub async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // A client that leaves early has not been measured.
        tokio::spawn(async move { converse(stream).await.unwrap_or_default() });
    }
}

async fn converse(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut replies = b"220 mx.gatepost.example ESMTP\r\n".to_vec();
    let mut input = Input { stream, buffer: vec![0; BUFFER], start: 0, end: 0 };
    loop {
        let end = input.line(&mut replies).await?;
        let verb = input.buffer[input.start..end].first_chunk().copied().unwrap_or_default();
        input.start = end;
        let reply: &[u8] = match &verb {
            b"EHLO" => b"250-mx.gatepost.example\r\n250-PIPELINING\r\n250 8BITMIME\r\n",
            b"MAIL" | b"RCPT" => b"250 2.1.0 OK\r\n",
            b"DATA" => {
                replies.extend_from_slice(b"354 end the message with <CRLF>.<CRLF>\r\n");
                black_box(input.message(&mut replies).await?);
                b"250 2.0.0 accepted\r\n"
            }
            b"QUIT" => {
                replies.extend_from_slice(b"221 2.0.0 closing the connection\r\n");
                return input.stream.write_all(&replies).await;
            }
            _ => b"500 5.5.2 unknown command\r\n",
        };
        replies.extend_from_slice(reply);
    }
}

struct Input {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Returns the position behind the LF of the next line. Writes pending replies before it waits.
    async fn line(&mut self, replies: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                return Ok(self.start + at + 1);
            }
            if !replies.is_empty() {
                self.stream.write_all(replies).await?;
                replies.clear();
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match self.stream.read(&mut self.buffer[self.end..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                octets => self.end += octets,
            }
        }
    }

    async fn message(&mut self, replies: &mut Vec<u8>) -> io::Result<Vec<u8>> {
        let mut kept = Vec::new();
        loop {
            let end = self.line(replies).await?;
            let line = &self.buffer[self.start..end];
            self.start = end;
            if line == b".\r\n" {
                return Ok(kept);
            }
            kept.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
    }
}
