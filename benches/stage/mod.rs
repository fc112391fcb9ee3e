//! The stage on which the whole server is measured: a store of either kind, messages to send, a receiver
//! of webhooks, and the cost of a server.

pub mod cost;
pub mod letters;
pub mod place;
pub mod sink;
pub mod waits;

/// Rule files without rate limits for one client or one key: names and texts.
pub const UNLIMITED: [(&str, &str); 3] = [
    (
        "intake.toml",
        "[rates]\nsignature_messages_per_minute = 0\nsender_messages_per_minute = 0\n\
         room_messages_per_minute = 0\n",
    ),
    (
        "smtp.toml",
        "[limits]\nmax_transactions = 999999\n[rates]\nconnections_per_minute = 0\n\
         messages_per_minute = 0\nrecipients_per_minute = 0\n",
    ),
    (
        "access.toml",
        "[rates]\nreads_per_minute = 0\nkeyless_per_minute = 0\n\
         [connections]\nmax_per_address = 4096\n[events]\nmax_waiting_per_key = 100\n",
    ),
];
