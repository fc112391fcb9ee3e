//! Plays one act: sends the message over SMTP, and reads the results from the API and the webhook
//! receiver, as any client can.

use serde_json::{Value, json};

use super::acts::{Act, LOST_KEY, NEW_AGENT, Then};
use super::stage::{Arrived, Stage};
use crate::cli::paint::Paint;
use crate::cli::{Failure, say};
use crate::domain::address::Address;
use crate::domain::lookalike;
use crate::testkit::case::{self, Case};
use crate::testkit::dns::Zone;

/// Columns of a line; labels take the first eleven.
const WIDTH: usize = 96;
const INDENT: usize = 11;

/// Plays an act. Returns whether it went as its title says.
pub(super) async fn play(
    stage: &Stage,
    number: usize,
    act: &Act,
    paint: Paint,
) -> Result<bool, Failure> {
    let case = Case::named(act.case)?;
    let scene = Scene { stage, case, paint };
    say!("\n{}", paint.bold(&format!("Act {number} of 7. Look at: {}", act.look_at)))?;
    row("who", act.who)?;
    scene.print_message()?;
    let went_well = match act.then {
        Then::Arrives => scene.arrives().await?,
        Then::StaysOut => scene.stays_out().await?,
        Then::Warns => scene.stays_out().await? && scene.warns()?,
        Then::HidesText => scene.hides_text().await?,
        Then::IsAdded => scene.is_added().await?,
        Then::IsRetried => scene.is_retried().await?,
    };
    if !went_well {
        row(&paint.alarm("DIFFERS"), "this act did not go as its title says")?;
    }
    Ok(went_well)
}

struct Scene<'s> {
    stage: &'s Stage,
    case: Case,
    paint: Paint,
}

