//! An SMTP session, line by line.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{PATIENCE, signed};

/// The client's end.
pub struct Session(BufReader<TcpStream>);

impl Session {
    /// Connected; the greeting is the first reply.
    pub async fn connect(server: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(server).await.unwrap()))
    }

    /// Connects from another address of this machine.
    pub async fn connect_from(client: IpAddr, server: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((client, 0).into()).unwrap();
        Self(BufReader::new(socket.connect(server).await.unwrap()))
    }

    pub async fn greeted(server: SocketAddr) -> Self {
        let mut session = Self::connect(server).await;
        session.expect("220 ").await;
        session
    }

    /// One that stands behind RCPT.
    pub async fn with_recipient(server: SocketAddr, recipient: &str) -> Self {
        let mut session = Self::greeted(server).await;
        session.begin(recipient).await;
        session
    }

    /// Says all up to RCPT.
    pub async fn begin(&mut self, recipient: &str) {
        self.open().await;
        self.rcpt(recipient, "250").await;
    }

    /// Says all up to MAIL.
    pub async fn open(&mut self) {
        for line in ["HELO a.example", "MAIL FROM:<>"] {
            let reply = self.say(line).await;
            assert!(reply.starts_with("250"), "{line}: {reply}");
        }
    }

    /// Says RCPT, whose reply must begin so.
    pub async fn rcpt(&mut self, recipient: &str, start: &str) {
        let reply = self.say(&format!("RCPT TO:<{recipient}>")).await;
        assert!(reply.starts_with(start), "{recipient}: {reply:?}, expected {start:?}");
    }

    /// One that is past EHLO and may stay as it is.
    pub async fn idle(server: SocketAddr) -> Self {
        let mut session = Self::greeted(server).await;
        let mut reply = session.say("EHLO client.example").await;
        while reply.starts_with("250-") {
            reply = session.reply().await;
        }
        assert!(reply.starts_with("250 "), "{reply}");
        session
    }

    /// Sends so many bytes that end no line.
    pub async fn send_one_line(&mut self, octets: usize) {
        let piece = "x".repeat(1 << 20);
        for start in (0..octets).step_by(piece.len()) {
            self.send(&piece[..piece.len().min(octets - start)]).await;
        }
    }

    pub async fn say(&mut self, line: &str) -> String {
        self.send(&format!("{line}\r\n")).await;
        self.reply().await
    }

    pub async fn send(&mut self, text: &str) {
        let sent = self.0.get_mut().write_all(text.as_bytes());
        timeout(PATIENCE, sent).await.unwrap().unwrap();
    }

    /// Waits until the server has taken in all that was sent.
    pub async fn has_been_read(&self) {
        has_been_read(self.0.get_ref()).await;
    }

    /// A reply of one line; empty where the server has closed.
    pub async fn reply(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    pub async fn expect(&mut self, start: &str) {
        let reply = self.reply().await;
        assert!(reply.starts_with(start), "{reply:?}, expected {start:?}");
    }

    /// The server says nothing more and closes.
    pub async fn expect_end(&mut self) {
        let mut rest = String::new();
        timeout(PATIENCE, self.0.read_to_string(&mut rest)).await.unwrap().unwrap();
        assert_eq!(rest, "");
    }

    /// Sends a signed message; answers what became of it.
    pub async fn finish(&mut self, subject: &str) -> String {
        assert!(self.say("DATA").await.starts_with("354"));
        let message = String::from_utf8(signed(subject)).unwrap();
        self.say(&format!("{message}.")).await
    }
}

/// Waits until the other end has taken in all that was sent, as the kernel knows it.
pub async fn has_been_read(stream: &TcpStream) {
    let (here, there) = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
    let reading = async {
        while unsent(here, there) + unread(there, here) > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, reading).await.unwrap();
}

fn unsent(port: u16, to: u16) -> u64 {
    queues(port, to).0
}

fn unread(port: u16, from: u16) -> u64 {
    queues(port, from).1
}

/// The bytes that wait to be sent, and to be read, at one end of a connection over the loopback:
/// proc(5), /proc/net/tcp.
fn queues(port: u16, peer: u16) -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = format!(":{port:04X} 0100007F:{peer:04X} ");
    let line = table.lines().find(|line| line.contains(&ends)).expect("the connection is gone");
    let (send, receive) = line.split_whitespace().nth(4).unwrap().split_once(':').unwrap();
    (u64::from_str_radix(send, 16).unwrap(), u64::from_str_radix(receive, 16).unwrap())
}
