//! The header fields that Gatepost uses, each named once. All values are read through these names,
//! so that `unsignedHeaders` covers every field that is used: add new fields here.

macro_rules! known {
    ($($name:ident = $text:literal;)+) => {
        /// A header field by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum KnownField {
            $(#[doc = $text] $name,)+
        }

        impl KnownField {
            /// All fields, in the order of `unsignedHeaders`.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

known! {
    // Author and message, for people and programs; some are not read here.
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
    // Decide how the body is read.
    MimeVersion = "MIME-Version";
    ContentType = "Content-Type";
    ContentTransferEncoding = "Content-Transfer-Encoding";
    ContentDisposition = "Content-Disposition";
    ContentId = "Content-ID";
    // Decide whether a machine may reply.
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

impl KnownField {
    /// Tells whether `name` names this field, in any letter case.
    pub const fn names(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.as_str().as_bytes())
    }

    /// Tells whether readers see the field, or it changes how the message is read or answered. The
    /// others are evidence of the message's route.
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