impl Scene<'_> {
    /// Prints the message's From and Subject, and its file.
    fn print_message(&self) -> Result<(), Failure> {
        let raw = self.case.raw();
        let text = String::from_utf8_lossy(&raw);
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let field = |name: &str| head.lines().find(|line| line.starts_with(name));
        let fields: Vec<_> = ["From:", "Subject:"].into_iter().filter_map(field).collect();
        row("sent", &fields.join("   "))?;
        let file = format!(
            "To: {}   (fixtures/mail/{}.eml)",
            self.case.script.to.join(", "),
            self.case.name
        );
        row("", &self.paint.faint(&file))
    }

    /// Sends the message, and prints the reply and the reason. Returns the record if the reply
    /// begins with `expected`.
    async fn send(&self, expected: &str) -> Result<Option<Value>, Failure> {
        let reply = self.stage.send(&self.case).await;
        let shown = self.paint.verdict(&reply, &wrapped(&reply));
        say!("{:<INDENT$}{shown}", "  answer")?;
        let record = self.stage.record(&reply).await?;
        row("why", text(&record, "explanation"))?;
        Ok(reply.starts_with(expected).then_some(record))
    }

    /// Prints whether the webhook about the record's message is signed; returns it if so.
    async fn webhook(&self, record: &Value) -> Result<Option<Value>, Failure> {
        let body = self.stage.webhook(text(record, "messageUuid")).await?;
        let is_signed = body.is_some();
        let signature = if is_signed { "its signature verifies" } else { "its SIGNATURE IS WRONG" };
        row("agent", &format!("gets this webhook from Gatepost; {signature}:"))?;
        Ok(body)
    }

    async fn arrives(&self) -> Result<bool, Failure> {
        let Some(record) = self.send(&self.case.script.reply).await? else { return Ok(false) };
        let Some(body) = self.webhook(&record).await? else { return Ok(false) };
        for pointer in [
            "/event",
            "/from",
            "/subject",
            "/roomId",
            "/messageUuid",
            "/data/message/message",
            "/data/message/metadata/authentication/alignedDomain",
            "/data/message/metadata/findings",
        ] {
            let value = body.pointer(pointer).unwrap_or(&Value::Null);
            let name = pointer.trim_start_matches('/').replace('/', ".");
            row("", &format!("{name}: {value}"))?;
        }
        Ok(true)
    }

    async fn stays_out(&self) -> Result<bool, Failure> {
        let before = self.stage.arrived().await?;
        let record = self.send(&self.case.script.reply).await?;
        if let Some(advice) = record.as_ref().map(|record| text(record, "advice")) {
            row("advice", advice)?;
        }
        let after = self.stage.arrived().await?;
        let saw = if after == before { "saw nothing of it" } else { "SAW IT" };
        let Arrived { messages, webhooks } = after;
        row(
            "agent",
            &format!("{saw}: {messages} message in the API, {webhooks} webhook, as before"),
        )?;
        Ok(record.is_some() && after == before)
    }

    /// Prints the warning that anyone who adds the sender gets.
    fn warns(&self) -> Result<bool, Failure> {
        let sender = Address::parse(&self.case.script.from)?;
        let warnings = lookalike::warnings(&sender);
        for warning in &warnings {
            row("warning", &format!("anybody who adds {sender} is told: {warning}"))?;
        }
        Ok(!warnings.is_empty())
    }

    async fn hides_text(&self) -> Result<bool, Failure> {
        let Some(record) = self.send(&self.case.script.reply).await? else { return Ok(false) };
        let Some(body) = self.webhook(&record).await? else { return Ok(false) };
        let message = body.pointer("/data/message").unwrap_or(&Value::Null);
        row("", &format!("message   {}", message.get("message").unwrap_or(&Value::Null)))?;
        let findings = message.pointer("/metadata/findings").and_then(Value::as_array);
        let mut hidden = 0;
        for finding in findings.into_iter().flatten() {
            hidden += usize::from(text(finding, "kind") == "hidden_text");
            let finding = format!("{}: {}", text(finding, "kind"), text(finding, "detail"));
            row("", &format!("finding   {finding}"))?;
        }
        Ok(hidden > 0)
    }

    async fn is_added(&self) -> Result<bool, Failure> {
        let refused = self.send(&self.case.script.reply).await?;
        let (sender, agent) = (&self.case.script.from, self.stage.agent(NEW_AGENT)?);
        let path = format!("/email/inboundWhitelist?targetAccountId={agent}");
        let body = json!({ "email": sender });
        row("you", &format!("POST /api/v2{path} {body}"))?;
        let answer = self.stage.api.post(&path, &body).await?;
        row("", &format!("200 {}", text(&answer, "message")))?;
        row("again", "the same message, sent once more:")?;
        let Some(record) = self.send("250 2.0.0").await? else { return Ok(false) };
        let event = self.webhook(&record).await?;
        row("", &format!("message   {}", text_of_message(event.as_ref())))?;
        Ok(refused.is_some() && event.is_some())
    }

    async fn is_retried(&self) -> Result<bool, Failure> {
        let before = self.stage.arrived().await?;
        row("DNS out", &format!("{LOST_KEY} answers SERVFAIL"))?;
        self.stage.dns.change(|zone| zone.insert(LOST_KEY, "TXT", "SERVFAIL", ""))?;
        let deferred = self.send("451 4.4.3").await?;
        let whole = Zone::parse(case::zone())?;
        self.stage.dns.change(|zone| *zone = whole);
        row("DNS back", "Bob's server tries again:")?;
        let Some(record) = self.send("250 2.0.0").await? else { return Ok(false) };
        let event = self.webhook(&record).await?;
        row("", &format!("message   {}", text_of_message(event.as_ref())))?;
        row("again", "it missed that answer, and tries once more:")?;
        let repeated = self.stage.send(&self.case).await;
        say!("{:<INDENT$}{}", "  answer", self.paint.verdict(&repeated, &wrapped(&repeated)))?;
        let Arrived { messages, webhooks } = before;
        let one_more = Arrived { messages: messages + 1, webhooks: webhooks + 1 };
        let is_once = self.stage.arrived().await? == one_more;
        let times = if is_once { "one message and one webhook" } else { "NOT ONCE" };
        row("agent", &format!("got it once, for three tries: {times}"))?;
        Ok(deferred.is_some() && event.is_some() && is_once && repeated.contains("accepted before"))
    }
}

/// The text of the message in a webhook, as JSON.
fn text_of_message(event: Option<&Value>) -> String {
    let message = event.and_then(|body| body.pointer("/data/message/message"));
    message.unwrap_or(&Value::Null).to_string()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Prints a label and its text.
fn row(label: &str, about: &str) -> Result<(), Failure> {
    say!("{:<INDENT$}{}", format!("  {label}"), wrapped(about))
}

/// Wraps a text to the width beside the labels; all lines but the first are indented.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        let length = line.chars().count() + word.trim_end().chars().count();
        if length > WIDTH - INDENT && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(word);
    }
    lines.push(line);
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join(&format!("\n{:INDENT$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_words() {
        assert_eq!(wrapped("short"), "short");
        let long = wrapped(&"word ".repeat(40));
        assert!(long.lines().count() > 2, "{long}");
        assert!(long.lines().skip(1).all(|line| line.starts_with(&" ".repeat(INDENT))), "{long}");
        assert!(long.lines().all(|line| line.len() <= WIDTH), "{long}");
    }
}
