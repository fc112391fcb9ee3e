//! By which way a message came, and in which inbox it is shown.

use super::words::words;

words! {
    /// By which way a message came. Only mail is proven; what an account's own platform hands in by
    /// `receiveMessage` is that platform's word.
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
