//! The directory's version: whatever changes an answer to RCPT raises it.

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::{Account, AccountType, Details};
use gatepost::domain::address::Address;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::feature::Feature;
use gatepost::domain::id::AccountId;
use gatepost::domain::policy::Mode;
use gatepost::domain::relay::RelayType;
use gatepost::store::{
    AccountCreation, AccountDeletion, AccountUpdate, AccountUpdated, Claimed, DomainClaim,
    DomainLimits, DomainProof, NewAccount, Store,
};

use super::scene::{Kind, Scene, address, address_claim, at, by, own_address};
use crate::support::sources::files;

on_both! {
    every_change_that_an_answer_rests_on_raises_the_version,
}

/// The methods that change what an answer rests on.
const CHANGING: &[&str] = &[
    "assign_features",
    "claim_address",
    "claim_domain",
    "create_account",
    "delete_account",
    "prove_domain",
    "put_relay",
    "release_address",
    "remove_domain",
    "remove_relay",
    "set_active",
    "set_mode",
    "update_account",
];

/// A new Agent, with this address.
pub async fn create(store: &Store, organization: &Account, address: &Address) -> AccountCreation {
    let parent = Some(organization.id);
    let plain = NewAccount::plain(AccountType::Agent, "new", parent, account_record);
    let new = NewAccount { addresses: vec![address.clone()], ..plain };
    store.create_account(&new, 9, by(at(0))).await.unwrap()
}

async fn claimed(store: &Store, domain: &DomainName, account: AccountId) -> &'static str {
    let limits = DomainLimits { claims: 9, domains: 9 };
    let claim = store.pending_claim(domain, account, "a", limits, by(at(0))).await.unwrap();
    if claim == DomainClaim::Made { "new" } else { "old" }
}

async fn proven(store: &Store, domain: &DomainName, account: AccountId, challenge: &str) -> bool {
    store.prove_domain(domain, account, challenge, by(at(0))).await.unwrap() == DomainProof::Yes
}

/// Renames an Agent, and switches it on, if it is to be; it was off.
async fn updated(store: &Store, agent: AccountId, on: bool) -> bool {
    let (name, active) = (Some("renamed".to_owned()), on.then_some(true));
    let update = AccountUpdate { name, active, ..AccountUpdate::default() };
    let updated = store.update_account(agent, &update, 9, by(at(0))).await.unwrap();
    matches!(updated, AccountUpdated::Account(_))
}

/// Gives an account a plan.
async fn planned(store: &Store, account: AccountId) -> bool {
    let details = Details::from_iter([("productPlanId".to_owned(), "basic".into())]);
    let update = AccountUpdate { details, ..AccountUpdate::default() };
    let updated = store.update_account(account, &update, 99, by(at(0))).await.unwrap();
    matches!(updated, AccountUpdated::Account(_))
}

