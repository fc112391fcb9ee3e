//! Reasons to refuse or defer a message: the closed list of the contract, one row per reason.
//! Replies, records, the API description and the book's table are made from it.

use std::fmt;
use std::str::FromStr;

use super::words::Words;
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a reason code")]
pub struct NotAReason(String);

macro_rules! reasons {
    ($($variant:ident = $code:literal, $ground:ident, $smtp:literal $enhanced:literal $words:literal,
       $explanation:literal, $advice:literal;)*) => {
        /// Why a recipient, a message or a session was refused or deferred (contract §2, Replies).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $explanation] $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of the contract.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code in records and in the API.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            pub const fn ground(self) -> Ground {
                match self { $(Self::$variant => Ground::$ground,)* }
            }

            /// The SMTP code, the enhanced status code, and the text for the sending side.
            /// `malformed` found by the SMTP session has replies of its own (550 5.5.2 and close).
            pub const fn reply(self) -> (u16, &'static str, &'static str) {
                match self { $(Self::$variant => ($smtp, $enhanced, $words),)* }
            }

            /// Explanation for the people in charge of the Agent.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation,)* }
            }

            /// Advice on how to solve it.
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

/// The ground of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The recipients, before the message is seen.
    Recipient,
    /// The message itself, whoever sent it.
    Message,
    /// The proof of the sender: the evidence names causes, and each cause has its own advice.
    Proof,
    /// The policy of the Agent.
    Policy,
    /// Rates and relays, checked only after the policy has admitted the sender.
    AfterPolicy,
    /// The state of this server.
    Server,
}

