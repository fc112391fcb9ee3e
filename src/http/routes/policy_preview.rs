//! `/email/inboundPolicy/preview`: the effect of a draft policy, before it is set.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::intake::preview::{ChangedVerdict, MessagePreview, PastPreview, Tally};
use crate::app::mailbox::intake::WholeIntakeRecord;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::draft::Draft;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::reason::Reason;
use crate::domain::verdict::{Outcome, Verdict};
use crate::http::error::{Code, Problem};
use crate::http::limits::turns::TurnPlace;
use crate::http::routes::inbound_whitelist::Senders;
use crate::http::typed::{Call, refused, successes};
use crate::mail::line_ends::as_received;
use crate::rules::BareLineEnds;
use crate::wire::{Date, Id, Word};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A record that would have another verdict.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PreviewChange {
    /// The record; null for a message that was sent for the preview.
    intake_id: Option<Id>,
    /// The sender.
    #[schemars(example = &BOSS)]
    sender: Option<String>,
    /// When the message came.
    date: Date,
    /// The verdict.
    was: Word<Outcome>,
    /// The reason; null if the message was accepted.
    was_reason: Option<Word<Reason>>,
    /// The verdict under the draft.
    would: Word<Outcome>,
    /// The reason under the draft; null if the message would be accepted.
    would_reason: Option<Word<Reason>>,
}

/// Numbers of records by verdict.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Counts {
    was: Tally,
    would: Tally,
    /// Number of records that would have another verdict.
    changed: usize,
}

/// Previews a change of an inbound policy
///
/// Send days to examine the records of the last days, or eml to examine a message. Nothing is
/// changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    extend("minProperties" = 1, "x-message" = true, "x-one-of" = ["days", "eml"]),
    example = json!({ "mode": "open", "days": 7 })
)]
pub struct Preview {
    /// allowlist admits the senders of the list, open any authenticated sender.
    mode: Option<Word<Mode>>,
    /// Senders that the draft adds to the list.
    add: Option<Senders>,
    /// Senders that the draft removes from the list.
    remove: Option<Senders>,
    /// How many days to look back, up to the lifetime of records.
    #[schemars(range(min = 1, max = 3650))]
    days: Option<u64>,
    /// The text of a message, or its base64.
    eml: Option<String>,
}

successes! {
    Previewed {
        /// Number of records examined.
        examined: u64,
        /// Whether every record of that time was examined.
        complete: bool,
        /// The beginning of the examined time.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Date")]
        since: Option<Date>,
        /// Records that would have another verdict.
        changed: Vec<PreviewChange>,
        counts: Counts,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "WholeIntakeRecord")]
        current: Option<WholeIntakeRecord>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "WholeIntakeRecord")]
        draft: Option<WholeIntakeRecord>,
    } = OK "inbound policy previewed; nothing was changed";
}

const BOSS: &str = "boss@good.example";

/// Returns the verdicts that the draft would have changed in the last `days`, or its verdict on the
/// message `eml`.
pub async fn preview(call: Call, request: Preview) -> Result<Previewed, Problem> {
    let add = request.add.unwrap_or_default().read_new("add")?;
    let remove = request.remove.unwrap_or_default().read("remove")?;
    let draft = Draft::new(request.mode.map(|Word(mode)| mode), add, remove.iter().cloned());
    let draft = draft.map_err(|both| {
        let place = remove.iter().position(|address| *address == both).unwrap_or(0);
        refused(
            &format!("remove/{place}"),
            &format!("{both} is also in add: send it in one of the two"),
        )
    })?;
    match (request.days, request.eml) {
        (Some(days), _) => preview_days(&call, &draft, days).await,
        (None, eml) => preview_message(call, &draft, eml.unwrap_or_default()).await,
    }
}

