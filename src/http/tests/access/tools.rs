//! Every tool of MCP × every kind of key × every account, compared with the oracle of the operation
//! that the tool asks: so no tool is a way around it (threats M3).

use serde_json::{Value, json};

use crate::http::tests::Reply;
use crate::http::tests::access::access_world::{AccessWorld, mark};
use crate::http::tests::access::matrix::{AGENT, tree};
use crate::http::tests::access::tree::{Expected, Key, Named, Reach, rules};

/// A tool, the operation whose rights it needs, and its arguments.
struct Tool {
    name: &'static str,
    operation: &'static str,
    arguments: Value,
    about: About,
}

/// The things that a call is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// The account that the call names as its inbox, and all below it.
    Inbox,
    /// Things of the Agent of the samples.
    Sample,
    /// The owner of the key.
    Caller,
}

const SINCE: &str = "2020-01-01T00:00:00Z";

fn tools(town: &AccessWorld) -> Vec<Tool> {
    let mail = town.goods[AGENT].mail.as_ref().unwrap();
    let (uuid, room) = (mail.message.0, mail.room.to_string());
    let tool = |name, operation, arguments, about| Tool { name, operation, arguments, about };
    let boss = "boss@good.example";
    vec![
        tool("whoami", "GET /account", json!({}), About::Caller),
        tool("list_inboxes", "GET /searchAccounts", json!({}), About::Caller),
        tool("recent_messages", "GET /messages/recent", json!({}), About::Inbox),
        tool("search_messages", "GET /messages/search", json!({ "query": "only" }), About::Inbox),
        tool("list_conversations", "GET /conversations", json!({}), About::Inbox),
        tool(
            "wait_for_message",
            "GET /events",
            json!({ "after": SINCE, "seconds": 1 }),
            About::Inbox,
        ),
        tool("get_policy", "GET /email/inboundPolicy", json!({}), About::Inbox),
        tool("explain_refusal", "GET /email/intake", json!({ "sender": boss }), About::Inbox),
        tool(
            "allow_sender",
            "POST /email/inboundWhitelist",
            json!({ "sender": boss }),
            About::Inbox,
        ),
        tool("read_message", "GET /message/{messageUuid}", json!({ "uuid": uuid }), About::Sample),
        tool("read_conversation", "GET /messages/{roomId}", json!({ "room": room }), About::Sample),
        tool(
            "get_attachment",
            "GET /media/{uuid}/{filename}",
            json!({ "uuid": uuid, "part": 0 }),
            About::Sample,
        ),
        tool(
            "explain_refusal",
            "GET /email/intake/{id}",
            json!({ "record": mail.intake.0 }),
            About::Sample,
        ),
        tool(
            "record_outcome",
            "POST /messages/{uuid}/outcome",
            json!({ "uuid": uuid, "outcome": "done", "override": "again" }),
            About::Sample,
        ),
        tool(
            "mark_read",
            "POST /conversation/batch",
            json!({ "room": room, "uuid": uuid }),
            About::Sample,
        ),
    ]
}

impl AccessWorld {
    async fn ask_mcp(&mut self, key: &Key, method: &str, parameters: &Value) -> Reply {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        self.post_mcp(&key.token, &request.to_string()).await
    }

    /// Whether the call may succeed: an empty list is no failure, but there is nothing to explain, and
    /// a thing that is out of reach is not there.
    fn succeeds(&self, tool: &Tool, reach: &Reach) -> bool {
        match tool.about {
            About::Caller => true,
            About::Sample => self.tree.shows(reach, AGENT),
            About::Inbox => {
                tool.name != "explain_refusal"
                    || (0..self.tree.nodes.len())
                        .any(|node| self.tree.shows(reach, node) && !self.tree.is_gone(node))
            }
        }
    }

    /// Whether an Agent with mail is in reach, so that nobody waits in vain.
    fn has_mail(&self, reach: &Reach) -> bool {
        let mut nodes = self.tree.nodes.iter().enumerate();
        nodes.any(|(at, node)| {
            node.kind == 'A' && self.tree.shows(reach, at) && !self.tree.is_gone(at)
        })
    }

    /// Calls a tool; checks its answer by the oracle. Returns whether it succeeded.
    async fn check_tool(&mut self, tool: &Tool, key: &Key, named: Named) -> Option<bool> {
        let mut expected = self.tree.expected(&rules().0[tool.operation], key, named);
        // Without a target these need none: the tool names the account of an Agent's key itself.
        let itself = self.tree.nodes[self.tree.home(key.owner)].kind == 'A';
        if tool.name == "list_inboxes" && itself && self.tree.opens(key) {
            expected = self.tree.expected(&rules().0["GET /account"], key, named);
        }
        if tool.name == "whoami"
            && let Expected::Allowed(reach) = &mut expected
        {
            // It shows the account of a member beside the member.
            (reach.part, reach.target) = (None, self.tree.home(key.owner));
        }
        if let Expected::Allowed(reach) = &expected
            && tool.name == "wait_for_message"
            && !self.has_mail(reach)
        {
            return None;
        }
        let mut arguments = tool.arguments.clone();
        if let (About::Inbox, Some(id)) = (tool.about, self.tree.id(named)) {
            arguments["inbox"] = json!(id);
        }
        let parameters = json!({ "name": tool.name, "arguments": arguments });
        let reply = self.ask_mcp(key, "tools/call", &parameters).await;
        let what = format!("{} by {} on {named:?}: {expected:?}", tool.name, key.what);
        let leaks = self.leaks(&reply.text(), &expected, key.owner);
        assert!(leaks.is_empty(), "{what}: {leaks:?} in {}", reply.text());
        if expected == Expected::NoKey {
            assert_eq!(reply.status, 401, "{what}: {}", reply.text());
            return Some(false);
        }
        assert_eq!(reply.status, 200, "{what}: {}", reply.text());
        let result = reply.json();
        let is_done = result["result"]["isError"] == false;
        let may = match &expected {
            Expected::Allowed(reach) => self.succeeds(tool, reach),
            _ => false,
        };
        assert_eq!(is_done, may, "{what}: {result}");
        let Expected::Allowed(reach) = &expected else { return Some(false) };
        self.shows_its_marks(tool, reach, &result, &what);
        Some(is_done)
    }

