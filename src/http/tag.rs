//! The areas of the API, in the interface's words (contract §4).

/// The area that an operation belongs to: its tag in the interface's description.
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
    /// All of them, in the interface's order.
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

    /// The word shown.
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

    /// What is in it, in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Agents => "What an Agent is told to be: staging, default, and versions of it.",
            Self::InboundEmail => {
                "Who may write to an Agent, under which addresses, and what came of it."
            }
            Self::Features => "What an account may use, and passes on to those below it.",
            Self::ConversationLogs => "All conversations as a table, and metrics over it.",
            Self::ComputerAgents => "Workers that take the mail of an Agent as their work.",
            Self::ComputerAgentSessions => "Which session of a worker a room belongs to.",
            Self::Accounts => "Accounts, their members, their keys, and who did what to them.",
            Self::AgentTemplates => "Configurations that many Agents share.",
            Self::Messaging => "Messages, rooms and contacts.",
            Self::Authorization => "Access that others give to an account.",
            Self::Webhooks => {
                "URLs that hear what happens, what was sent to them, and the log of events."
            }
            Self::Apps => "Apps of the catalogue, installed on an Agent.",
            Self::Integrations => "What an app knows of a service, by slug and version.",
        }
    }
}
