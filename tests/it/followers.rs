//! Streams of the log of a whole gateway: their connections go on apart from requests.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestGateway, signed};

const FROM: &str = "alice@good.example";
const TO: &str = "support@agents.example";

/// Reads on until this text has come, or to the end.
async fn until(stream: &mut TcpStream, text: &mut String, end: Option<&str>) {
    let reading = async {
        let mut piece = vec![0; 65_536];
        while end.is_none_or(|end| !text.contains(end)) {
            let read = stream.read(&mut piece).await.unwrap();
            if read == 0 {
                return;
            }
            text.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    };
    timeout(PATIENCE, reading).await.expect("it comes in time");
}

#[tokio::test]
async fn a_stream_goes_on_apart_beside_requests_and_ends_with_the_gateway() {
    let mut gateway = TestGateway::start().await;
    let (mut streams, mut texts) = (Vec::new(), vec![String::new(); 3]);
    for text in &mut texts {
        let mut stream = TcpStream::connect(gateway.http).await.unwrap();
        let request = format!(
            "GET /api/v2/events?token={}&type=incoming HTTP/1.1\r\nHost: h\r\n\
             Accept: text/event-stream\r\n\r\n",
            gateway.key
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        until(&mut stream, text, Some("retry: ")).await;
        streams.push(stream);
    }
    for number in 1..=3 {
        let subject = format!("number {number} to followers");
        assert!(gateway.send(FROM, &[TO], &signed(&subject)).await.accepted());
        for (stream, text) in streams.iter_mut().zip(&mut texts) {
            until(stream, text, Some(&subject)).await;
        }
        assert_eq!(gateway.messages().await.len(), number);
    }
    gateway.stop().await;
    for (stream, text) in streams.iter_mut().zip(&mut texts) {
        until(stream, text, None).await;
        assert_eq!(text.matches("event: email.received").count(), 3, "{text}");
    }
    gateway.finish().await;
}
