//! `gatepost mcp`: keys that stay unsaid, and calls that are cancelled. `mcp` has all tools through it.

use crate::support::process::GATEPOST;
use crate::support::program::offer;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_url_is_refused_and_not_repeated() {
    for url in [
        "http://127.0.0.1:1/?token=gp_secret",
        "http://gp_secret@127.0.0.1:1",
        "http://u:gp_secret@127.0.0.1:1/mcp",
        "http://127.0.0.1:1#gp_secret",
        "gp_secret",
    ] {
        let arguments = ["GATEPOST_MCP_KEY=gp_x", GATEPOST, "mcp", "--url", url];
        let output = offer("env", arguments, b"").await;
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && said.contains("--url"), "{url}: {said}");
        assert!(!said.contains("gp_secret"), "{url}: {said}");
    }
}