    /// Lists are not empty where something is in reach.
    fn shows_its_marks(&self, tool: &Tool, reach: &Reach, result: &Value, what: &str) {
        let lists = ["recent_messages", "search_messages", "list_conversations"];
        if !lists.contains(&tool.name) || result["result"]["isError"] == true {
            return;
        }
        for (at, node) in self.tree.nodes.iter().enumerate() {
            if node.kind == 'A' && self.tree.shows(reach, at) && !self.tree.is_gone(at) {
                assert!(result.to_string().contains(&mark(at)), "{what}: no {}", mark(at));
            }
        }
    }
}

/// No tool stands beside the matrix below, and each tells readers and changers apart as the oracle
/// does.
#[tokio::test]
async fn every_tool_is_here_and_changes_as_the_oracle_says() {
    let mut town = AccessWorld::of(tree()).await;
    let key = town.keys.iter().find(|key| key.good).unwrap().clone();
    let listed = town.ask_mcp(&key, "tools/list", &json!({})).await.json();
    let mut listed: Vec<(String, bool)> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let is_read = tool["annotations"]["readOnlyHint"].as_bool().unwrap();
            (tool["name"].as_str().unwrap().to_owned(), !is_read)
        })
        .collect();
    let (rules, _) = rules();
    // The batch has a flag that marks conversations as read: it changes no right and no content.
    let changes = |tool: &Tool| tool.name == "mark_read" || rules[tool.operation].changes;
    let mut here: Vec<(String, bool)> =
        tools(&town).iter().map(|tool| (tool.name.to_owned(), changes(tool))).collect();
    here.sort();
    here.dedup();
    listed.sort();
    assert_eq!(listed, here);
}

#[tokio::test]
async fn no_tool_is_a_way_around_the_oracle() {
    let mut town = AccessWorld::of(tree()).await;
    let mut keys = town.keys.clone();
    keys.push(Key {
        what: "made up".into(),
        token: format!("gp_{}", "A".repeat(43)),
        good: false,
        ..keys[0].clone()
    });
    let (mut done, mut refused) = (0, 0);
    for tool in tools(&town) {
        for key in &keys {
            let everywhere = (0..town.tree.nodes.len()).map(Named::Node);
            let targets = match tool.about {
                About::Inbox => everywhere.chain([Named::Nobody]).collect(),
                About::Sample => vec![Named::Node(town.tree.home(key.owner))],
                About::Caller => vec![Named::Nothing],
            };
            let before = town.rows().await;
            for named in targets {
                match town.check_tool(&tool, key, named).await {
                    Some(true) => done += 1,
                    Some(false) => refused += 1,
                    None => {}
                }
            }
            let after = town.rows().await;
            for row in before.symmetric_difference(&after) {
                let changes = tool.name == "mark_read" || rules().0[tool.operation].changes;
                let home = town.tree.home(key.owner);
                assert!(changes && town.concerns(row, home), "{} changed {row}", tool.name);
            }
        }
    }
    assert!(done > 200 && refused > 500, "{done} done, {refused} refused");
}

#[tokio::test]
async fn resources_are_those_in_reach() {
    let mut town = AccessWorld::of(tree()).await;
    let uuid = town.goods[AGENT].mail.as_ref().unwrap().message.0;
    let mut denied = 0;
    for key in town.keys.clone() {
        let home = Named::Node(town.tree.home(key.owner));
        let expected = town.tree.expected(&rules().0["GET /messages/recent"], &key, home);
        let listed = town.ask_mcp(&key, "resources/list", &json!({})).await;
        let Expected::Allowed(reach) = &expected else {
            let uri = format!("gatepost://messages/{uuid}");
            let read = town.ask_mcp(&key, "resources/read", &json!({ "uri": uri })).await;
            for reply in [&listed, &read] {
                let text = reply.text().replace(&uri, "");
                assert!(!text.contains(&uuid.to_string()), "{}: {text}", key.what);
                match expected {
                    Expected::NoKey => assert_eq!(reply.status, 401, "{}", key.what),
                    _ => assert!(reply.json().get("error").is_some(), "{}: {text}", key.what),
                }
            }
            denied += 1;
            continue;
        };
        let leaks = town.leaks(&listed.text(), &expected, key.owner);
        assert!(leaks.is_empty(), "{}: {leaks:?} in {}", key.what, listed.text());
        let is_shown = town.tree.shows(reach, AGENT);
        assert_eq!(listed.text().contains(&uuid.to_string()), is_shown, "{}", key.what);
        for uri in
            [format!("gatepost://messages/{uuid}"), format!("gatepost://messages/{uuid}/parts/0")]
        {
            let read = town.ask_mcp(&key, "resources/read", &json!({ "uri": uri })).await;
            assert_eq!(
                read.json().get("result").is_some(),
                is_shown,
                "{}: {}",
                key.what,
                read.text()
            );
            let leaks = town.leaks(&read.text().replace(&uri, ""), &expected, key.owner);
            assert!(leaks.is_empty(), "{}: {leaks:?} in {}", key.what, read.text());
        }
    }
    assert!(denied > 1, "{denied} keys open nothing");
}
