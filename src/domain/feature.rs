//! Features: functions that not every account has. The partner has all of them. Any other account
//! has a feature if it was assigned, or is in its plan, or is on by default, and if its parent has it
//! too.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Lineage;
use super::id::AccountId;
use super::words::words;

words! {
    /// The closed list. `policies/apps.toml` says which are on by default, and which each plan has.
    Feature {
        /// Keys of the account and of its members.
        Api = "api",
        /// Apps of the catalogue, and integrations.
        Apps = "apps",
        /// Computer Agents and their sessions.
        Computer = "computer",
        /// Mail to the addresses of Agents.
        InboundEmail = "inboundEmail",
        /// Relays: mail passes through the account's own application first.
        Relays = "relays",
        /// Secrets are released to provisioned workers.
        SecretRelease = "secretRelease",
        /// Templates of Agents.
        Templates = "templates",
    }
}

/// Features of accounts to which they were not assigned: by plan, and by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    pub defaults: BTreeSet<Feature>,
    /// The features of each plan, by its name (`productPlanId` of an account).
    pub plans: BTreeMap<String, BTreeSet<Feature>>,
}

/// All that was said of one account: its plan, and features granted (true) or denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub account: AccountId,
    pub plan: Option<String>,
    pub features: BTreeMap<Feature, bool>,
}

/// The part of it that one feature rests on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    pub plan: Option<&'a str>,
    pub granted: Option<bool>,
}

/// State of one feature for one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub feature: Feature,
    pub enabled: bool,
    /// Assigned to or withheld from this account itself; None: the default applies.
    pub granted: Option<bool>,
    /// The value without an assignment: by the account's plan, if the offer names it.
    pub default: bool,
    /// True if the parent has the feature; without it the account cannot have it. Always true for
    /// the partner.
    pub above: bool,
}

impl Offer {
    /// Returns the state of the feature for the last account of `lineage`. `assigned` are those of
    /// all its accounts.
    pub fn held(&self, feature: Feature, lineage: &Lineage, assigned: &[Assigned]) -> Held {
        let said = |account: AccountId| {
            let one = assigned.iter().find(|one| one.account == account);
            one.map_or_else(Said::default, |one| Said {
                plan: one.plan.as_deref(),
                granted: one.features.get(&feature).copied(),
            })
        };
        let below_partner = lineage.ids().filter(|id| Some(*id) != lineage.partner);
        self.walk(feature, below_partner.map(said))
    }

