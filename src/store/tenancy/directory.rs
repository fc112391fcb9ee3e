//! The directory: the Agent that answers to an address, for RCPT, and the version of all answers.
//!
//! Every change of accounts, domains, addresses, modes or relays that may alter an answer writes a
//! new random version in its transaction. Versions are only compared for equality. So a remembered
//! answer is valid exactly as long as its version, on every gateway, whichever process writes.

use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;
use crate::domain::policy::Mode;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
use crate::store::tenancy::feature_columns::{feature_columns, has};

/// The answer for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The version of the answer.
    pub version: i64,
    pub answering: Option<AnsweringAgent>,
    /// The owner of a refusal: the Agent, else the account of the domain, else the partner.
    pub lineage: Lineage,
}

/// The Agent that answers to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweringAgent {
    pub agent: AccountId,
    pub by: AnswersBy,
    /// The Agent and all accounts above it are active.
    pub active: bool,
    /// The Agent has the feature `inboundEmail`.
    pub takes_mail: bool,
    pub mode: Mode,
    /// A relay decides about its mail.
    pub relayed: bool,
}

/// The reason why an Agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswersBy {
    /// The Agent has the address.
    Address,
    /// The Agent answers for postmaster.
    Postmaster,
    /// The Agent is the catch-all of the domain.
    CatchAll,
}

/// Reads the version once for all waiting callers.
pub struct VersionReader(pub Base);

impl Base {
    /// Returns the Agent that answers to `address`: the Agent that has it; else, if the domain of
    /// `address` is ours, the Agent that has `stand_in` or is the catch-all of its domain; else the
    /// catch-all of the domain of `address`. Version and answer are of one moment.
    pub async fn look_up(
        &self,
        address: Option<&Address>,
        stand_in: Option<&Address>,
    ) -> Result<Listing, StoreError> {
        let domain = |address: Option<&Address>| address.map(|one| one.domain().to_string());
        let local = |address: Option<&Address>| address.map(|one| one.local().to_owned());
        let row = sql(concat!(
            "WITH candidates (place, agent) AS (
                 SELECT 1, agent_id FROM addresses WHERE domain = $1 AND local = $2
                 UNION ALL
                 SELECT 2, agent_id FROM addresses
                 WHERE domain = $3 AND local = $4 AND EXISTS (SELECT 1 FROM domains WHERE name = $1)
                 UNION ALL
                 SELECT 3, agent_id FROM addresses
                 WHERE domain = $3 AND catch_all = 1
                   AND EXISTS (SELECT 1 FROM domains WHERE name = $1)
                 UNION ALL
                 SELECT 4, agent_id FROM addresses WHERE domain = $1 AND catch_all = 1),
             first AS (SELECT place, agent FROM candidates ORDER BY place LIMIT 1)
             SELECT directory.version, CAST(first.place AS BIGINT) AS place, me.id AS me, mode,",
            feature_columns!("inboundEmail" of "me"),
            ",
                    whose.partner_id, whose.reseller_id, whose.organization_id, whose.agent_id,
                    (SELECT MIN(CASE WHEN deleted_at IS NULL THEN active ELSE 0 END)
                 FROM accounts AS above
                     WHERE above.id IN (me.partner_id, me.reseller_id, me.organization_id, me.id))
                        AS active,
                    (SELECT COUNT(*) FROM relays
                     WHERE kind = 'smtp' AND account_id IN (
                         me.partner_id, me.reseller_id, me.organization_id, me.id)) AS relayed
             FROM directory
             LEFT JOIN first ON 1 = 1
             LEFT JOIN accounts AS me ON me.id = first.agent
             LEFT JOIN inbound_policies ON inbound_policies.agent_id = me.id
             LEFT JOIN domains ON domains.name = $1
             LEFT JOIN accounts AS partner ON partner.kind = 'partner'
             LEFT JOIN accounts AS whose
                    ON whose.id = COALESCE(me.id, domains.account_id, partner.id)
             WHERE single = 1"
        ))
        .bind(domain(address))
        .bind(local(address))
        .bind(domain(stand_in))
        .bind(local(stand_in))
        .fetch_one(self.reader())
        .await?;
        let columns = Columns { table: "directory", row: &row };
        let by = match columns.optional_integer("place")? {
            None => None,
            Some(1) => Some(AnswersBy::Address),
            Some(2 | 3) => Some(AnswersBy::Postmaster),
            Some(_) => Some(AnswersBy::CatchAll),
        };
        let answering = |by| -> Result<AnsweringAgent, StoreError> {
            let agent = columns.account("me")?;
            let (active, mode) = (columns.flag("active")?, columns.word("mode")?);
            let relayed = columns.flag("relayed")?;
            let takes_mail = has(&columns, &self.offer, Feature::InboundEmail)?;
            Ok(AnsweringAgent { agent, by, active, takes_mail, mode, relayed })
        };
        Ok(Listing {
            version: columns.integer("version")?,
            answering: by.map(answering).transpose()?,
            lineage: columns.lineage()?,
        })
    }
}

