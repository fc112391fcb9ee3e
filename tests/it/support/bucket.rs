//! An S3-compatible server of the tests' own: moto, on the loopback, gone with its test.

use std::process::Stdio;

use gatepost::domain::secret::Secret;
use gatepost::store::{BlobPlace, S3Access};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{PATIENCE, python};

/// A server with one bucket, `mail`.
pub struct Bucket {
    server: Child,
    pub endpoint: String,
}

impl Bucket {
    pub async fn start() -> Self {
        let mut server = Command::new(python::interpreter())
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("moto: {error}: run the tests by scripts/test"));
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let endpoint = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, address)) = line.split_once("Running on ") {
                    return address.trim().to_owned();
                }
            }
            panic!("moto did not start: run the tests by scripts/test");
        };
        let endpoint = timeout(PATIENCE, endpoint).await.unwrap();
        // It says something of every request; nobody must wait for that to be read.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let made = reqwest::Client::new().put(format!("{endpoint}/mail")).send().await.unwrap();
        assert!(made.status().is_success(), "{}", made.status());
        Self { server, endpoint }
    }

    /// The part of the bucket below `prefix`.
    pub fn place(&self, prefix: &str) -> BlobPlace {
        let access = S3Access {
            endpoint: Some(self.endpoint.clone()),
            region: None,
            access_key: Some(Secret::new("test")),
            secret_key: Some(Secret::new("hush")),
        };
        BlobPlace::parse(&format!("s3://mail/{prefix}"), access).unwrap()
    }

    /// Keys in the bucket, as the server lists them, without the objects that name its owner.
    pub async fn keys(&self) -> Vec<String> {
        let list = format!("{}/mail?list-type=2", self.endpoint);
        let text = reqwest::get(list).await.unwrap().text().await.unwrap();
        let keys = text.split("<Key>").skip(1);
        let keys = keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned());
        keys.filter(|key| !key.ends_with("/owner")).collect()
    }

    pub async fn remove(&self, key: &str) {
        let url = format!("{}/mail/{key}", self.endpoint);
        // It asks who somebody is, and believes the answer.
        let request = reqwest::Client::new().delete(url).header("authorization", "AWS test:test");
        let gone = request.send().await.unwrap();
        assert!(gone.status().is_success(), "{}", gone.status());
    }

    /// Nobody answers from now on.
    pub async fn stop(mut self) {
        self.server.kill().await.unwrap();
    }
}
