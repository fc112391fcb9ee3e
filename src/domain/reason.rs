//! Why a message was refused or deferred: the closed list of the contract, each code once.

use std::fmt;
use std::str::FromStr;

/// A text that is no reason code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a reason code")]
pub struct NotAReason(String);

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $explanation:literal, $advice:literal;)*) => {
        /// Why a recipient, a message or a session was turned away (contract §2, Replies).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, in the contract's order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code shown in records and answers.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// What happened, in plain words, for the people who look after the Agent.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation,)* }
            }

            /// What somebody can do about it.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }

        impl FromStr for Reason {
            type Err = NotAReason;

            fn from_str(text: &str) -> Result<Self, NotAReason> {
                match text {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(NotAReason(text.to_owned())),
                }
            }
        }
    };
}

reasons! {
    UnknownRecipient = "unknown_recipient",
        "No Agent has this address.",
        "Check the spelling, or give the address to an Agent.";
    InactiveRecipient = "inactive_recipient",
        "The Agent, or an account above it, is inactive.",
        "Activate the account.";
    OneAgentPerTransaction = "one_agent_per_transaction",
        "The recipients have policies of their own, so each needs a transaction of its own.",
        "Nothing to do: the sending server sends the others in a transaction of their own.";
    SenderInvalid = "sender_invalid",
        "The message does not have exactly one From field with exactly one plain mailbox, or repeats a field that must be single.",
        "The sender must send one From field with one mailbox, and each single field once (RFC 5322 section 3.6).";
    DkimMissing = "dkim_missing",
        "The message carries no DKIM signature.",
        "The sender's administrator must switch on DKIM signing with the domain of the From address.";
    DkimFailed = "dkim_failed",
        "The message is signed, but no signature verifies.",
        "The sender's administrator must check the published key, and that nothing alters the message after it is signed.";
    DkimUnacceptable = "dkim_unacceptable",
        "A signature verifies, but it is of a kind that proves too little.",
        "The sender's administrator must sign with rsa-sha256 (1024 bit or more) or ed25519-sha256, cover From and the whole body, and not use a testing key.";
    DkimUnaligned = "dkim_unaligned",
        "A signature is valid, but its domain is not the domain of the From address.",
        "The sender's administrator must sign with the domain of the From address; many providers sign with a domain of their own until a custom DKIM domain is set up.";
    SenderNotAllowed = "sender_not_allowed",
        "The sender is authenticated, but not on this Agent's allowlist.",
        "If this sender should reach the Agent, add the exact address to the allowlist.";
    RelayRefused = "relay_refused",
        "The recipient's own application refused the message.",
        "Look into the application behind the relay.";
    LoopDetected = "loop_detected",
        "The message has been through too many servers, or through this one for the same address.",
        "Look for a forwarding rule that sends the Agent's mail back to it.";
    TooLarge = "too_large",
        "The message is larger than this server takes.",
        "Send less, or a link; the limit is announced as SIZE.";
    Malformed = "malformed",
        "The message breaks the format of internet mail in a way that could hide who sent it.",
        "The sender's software must send correct lines, fields and parts (RFC 5322, RFC 2045).";
    DkimNotYetValid = "dkim_not_yet_valid",
        "The only signature that could prove the sender was made, by this server's clock, in the future.",
        "Nothing to do at first: the sending server tries again. If it lasts, set the clock of the server that signs; if it hits many senders, that of this server.";
    DnsUnavailable = "dns_unavailable",
        "A DNS lookup that could have changed the verdict failed for the time being.",
        "Nothing to do: the sending server tries again. If it lasts, check the sender domain's name servers.";
    RelayUnavailable = "relay_unavailable",
        "The recipient's own application could not be reached, or asked for a later try.",
        "Nothing to do: the sending server tries again. If it lasts, look into the application.";
    RateLimited = "rate_limited",
        "Too much mail in too short a time.",
        "Nothing to do: the sending server tries again later.";
    StoreUnavailable = "store_unavailable",
        "The message could not be stored durably.",
        "Nothing to do: the sending server tries again. The operator must look into the store.";
    NoSpace = "no_space",
        "Disk or message memory is short.",
        "Nothing to do: the sending server tries again. The operator must make room.";
    TooBusy = "too_busy",
        "Too many connections, or the server is shutting down.",
        "Nothing to do: the sending server tries again.";
}

impl Reason {
    /// Whether the sending server is told to try again (4xx) instead of giving up (5xx).
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            Self::OneAgentPerTransaction
                | Self::DkimNotYetValid
                | Self::DnsUnavailable
                | Self::RelayUnavailable
                | Self::RateLimited
                | Self::StoreUnavailable
                | Self::NoSpace
                | Self::TooBusy
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