#[expect(clippy::too_many_lines, reason = "the one list of all changes, in their order")]
async fn every_change_that_an_answer_rests_on_raises_the_version(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me, organization) = (&scene.store, &scene.agent, &scene.organization);
    let (domain, other) = (DomainName::parse("new.example").unwrap(), scene.open().await);
    let (own, second) = (own_address(me), address(&format!("b@{}", own_address(me).domain())));
    let claim = |address: Address| async move {
        let claimed = store.claim_address(&address_claim(me, &address), by(at(0))).await;
        claimed.unwrap() == Claimed::Yes
    };
    let nobody = AccountId::new(9999).unwrap();
    let fresh = address("x@fresh.example");
    let mut before = other.directory_version().await.unwrap();
    let mut seen = Vec::new();
    // Each step says whether it changed something: the version rises exactly then.
    for step in 0.. {
        let (method, changed) = match step {
            0 => ("claim_domain", store.claim_domain(&domain, me.id, by(at(0))).await.is_ok()),
            1 => ("claim_domain", store.claim_domain(&domain, nobody, by(at(0))).await.is_err()),
            2 => (
                "remove_domain",
                store.remove_domain(&domain, nobody, by(at(0))).await.unwrap().is_some(),
            ),
            3 => (
                "remove_domain",
                store.remove_domain(&domain, me.id, by(at(0))).await.unwrap() == Some(0),
            ),
            4 => ("claim_address", claim(second.clone()).await),
            5 => ("claim_address", claim(own_address(&scene.other)).await),
            6 | 7 => {
                ("release_address", store.release_address(me.id, &second, by(at(0))).await.unwrap())
            }
            8 => ("set_active", store.set_active(me.id, false, by(at(0))).await.unwrap()),
            9 => ("set_active", store.set_active(nobody, false, by(at(0))).await.unwrap()),
            10 => ("set_active", !store.set_active(me.id, false, by(at(0))).await.unwrap()),
            11 => ("set_mode", store.set_mode(me.id, Mode::Allowlist, by(at(0))).await.is_ok()),
            12 => ("set_mode", store.set_mode(me.id, Mode::Allowlist, by(at(0))).await.is_err()),
            13 => {
                let made = create(store, organization, &fresh).await;
                ("create_account", matches!(made, AccountCreation::Account(_)))
            }
            14 => {
                let made = create(store, organization, &own).await;
                ("create_account", matches!(made, AccountCreation::Account(_)))
            }
            // A claim is no domain yet.
            15 => ("pending_claim", claimed(store, &domain, organization.id).await != "new"),
            16 => ("prove_domain", proven(store, &domain, organization.id, "b").await),
            17 => ("prove_domain", proven(store, &domain, organization.id, "a").await),
            18..=20 => ("update_account", updated(store, me.id, step > 18).await && step == 19),
            21 | 22 => ("put_relay", super::relays::add(&scene, me, by(at(0))).await),
            23 | 24 => {
                let smtp = RelayType::Smtp;
                ("remove_relay", store.remove_relay(me.id, smtp, by(at(0))).await.unwrap())
            }
            // Only mail rests on a feature here, and on a plan.
            25..=27 => {
                let feature = if step == 25 { Feature::Relays } else { Feature::InboundEmail };
                let wanted = [(feature, Some(false))];
                store.assign_features(me.id, &wanted, by(at(0))).await.unwrap();
                ("assign_features", step == 26)
            }
            28 | 29 => ("update_account", planned(store, me.id).await && step == 28),
            30 | 31 => {
                let deleting =
                    store.delete_account(me.id, false, 9, account_record, by(at(0))).await;
                ("delete_account", deleting.unwrap() == AccountDeletion::Done { below: 0 })
            }
            _ => break,
        };
        let after = other.directory_version().await.unwrap();
        assert_eq!(after != before, changed, "{method}, step {step}");
        before = after;
        if changed {
            seen.push(method);
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, CHANGING);
}

/// The functions of the store, each with its module and its text.
fn functions() -> Vec<(String, String, String)> {
    let mut functions = Vec::new();
    for (name, text) in files("src/store", "rs") {
        let path = name.strip_suffix(".rs").unwrap();
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let file = path.rsplit('/').next().unwrap().to_owned();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for function in code.split("fn ").skip(1) {
            let name = function.split(['(', '<']).next().unwrap().to_owned();
            functions.push((file.clone(), name, function.to_owned()));
        }
    }
    functions
}

/// Proves that every method that writes a table read at RCPT, even through a callee, is listed
/// above.
#[test]
fn every_method_that_changes_an_answer_is_known() {
    // A new version of a policy alone, as by a change of its list, changes no answer to RCPT.
    let writes = |text: &str| {
        let of = |table: &str| {
            ["INSERT INTO ", "DELETE FROM "]
                .iter()
                .any(|verb| text.contains(&format!("{verb}{table}")))
        };
        ["accounts", "addresses", "domains", "feature_grants", "inbound_policies", "relays"]
            .iter()
            .any(|table| of(table))
            || [
                "UPDATE accounts",
                "UPDATE addresses",
                "UPDATE domains",
                "inbound_policies SET mode",
            ]
            .iter()
            .any(|change| text.contains(change))
    };
    let functions = functions();
    let mut writing: Vec<(&str, &str)> = Vec::new();
    loop {
        let calls = |file: &str, text: &str| {
            writing.iter().any(|(home, name)| {
                let near = file == *home && text.contains(&format!(" {name}("));
                near || text.contains(&format!("{home}::{name}("))
                    || text.contains(&format!("self.{name}("))
            })
        };
        let more: Vec<_> = functions
            .iter()
            .map(|(file, name, text)| (file.as_str(), name.as_str(), text.as_str()))
            .filter(|(file, name, _)| !writing.contains(&(file, name)))
            .filter(|(file, _, text)| writes(text) || calls(file, text))
            .map(|(file, name, _)| (file, name))
            .collect();
        if more.is_empty() {
            break;
        }
        writing.extend(more);
    }
    let (store, mut methods) = (super::schema::sources("src/store"), Vec::new());
    for (_, name) in writing {
        if store.contains(&format!("    pub async fn {name}(")) {
            methods.push(name);
        }
    }
    methods.sort_unstable();
    methods.dedup();
    assert_eq!(methods, CHANGING);
}
