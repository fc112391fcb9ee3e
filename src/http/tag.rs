//! Tags: the areas of the API, in the words of the interface (contract §4).

macro_rules! tags {
    ($($tag:ident = $shown:literal, $about:literal;)+) => {
        /// The area of an operation: its tag in the description.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Tag {
            $($tag,)+
        }

        impl Tag {
            /// All tags, in the order of the interface.
            pub const ALL: &[Self] = &[$(Self::$tag,)+];

            /// The tag as shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$tag => $shown,)+ }
            }

            /// Describes the area in a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$tag => $about,)+ }
            }
        }
    };
}

tags! {
    Agents = "Agents", "Configurations of Agents: staged, live, and kept versions.";
    InboundEmail = "Inbound Email",
        "Policies, addresses and domains for inbound mail, and records of all verdicts.";
    Features = "Features", "Features of accounts, which accounts above assign.";
    ConversationLogs = "Conversation Logs", "The conversation log as a table, and metrics over it.";
    ComputerAgents = "Computer Agents", "Workers that handle the messages of an Agent.";
    ComputerAgentSessions = "Computer Agent Sessions",
        "Sessions of workers, one for each part of a room's conversation.";
    Accounts = "Accounts", "Accounts, members and API keys, and the audit log.";
    AgentTemplates = "Agent Templates", "Configurations that many Agents share.";
    System = "System", "The state of the gateway, for those who operate it.";
    Messaging = "Messaging", "Messages, rooms and contacts.";
    Authorization = "Authorization", "Access that others give to an account.";
    Webhooks = "Webhooks", "Webhooks, relays, deliveries, and the log of events.";
    Apps = "Apps", "Apps of the catalogue, installed on an Agent.";
    Integrations = "Integrations", "Data that an account keeps for an app.";
}
