//! The fields of the conversation log: a closed table, by the names in requests and responses.
//! `store` knows their columns.

use uuid::Uuid;

use super::clock::Timestamp;
use super::words::words;

/// Type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Integer,
    /// May have a fraction.
    Real,
    Text,
    Id,
    Time,
    /// Known from v2, null in every row.
    Unfilled,
}

/// The value of one field in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum LogValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Id(Uuid),
    Time(Timestamp),
}

words! {
    /// Comparison of a filter. `ne` and `nin` also match rows without a value.
    Op {
        Eq = "eq",
        Ne = "ne",
        Gt = "gt",
        Gte = "gte",
        Lt = "lt",
        Lte = "lte",
        In = "in",
        Nin = "nin",
        Contains = "contains",
        /// Ignores ASCII case.
        Icontains = "icontains",
        Startswith = "startswith",
        Isnull = "isnull",
        /// Opposite of `isnull`.
        Isset = "isset",
    }
}

macro_rules! fields {
    ($($variant:ident = $name:literal, $kind:ident, $listed:literal, $about:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LogField { $(#[doc = $about] $variant,)* }

        impl LogField {
            /// All fields, in the order of the API.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in the API.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// Tells whether the field is shown by default.
            pub const fn is_listed(self) -> bool {
                match self { $(Self::$variant => $listed,)* }
            }

            /// The description in the API.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

fields! {
    Id = "id", Id, true, "The intake record.";
    Uuid = "uuid", Id, true, "The message, if accepted; for a repeat, the first message.";
    Timestamp = "timestamp", Integer, true, "Time of the decision, in Unix seconds.";
    Date = "date", Time, true, "Time of the decision, ISO 8601 with milliseconds.";
    AccountIdV2 = "account_id", Integer, true, "The Agent that the message came for.";
    AccountId = "accountId", Integer, false, "The Agent that the message came for.";
    OrgId = "org_id", Integer, true, "The Agent's or the domain's organization.";
    OrganizationId = "organizationId", Integer, false, "The Agent's or the domain's organization.";
    ResellerId = "resellerId", Integer, false, "The reseller above it.";
    EventType = "eventType", Text, true, "inbound-<source>, for every outcome.";
    Outcome = "outcome", Text, true, "accepted, refused or deferred.";
    Reason = "reason", Text, true, "The reason code, unless it was accepted.";
    RoomId = "roomId", Text, true, "The room of the message.";
    ConversationRef = "conversationRef", Id, true, "The thread of the message in its room.";
    ContactId = "contactId", Integer, false, "The contact that the message is from.";
    Source = "source", Text, true, "email, sms, chat or call.";
    Direction = "direction", Text, false, "inbound.";
    Sender = "sender", Text, true, "The mailbox in From; proven only if accepted.";
    Recipient = "recipient", Text, true, "The recipient, as given in RCPT.";
    EnvelopeFrom = "envelopeFrom", Text, false, "The sender, as given in MAIL.";
    RemoteAddress = "remoteAddress", Text, false, "The address of the client.";
    Subject = "subject", Text, true, "The subject of the message, its first 1000 characters.";
    Size = "size", Integer, false, "Size of the message, in bytes.";
    Count = "count", Integer, true, "Number of refusals that a counted record stands for, else 1.";
    LatencyMs = "latencyMs", Real, true,
        "Milliseconds from the end of the message until its commit began.";
    AgentOutcome = "agentOutcome", Text, false, "The outcome that was recorded for the message.";
    AiLeadRating = "aiLeadRating", Integer, false, "The rating as a lead, 0 to 100, if recorded.";
    AgentReplyCount = "agentReplyCount", Integer, false,
        "Recorded replies to the message; null unless it was accepted.";
    Duration = "duration", Integer, false, "Length of a call, in seconds.";
    MissedCall = "missedCall", Integer, false, "1 if nobody took a call, 0 if somebody did.";
    Deliveries = "deliveries", Integer, false,
        "Webhook deliveries that the message made for destinations below the target; null where \
         retention took its events.";
    Delivered = "delivered", Integer, false, "Deliveries that succeeded.";
    Exhausted = "exhausted", Integer, false, "Deliveries that were exhausted.";
    Pending = "pending", Integer, false, "Deliveries that are pending.";
    ExperimentId = "experiments.id", Unfilled, false, "Known from v2; always null.";
    ExperimentVariant = "experiments.variant", Unfilled, false, "Known from v2; always null.";
    ExperimentVersion = "experiments.versionId", Unfilled, false, "Known from v2; always null.";
    TaskAttemptId = "taskAttemptId", Unfilled, false, "Known from v2; always null.";
    Metadata = "metadata", Unfilled, false, "Known from v2; always null.";
}

impl Kind {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "number",
            Self::Text => "string",
            Self::Id => "uuid",
            Self::Time => "date",
            Self::Unfilled => "null",
        }
    }

    /// Tells whether formulas may calculate with the values.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Real)
    }

    /// The comparisons that filters may use.
    pub const fn ops(self) -> &'static [Op] {
        match self {
            Self::Integer | Self::Real | Self::Time => &[
                Op::Eq,
                Op::Ne,
                Op::Gt,
                Op::Gte,
                Op::Lt,
                Op::Lte,
                Op::In,
                Op::Nin,
                Op::Isnull,
                Op::Isset,
            ],
            Self::Text | Self::Unfilled => &[
                Op::Eq,
                Op::Ne,
                Op::In,
                Op::Nin,
                Op::Contains,
                Op::Icontains,
                Op::Startswith,
                Op::Isnull,
                Op::Isset,
            ],
            Self::Id => &[Op::Eq, Op::Ne, Op::In, Op::Nin, Op::Isnull, Op::Isset],
        }
    }
}

impl LogField {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Tells whether the value is computed from all deliveries of the message.
    pub const fn is_of_deliveries(self) -> bool {
        matches!(self, Self::Deliveries | Self::Delivered | Self::Exhausted | Self::Pending)
    }

    /// All names, for error messages.
    pub fn names() -> String {
        Self::ALL.iter().map(|field| field.name()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_is_one_field_s() {
        let names: BTreeSet<_> = LogField::ALL.iter().map(|field| field.name()).collect();
        assert_eq!(names.len(), LogField::ALL.len());
        for field in LogField::ALL {
            assert_eq!(LogField::named(field.name()), Some(*field));
            // Two underscores begin a suffix.
            assert!(!field.name().contains("__") && !field.about().is_empty());
        }
        assert_eq!(LogField::named("Outcome"), None);
    }
}
