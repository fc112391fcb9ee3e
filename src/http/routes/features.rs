//! `/features`: the features of an account, and their assignment by accounts above it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::domain::feature::{Feature, Held};
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Number, Word, schema_of};

/// A feature, and whether an account has it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccountFeature")]
pub struct FeatureState {
    /// Its name.
    feature: Word<Feature>,
    /// Its title.
    title: String,
    /// Its purpose.
    description: String,
    /// Whether the account has it.
    enabled: bool,
    /// The value assigned to the account itself; null for none.
    granted: Option<bool>,
    /// The value without an assigned one: by the plan of the account, if the server knows it.
    default: bool,
    /// Whether the parent of the account has it; if not, the account does not have it, either.
    held_above: bool,
}

/// Shows the features of an account
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    list_all(&call).await
}

/// Gives features to an account, or takes them away
///
/// For administrators of a partner or a reseller above the account, who can assign only features
/// that their own account has. If an account lacks a feature, all accounts below it lack the
/// feature.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Assign {
    /// The features to assign.
    features: Assignments,
}

/// None returns a feature to its default.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Assignments(BTreeMap<Word<Feature>, Option<bool>>);

schema_of!([] Assignments, "Assignments", {
    let value = json!({
        "type": ["boolean", "null"], "x-null": true, "x-expected": "true, false or null (the default)",
        "description": "Features by name: true assigns one, false denies it, null leaves it to the \
                        default.",
    });
    let value = |feature: &Feature| (feature.to_string(), value.clone());
    json!({
        "type": "object", "properties": Feature::ALL.iter().map(value).collect::<Map<_, _>>(),
        "minProperties": 1, "additionalProperties": false, "examples": [{ "relays": false }],
        "x-expected": "an object of features, each true, false or null (the default)",
    })
});

successes! {
    Listed {
        /// The account.
        account_id: Number,
        /// The plan of the account, its productPlanId; null for none.
        plan: Option<String>,
        /// All features.
        features: Vec<FeatureState>,
    } = OK "features found";
    Assigned: Listed = OK "features assigned";
}

pub async fn assign(call: Call, request: Assign) -> Result<Assigned, Problem> {
    let Assignments(wanted) = request.features;
    let wanted: Vec<_> =
        wanted.into_iter().map(|(Word(feature), given)| (feature, given)).collect();
    call.http.use_cases.access.may_assign(&call.caller, &call.target, &wanted).await?;
    call.apps().assign_features(call.account().id, &wanted).await?;
    list_all(&call).await.map(Assigned)
}

async fn list_all(call: &Call) -> Result<Listed, Problem> {
    let held = call.http.use_cases.access.features(call.account()).await?;
    let rules = call.http.use_cases.apps.rules();
    let shape = |one: &Held| {
        let rule = rules.feature(one.feature);
        FeatureState {
            feature: Word(one.feature),
            title: rule.title.clone(),
            description: rule.description.clone(),
            enabled: one.enabled,
            granted: one.granted,
            default: one.default,
            held_above: one.above,
        }
    };
    let account = call.account();
    Ok(Listed {
        account_id: account.id.into(),
        plan: account.plan().map(str::to_owned),
        features: held.iter().map(shape).collect(),
    })
}
