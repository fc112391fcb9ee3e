//! `GET /account`: the identity that decides the scope of a key (contract §4), inside the usual
//! envelope, with flat fields as in v2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::tenancy::record::{AccountRecord, Naming, Person, permitted};
use crate::domain::account::{Account, Details};
use crate::domain::member::Member;
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Date, Number};

/// Shows an account or a member
///
/// Without a target, the owner of the key. Its fields decide the scope of the key.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AccountAnswer {
    Account(Box<AccountRecord>),
    Member(Box<Identity>),
}

successes! { AccountAnswer = OK "account found"; }

/// A member, in the fields of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Identity {
    #[serde(flatten)]
    person: Person,
    /// The Agents that the member is restricted to; absent for all.
    // An empty list would mean no restriction, too; v2 leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Number>")]
    permitted_account_ids: Option<Vec<Number>>,
    /// The address of the member.
    #[schemars(example = &"boss@good.example")]
    name: String,
    /// The account that the member belongs to.
    parent_id: Number,
    /// Always false.
    #[schemars(extend("const" = false))]
    super_admin: bool,
    /// Always true: a member who is not active is removed.
    #[schemars(extend("const" = true))]
    active: bool,
    /// Name and time once more, for v2 clients.
    details: Naming,
}

/// Returns the target, never the caller.
pub async fn show(call: Call, _: Show) -> Result<AccountAnswer, Problem> {
    let target = &call.target;
    let account = |account| Ok(AccountAnswer::Account(Box::new(AccountRecord::of(account))));
    match (&target.member, target.scope.permitted()) {
        (Some(member), _) => Ok(AccountAnswer::Member(Box::new(Identity::of(member)))),
        (None, None) => account(&target.account),
        // A restricted member sees only which account it is.
        (None, Some(_)) => {
            let details = Details::new();
            account(&Account { external_id: None, details, ..target.account.clone() })
        }
    }
}

impl Identity {
    fn of(member: &Member) -> Self {
        let (name, created_at) = (member.email.to_string(), Date(member.created_at));
        Self {
            person: Person::of(member),
            permitted_account_ids: Some(permitted(member)).filter(|ids| !ids.is_empty()),
            name: name.clone(),
            parent_id: member.account.into(),
            super_admin: false,
            active: true,
            details: Naming { name, created_at },
        }
    }
}
