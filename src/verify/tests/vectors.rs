//! Signatures that no available library makes any more, made once with OpenSSL 3: short RSA keys
//! and SHA-1.

use super::{Bench, step};
use crate::domain::reason::Reason;

const MAIL: &str =
    "From: Boss <boss@good.example>\r\nTo: agent@gw.example\r\nSubject: Hi\r\n\r\nHello.\r\n";

const SHA256_TAGS: &str = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s; \
    h=from:to:subject; bh=yZQq1c8wjBl0fZ4Wc/oraMCAG1mZJv5v/hlvyFy+t6A=; b=";
const SHA1_TAGS: &str = "v=1; a=rsa-sha1; c=relaxed/relaxed; d=good.example; s=s; \
    h=from:to:subject; bh=2+689OSH6dJ8r+u45EO4VHIBWe8=; b=";

const P512: &str = "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBANNUkgCDlSGi62h2xZ9G/s+7OV4K+N3MUXnRM16A\
    MLBHpYEWrLzS4xNoTwsYjFhs3rHAycDIIOX1GL+AfI7yzYsCAwEAAQ==";
const B512: &str = "j5YW4jvODOYdua5CDJwhOKz79gfHODfsVZ6nCEBVvSW1h7I9Iy6N5j8cNUeXuQEyiIN/mF8I\
    26URTqAuAu07oA==";
const P768: &str = "MHwwDQYJKoZIhvcNAQEBBQADawAwaAJhAL83qh1zJpR7df/7M7gccNBPKcYN7T52OwONwm02\
    ieXTnXLFp+7bFfgpOQ7LFl9PM/SpNRRcMAwgurgnptqimH/siEaja9mMmyilhB7FKAlf0QoC\
    92AzC3qtOl9UabQKXwIDAQAB";
const B768: &str = "Kl0CaiW/swmhT6MAupzWP7E+dmXESAsc8t8FgMiULu8TFLe4Wp4JBh2Zhv/92mfgD37XicAL\
    2SCKoIGg4ROP1YKCe8JvfGd+zDRgmOx/wMmgkPZR+NFY7BhrsRJ9YTdX";
const P1024: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDURRGCVbjXcFalrVgC8AB//AAeU26y05x/\
    gXO/bSqvzrhf7z4P94OyBrO7gxwJO7Ob/viIM9K1jyLpCXvB87q2MYwtRM9oEiAhFu+ssc0X\
    564qfZV+3mBjpZYtCeA9+JXM5CASRf5V3cBGVJ/Js2Oqfd2+WHhyKIIbJT8WdlCR+QIDAQAB";
const B1024: &str = "Snl1Vq4+Fp7TVCPsN98oOjrX5HdOooIdVbLU02sOKybrydRdGQr2Fvmr5EeyYxsvE8HQDDBN\
    jtWJ1V9H9i/0tLnT0FKRuPDRI4wp/emug1+SetJ+DJpyiaUS5nZqYkAkhrEHI6RASXEfVdzw\
    cjz02NJtxv/oGMF8zg8Mt5koPfY=";
const B1024_SHA1: &str = "PiBFIHcBKXa9JqYr6WoUdnbSAWSAyUqRaPOJ/qoZVbMDRt/IjVg8AFt+r+q+Ly5fWaUoEiFQ\
    fhmrphpaMNUuW7yz+hezpJ+kdAIIuiTvwGupdOWwRY4FS7cokQgQw6NmM91gml3kwAuVw1FU\
    UIoP8iplIiaPvkAqVIyyczsMyLw=";

async fn bench(public: &str, overrides: &str) -> Bench {
    let bench = Bench::with(crate::testkit::dns::Zone::default(), overrides).await;
    bench.txt("s._domainkey.good.example", &format!("v=DKIM1; p={public}"));
    bench
}

fn signed(tags: &str, signature: &str) -> Vec<u8> {
    format!("DKIM-Signature: {tags}{signature}\r\n{MAIL}").into_bytes()
}

#[tokio::test]
async fn a_key_of_1024_bits_counts_and_shorter_ones_do_not() {
    let answer = bench(P1024, "").await.accepts(&signed(SHA256_TAGS, B1024)).await;
    assert_eq!(answer.summary["dkim"][0]["keyBits"], 1024);
    for (public, signature, bits) in [(P512, B512, "512 bits"), (P768, B768, "768 bits")] {
        let mail = signed(SHA256_TAGS, signature);
        bench(public, "").await.refuses(&mail, Reason::DkimUnacceptable, bits).await;
    }
}

/// Even if the rules allow short keys, an unverified signature must not count.
#[tokio::test]
async fn a_short_key_never_counts_whatever_the_rules_allow() {
    let bench = bench(P512, "[authentication]\nmin_rsa_bits = 512\n").await;
    for signature in [B512, B768, "AAAA"] {
        let mail = signed(SHA256_TAGS, signature);
        bench.refuses(&mail, Reason::DkimUnacceptable, "short").await;
    }
}

#[tokio::test]
async fn sha1_does_not_count() {
    let bench = bench(P1024, "").await;
    let mail = signed(SHA1_TAGS, B1024_SHA1);
    let answer = bench.refuses(&mail, Reason::DkimUnacceptable, "rsa-sha1").await;
    assert_eq!(step(&answer, "alignment")["inputs"]["causes"], serde_json::json!(["sha1"]));
    bench.refuses(&signed(SHA1_TAGS, B1024), Reason::DkimFailed, "good.example").await;
}
