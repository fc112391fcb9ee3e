//! The accounts that receive the fixtures: one partner, reseller and organization, and the Agents
//! of `fixtures/agents.toml`.

use std::collections::BTreeMap;

use super::case::{AgentEntry, FixtureError, agents};
use crate::app::tenancy::{Claiming, Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::{Address, AddressError};
use crate::domain::domain_name::{DomainName, DomainNameError};
use crate::domain::id::AccountId;
use crate::domain::words::NotAWord;

#[derive(Clone, Debug)]
pub struct FixtureAccounts {
    pub partner: Account,
    pub reseller: Account,
    pub organization: Account,
    /// By name.
    pub agents: BTreeMap<String, Account>,
}

#[derive(Debug, thiserror::Error)]
pub enum FixtureAccountsError {
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Tenancy(#[from] TenancyError),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Domain(#[from] DomainNameError),
    #[error(transparent)]
    Mode(#[from] NotAWord),
}

impl FixtureAccounts {
    /// Makes the accounts in an empty store.
    pub async fn build(tenancy: &Tenancy) -> Result<Self, FixtureAccountsError> {
        let plan = agents()?;
        let partner = tenancy.create_partner("Example Partner").await?;
        let reseller =
            below(tenancy, AccountType::Reseller, partner.id, "Example Reseller").await?;
        let organization =
            below(tenancy, AccountType::Organization, reseller.id, "Example Organization").await?;
        tenancy.add_domain(&DomainName::parse(&plan.domain)?, organization.id).await?;
        let mut agents = BTreeMap::new();
        for entry in &plan.agents {
            let agent = below(tenancy, AccountType::Agent, organization.id, &entry.name).await?;
            set_up(tenancy, &agent, entry).await?;
            agents.insert(entry.name.clone(), agent);
        }
        Ok(Self { partner, reseller, organization, agents })
    }
}

async fn below(
    tenancy: &Tenancy,
    kind: AccountType,
    parent: AccountId,
    name: &str,
) -> Result<Account, TenancyError> {
    tenancy.create_account(kind, parent, name, &[]).await
}

async fn set_up(
    tenancy: &Tenancy,
    agent: &Account,
    entry: &AgentEntry,
) -> Result<(), FixtureAccountsError> {
    for address in &entry.addresses {
        tenancy.claim_address(agent, &Address::parse(address)?, false, Claiming::Never).await?;
    }
    let allowed =
        entry.allow.iter().map(|text| Address::parse(text)).collect::<Result<Vec<_>, _>>()?;
    tenancy.allow(agent.id, &allowed, None).await?;
    tenancy.set_mode(agent.id, entry.mode.parse()?).await?;
    if !entry.active {
        tenancy.set_active(agent.id, false).await?;
    }
    Ok(())
}
