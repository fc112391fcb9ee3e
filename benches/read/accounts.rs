//! The accounts that own the messages: a partner with two resellers, of five organizations each, of
//! ten Agents each.

use gatepost::app::tenancy::{Invitation, KeyTerms, Tenancy};
use gatepost::domain::account::{Account, AccountType};
use gatepost::domain::address::Address;
use gatepost::domain::id::AccountId;
use gatepost::domain::key::KeyOwner;
use gatepost::domain::member::Role;

const RESELLERS: usize = 2;
const ORGANIZATIONS: usize = 5;
const AGENTS: usize = 10;

pub struct Accounts {
    pub agents: Vec<Account>,
    readers: Vec<(&'static str, String)>,
}

impl Accounts {
    /// Below the root of the store.
    pub async fn build(tenancy: &Tenancy, partner: AccountId) -> Self {
        let below = async |kind: AccountType, parent: AccountId, number: usize| {
            let name = format!("{kind} {number}");
            tenancy.create_account(kind, parent, &name, &[]).await.unwrap()
        };
        let (mut agents, mut organizations) = (Vec::new(), Vec::new());
        for number in 0..RESELLERS {
            let reseller = below(AccountType::Reseller, partner, number).await;
            for number in 0..ORGANIZATIONS {
                let organization = below(AccountType::Organization, reseller.id, number).await;
                for number in 0..AGENTS {
                    agents.push(below(AccountType::Agent, organization.id, number).await);
                }
                organizations.push(organization);
            }
        }
        let key =
            async |account: AccountId| tenancy.create_key(account, "read").await.unwrap().token;
        let organization = &organizations[0];
        let invitation = Invitation {
            email: Address::parse("member@good.example").unwrap(),
            role: Role::Member,
            permitted: Some([agents[0].id].into()),
            redirect_url: None,
            send_welcome_email: None,
        };
        let member = tenancy.invite(organization, invitation).await.unwrap().id;
        let member =
            tenancy.issue_key(KeyOwner::Member(member), KeyTerms::of("read")).await.unwrap().token;
        let readers = vec![
            ("Agent", key(agents[0].id).await),
            ("organization", key(organization.id).await),
            ("partner", key(partner).await),
            ("restricted member", member),
        ];
        Self { agents, readers }
    }

    pub fn readers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.readers.iter().map(|(who, key)| (*who, key.as_str()))
    }
}
