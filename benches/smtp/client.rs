//! Clients that send the same message again and again, over blocking sockets. Their own cost is not
//! counted.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// Sessions at the same time.
const SESSIONS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
pub struct Dialogue {
    /// Bytes of a message.
    pub size: usize,
    /// Transactions of one session.
    pub transactions: usize,
    /// MAIL, RCPT and DATA in one burst, as RFC 2920 allows.
    pub pipelined: bool,
}

/// Sends messages in so many sessions; fails when one is not accepted.
pub fn send(server: SocketAddr, dialogue: Dialogue, sessions: usize) {
    let wire = message(dialogue.size);
    thread::scope(|scope| {
        for worker in 0..SESSIONS {
            let wire = &wire;
            scope.spawn(move || {
                for _ in (worker..sessions).step_by(SESSIONS) {
                    session(server, dialogue, wire);
                }
            });
        }
    });
}

fn session(server: SocketAddr, dialogue: Dialogue, wire: &[u8]) {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut peer = BufReader::new(stream);
    expect(&mut peer, "220");
    say(&mut peer, "EHLO client.example\r\n", &["250"]);
    let envelope =
        ["MAIL FROM:<a@good.example>\r\n", "RCPT TO:<agent@gatepost.example>\r\n", "DATA\r\n"];
    let replies = ["250", "250", "354"];
    for _ in 0..dialogue.transactions {
        if dialogue.pipelined {
            say(&mut peer, &envelope.concat(), &replies);
        } else {
            for (line, reply) in envelope.iter().zip(replies) {
                say(&mut peer, line, &[reply]);
            }
        }
        peer.get_mut().write_all(wire).unwrap();
        expect(&mut peer, "250");
    }
    say(&mut peer, "QUIT\r\n", &["221"]);
}

fn say(peer: &mut BufReader<TcpStream>, lines: &str, replies: &[&str]) {
    peer.get_mut().write_all(lines.as_bytes()).unwrap();
    for reply in replies {
        expect(peer, reply);
    }
}

fn expect(peer: &mut BufReader<TcpStream>, code: &str) {
    loop {
        let mut line = String::new();
        peer.read_line(&mut line).unwrap();
        assert!(line.starts_with(code), "{line:?}, expected {code}");
        if line.as_bytes()[3] == b' ' {
            return;
        }
    }
}

/// A message with its end, in lines as long as those of base64, a few of which begin with a dot.
fn message(octets: usize) -> Vec<u8> {
    let mut wire = b"Subject: measured\r\nFrom: a@good.example\r\n\r\n".to_vec();
    for number in 0_usize.. {
        if wire.len() + 78 > octets {
            break;
        }
        let dots: &[u8] = if number.is_multiple_of(50) { b".." } else { b"xx" };
        wire.extend_from_slice(dots);
        wire.extend_from_slice(&[b'a' + u8::try_from(number % 26).unwrap(); 74]);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b".\r\n");
    wire
}
