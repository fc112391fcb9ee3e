//! Replies of the session itself, each sentence once. `reply` has the words for decisions of the
//! Intake.

macro_rules! notices {
    ($($(#[$doc:meta])* $variant:ident = $label:literal $code:literal $enhanced:literal $words:literal;)*) => {
        /// A reply that is no decision about mail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Notice {
            $($(#[$doc])* $variant,)*
        }

        impl Notice {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reply code (RFC 5321 §4.2).
            pub const fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// The enhanced status code (RFC 3463); empty where RFC 2034 §4 wants none.
            pub const fn enhanced(self) -> &'static str {
                match self { $(Self::$variant => $enhanced,)* }
            }

            /// The text, without a full stop.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }

            /// The name in logs.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

notices! {
    Fine = "fine" 250 "2.0.0" "OK";
    SenderFine = "sender_fine" 250 "2.1.0" "sender OK";
    RecipientFine = "recipient_fine" 250 "2.1.5" "recipient OK";
    Go = "go" 354 "" "end the message with <CRLF>.<CRLF>";
    Bye = "bye" 221 "2.0.0" "closing the connection";
    Help = "help" 214 "2.0.0"
        "EHLO HELO STARTTLS MAIL RCPT DATA RSET NOOP VRFY HELP QUIT; HELP MAIL, HELP RCPT and HELP DATA say more";
    HelpMail = "help_mail" 214 "2.0.0"
        "MAIL FROM:<address> [SIZE=bytes] [BODY=7BIT|8BITMIME] [SMTPUTF8]; bounces come from <>";
    HelpRecipient = "help_recipient" 214 "2.0.0"
        "RCPT TO:<address>, once for each recipient; nothing is relayed";
    HelpData = "help_data" 214 "2.0.0"
        "DATA, then the message, then a line with a dot; it needs a DKIM signature of its From domain";
    Verify = "verify" 252 "2.0.0" "not verified: send a message and see";

    Secure = "secure" 220 "2.0.0" "ready to start TLS";

    UnknownCommand = "unknown_command" 500 "5.5.2" "unknown command";
    LineTooLong = "line_too_long" 500 "5.5.2" "the command line is too long";
    NotOffered = "not_offered" 502 "5.5.1" "this server does not offer that command";
    HelloFirst = "hello_first" 503 "5.5.1" "say EHLO first";
    MailFirst = "mail_first" 503 "5.5.1" "say MAIL first";
    RecipientFirst = "recipient_first" 503 "5.5.1" "say RCPT first";
    MailAgain = "mail_again" 503 "5.5.1" "a transaction is open: finish it or say RSET";
    TlsAgain = "tls_again" 503 "5.5.1" "TLS is active already";
    HelloSyntax = "hello_syntax" 501 "5.5.4" "expected one host name or address literal";
    MailSyntax = "mail_syntax" 501 "5.5.2" "expected MAIL FROM:<address>";
    RecipientSyntax = "recipient_syntax" 501 "5.5.2" "expected RCPT TO:<address>";
    /// RFC 3463 §3.2 has codes of its own for either side.
    SenderAddress = "sender_address" 501 "5.1.7" "the sender is not of the form <local@domain>";
    RecipientAddress = "recipient_address" 501 "5.1.3" "the recipient is not of the form <local@domain>";
    /// RFC 5321 §4.5.3.1.10: 501 for a path that is too long.
    SenderTooLong = "sender_too_long" 501 "5.1.7" "the sender's address is too long";
    RecipientTooLong = "recipient_too_long" 501 "5.1.3" "the recipient's address is too long";
    SurplusArgument = "surplus_argument" 501 "5.5.4" "that command takes no argument";
    MissingArgument = "missing_argument" 501 "5.5.4" "that command needs an argument";
    ParameterTwice = "parameter_twice" 501 "5.5.4" "parameter given twice";
    ParameterValue = "parameter_value" 501 "5.5.4" "parameter with a wrong value";
    UnknownParameter = "unknown_parameter" 555 "5.5.4" "unknown parameter";
    EightBitAddress = "eight_bit_address" 553 "5.6.7" "the address is not ASCII, and SMTPUTF8 was not agreed on";
    TooManyRecipients = "too_many_recipients" 452 "4.5.3" "too many recipients: send the others in another transaction";
    /// DATA when every RCPT was refused for good (RFC 5321 §3.3).
    NoRecipient = "no_recipient" 554 "5.5.1" "no valid recipients";
    /// DATA when no RCPT was accepted but one was deferred: not the client's error.
    NoRecipientYet = "no_recipient_yet" 451 "4.5.1" "no recipient could be accepted for now";

    BareLf = "bare_lf" 550 "5.5.2" "bare <LF> received: lines end in <CR><LF>";
    BareCr = "bare_cr" 550 "5.5.2" "bare <CR> received: lines end in <CR><LF>";
    Nul = "nul" 550 "5.5.2" "<NUL> received";
    EarlyTalker = "early_talker" 554 "5.5.0" "you spoke before the greeting";
    Unsynchronised = "unsynchronised" 554 "5.5.0" "you went on before the reply to DATA";
    TlsInjection = "tls_injection" 554 "5.5.0" "you went on before the TLS handshake";
    NotSmtp = "not_smtp" 554 "5.5.0" "this is an SMTP server";

    /// STARTTLS is offered, but the handshake cannot begin (RFC 3207 §4).
    TlsUnavailable = "tls_unavailable" 454 "4.7.0" "TLS is not available for now";
    TooManyErrors = "too_many_errors" 421 "4.7.0" "too many errors";
    TooManyIdle = "too_many_idle" 421 "4.7.0" "too many commands without a message";
    TooManyUnknown = "too_many_unknown" 421 "4.7.0" "too many unknown recipients";
    TooFast = "too_fast" 421 "4.7.0" "too many new connections from your network: try again later";
    EndlessLine = "endless_line" 421 "4.7.0" "the command line does not end";
    TooManyTransactions = "too_many_transactions" 421 "4.7.0" "too many transactions: connect again";
    TooSlow = "too_slow" 421 "4.4.2" "timeout: no more input, or input too slow";
    TooOld = "too_old" 421 "4.4.2" "timeout: the session is too old, connect again";
    /// A trusted proxy sent no valid PROXY header: the operator's to fix.
    NoProxyHeader = "no_proxy_header" 421 "4.3.5" "the proxy did not send your address: try again";
    ShuttingDown = "shutting_down" 421 "4.3.2" "shutting down: try again";
    TooManySessions = "too_many_sessions" 421 "4.3.2" "too many connections: try again";
    TooManyFromNetwork = "too_many_from_network" 421 "4.3.2" "too many connections from your network: try again";
}

impl Notice {
    /// Whether the connection ends with this reply. 421 always does (RFC 5321 §4.2.1). After bytes
    /// that servers read in different ways, nothing more of the client can be trusted.
    pub const fn closes(self) -> bool {
        self.code() == 421
            || matches!(
                self,
                Self::Bye
                    | Self::BareLf
                    | Self::BareCr
                    | Self::Nul
                    | Self::EarlyTalker
                    | Self::Unsynchronised
                    | Self::TlsInjection
                    | Self::NotSmtp
            )
    }

    /// Whether the reply counts as an error of the client. `NoRecipient` does not: each refused
    /// RCPT was counted already.
    pub const fn is_error(self) -> bool {
        matches!(self.code(), 500..=503 | 553 | 555)
    }
}
