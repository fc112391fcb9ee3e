//! The header fields that Gatepost goes by, each named once. Values are reached by these names
//! alone, so that nothing is read that `unsignedHeaders` does not know: a new one is added here.

macro_rules! known {
    ($($name:ident = $text:literal;)+) => {
        /// A header field by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Known {
            $(#[doc = $text] $name,)+
        }

        impl Known {
            /// All of them, in the order in which `unsignedHeaders` lists them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name as it is usually written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

known! {
    // Fields that name the author and the message, for people and programs; not all of them are
    // read here.
    From = "From";
    Date = "Date";
    Sender = "Sender";
    ReplyTo = "Reply-To";
    To = "To";
    Cc = "Cc";
    Bcc = "Bcc";
    MessageId = "Message-ID";
    InReplyTo = "In-Reply-To";
    References = "References";
    Subject = "Subject";
    // They decide how the body is read.
    MimeVersion = "MIME-Version";
    ContentType = "Content-Type";
    ContentTransferEncoding = "Content-Transfer-Encoding";
    ContentDisposition = "Content-Disposition";
    ContentId = "Content-ID";
    // They decide whether a machine may answer.
    DispositionNotificationTo = "Disposition-Notification-To";
    AutoSubmitted = "Auto-Submitted";
    Precedence = "Precedence";
    ListId = "List-Id";
    ListPost = "List-Post";
    ListUnsubscribe = "List-Unsubscribe";
    ListUnsubscribePost = "List-Unsubscribe-Post";
    ListHelp = "List-Help";
    ListSubscribe = "List-Subscribe";
    ListOwner = "List-Owner";
    ListArchive = "List-Archive";
    AutoResponseSuppress = "X-Auto-Response-Suppress";
    ReturnPath = "Return-Path";
    DeliveryMarker = "X-Gatepost-Delivered";
    // Evidence.
    Received = "Received";
    DkimSignature = "DKIM-Signature";
    ArcSeal = "ARC-Seal";
    ArcMessageSignature = "ARC-Message-Signature";
    ArcAuthenticationResults = "ARC-Authentication-Results";
}

impl Known {
    /// Whether `name` is its name, in any letter case.
    pub const fn names(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.as_str().as_bytes())
    }

    /// Whether a reader is shown it, or it changes how the message is read or answered. The others
    /// are evidence of the way that the message took.
    pub const fn says_something(self) -> bool {
        !matches!(
            self,
            Self::Received
                | Self::DkimSignature
                | Self::ArcSeal
                | Self::ArcMessageSignature
                | Self::ArcAuthenticationResults
        )
    }
}
