//! The channel of a message, and the inbox that shows it.

use super::words::words;

words! {
    /// The channel of a message. Only mail is proven; messages submitted by `receiveMessage` are
    /// claims of the account's own platform.
    Source {
        Email = "email",
        Sms = "sms",
        Chat = "chat",
        Call = "call",
    }
}

words! {
    /// The inbox in which a room is shown.
    Inbox {
        Priority = "inbox",
        Junk = "junk",
    }
}
