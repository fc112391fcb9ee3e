//! Adapters (relays of type `json`, contract §6): Python's published library of Standard Webhooks signs
//! records and posts them to the whole program, on both databases (threats H14).

use serde_json::{Value, json};

use crate::support::program::offer;
use crate::support::{TestGateway, canary, python};

/// Posts `{url, secret, id, age, body}`, signed as old as it says, and prints status, header and
/// body of the answer.
const PROGRAM: &str = "
import datetime, json, sys, urllib.error, urllib.request
from standardwebhooks import Webhook
one = json.load(sys.stdin)
at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=one['age'])
headers = {
    'Content-Type': 'application/json', 'webhook-id': one['id'],
    'webhook-timestamp': str(int(at.timestamp())),
    'webhook-signature': Webhook(one['secret']).sign(one['id'], at, one['body']),
}
request = urllib.request.Request(one['url'], one['body'].encode(), headers)
try:
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as refused:
    answer = refused
again = answer.headers.get('Idempotency-Replayed')
print(json.dumps({'status': answer.status, 'again': again, 'body': json.loads(answer.read())}))
";

struct Adapter<'g> {
    gateway: &'g TestGateway,
    url: String,
    secret: String,
}

impl Adapter<'_> {
    async fn post(&self, id: &str, age: i64, body: &Value) -> Value {
        let Self { url, secret, .. } = self;
        let body = body.to_string();
        let one =
            json!({ "url": url, "secret": secret, "id": id, "age": age, "body": body }).to_string();
        let output = offer(python::interpreter(), ["-c", PROGRAM], one.as_bytes()).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn new(gateway: &TestGateway) -> Adapter<'_> {
        let rotate = json!({ "rotateInboundKey": true });
        let (status, made) = gateway.request("POST", "/webhookRelay/json", Some(rotate)).await;
        assert_eq!(status, 200, "{made}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (path, secret) = (text(&made["config"]["inboundUrl"]), text(&made["secret"]));
        for secret in [&path, &secret] {
            canary::note(secret.as_bytes());
        }
        let path = &path[path.find("/inbound/").unwrap()..];
        Adapter { gateway, url: format!("http://{}{path}", gateway.http), secret }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_library_signs_a_record() {
    signs_a_record(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_library_signs_a_record_on_postgres() {
    signs_a_record(TestGateway::on_postgres().await).await;
}

async fn signs_a_record(gateway: TestGateway) {
    let adapter = Adapter::new(&gateway).await;
    let call = json!({
        "targetAgent": gateway.house.agents["open"].id.get(), "source": "call",
        "sourceAddress": "+15551231234", "message": "gr\u{fc}\u{df}e", "duration": 61,
    });
    let first = adapter.post("call-1", 0, &call).await;
    assert_eq!((&first["status"], &first["again"]), (&json!(200), &Value::Null), "{first}");
    let again = adapter.post("call-1", 200, &call).await;
    assert_eq!((&again["body"], &again["again"]), (&first["body"], &json!("true")), "{again}");
    let old = adapter.post("call-2", 320, &call).await;
    assert_eq!((&old["status"], &old["body"]["code"]), (&json!(401), &json!("unauthorized")));
    let stranger = Adapter { secret: format!("whsec_{}", "A".repeat(44)), ..adapter };
    assert_eq!(stranger.post("call-3", 0, &call).await["status"], 401);

    let messages = stranger.gateway.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["uuid"], first["body"]["messageUuid"]);
    assert_eq!((&messages[0]["duration"], &messages[0]["source"]), (&json!(61), &json!("call")));
    // Refusals are counted, those of a minute together, and the accepted record names its proof.
    let refused = gateway.get("/email/intake?verdict=refused").await["intake"].clone();
    let counts = refused.as_array().unwrap().iter().map(|record| record["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 2, "{refused}");
    let accepted = gateway.get("/email/intake?verdict=accepted").await["intake"].clone();
    let path = format!("/email/intake/{}", accepted[0]["id"].as_str().unwrap());
    let steps = gateway.get(&path).await["intake"]["steps"].clone();
    assert_eq!(steps[0]["inputs"]["provider"], "json", "{steps}");
    gateway.finish().await;
}