/// Writes a new version. Must be the last statement of its transaction: a caller that waits here
/// holds all other locks it needs, so that no two wait in a circle.
pub async fn changed(tx: &mut Transaction) -> Result<(), StoreError> {
    // Random, not counted: after a restore from an older copy a counter would repeat versions, and
    // answers remembered from lost changes would be valid again.
    let rows = sql("UPDATE directory SET version = random() WHERE single = 1 RETURNING version")
        .on_postgres(
            "UPDATE directory
             SET version = CAST((random() - 0.5) * 18000000000000000000 AS BIGINT)
             WHERE single = 1 RETURNING version",
        )
        .fetch_all(tx.on())
        .await?;
    let [row] = &rows[..] else {
        // Without the row no answer would ever expire.
        let detail = format!("expected 1 row, found {}", rows.len());
        return Err(StoreError::Corrupt { table: "directory", detail });
    };
    tx.directory_changes(Columns { table: "directory", row }.integer("version")?)
}

impl GroupedWork for VersionReader {
    type Job = ();
    type Answer = i64;

    fn size((): &()) -> (usize, usize) {
        (1, 0)
    }

    async fn write(&self, group: &[()]) -> Result<Vec<i64>, StoreError> {
        let select = sql("SELECT version FROM directory WHERE single = 1");
        let row = select.fetch_one(self.0.reader()).await?;
        let version = Columns { table: "directory", row: &row }.integer("version")?;
        Ok(vec![version; group.len()])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::domain::clock::{Clock, Timestamp};
    use crate::domain::id::Mint;
    use crate::rules::Rules;
    use crate::store::engine::group::Group;
    use crate::store::{Location, Store};

    struct Counting(VersionReader, Arc<AtomicUsize>);

    impl GroupedWork for Counting {
        type Job = ();
        type Answer = i64;

        fn size(job: &()) -> (usize, usize) {
            VersionReader::size(job)
        }

        async fn write(&self, group: &[()]) -> Result<Vec<i64>, StoreError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.write(group).await
        }
    }

    #[tokio::test]
    async fn who_asks_while_the_version_is_read_shares_the_next_reading() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new(|| Timestamp::from_millis(1));
        let mint = Mint::new(clock, Arc::new(|octets: &mut [u8]| octets.fill(7)));
        let (location, rules) =
            (Location::Folder(folder.path().to_owned()), Rules::defaults().unwrap().store);
        let store = Store::create(&location, &rules, mint).await.unwrap();
        let readings = Arc::default();
        let counting = Counting(VersionReader(store.base.clone()), Arc::clone(&readings));
        let group = Group::start(counting, rules.commit, 1);
        let mut asking = JoinSet::new();
        for _ in 0..200 {
            let group = group.clone();
            asking.spawn(async move { group.ask(()).await.unwrap() });
        }
        assert!(asking.join_all().await.into_iter().all(|version| version == 1));
        let readings = readings.load(Ordering::SeqCst);
        assert!((1..20).contains(&readings), "{readings} readings for 200 questions");
    }
}