async fn preview_days(call: &Call, draft: &Draft, days: u64) -> Result<Previewed, Problem> {
    let preview = &call.http.use_cases.preview;
    let agent = call.account();
    let kept = preview.days(&agent.lineage);
    if days > kept {
        return Err(refused(
            "days",
            &format!("send 1 to {kept}, the number of days for which records are kept"),
        ));
    }
    let most = call.http.rules.limits.max_preview;
    let found = preview.past(agent, &call.target.scope, draft, days, most).await?;
    let PastPreview { was, would, changed, complete, since } = found;
    Ok(Previewed {
        examined: was.total(),
        complete,
        since: Some(Date(since)),
        counts: Counts { was, would, changed: changed.len() },
        changed: changed.into_iter().map(shape).collect(),
        current: None,
        draft: None,
    })
}

/// The bytes of a message with their place, which is freed when the last user is done, even if the
/// request has ended before.
struct HeldMessage {
    octets: Vec<u8>,
    _place: TurnPlace,
}

impl AsRef<[u8]> for HeldMessage {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

async fn preview_message(mut call: Call, draft: &Draft, eml: String) -> Result<Previewed, Problem> {
    let http = Arc::clone(&call.http);
    let preview = &http.use_cases.preview;
    let (most, bare) = (preview.max_message_bytes(), preview.bare_line_ends());
    let place = call.place().await?;
    let read = tokio::task::spawn_blocking(move || {
        let octets = octets(eml, most, bare)?;
        Ok::<_, Problem>(Bytes::from_owner(HeldMessage { octets, _place: place }))
    });
    let raw = read.await.map_err(Problem::internal)??;
    let MessagePreview { current, draft } = preview.message(call.account(), draft, &raw).await?;
    drop(raw);
    let (was, would) = (current.verdict, draft.verdict);
    let (mut before, mut after) = (Tally::default(), Tally::default());
    before.count(was);
    after.count(would);
    let sender = current.sender.as_ref().and_then(Handle::mailbox);
    let changed = (was != would).then(|| change(None, sender, current.at, was, would));
    Ok(Previewed {
        examined: 1,
        complete: true,
        since: None,
        counts: Counts { was: before, would: after, changed: changed.iter().len() },
        changed: changed.into_iter().collect(),
        current: Some(without_id(&current)),
        draft: Some(without_id(&draft)),
    })
}

/// Decodes `eml`: plain text if its first line has a colon, as a header section has; base64
/// otherwise.
fn octets(eml: String, most: usize, bare: BareLineEnds) -> Result<Vec<u8>, Problem> {
    let is_text = eml.lines().next().is_some_and(|line| line.contains(':'));
    let raw = if is_text {
        eml.into_bytes()
    } else {
        let packed: Vec<u8> = eml.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
        let decoded = BASE64.decode(packed).ok().filter(|raw| !raw.is_empty());
        decoded.ok_or_else(|| {
            refused("eml", &"send the text of a message, or the base64 of its bytes")
        })?
    };
    let raw = as_received(raw, bare);
    if raw.len() > most {
        let detail = format!("a message must have at most {most} bytes: send less");
        return Err(Problem::new(Code::PayloadTooLarge, detail));
    }
    Ok(raw)
}

/// A record that is not stored, so it has no id.
fn without_id(record: &IntakeRecord) -> WholeIntakeRecord {
    let mut shown = WholeIntakeRecord::from(record);
    shown.record.id = None;
    shown
}

fn shape(ChangedVerdict { past, would }: ChangedVerdict) -> PreviewChange {
    change(Some(Id(past.id.0)), past.sender.as_ref(), past.at, past.verdict, would)
}

fn change(
    intake_id: Option<Id>,
    sender: Option<&Address>,
    at: Timestamp,
    was: Verdict,
    would: Verdict,
) -> PreviewChange {
    PreviewChange {
        intake_id,
        sender: sender.map(Address::to_string),
        date: Date(at),
        was: Word(was.outcome()),
        was_reason: was.reason().map(Word),
        would: Word(would.outcome()),
        would_reason: would.reason().map(Word),
    }
}
