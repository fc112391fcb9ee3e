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
                "Policies, addresses and domains for inbound mail, and records of all verdicts."
            }
            Self::Features => "Features of accounts, which accounts above assign.",
            Self::ConversationLogs => "The conversation log as a table, and metrics over it.",
            Self::ComputerAgents => "Workers that handle the messages of an Agent.",
            Self::ComputerAgentSessions => {
                "Sessions of workers, one for each part of a room's conversation."
            }
            Self::Accounts => "Accounts, members and API keys, and the audit log.",
            Self::AgentTemplates => "Configurations that many Agents share.",
            Self::Messaging => "Messages, rooms and contacts.",
            Self::Authorization => "Access that others give to an account.",
            Self::Webhooks => "Webhooks, relays, deliveries, and the log of events.",
            Self::Apps => "Apps of the catalogue, installed on an Agent.",
            Self::Integrations => "Data that an account keeps for an app.",
        }
    }
}