// Code, ground, reply (SMTP code, enhanced code, text for the sending side); for people the
// explanation and the advice.
reasons! {
    UnknownRecipient = "unknown_recipient", Recipient, 550 "5.1.1" "no such recipient here",
        "No Agent has this address.",
        "Check the spelling, or give the address to an Agent.";
    InactiveRecipient = "inactive_recipient", Recipient, 550 "5.2.1" "the recipient is not active",
        "The Agent, or an account above it, is inactive.",
        "Activate the account.";
    InboundEmailOff = "inbound_email_off", Recipient, 550 "5.2.1" "mail is switched off for the recipient",
        "The Agent, or an account above it, does not have the feature inboundEmail.",
        "Give the account the feature (POST /features/assign), or a plan that has it.";
    OneAgentPerTransaction = "one_agent_per_transaction", Recipient, 452 "4.5.3" "send this recipient in another transaction",
        "The recipients have policies of their own, so each needs a transaction of its own.",
        "Nothing to do: the sending server sends the others in a transaction of their own.";
    SenderInvalid = "sender_invalid", Message, 550 "5.6.0" "the message needs exactly one From field with exactly one mailbox, and each single field once",
        "The message does not have exactly one From field with exactly one plain mailbox, or repeats a field that must be single.",
        "The sender must send one From field with one mailbox, and each single field once (RFC 5322 section 3.6).";
    DkimMissing = "dkim_missing", Proof, 550 "5.7.20" "the message has no DKIM signature",
        "The message carries no DKIM signature.",
        "The sender's administrator must switch on DKIM signing with the domain of the From address.";
    DkimFailed = "dkim_failed", Proof, 550 "5.7.20" "no DKIM signature of the message verifies",
        "The message is signed, but no signature verifies.",
        "The sender's administrator must check the published key, and that nothing alters the message after it is signed.";
    DkimUnacceptable = "dkim_unacceptable", Proof, 550 "5.7.21" "the DKIM signature verifies, but is of a kind that does not count",
        "A signature verifies, but it is of a kind that proves too little.",
        "The sender's administrator must sign with rsa-sha256 (1024 bit or more) or ed25519-sha256, cover From and the whole body, and not use a testing key.";
    DkimUnaligned = "dkim_unaligned", Proof, 550 "5.7.22" "no DKIM signature is of the From domain; if your provider signs with a domain of its own, set up DKIM for yours",
        "A signature is valid, but its domain is not the domain of the From address.",
        "The sender's administrator must sign with the domain of the From address; many providers sign with a domain of their own until a custom DKIM domain is set up.";
    SenderNotAllowed = "sender_not_allowed", Policy, 550 "5.7.1" "the recipient does not take mail from you",
        "The sender is authenticated, but not on this Agent's allowlist.",
        "If this sender should reach the Agent, add the exact address to the allowlist.";
    RelayRefused = "relay_refused", AfterPolicy, 550 "5.7.1" "refused by the recipient's application",
        "The recipient's own application refused the message.",
        "Look into the application behind the relay.";
    LoopDetected = "loop_detected", Message, 554 "5.4.6" "the message goes round in a loop",
        "The message has been through too many servers, or through this one for the same address.",
        "Look for a forwarding rule that sends the Agent's mail back to it.";
    TooLarge = "too_large", Message, 552 "5.3.4" "the message is over the size limit",
        "The message is larger than this server takes.",
        "Send less, or a link; the limit is announced as SIZE.";
    Malformed = "malformed", Message, 554 "5.6.0" "the message breaks the format of internet mail",
        "The message breaks the format of internet mail in a way that could hide who sent it.",
        "The sender's software must send correct lines, fields and parts (RFC 5322, RFC 2045).";
    DkimNotYetValid = "dkim_not_yet_valid", Proof, 451 "4.7.5" "by our clock the DKIM signature is not valid yet: try again",
        "The only signature that could prove the sender was made, by this server's clock, in the future.",
        "Nothing to do at first: the sending server tries again. If it lasts, set the clock of the server that signs; if it hits many senders, that of this server.";
    DnsUnavailable = "dns_unavailable", Proof, 451 "4.4.3" "a DNS lookup failed: try again",
        "A DNS lookup that could have changed the verdict failed for the time being.",
        "Nothing to do: the sending server tries again. If it lasts, check the sender domain's name servers.";
    RelayUnavailable = "relay_unavailable", AfterPolicy, 451 "4.4.1" "the recipient's application is not available: try again",
        "The recipient's own application could not be reached, or asked for a later try.",
        "Nothing to do: the sending server tries again. If it lasts, look into the application.";
    RateLimited = "rate_limited", AfterPolicy, 450 "4.2.1" "too much mail in a short time: try again later",
        "Too much mail in too short a time.",
        "Nothing to do: the sending server tries again later.";
    StoreUnavailable = "store_unavailable", Server, 451 "4.3.0" "the message could not be stored: try again",
        "The message could not be stored durably.",
        "Nothing to do: the sending server tries again. The operator must look into the store.";
    NoSpace = "no_space", Server, 452 "4.3.1" "short of space: try again",
        "Disk or message memory is short.",
        "Nothing to do: the sending server tries again. The operator must make room.";
    TooBusy = "too_busy", Server, 421 "4.3.2" "too busy: try again",
        "Too many connections, or the server is shutting down.",
        "Nothing to do: the sending server tries again.";
}

impl Reason {
    /// True for a 4xx reply (try again), false for 5xx.
    pub const fn is_temporary(self) -> bool {
        self.reply().0 < 500
    }
}

impl Words for Reason {
    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.as_str()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::golden;

    #[test]
    fn the_book_shows_every_reason() {
        let row = |reason: &Reason| {
            let (code, enhanced, _) = reason.reply();
            let (explanation, advice) = (reason.explanation(), reason.advice());
            format!("| `{reason}` | {code} {enhanced} | {explanation} | {advice} |")
        };
        let rows: Vec<String> = Reason::ALL.iter().map(row).collect();
        let header = "| reason | reply | what happened | what to do |";
        golden::hold_table("docs/refused.md", header, &rows).unwrap();
    }

    #[test]
    fn a_reason_is_read_by_its_code() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
        }
        assert!("accepted".parse::<Reason>().is_err());
    }
}
