//! The credential with which a request proves its caller.

use super::{Access, Caller, Denied};

/// Authenticates a request, and again after a wait.
#[derive(Clone)]
pub enum Credential {
    /// An API key.
    Key(String),
    /// The secret of a console session.
    Session(String),
}

impl Credential {
    pub fn secret(&self) -> &str {
        match self {
            Self::Key(secret) | Self::Session(secret) => secret,
        }
    }
}

impl Access {
    /// Returns the caller of this credential, or [`Denied::NoKey`]; [`Denied::NoApi`] if it opens
    /// nothing.
    pub async fn authenticate(&self, credential: &Credential) -> Result<Caller, Denied> {
        let caller = match credential {
            Credential::Key(key) => self.caller(Some(key)).await?,
            Credential::Session(secret) => self.session(Some(secret)).await?.caller,
        };
        caller.enters().map(|()| caller)
    }
}
