//! `policies/apps.toml`: the catalogue of apps, and the defaults of features. The file explains
//! both.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::RulesError;
use crate::domain::app::{AppRef, is_name};
use crate::domain::feature::{Feature, Offer};
use crate::domain::words::Words;

/// In bytes; bounds each list.
const LONGEST_NAME: usize = 64;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppRules {
    pub limits: AppLimits,
    features: Features,
    #[serde(default)]
    plans: BTreeMap<String, Plan>,
    apps: BTreeMap<String, BTreeMap<String, App>>,
}

/// Bounds on an account's apps and integrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppLimits {
    pub max_installed: u64,
    pub max_integrations: u64,
    pub max_fields: usize,
    pub max_value_bytes: usize,
    pub max_data_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    api: FeatureRule,
    apps: FeatureRule,
    computer: FeatureRule,
    #[serde(rename = "inboundEmail")]
    inbound_email: FeatureRule,
    relays: FeatureRule,
    #[serde(rename = "secretRelease")]
    secret_release: FeatureRule,
    templates: FeatureRule,
}

/// The text of a feature, and whether accounts have it by default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureRule {
    pub title: String,
    pub description: String,
    pub default: bool,
}

/// A plan that decides.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    features: Vec<String>,
}

/// One version of an app.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    pub title: String,
    pub description: String,
    /// Whether the app can be installed; installed ones stay.
    #[serde(default = "yes")]
    pub offered: bool,
    /// Ids of apps that must also be installed, in any version.
    #[serde(default)]
    pub requires_apps: Vec<String>,
    #[serde(default)]
    requires_features: Vec<String>,
    #[serde(default)]
    pub settings: BTreeMap<String, Setting>,
}

/// A setting of an app.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    #[serde(rename = "type")]
    pub of: SettingType,
    pub title: String,
    #[serde(default)]
    pub required: bool,
    /// Sealed when stored, and never shown.
    #[serde(default)]
    pub secret: bool,
    #[serde(default)]
    pub choices: Vec<String>,
}

/// The type of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingType {
    Text,
    Url,
    Number,
    Boolean,
    /// One of its `choices`.
    Choice,
}

impl Words for SettingType {
    fn all() -> &'static [Self] {
        &[Self::Text, Self::Url, Self::Number, Self::Boolean, Self::Choice]
    }

    /// The word in the catalogue.
    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Url => "url",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Choice => "choice",
        }
    }
}

fn yes() -> bool {
    true
}

impl App {
    /// Features that an account must have to install the app.
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        self.requires_features.iter().filter_map(|name| name.parse().ok())
    }
}

impl AppRules {
    /// Returns this version of the app, if the catalogue has it.
    pub fn app(&self, app: &AppRef) -> Option<&App> {
        self.apps.get(app.id())?.get(app.version())
    }

    /// The catalogue, by ids and versions.
    pub fn apps(&self) -> impl Iterator<Item = (AppRef, &App)> {
        self.apps.iter().flat_map(|(id, versions)| {
            versions
                .iter()
                .filter_map(move |(version, app)| AppRef::new(id, version).map(|name| (name, app)))
        })
    }

    pub const fn feature(&self, feature: Feature) -> &FeatureRule {
        match feature {
            Feature::Api => &self.features.api,
            Feature::Apps => &self.features.apps,
            Feature::Computer => &self.features.computer,
            Feature::InboundEmail => &self.features.inbound_email,
            Feature::Relays => &self.features.relays,
            Feature::SecretRelease => &self.features.secret_release,
            Feature::Templates => &self.features.templates,
        }
    }

