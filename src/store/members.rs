//! Members: people with access to an account.

use super::db::Store;
use super::error::StoreError;
use super::row::Columns;
use super::sql::{Row, Statement, sql};
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::Member;

impl Store {
    /// One member, unless it was removed or its account deleted.
    pub async fn member(&self, id: MemberId) -> Result<Option<Member>, StoreError> {
        let row =
            select("AND members.id = $1").bind(id.get()).fetch_optional(self.reader()).await?;
        row.as_ref().map(member).transpose()
    }
}

fn select(rest: &'static str) -> Statement {
    let mut query =
        sql("SELECT members.id, account_id, email, role, permitted, members.created_at,
                    partner_id, reseller_id, organization_id, agent_id
             FROM members JOIN accounts ON accounts.id = account_id
             WHERE removed_at IS NULL AND deleted_at IS NULL ");
    query.push(rest);
    query
}

fn member(row: &Row) -> Result<Member, StoreError> {
    let columns = Columns { table: "members", row };
    let (id, permitted) = (columns.integer("id")?, columns.json::<Vec<i64>>("permitted")?);
    let permitted = permitted
        .into_iter()
        .map(|id| AccountId::new(id).ok_or_else(|| columns.corrupt(format!("{id} is permitted"))));
    Ok(Member {
        id: MemberId::new(id).ok_or_else(|| columns.corrupt(format!("id {id}")))?,
        account: columns.account("account_id")?,
        lineage: columns.lineage()?,
        email: columns.address("email")?,
        role: columns.word("role")?,
        permitted: permitted.collect::<Result<_, _>>()?,
        created_at: columns.time("created_at")?,
    })
}
