//! Errors of accounts and what belongs to them, each with the remedy.

use crate::domain::account::AccountType;
use crate::domain::address::{Address, AddressError};
use crate::domain::domain_name::DomainName;
use crate::domain::id::{AccountId, KeyId};
use crate::store::StoreError;
use crate::verify::Unanswered;

use super::accounts::LONGEST_NAME;
use super::keys::LONGEST_PURPOSE;
use super::members::LONGEST_URL;

#[derive(Debug, thiserror::Error)]
pub enum TenancyError {
    // Accounts.
    #[error("there is no account {0}")]
    NoAccount(AccountId),
    #[error("a name must have 1 to {LONGEST_NAME} bytes and no control characters")]
    Name,
    #[error(
        "externalAccountId must have 1 to {LONGEST_NAME} bytes and no control characters; null \
         removes it"
    )]
    ExternalId,
    #[error("another account below the same parent has this externalAccountId: choose another one")]
    ExternalIdTaken,
    #[error("no account in the scope of this request has this externalAccountId")]
    NoExternalId,
    #[error(
        "several accounts have this externalAccountId: set targetAccountId to one of their parents"
    )]
    SeveralExternalIds,
    #[error("the data of an account must have at most {most} bytes: shorten its settings")]
    AccountTooLarge { most: usize },
    #[error("this store already has a partner account")]
    HasPartner,
    #[error("an account of type {0} has no parent")]
    Root(AccountType),
    #[error(
        "{}'s parent must be {}; {}", a(*.kind), a(*.level), there(*.parent, *.found)
    )]
    Parent { kind: AccountType, level: AccountType, parent: AccountId, found: Option<AccountType> },
    #[error("the partner is the root of all accounts: it cannot be deleted")]
    IsPartner,
    #[error("{}", still_below(.account, *.below))]
    HasBelow { account: AccountId, below: usize },
    #[error(
        "more than {most} accounts are below account {account}: delete some of the accounts below \
         it first"
    )]
    HasManyBelow { account: AccountId, most: usize },

    // Keys.
    #[error(
        "the purpose of a key must have at most {LONGEST_PURPOSE} bytes and no control characters"
    )]
    Purpose,
    #[error("expiresAt must lie in the future: leave it out for a key that never expires")]
    Expired,
    #[error("there is no account or member {0}")]
    NoOwner(i64),
    #[error(
        "the computer of account {0} is not provisioned, so it has no worker: provision it with \
         POST /computer/accounts/{0}/provision"
    )]
    NoWorker(AccountId),
    #[error("there is no key {0} in force")]
    NoKey(KeyId),
    #[error("the key of this request has just been revoked")]
    MakerRevoked,
    #[error("an account or a member has at most {most} keys in force: revoke one first")]
    TooManyKeys { most: u64 },

    // Members.
    #[error("there is no such member in the scope of this request")]
    NoMember,
    #[error("there is no account with this id for the member")]
    NoAccountOfMember,
    #[error(
        "a member invited to an Agent is restricted to it: leave permittedAccountIds out, send \
         [{0}], or invite it to the organization"
    )]
    InvitedBeyond(AccountId),
    #[error("permittedAccountIds must have at most {most} ids")]
    TooManyPermitted { most: usize },
    #[error("permittedAccountIds: {0} is not the id of an Agent below the member's account")]
    PermittedElsewhere(AccountId),
    #[error(
        "redirectUrl must be an http or https URL of at most {LONGEST_URL} bytes without a user \
         name"
    )]
    Redirect,
    #[error("the account already has a member with this email: change or remove that member")]
    EmailTaken,
    #[error("an account has at most {most} members: remove one first")]
    TooManyMembers { most: usize },
    #[error(
        "this is the last administrator of the account who is not restricted to some Agents: add \
         another one first"
    )]
    LastAdministrator,
    #[error(
        "the member acts on more than this Agent, or would after this change: set targetAccountId \
         to {account}"
    )]
    ActsOnMore { account: AccountId },

    // Addresses and policies.
    #[error("account {account} is of type {kind}: only an Agent (type \"account\") has addresses")]
    NoAddressesOf { account: AccountId, kind: AccountType },
    #[error("account {account} is {}, not an Agent", a(*.kind))]
    NoAgent { account: AccountId, kind: AccountType },
    #[error("address: {0}")]
    NoAddress(AddressError),
    #[error(
        "{0} has a tag: send the address without the tag; mail with any tag then reaches the Agent"
    )]
    Tagged(Address),
    #[error("{0} is not an address of this Agent")]
    AddressElsewhere(Address),
    #[error("{0} is the address of another Agent")]
    AddressInUse(Address),
    #[error("the domain of {0} already has another catch-all")]
    CatchAllInUse(Address),
    #[error("an Agent has at most {most} addresses: remove one first, or make it the catch-all")]
    TooManyAddresses { most: u64 },
    #[error(
        "{domain} does not belong to an account above {}: claim the domain first",
        agent.map_or_else(|| "the new Agent".to_owned(), |agent| format!("Agent {agent}"))
    )]
    DomainNotOurs { domain: DomainName, agent: Option<AccountId> },
    #[error("account {0} is not an Agent")]
    NoPolicyOf(AccountId),
    #[error("an allowlist has at most {most} entries")]
    AllowlistFull { most: u64 },

    // Domains.
    #[error(
        "a domain belongs to a partner, a reseller or an organization; give the Agent an address in \
         it instead"
    )]
    DomainOfAgent,
    #[error("{domain} {why}")]
    Unprovable { domain: DomainName, why: Unprovable },
    #[error("{0} belongs to another account")]
    DomainTaken(DomainName),
    #[error("an account can claim at most {most} domains at a time: verify or delete one first")]
    TooManyClaims { most: u64 },
    #[error("an account has at most {most} domains, claimed ones included: delete one first")]
    TooManyDomains { most: u64 },
    #[error("the claim to {0} was deleted meanwhile: claim it again")]
    ClaimGone(DomainName),
    #[error("{domain} does not belong to {account}")]
    DomainElsewhere { domain: DomainName, account: AccountId },
    #[error("{used} addresses use {domain}: remove them first")]
    DomainInUse { domain: DomainName, used: u64 },
    #[error(
        "the DNS of {domain} does not answer; nothing was changed: try again after the time in \
         Retry-After"
    )]
    Dns { domain: DomainName, source: Unanswered },

    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why no record proves the owner of a domain; the operator may still give it to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprovable {
    #[error(
        "is a public suffix, and a record there proves nothing about the names below it: claim a \
         domain of your own below it"
    )]
    PublicSuffix,
    #[error("is the name of this server: claim the domain that its mail is for")]
    ThisServer,
    #[error("is too long to be proven: with _gatepost. in front, the name has more than 253 bytes")]
    TooLong,
}

fn a(kind: AccountType) -> &'static str {
    match kind {
        AccountType::Partner => "a partner",
        AccountType::Reseller => "a reseller",
        AccountType::Organization => "an organization",
        AccountType::Agent => "an Agent",
    }
}

fn there(parent: AccountId, found: Option<AccountType>) -> String {
    match found {
        Some(kind) => format!("account {parent} is {}", a(kind)),
        None => format!("there is no account {parent}"),
    }
}

fn still_below(account: &AccountId, below: usize) -> String {
    let (accounts, them) = if below == 1 { ("account is", "it") } else { ("accounts are", "them") };
    format!("{below} {accounts} below account {account}: delete {them} first, or send cascade")
}
