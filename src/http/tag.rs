//! Tags: the areas of the API, in the words of the interface (contract §4).

/// The area of an operation: its tag in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    Agents,
    InboundEmail,
    Features,
    ConversationLogs,
    ComputerAgents,
    ComputerAgentSessions,
    Accounts,
    AgentTemplates,
    Messaging,
    Authorization,
    Webhooks,
    Apps,
    Integrations,
}

impl Tag {
    /// All tags, in the order of the interface.
    pub const ALL: &[Self] = &[
        Self::Agents,
        Self::InboundEmail,
        Self::Features,
        Self::ConversationLogs,
        Self::ComputerAgents,
        Self::ComputerAgentSessions,
        Self::Accounts,
        Self::AgentTemplates,
        Self::Messaging,
        Self::Authorization,
        Self::Webhooks,
        Self::Apps,
        Self::Integrations,
    ];

    /// The tag as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "Agents",
            Self::InboundEmail => "Inbound Email",
            Self::Features => "Features",
            Self::ConversationLogs => "Conversation Logs",
            Self::ComputerAgents => "Computer Agents",
            Self::ComputerAgentSessions => "Computer Agent Sessions",
            Self::Accounts => "Accounts",
            Self::AgentTemplates => "Agent Templates",
            Self::Messaging => "Messaging",
            Self::Authorization => "Authorization",
            Self::Webhooks => "Webhooks",
            Self::Apps => "Apps",
            Self::Integrations => "Integrations",
        }
    }

    /// Describes the area in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Agents => "Configurations of Agents: staged, live, and kept versions.",
            Self::InboundEmail => {
                "Policies, addresses and domains of inbound mail, and the record of every verdict."
            }
            Self::Features => "Features that an account has and passes on to accounts below.",
            Self::ConversationLogs => "All conversations as a table, and metrics over it.",
            Self::ComputerAgents => "Workers that take the mail of an Agent as their work.",
            Self::ComputerAgentSessions => "Which session of a worker a room belongs to.",
            Self::Accounts => "Accounts, their members, their keys, and who did what to them.",
            Self::AgentTemplates => "Configurations that many Agents share.",
            Self::Messaging => "Messages, rooms and contacts.",
            Self::Authorization => "Access that others give to an account.",
            Self::Webhooks => "Webhooks, relays, deliveries, and the log of events.",
            Self::Apps => "Apps of the catalogue, installed on an Agent.",
            Self::Integrations => "Data that an account keeps for an app.",
        }
    }
}