    /// Returns the state of the feature for the last account of a path, which begins below the
    /// partner. An account below one without the feature does not have it. A plan that the offer
    /// does not name decides nothing. The nearest plan above an account without one only adds to
    /// the defaults: so what was assigned beyond a plan reaches the accounts below.
    pub fn walk<'a>(&self, feature: Feature, path: impl IntoIterator<Item = Said<'a>>) -> Held {
        let mut held = Held { feature, enabled: true, granted: None, default: true, above: true };
        let (on, mut offered) = (self.defaults.contains(&feature), false);
        for said in path {
            let plan = said.plan.and_then(|plan| self.plans.get(plan));
            held.default = match plan {
                Some(features) => {
                    offered = features.contains(&feature);
                    offered
                }
                None => on || offered,
            };
            held.above = held.enabled;
            held.granted = said.granted;
            held.enabled = held.above && said.granted.unwrap_or(held.default);
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(ids: &[i64]) -> Lineage {
        let id = |at: usize| ids.get(at).and_then(|id| AccountId::new(*id));
        Lineage { partner: id(0), reseller: id(1), organization: id(2), agent: id(3) }
    }

    fn assigned(account: i64, plan: Option<&str>, granted: Option<bool>) -> Assigned {
        Assigned {
            account: AccountId::new(account).unwrap(),
            plan: plan.map(str::to_owned),
            features: granted.map(|granted| (Feature::Relays, granted)).into_iter().collect(),
        }
    }

    fn offer(default: bool) -> Offer {
        let of = |features: &[Feature]| features.iter().copied().collect();
        Offer {
            defaults: if default { of(Feature::ALL) } else { BTreeSet::new() },
            plans: BTreeMap::from([
                ("mail".to_owned(), of(&[Feature::Api, Feature::InboundEmail])),
                ("whole".to_owned(), of(Feature::ALL)),
            ]),
        }
    }

    #[test]
    fn an_account_has_what_it_was_given_or_all_have_as_far_as_its_parent_has_it() {
        let (whole, partner) = ([1, 2, 3, 4], [1]);
        type Case<'c> = (&'c [i64], &'c [(i64, bool)], bool, (bool, Option<bool>, bool));
        let cases: [Case<'_>; 10] = [
            (&whole, &[], true, (true, None, true)),
            (&whole, &[], false, (false, None, false)),
            (&whole, &[(2, false)], true, (false, None, false)),
            (&whole, &[(2, false), (3, true), (4, true)], true, (false, Some(true), false)),
            (&whole, &[(4, false)], true, (false, Some(false), true)),
            (&whole, &[(2, true), (3, true)], false, (false, None, true)),
            (&whole, &[(2, true), (3, true), (4, true)], false, (true, Some(true), true)),
            (&whole, &[(9, false)], true, (true, None, true)),
            (&partner, &[], false, (true, None, true)),
            (&partner, &[(1, false)], false, (true, None, true)),
        ];
        for (ids, grants, on, (enabled, granted, above)) in cases {
            let given: Vec<Assigned> =
                grants.iter().map(|(id, granted)| assigned(*id, None, Some(*granted))).collect();
            let (feature, lineage) = (Feature::Relays, lineage(ids));
            let found = offer(on).held(feature, &lineage, &given);
            let default = on || ids.len() == 1;
            assert_eq!(found, Held { feature, enabled, granted, default, above }, "{grants:?}");
            // An assignment of another feature changes nothing.
            let other = offer(on).held(Feature::Apps, &lineage, &given);
            assert_eq!(other.enabled, default);
        }
    }

    #[test]
    fn a_plan_that_is_named_decides_what_was_not_assigned_and_no_other_does() {
        type Row<'c> = (i64, Option<&'c str>, Option<bool>);
        let cases: [(&[Row<'_>], bool, bool, bool); 12] = [
            // No plan, and one that nobody names: the defaults.
            (&[(3, Some("gold"), None)], true, true, true),
            (&[(3, Some("gold"), None)], false, false, false),
            (&[(3, Some("Mail"), None)], true, true, true),
            // The plan of the account, of one above, and of two.
            (&[(3, Some("mail"), None)], true, false, true),
            (&[(4, Some("mail"), None)], true, false, false),
            (&[(2, Some("mail"), None), (3, Some("whole"), None)], true, false, true),
            (&[(2, Some("whole"), None)], false, true, true),
            (&[(2, Some("whole"), None), (4, Some("mail"), None)], false, false, false),
            // An unknown plan does not hide the nearest one above.
            (&[(2, Some("whole"), None), (3, Some("gold"), None)], false, true, true),
            // An assignment goes before the plan, and reaches the accounts below.
            (&[(3, Some("mail"), Some(true))], true, true, true),
            (&[(3, Some("whole"), Some(false))], true, false, true),
            // The partner has all, whatever its plan.
            (&[(1, Some("mail"), None)], true, true, true),
        ];
        for (rows, on, enabled, default) in cases {
            let given: Vec<_> =
                rows.iter().map(|(id, plan, on)| assigned(*id, *plan, *on)).collect();
            let found = offer(on).held(Feature::Relays, &lineage(&[1, 2, 3, 4]), &given);
            assert_eq!((found.enabled, found.default), (enabled, default), "{rows:?} {on}");
        }
    }
}