    /// Says which features accounts have to which nothing was assigned.
    pub fn offer(&self) -> Offer {
        let on = Feature::ALL.iter().copied().filter(|feature| self.feature(*feature).default);
        let plan = |(name, plan): (&String, &Plan)| {
            let features = plan.features.iter().filter_map(|name| name.parse().ok());
            (name.clone(), features.collect())
        };
        Offer { defaults: on.collect(), plans: self.plans.iter().map(plan).collect() }
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("apps.toml", limits of self.limits, {
            max_installed: 1..=1000;
            max_integrations: 1..=1000;
            max_fields: 1..=500;
            max_value_bytes: 16..=65_536;
            max_data_bytes: 64..=262_144;
        })?;
        for feature in Feature::ALL {
            let rule = self.feature(*feature);
            said(&format!("features.{feature}.title"), &rule.title)?;
            said(&format!("features.{feature}.description"), &rule.description)?;
        }
        for (name, plan) in &self.plans {
            are_features(&format!("plans.{name}.features"), &plan.features)?;
        }
        for (id, versions) in &self.apps {
            for (version, app) in versions {
                self.check_app(id, version, app)?;
            }
        }
        Ok(())
    }

    fn check_app(&self, id: &str, version: &str, app: &App) -> Result<(), RulesError> {
        let key = format!("apps.{id}.{version}");
        if AppRef::new(id, version).is_none() {
            let shape = "an id has 1 to 64, a version 1 to 32 letters, digits, '-', '_' and '.', a \
                         letter or a digit first";
            return Err(wrong(&key, shape));
        }
        said(&format!("{key}.title"), &app.title)?;
        said(&format!("{key}.description"), &app.description)?;
        for wanted in &app.requires_apps {
            let key = format!("{key}.requires_apps");
            if !self.apps.contains_key(wanted) {
                return Err(wrong(&key, &format!("there is no app {wanted}")));
            }
            if self.needs(wanted).contains(id) {
                return Err(wrong(&key, &format!("{wanted} requires {id} in its turn")));
            }
        }
        are_features(&format!("{key}.requires_features"), &app.requires_features)?;
        let mut settings = app.settings.iter();
        settings.try_for_each(|(name, one)| one.check(&format!("{key}.settings.{name}"), name))
    }

    /// Returns the id and all ids that it requires, in any version, directly or not. Visits each
    /// once.
    fn needs<'a>(&'a self, id: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::from([id]), vec![id]);
        while let Some(next) = left.pop() {
            let versions = self.apps.get(next).into_iter().flat_map(BTreeMap::values);
            for wanted in versions.flat_map(|app| &app.requires_apps) {
                if found.insert(wanted) {
                    left.push(wanted);
                }
            }
        }
        found
    }
}

impl Setting {
    fn check(&self, key: &str, name: &str) -> Result<(), RulesError> {
        if !is_name(name, LONGEST_NAME) {
            let shape = "a name has 1 to 64 letters, digits, '-', '_' and '.', a letter or a digit \
                         first";
            return Err(wrong(key, shape));
        }
        said(&format!("{key}.title"), &self.title)?;
        if (self.of == SettingType::Choice) == self.choices.is_empty() {
            let why = "a setting of type choice has some, and no other has any";
            return Err(wrong(&format!("{key}.choices"), why));
        }
        if self.secret && !matches!(self.of, SettingType::Text | SettingType::Url) {
            let why = "only a text or a url can be a secret";
            return Err(wrong(&format!("{key}.secret"), why));
        }
        Ok(())
    }
}

fn are_features(key: &str, names: &[String]) -> Result<(), RulesError> {
    let unknown = names.iter().find_map(|name| name.parse::<Feature>().err());
    unknown.map_or(Ok(()), |why| Err(wrong(key, &why.to_string())))
}

fn said(key: &str, text: &str) -> Result<(), RulesError> {
    if text.trim().is_empty() {
        return Err(RulesError::Wrong { file: "apps.toml", what: format!("{key} is empty") });
    }
    Ok(())
}

fn wrong(key: &str, why: &str) -> RulesError {
    RulesError::Wrong { file: "apps.toml", what: format!("{key}: {why}") }
}
