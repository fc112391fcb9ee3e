//! Members: people with access to a partner, a reseller or an organization, to all of it or to some
//! of its Agents. An invitation sends no mail: it creates the member and the event
//! `member.invited`, whose receiver may write to the person.

use std::collections::BTreeSet;

use url::Url;

use super::record::{Invited, Inviter, MemberRecord};
use super::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::audit::Who;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::{Member, Role};
use crate::store::{MemberChange, MemberOutcome, MemberTarget, NewMember, event_data};
use crate::wire::Number;

/// In bytes: long enough for any page; bounds each event.
pub(super) const LONGEST_URL: usize = 2000;

#[derive(Clone, Debug)]
pub struct Invitation {
    pub email: Address,
    pub role: Role,
    /// The Agents that the member is restricted to; `None` if not sent.
    pub permitted: Option<BTreeSet<AccountId>>,
    /// Sent in the event, and not stored.
    pub redirect_url: Option<String>,
    /// Sent in the event, and not stored.
    pub send_welcome_email: Option<bool>,
}

impl Tenancy {
    /// Creates a member of an account. With an Agent as `target`, the member belongs to its
    /// organization and is restricted to that Agent (contract §4).
    pub async fn invite(
        &self,
        target: &Account,
        invitation: Invitation,
    ) -> Result<Member, TenancyError> {
        let Invitation { email, role, permitted, redirect_url, send_welcome_email } = invitation;
        redirect_url.as_deref().map_or(Ok(()), check_redirect)?;
        let (account, permitted) = match target.kind {
            AccountType::Agent => {
                let own = BTreeSet::from([target.id]);
                if permitted.is_some_and(|permitted| permitted != own) {
                    return Err(TenancyError::InvitedBeyond(target.id));
                }
                (target.parent.unwrap_or(target.id), own)
            }
            _ => (target.id, permitted.unwrap_or_default()),
        };
        self.check_permitted(&permitted)?;
        let invited_by = match &self.actor.who {
            Who::Key { account: own, member, .. } => {
                // Readers of the event are below, and must not learn of members of accounts above.
                let member = member.filter(|_| *own == account);
                Some(Inviter { account_id: (*own).into(), member_id: member.map(Number::from) })
            }
            Who::Operator | Who::Gateway => None,
        };
        let tell = |member: &Member| {
            event_data(&Invited {
                member: MemberRecord::of(member),
                redirect_url: redirect_url.clone(),
                send_welcome_email,
                invited_by: invited_by.clone(),
            })
        };
        let new = NewMember { account, email, role, permitted };
        let most = self.rules.members.max_per_account;
        self.settled(self.store.insert_member(&new, most, &tell, self.act()).await?)
    }

    pub async fn member(&self, id: MemberId) -> Result<Member, TenancyError> {
        self.store.member(id).await?.ok_or(TenancyError::NoMember)
    }

    /// Lists the members of an account, oldest first; of an Agent, the members of its organization
    /// who may act on it.
    pub async fn members(&self, target: &Account) -> Result<Vec<Member>, TenancyError> {
        let parent = target.parent.filter(|_| target.kind == AccountType::Agent);
        let mut members = self.store.members(parent.unwrap_or(target.id)).await?;
        members.retain(|member| member.is_of(target));
        Ok(members)
    }

    /// Returns a member of this account or of one below. Fails with `NoMember` for others.
    pub async fn member_of(&self, target: &Account, id: MemberId) -> Result<Member, TenancyError> {
        let found = self.store.member(id).await?.filter(|member| member.is_of(target));
        found.ok_or(TenancyError::NoMember)
    }

    /// Changes a member of this account or of one below.
    pub async fn update_member(
        &self,
        target: &Account,
        id: MemberId,
        change: &MemberChange,
    ) -> Result<Member, TenancyError> {
        self.member_of(target, id).await?;
        change.permitted.as_ref().map_or(Ok(()), |permitted| self.check_permitted(permitted))?;
        self.settled(self.store.update_member(within(target, id), change, self.act()).await?)
    }

    /// Removes a member of this account or of one below; the member's keys end at once.
    pub async fn remove_member(
        &self,
        target: &Account,
        id: MemberId,
    ) -> Result<Member, TenancyError> {
        self.member_of(target, id).await?;
        self.settled(self.store.remove_member(within(target, id), self.act()).await?)
    }

    fn check_permitted(&self, permitted: &BTreeSet<AccountId>) -> Result<(), TenancyError> {
        let most = self.rules.members.max_permitted;
        let fits = permitted.len() <= most;
        fits.then_some(()).ok_or(TenancyError::TooManyPermitted { most })
    }

    fn settled(&self, membership: MemberOutcome) -> Result<Member, TenancyError> {
        match membership {
            MemberOutcome::Done(member) => Ok(*member),
            MemberOutcome::NoMember => Err(TenancyError::NoMember),
            MemberOutcome::NoAccount => Err(TenancyError::NoAccountOfMember),
            MemberOutcome::EmailTaken => Err(TenancyError::EmailTaken),
            MemberOutcome::TooMany => {
                Err(TenancyError::TooManyMembers { most: self.rules.members.max_per_account })
            }
            MemberOutcome::NotAnAgent(id) => Err(TenancyError::PermittedElsewhere(id)),
            MemberOutcome::ActsOnMore(account) => Err(TenancyError::ActsOnMore { account }),
            MemberOutcome::LastAdministrator => Err(TenancyError::LastAdministrator),
        }
    }
}

/// With an Agent as the target, only members are changed who act on nothing else; others are changed
/// with their account as the target.
fn within(target: &Account, id: MemberId) -> MemberTarget {
    let agent = (target.kind == AccountType::Agent).then_some(target.id);
    MemberTarget { id, agent }
}

/// Checks a URL that a receiver will put into a link: no script, no local file, no password.
fn check_redirect(text: &str) -> Result<(), TenancyError> {
    let url = Url::parse(text).ok().filter(|url| {
        let web = ["https", "http"].contains(&url.scheme()) && url.has_host();
        web && url.username().is_empty() && url.password().is_none()
    });
    if url.is_some() && text.len() <= LONGEST_URL {
        return Ok(());
    }
    Err(TenancyError::Redirect)
}
