//! RCPT: which Agent answers to a forward-path? (contract §2, Policy: Recipients)

use std::net::IpAddr;
use std::time::Instant;

use serde_json::{Value, json};

use super::step::step;
use super::{Gateway, trouble};
use crate::domain::account::{Account, AccountType, Lineage};
use crate::domain::address::Address;
use crate::domain::id::IntakeId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::ports::{Answer, Client, Recipient};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::store::StoreError;

const POSTMASTER: &str = "postmaster";

/// An Agent that was found: the address to which it answers, the tag, its mode.
struct Found {
    agent: Account,
    address: Address,
    tag: Option<String>,
    mode: Mode,
}

impl Gateway {
    pub(super) async fn find_recipient(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> Result<Recipient, Answer> {
        let found = self.look_up(path).await.map_err(|error| trouble(&error))?;
        let reason = match &found {
            None => Reason::UnknownRecipient,
            Some(found) => match self.store.is_active(&found.agent).await {
                Ok(true) => {
                    return Ok(Recipient {
                        agent: found.agent.id,
                        address: found.address.clone(),
                        tag: found.tag.clone(),
                        as_sent: path.to_owned(),
                        shares: found.mode == Mode::Open,
                    });
                }
                Ok(false) => Reason::InactiveRecipient,
                Err(error) => return Err(trouble(&error)),
            },
        };
        let agent = found.map(|found| found.agent);
        let counted = self.count(client, reverse_path, path, agent, reason).await;
        Err(match counted {
            Ok(record) => Answer { reason: Some(reason), detail: None, record: Some(record) },
            Err(error) => trouble(&error),
        })
    }

    /// In this order: the address without its tag, `postmaster`, the domain's catch-all. No Agent
    /// has an address with a tag.
    async fn look_up(&self, path: &str) -> Result<Option<Found>, StoreError> {
        let address = match Address::parse(path) {
            Ok(address) => address,
            Err(_) if path.eq_ignore_ascii_case(POSTMASTER) => {
                return self.postmaster_agent().await;
            }
            Err(_) => return Ok(None),
        };
        let (bare, tag) = address.without_tag();
        let found = self.store.recipient(&bare).await?;
        let has_it = found.as_ref().is_some_and(|(_, address, _)| *address == bare);
        if !has_it
            && bare.local() == POSTMASTER
            && self.is_ours(&bare).await?
            && let Some(found) = self.postmaster_agent().await?
        {
            return Ok(Some(found));
        }
        Ok(found.map(|(agent, _, mode)| Found { agent, address: bare, tag, mode }))
    }

    async fn is_ours(&self, address: &Address) -> Result<bool, StoreError> {
        Ok(self.store.domain_owner(address.domain()).await?.is_some())
    }

    async fn postmaster_agent(&self) -> Result<Option<Found>, StoreError> {
        let Some(address) = &self.postmaster else { return Ok(None) };
        let found = self.store.recipient(address).await?;
        Ok(found.map(|(agent, _, mode)| Found { agent, address: address.clone(), tag: None, mode }))
    }

    /// Refusals at RCPT are counted per network, reason and minute (contract §2.3); and those at
    /// MAIL, which have no `path`.
    pub(super) async fn count(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
        agent: Option<Account>,
        reason: Reason,
    ) -> Result<IntakeId, StoreError> {
        let began = Instant::now();
        let inputs = json!({ "path": path });
        let lineage = match &agent {
            Some(agent) => agent.lineage,
            None => self.owner_of(path).await?,
        };
        let record = IntakeRecord {
            id: IntakeId(self.mint.uuid()),
            at: self.mint.clock().now(),
            lineage,
            agent: agent.map(|agent| agent.id),
            recipient: path.to_owned(),
            sender: None,
            envelope_from: reverse_path.to_owned(),
            remote_address: client.address,
            helo: client.helo.clone(),
            verdict: Verdict::of(Some(reason)),
            explanation: reason.explanation().to_owned(),
            message: None,
            size: 0,
            digest: None,
            headers: Vec::new(),
            steps: Value::from(vec![step(
                if path.is_empty() { "session" } else { "recipient" },
                "fail",
                reason.explanation(),
                inputs,
                began,
            )]),
            count: 1,
        };
        self.store.count_refusal(&record, &network(client.address)).await
    }

    /// Whose record a refusal without an Agent is: the domain's account, else the partner's.
    async fn owner_of(&self, path: &str) -> Result<Lineage, StoreError> {
        if let Ok(address) = Address::parse(path)
            && let Some(owner) = self.store.domain_owner(address.domain()).await?
            && let Some(account) = self.store.account(owner).await?
        {
            return Ok(account.lineage);
        }
        self.partner().await
    }

    pub(super) async fn partner(&self) -> Result<Lineage, StoreError> {
        let partners = self.store.accounts(Some(AccountType::Partner)).await?;
        Ok(partners.first().map(|partner| partner.lineage).unwrap_or_default())
    }
}

/// The network that a client counts as: /24 for IPv4, /64 for IPv6 (what one customer is given).
pub(super) fn network(address: IpAddr) -> String {
    let prefix = if address.is_ipv4() { 24 } else { 64 };
    ipnet::IpNet::new(address, prefix)
        .map_or_else(|_| address.to_string(), |network| network.trunc().to_string())
}
