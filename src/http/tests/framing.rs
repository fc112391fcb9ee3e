//! `fixtures/http-framing.toml`: where requests begin and end, and which are none.

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::tests::{House, PATIENCE};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    says: String,
    answers: Vec<u16>,
}

const BODY: &str = r#"{"mode":"open"}"#;

const LAST: &str = "DELETE /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// All that a connection answers to these octets, until it ends.
async fn answered(house: &House, octets: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(octets.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    let to_the_end = async {
        // The server may reset a connection whose octets it does not want.
        while stream.read_buf(&mut answers).await.is_ok_and(|read| read > 0) {}
    };
    timeout(PATIENCE, to_the_end).await.expect("the connection ends in time");
    answers
}

fn statuses(answers: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answers);
    let begins = text.match_indices("HTTP/1.").map(|(at, _)| at + "HTTP/1.x ".len());
    begins.map(|at| text[at..at + 3].parse().unwrap()).collect()
}

#[tokio::test]
async fn requests_begin_and_end_as_the_standard_says() {
    let house = House::new().await;
    let put = format!(
        "PUT /api/v2/email/inboundPolicy?token={} HTTP/1.1\r\nHost: h\r\n\
         Content-Type: application/json\r\n",
        house.token("agent1")
    );
    let fields = "X: y\r\n".repeat(101);
    let cases: Cases = toml::from_str(include_str!("../../../fixtures/http-framing.toml")).unwrap();
    let mut wrong = Vec::new();
    for Case { rule, says, answers } in cases.case {
        let says = says.replace("{put}", &put).replace("{body}", BODY).replace("{fields}", &fields);
        let answered = answered(&house, &format!("{says}{LAST}")).await;
        let got = statuses(&answered);
        if got != answers {
            wrong.push(format!("{rule}\n  {got:?}, not {answers:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
