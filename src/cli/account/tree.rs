//! `gatepost account tree`: accounts as a tree, with the addresses of Agents.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{as_json, line};
use crate::app::tenancy::Tenancy;
use crate::cli::account_name::AccountName;
use crate::cli::global_args::GlobalArgs;
use crate::cli::{Failure, print_json, say};
use crate::domain::account::{Account, AccountType};
use crate::domain::id::AccountId;
use crate::store::HeldAddress;

/// Accounts by parent, oldest first; the root has no parent.
struct Tree {
    below: BTreeMap<Option<AccountId>, Vec<Account>>,
    addresses: BTreeMap<AccountId, Vec<HeldAddress>>,
}

/// Shows this account and all below it; without a name, all accounts.
pub(super) async fn show(name: Option<&AccountName>, global: &GlobalArgs) -> Result<(), Failure> {
    let tenancy = global.tenancy().await?;
    let top = match name {
        Some(name) => Some(name.account(&tenancy).await?),
        None => None,
    };
    let tree = Tree::read(&tenancy, top.as_ref()).await?;
    let tops = match top {
        Some(top) => vec![top],
        None => tree.of(None).to_vec(),
    };
    if global.json {
        return print_json(&Value::from_iter(tops.iter().map(|one| tree.json(one))));
    }
    tops.iter().try_for_each(|one| tree.print(one, 0))
}

impl Tree {
    async fn read(tenancy: &Tenancy, top: Option<&Account>) -> Result<Self, Failure> {
        let (mut below, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for account in tenancy.accounts().await? {
            let is_wanted = top.is_none_or(|top| account.lineage.ids().any(|id| id == top.id));
            if !is_wanted {
                continue;
            }
            if account.kind == AccountType::Agent {
                addresses.insert(account.id, tenancy.addresses(account.id).await?);
            }
            below.entry(account.parent).or_insert_with(Vec::new).push(account);
        }
        Ok(Self { below, addresses })
    }

    fn of(&self, parent: Option<AccountId>) -> &[Account] {
        self.below.get(&parent).map(Vec::as_slice).unwrap_or_default()
    }

    fn addresses(&self, account: &Account) -> &[HeldAddress] {
        self.addresses.get(&account.id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the record of the account, with those below it in `accounts`; a tree has four
    /// levels.
    fn json(&self, account: &Account) -> Value {
        let mut record = as_json(account, self.addresses(account));
        if let Value::Object(fields) = &mut record {
            let below = self.of(Some(account.id)).iter().map(|one| self.json(one));
            fields.insert("accounts".to_owned(), below.collect());
        }
        record
    }

    fn print(&self, account: &Account, depth: usize) -> Result<(), Failure> {
        let indent = "  ".repeat(depth);
        let addresses = self.addresses(account).iter().map(|held| held.address.to_string());
        let addresses = addresses.collect::<Vec<_>>().join(", ");
        let addresses = if addresses.is_empty() { addresses } else { format!("  {addresses}") };
        say!("{indent}{}{addresses}", line(account))?;
        self.of(Some(account.id)).iter().try_for_each(|one| self.print(one, depth + 1))
    }
}
