//! Commands to try while the demo's server stays; they work when pasted into any folder.

use super::stage::Stage;
use crate::cli::local::{program, quoted};
use crate::cli::{Failure, say};
use crate::testkit::case;

/// A letter by Alice, which `gatepost send --sign` signs.
const LETTER: &str = "From: Alice Example <alice@good.example>\n\
To: support@agents.example\n\
Subject: A letter of my own\n\
MIME-Version: 1.0\n\
Content-Type: text/plain; charset=utf-8\n\
\n\
Change this text, and send it again.\n";

/// Prints the commands, and writes the files that they name.
pub(super) fn print_commands(stage: &Stage) -> Result<(), Failure> {
    let (name, pem) = case::key_of_alice();
    let (key_file, letter) = (stage.folder().join(name), stage.folder().join("letter.eml"));
    std::fs::write(&key_file, pem)?;
    std::fs::write(&letter, LETTER)?;
    let (base, key, smtp) = (stage.api.base(), &stage.key, stage.running.smtp);
    let support = stage.agent("support")?;
    let (program, letter, key_file) = (program(), quoted(&letter), quoted(&key_file));
    say!(
        "\nThe server stays; Ctrl-C ends it. Try:\n
  curl '{base}/messages/recent?token={key}&limit=2'
  curl '{base}/email/intake?token={key}&verdict=refused&limit=3'
  curl '{base}/email/inboundPolicy?token={key}&targetAccountId={support}'
  curl '{base}/email/inboundWhitelist?token={key}&targetAccountId={support}'
  curl -X POST -H 'Content-Type: application/json' -d '{{\"email\": \"new@good.example\"}}' \\
       '{base}/email/inboundWhitelist?token={key}&targetAccountId={support}'

Send a message of your own, signed with the key of Alice's domain:

  {program} send {letter} --to support@agents.example --server {smtp} \\
       --sign {key_file}"
    )
}
