//! The outcome of a message: words and numbers that its Agent's platform recorded, and the replies
//! that it reported. Nothing of it is proven, and nothing was sent by the gateway.

use super::clock::Timestamp;
use super::id::ReplyId;

/// The highest rating of a lead.
pub const HIGHEST_RATING: u8 = 100;

/// The outcome of one message; the default one is no outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentOutcome {
    /// The outcome in a word or a line: `resolved`.
    pub result: Option<String>,
    pub summary: Option<String>,
    /// At most [`HIGHEST_RATING`].
    pub lead_rating: Option<u8>,
    pub lead_rating_reason: Option<String>,
    /// Why an earlier outcome was replaced.
    pub overridden: Option<String>,
    /// The oldest first.
    pub replies: Vec<Reply>,
}

/// A reply of the Agent: an outbound entry of the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: ReplyId,
    pub at: Timestamp,
    pub text: String,
}

/// An outcome to record; fields that are None keep their value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewOutcome {
    pub result: Option<String>,
    pub summary: Option<String>,
    pub lead_rating: Option<u8>,
    pub lead_rating_reason: Option<String>,
    /// Lets this outcome replace an earlier one.
    pub overridden: Option<String>,
    /// The text of a reply.
    pub reply: Option<String>,
}

/// Why an outcome is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutcomeConflict {
    #[error(
        "the message has an outcome already: read it, and send override with the reason to replace it"
    )]
    Exists,
    #[error("the message has {most} replies, and no more are kept: leave reply out")]
    TooManyReplies { most: usize },
}

impl AgentOutcome {
    /// Whether nothing was recorded.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this outcome, replaced by a new one as far as that goes; `id` and `at` are those of
    /// its reply.
    pub fn replaced(
        self,
        new: NewOutcome,
        id: ReplyId,
        at: Timestamp,
        most: usize,
    ) -> Result<Self, OutcomeConflict> {
        if !self.is_none() && new.overridden.is_none() {
            return Err(OutcomeConflict::Exists);
        }
        if new.reply.is_some() && self.replies.len() >= most {
            return Err(OutcomeConflict::TooManyReplies { most });
        }
        let mut replies = self.replies;
        replies.extend(new.reply.map(|text| Reply { id, at, text }));
        Ok(Self {
            result: new.result.or(self.result),
            summary: new.summary.or(self.summary),
            lead_rating: new.lead_rating.or(self.lead_rating),
            lead_rating_reason: new.lead_rating_reason.or(self.lead_rating_reason),
            overridden: new.overridden.or(self.overridden),
            replies,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_outcome_replaces_an_earlier_one_only_if_it_says_so() {
        let (id, at) = (ReplyId(uuid::Uuid::nil()), Timestamp::from_millis(7));
        let text = |text: &str| Some(text.to_owned());
        let first = NewOutcome {
            result: text("resolved"),
            summary: text("sent the invoice"),
            reply: text("Here it is."),
            ..NewOutcome::default()
        };
        let none = AgentOutcome::default();
        let recorded = none.replaced(first.clone(), id, at, 1).unwrap();
        assert_eq!(recorded.replies, [Reply { id, at, text: "Here it is.".to_owned() }]);
        assert_eq!(recorded.clone().replaced(first, id, at, 9), Err(OutcomeConflict::Exists));

        let correction = NewOutcome {
            result: text("escalated"),
            overridden: text("it was the wrong invoice"),
            ..NewOutcome::default()
        };
        let corrected = recorded.clone().replaced(correction.clone(), id, at, 1).unwrap();
        assert_eq!(corrected.result.as_deref(), Some("escalated"));
        assert_eq!(corrected.summary, recorded.summary, "what is left out stays");
        assert_eq!(corrected.replies, recorded.replies, "what was said stays said");
        let more = NewOutcome { reply: text("Sorry."), ..correction };
        let refused = corrected.replaced(more, id, at, 1);
        assert_eq!(refused, Err(OutcomeConflict::TooManyReplies { most: 1 }));
    }
}
