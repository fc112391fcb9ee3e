//! The seven acts, as data: the fixture to send, its sender, and the point of interest.

pub(super) struct Act {
    pub look_at: &'static str,
    pub who: &'static str,
    /// The case of fixtures/mail to send.
    pub case: &'static str,
    pub then: Then,
}

/// The continuation of an act after its message was sent.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// The message is accepted, and the Agent gets it.
    Arrives,
    /// The message is refused, and the Agent gets nothing.
    StaysOut,
    /// The message is refused; adding its sender to a list gives a warning.
    Warns,
    /// The message is accepted; text hidden by its HTML is kept apart from its text.
    HidesText,
    /// The message is refused; its sender is added, and the same message is accepted.
    IsAdded,
    /// DNS of the domain fails and the message is deferred; once DNS is back, the retries are
    /// accepted, once.
    IsRetried,
}

/// In the order of the story; all acts share one server.
pub(super) const ACTS: [Act; 7] = [
    Act {
        look_at: "what the agent gets",
        who: "Alice writes to the Agent. Her domain signed the message, and she is on the list.",
        case: "accepted/plain",
        then: Then::Arrives,
    },
    Act {
        look_at: "a forged sender",
        who: "Mallory writes as Alice. She signs with a domain of her own, evil.example.",
        case: "refused/dkim_unaligned/spoof",
        then: Then::StaysOut,
    },
    Act {
        look_at: "a message that was changed under way",
        who: "Alice signed a letter about order 4711. Somebody under way made it 4712.",
        case: "refused/dkim_failed/body_altered",
        then: Then::StaysOut,
    },
    Act {
        look_at: "a domain that looks like Alice's",
        who: "Mallory bought gооd.example, with Cyrillic letters, and signs with its key.",
        case: "refused/sender_not_allowed/lookalike_domain",
        then: Then::Warns,
    },
    Act {
        look_at: "a prompt that the HTML hides",
        who: "Alice is genuine, but her HTML has text that no person would see.",
        case: "accepted/hidden_html",
        then: Then::HidesText,
    },
    Act {
        look_at: "adding a sender",
        who: "Alice writes to a new Agent, which admits nobody until you add senders.",
        case: "refused/sender_not_allowed/closed_agent",
        then: Then::IsAdded,
    },
    Act {
        look_at: "nothing lost when DNS fails",
        who: "Bob writes while the DNS of his domain is out. His server tries again, twice.",
        case: "accepted/open_agent",
        then: Then::IsRetried,
    },
];

/// The Agent of [`Then::IsAdded`], by its name in `fixtures/agents.toml`.
pub(super) const NEW_AGENT: &str = "closed";
/// The key record that [`Then::IsRetried`] removes from DNS.
pub(super) const LOST_KEY: &str = "s1._domainkey.other.example";
