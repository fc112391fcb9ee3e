//! The owner of a blob store: one database, named by the object `owner`. The sweeper removes
//! objects that its database does not know, which are all objects of another database.
//!
//! The owner is written before the first object, and never replaced: any object below `raw/` has an
//! owner. It is checked when a server starts, before its first put, and before each sweep.

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _, PutMode};
use uuid::Uuid;

use super::Base;
use crate::store::blobs::objects::{Blobs, in_time, unanswered};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// The object lies beside the folder that it guards.
pub const OWNER: &str = "owner";
/// Most bytes: an id, and the white space that an editor may add.
const LONGEST: u64 = 64;
const IDENTITY: &str = "SELECT id FROM identity WHERE single = 1";

impl Base {
    /// Returns the id of this database. The first call of all gateways writes it; a copy keeps it.
    pub async fn identity(&self) -> Result<Uuid, StoreError> {
        self.identity.get_or_try_init(|| self.decide_identity()).await.copied()
    }

    async fn decide_identity(&self) -> Result<Uuid, StoreError> {
        if let Some(known) = self.known_identity().await? {
            return Ok(known);
        }
        let mut tx = self.begin().await?;
        // Another gateway may do so at this moment: the first one wins.
        sql("INSERT INTO identity (single, id) VALUES (1, $1) ON CONFLICT (single) DO NOTHING")
            .bind(self.mint().uuid())
            .execute(tx.on())
            .await?;
        let row = sql(IDENTITY).fetch_one(tx.on()).await?;
        tx.commit().await?;
        Columns { table: "identity", row: &row }.uuid("id")
    }

    /// Returns the id of this database, or None if it has none yet; writes nothing.
    pub async fn known_identity(&self) -> Result<Option<Uuid>, StoreError> {
        let row = sql(IDENTITY).fetch_optional(self.reader()).await?;
        row.map(|row| Columns { table: "identity", row: &row }.uuid("id")).transpose()
    }

    /// Claims the blob store, if there is one, for this database. Fails with `Foreign` if another
    /// database owns it, and with `Ownerless` if it holds objects and has no owner.
    pub(in crate::store) async fn claim_blobs(&self) -> Result<(), StoreError> {
        let Some(blobs) = self.blobs() else { return Ok(()) };
        let identity = self.identity().await?;
        let claiming = in_time(blobs.rules.put(), blobs.claim(identity));
        claiming.await.map_err(|error| blobs.unusable(error))
    }
}

impl Blobs {
    /// Fails unless this database is the owner; makes it so where there is no owner and no object.
    pub(in crate::store) async fn claim(&self, identity: Uuid) -> Result<(), StoreError> {
        let owner = match self.owner().await? {
            Some(owner) => owner,
            None => self.become_owner(identity).await?,
        };
        self.compare(&owner, identity)
    }

    /// Fails if another database is the owner. A database without an identity owns nothing yet.
    pub(in crate::store) async fn check_owner(
        &self,
        identity: Option<Uuid>,
    ) -> Result<(), StoreError> {
        let owner = in_time(self.rules.read(), self.owner()).await?;
        owner.map_or(Ok(()), |owner| self.compare(&owner, identity.unwrap_or_default()))
    }

    fn compare(&self, owner: &str, identity: Uuid) -> Result<(), StoreError> {
        let owner = Uuid::try_parse(owner.trim());
        if owner == Ok(identity) {
            return Ok(());
        }
        let owner = owner.map_or_else(|_| "its id is unreadable".to_owned(), |id| id.to_string());
        Err(StoreError::Foreign { at: self.at.clone(), owner, identity })
    }

    /// Writes the owner where there is none; returns the owner now.
    async fn become_owner(&self, identity: Uuid) -> Result<String, StoreError> {
        // Listed before the owner is read again: each database becomes owner before it puts.
        let is_used = self.list().try_next().await.map_err(unanswered)?.is_some();
        if let Some(owner) = self.owner().await? {
            return Ok(owner);
        }
        if is_used {
            return Err(StoreError::Ownerless { at: self.at.clone(), identity });
        }
        let line = format!("{identity}\n");
        match self.write(&Path::from(OWNER), line.into(), PutMode::Create).await {
            Err(StoreError::Objects(error)) if matches!(*error, Error::AlreadyExists { .. }) => {}
            written => written?,
        }
        // Read back: a bucket may not support the condition, and then the last writer wins.
        self.owner().await?.ok_or_else(|| StoreError::Unkept { at: self.at.clone() })
    }

    async fn owner(&self) -> Result<Option<String>, StoreError> {
        let found = match self.objects.get(&Path::from(OWNER)).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(unanswered)?,
        };
        if found.meta.size > LONGEST {
            return Ok(Some(String::new()));
        }
        let octets = found.bytes().await.map_err(unanswered)?;
        Ok(Some(String::from_utf8_lossy(&octets).into_owned()))
    }
}
