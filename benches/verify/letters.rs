//! The messages that are examined.

use std::fmt::Write as _;

use bytes::Bytes;
use gatepost::testkit::dns::Zone;
use gatepost::testkit::signer::{Key, Signer};

/// Approximate bytes of the body.
pub const SIZES: [usize; 3] = [4_000, 100_000, 5_000_000];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// By the author's domain, RSA of 2048 bits.
    Rsa,
    /// By the author's domain, Ed25519.
    Ed25519,
    /// By the author's domain and its provider, RSA both.
    Twice,
    /// Ten RSA signatures: the most that are checked.
    TenTimes,
}

pub struct Letter {
    pub signed: Signed,
    pub raw: Bytes,
    /// Keys of the signatures, in no order.
    pub keys: Vec<Key>,
}

pub struct Keys {
    rsa: Key,
    ed25519: Key,
}

impl Signed {
    pub const ALL: [Self; 4] = [Self::Rsa, Self::Ed25519, Self::Twice, Self::TenTimes];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::Ed25519 => "ed25519",
            Self::Twice => "rsa, twice",
            Self::TenTimes => "rsa, ten times",
        }
    }
}

impl Keys {
    pub fn new() -> Self {
        let (rsa, ed25519) = (Key::generate_rsa().unwrap(), Key::generate_ed25519().unwrap());
        Self { rsa, ed25519 }
    }

    /// The DNS records of the domains.
    pub fn zone(&self) -> Zone {
        let mut zone = Zone::default().with_ttl(3600);
        let mut add = |name: &str, kind: &str, value: &str| {
            zone.insert(name, kind, "NOERROR", value).unwrap();
        };
        for signed in Signed::ALL {
            for signer in self.signers(signed) {
                add(&signer.key_name(), "TXT", &signer.key().txt_record().unwrap());
            }
        }
        add("good.example", "TXT", "v=spf1 include:_spf.provider.example -all");
        add("_spf.provider.example", "TXT", "v=spf1 ip4:198.51.100.0/24 ip4:192.0.2.0/24 -all");
        add("_dmarc.good.example", "TXT", "v=DMARC1; p=reject");
        add("1.2.0.192.in-addr.arpa", "PTR", "out.good.example");
        add("out.good.example", "A", "192.0.2.1");
        zone
    }

    /// A message as a mail program writes it: text and an attachment in base64.
    pub fn letter(&self, signed: Signed, size: usize) -> Letter {
        let mut raw = String::from(
            "Received: from laptop (unknown [203.0.113.7]) by out.good.example with ESMTPSA\r\n\
             \tid 4711 for <support@agents.example>; Fri, 20 Nov 2026 10:00:00 +0000\r\n\
             From: Alice <alice@good.example>\r\nTo: support@agents.example\r\n\
             Subject: Order 4711\r\nDate: Fri, 20 Nov 2026 10:00:00 +0000\r\n\
             Message-ID: <4711@good.example>\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=b\r\n\r\n\
             --b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
             Hello,\r\nplease find the order attached.\r\n\r\nRegards, Alice\r\n\
             --b\r\nContent-Type: application/pdf; name=order.pdf\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n",
        );
        for line in 0..size / 78 {
            let _ = write!(raw, "{line:0>76}\r\n");
        }
        raw.push_str("--b--\r\n");
        let signers = self.signers(signed);
        let raw = signers.iter().fold(raw.into_bytes(), |raw, by| by.sign(&raw).unwrap());
        let keys = signers.iter().map(|signer| signer.key().clone()).collect();
        Letter { signed, raw: raw.into(), keys }
    }

    fn signers(&self, signed: Signed) -> Vec<Signer> {
        let rsa = |domain: &str| Signer::new(self.rsa.clone(), domain, "s1");
        match signed {
            Signed::Rsa => vec![rsa("good.example")],
            Signed::Ed25519 => vec![Signer::new(self.ed25519.clone(), "good.example", "s2")],
            Signed::Twice => vec![rsa("provider.example"), rsa("good.example")],
            Signed::TenTimes => {
                let other = |number| rsa(&format!("p{number}.example"));
                (1..10).map(other).chain([rsa("good.example")]).collect()
            }
        }
    }
}
