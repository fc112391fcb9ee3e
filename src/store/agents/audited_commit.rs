//! The end of a change: its audit entry, then the commit.

use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::tenancy::audit::{self, Note};

impl Base {
    /// Writes the audit entry of a change, and commits.
    pub(in crate::store) async fn commit_audited(
        &self,
        mut tx: Transaction,
        act: Act<'_>,
        note: Note<'_>,
    ) -> Result<(), StoreError> {
        audit::note(&mut tx, self.mint(), act, note).await?;
        tx.commit().await
    }
}

/// Returns the audit entry of a change; `object` is never a secret.
pub fn audit_note<'c>(
    account: AccountId,
    deed: Deed,
    object: &impl ToString,
    changes: &'c [Change],
) -> Note<'c> {
    Note { account, deed, object: object.to_string(), changes }
}
