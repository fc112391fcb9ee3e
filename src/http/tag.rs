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
}
