//! Features: functions that not every account has. The partner has all of them. Any other account
//! has a feature if it was assigned or is on by default, and if its parent has it too.

use super::account::Lineage;
use super::id::AccountId;
use super::words::words;

words! {
    /// The closed list. `policies/apps.toml` says which are on by default.
    Feature {
        /// Apps of the catalogue, and integrations.
        Apps = "apps",
        /// Computer Agents and their sessions.
        Computer = "computer",
        /// Relays: mail passes through the account's own application first.
        Relays = "relays",
        /// Templates of Agents.
        Templates = "templates",
    }
}

/// An explicit assignment or denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub account: AccountId,
    pub feature: Feature,
    pub granted: bool,
}

/// State of one feature for one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub feature: Feature,
    pub enabled: bool,
    /// Assigned to or withheld from this account itself; None: the default applies.
    pub granted: Option<bool>,
    /// True if the parent has the feature; without it the account cannot have it. Always true for
    /// the partner.
    pub above: bool,
}

/// Returns the state of the feature for the last account of `lineage`. `grants` are those of all
/// its accounts; `default` applies where there is none.
pub fn held(feature: Feature, lineage: &Lineage, grants: &[Grant], default: bool) -> Held {
    let of = |account: AccountId| {
        let grant = grants.iter().find(|one| one.account == account && one.feature == feature);
        grant.map(|one| one.granted)
    };
    // From the root down: below an account without the feature nobody has it.
    let (mut above, mut enabled, mut granted) = (true, true, None);
    for account in lineage.ids().filter(|id| Some(*id) != lineage.partner) {
        granted = of(account);
        above = enabled;
        enabled = above && granted.unwrap_or(default);
    }
    Held { feature, enabled, granted, above }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(ids: &[i64]) -> Lineage {
        let id = |at: usize| ids.get(at).and_then(|id| AccountId::new(*id));
        Lineage { partner: id(0), reseller: id(1), organization: id(2), agent: id(3) }
    }

    fn grant(account: i64, granted: bool) -> Grant {
        Grant { account: AccountId::new(account).unwrap(), feature: Feature::Relays, granted }
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
        for (ids, grants, default, (enabled, granted, above)) in cases {
            let given: Vec<Grant> =
                grants.iter().map(|(id, granted)| grant(*id, *granted)).collect();
            let feature = Feature::Relays;
            let expected = Held { feature, enabled, granted, above };
            assert_eq!(held(feature, &lineage(ids), &given, default), expected, "{grants:?}");
            // A grant for another feature changes nothing.
            let other = held(Feature::Apps, &lineage(ids), &given, default);
            assert_eq!(other.enabled, default || ids.len() == 1);
        }
    }
}
