//! The columns on which one feature of an account rests, beside its row: plans and assignments of the
//! account and of those above it. So statements that are run anyway, for each key and each message,
//! tell whether the account has the feature.

use crate::domain::account::AccountType;
use crate::domain::feature::{Feature, Offer, Said};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;

/// The columns for one feature of the account `$me` of a statement, by the feature's word. The
/// partner has all features, so its row says nothing.
macro_rules! feature_columns {
    ($feature:literal of $me:literal) => {
        concat!(
            $crate::store::tenancy::feature_columns::level!($feature of $me, "reseller"),
            ",",
            $crate::store::tenancy::feature_columns::level!($feature of $me, "organization"),
            ",",
            $crate::store::tenancy::feature_columns::level!($feature of $me, "agent"),
        )
    };
}

macro_rules! level {
    ($feature:literal of $me:literal, $level:literal) => {
        concat!(
            " (SELECT plan FROM accounts AS one WHERE one.id = ",
            $me,
            ".",
            $level,
            "_id) AS ",
            $level,
            "_plan, (SELECT granted FROM feature_grants WHERE feature = '",
            $feature,
            "' AND account_id = ",
            $me,
            ".",
            $level,
            "_id) AS ",
            $level,
            "_granted"
        )
    };
}
pub(in crate::store) use {feature_columns, level};

/// The levels below the partner, with the names of their columns.
const LEVELS: [(AccountType, &str, &str); 3] = [
    (AccountType::Reseller, "reseller_plan", "reseller_granted"),
    (AccountType::Organization, "organization_plan", "organization_granted"),
    (AccountType::Agent, "agent_plan", "agent_granted"),
];

/// Whether the account has the feature whose columns these are.
pub fn has(columns: &Columns<'_>, offer: &Offer, feature: Feature) -> Result<bool, StoreError> {
    let lineage = columns.lineage()?;
    let mut said = Vec::with_capacity(LEVELS.len());
    for (level, plan, granted) in LEVELS {
        if lineage.at(level).is_some() {
            let granted = columns.optional_integer(granted)?.map(|granted| granted != 0);
            said.push((columns.optional_text(plan)?, granted));
        }
    }
    let path = said.iter().map(|(plan, granted)| Said { plan: plan.as_deref(), granted: *granted });
    Ok(offer.walk(feature, path).enabled)
}
