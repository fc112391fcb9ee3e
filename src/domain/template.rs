//! Templates of Agent configurations, owned by the reseller or partner above the Agents. Applying a
//! template links the Agent with it. The link remembers the values that the template wrote: so
//! changes by the customer can be recognised, and locked fields can be enforced.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Lineage;
use super::agent_config::Config;
use super::clock::Timestamp;
use super::id::{AccountId, TemplateId};

/// Content of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Some fields of a configuration; the Agent decides on all others.
    pub config: Config,
    /// Fields of the configuration; true locks the field on linked Agents.
    pub fields: BTreeMap<String, bool>,
    /// Integrations that the Agent must have.
    pub integrations: Vec<Integration>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Integration {
    pub slug: String,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub head: Head,
    pub content: Content,
}

/// A template as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub id: TemplateId,
    /// The reseller or partner that owns the template.
    pub account: AccountId,
    pub name: String,
    /// If false, the template can be neither applied nor migrated to.
    pub enabled: bool,
    /// Grows with each change of the content.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Accounts whose templates an account may read and apply: itself and those above it.
pub fn owners(lineage: &Lineage) -> [Option<AccountId>; 2] {
    [lineage.partner, lineage.reseller]
}

/// The link of an Agent with a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub agent: AccountId,
    pub template: TemplateId,
    /// The fields and values that the template last wrote.
    pub applied: Config,
    /// Revision of the template that was last applied completely.
    pub revision: i64,
    pub linked_at: Timestamp,
}

/// Fields that a template may overwrite although the customer changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approved {
    /// Changes by customers stay.
    #[default]
    Nothing,
    Everything,
    Fields(BTreeSet<String>),
}

impl Approved {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Fields(names) => names.contains(name),
        }
    }
}

/// The part of a template that is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Only these fields of the configuration; None applies all.
    pub sections: Option<BTreeSet<String>>,
    pub approved: Approved,
}

/// Result of applying a template to an Agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The new staged configuration.
    pub config: Config,
    /// The new values of [`Link::applied`].
    pub applied: Config,
    /// Fields that change.
    pub changed: Vec<String>,
    /// Fields that the customer changed and that stay.
    pub overrides: Vec<String>,
}

/// Applies `template` to the staged configuration. On a linked Agent (`applied` is set), a field
/// that differs from the value that the template wrote is the customer's; it stays unless `extent`
/// approves it. On any other Agent, all fields of the template are written. Fields that the
/// template no longer has are removed.
pub fn plan(staged: &Config, applied: Option<&Config>, template: &Config, extent: &Extent) -> Plan {
    let mut plan = Plan {
        config: staged.clone(),
        applied: applied.cloned().unwrap_or_default(),
        changed: Vec::new(),
        overrides: Vec::new(),
    };
    let names: BTreeSet<&String> =
        template.keys().chain(applied.into_iter().flat_map(Config::keys)).collect();
    let within = |name: &str| extent.sections.as_ref().is_none_or(|all| all.contains(name));
    for name in names.into_iter().filter(|name| within(name)) {
        let (new, now) = (template.get(name), staged.get(name));
        let customers = applied.is_some_and(|applied| applied.get(name) != now) && now != new;
        if customers && !extent.approved.has(name) {
            plan.overrides.push(name.clone());
            continue;
        }
        if now != new {
            plan.changed.push(name.clone());
        }
        for config in [&mut plan.config, &mut plan.applied] {
            match new {
                Some(value) => drop(config.insert(name.clone(), value.clone())),
                None => drop(config.remove(name)),
            }
        }
    }
    plan
}

/// Returns the locked fields that a change from `old` to `new` breaks. A locked field may only keep
/// its value, take the value that the template wrote, or take the staged one.
pub fn locked(
    fields: &BTreeMap<String, bool>,
    applied: &Config,
    staged: &Config,
    old: &Config,
    new: &Config,
) -> Vec<String> {
    let breaks = |name: &String| {
        let becomes = new.get(name);
        [old, applied, staged].iter().all(|allowed| allowed.get(name) != becomes)
    };
    let names = fields.iter().filter(|(_, locked)| **locked).map(|(name, _)| name);
    names.filter(|name| breaks(name)).cloned().collect()
}

/// A migration of linked Agents to the template's revision at the time of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    pub revision: i64,
    pub extent: Extent,
    /// Only these Agents, in this order; None means all.
    pub targets: Option<Vec<AccountId>>,
    pub asked_at: Timestamp,
    /// None while there are Agents left.
    pub finished_at: Option<Timestamp>,
    pub tally: Tally,
}

/// Progress of a migration, in Agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Agents examined.
    pub examined: u64,
    /// Agents whose staged configuration changed.
    pub changed: u64,
    /// Agents with fields that stay because the customer changed them.
    pub overridden: u64,
    /// Agents left unchanged: the configuration would be too large, or would assign an app that is
    /// not installed.
    pub failed: u64,
    /// The last Agent that failed.
    pub last_failed: Option<AccountId>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(value: Value) -> Config {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_first_time_all_that_the_template_has_is_written() {
        let staged = config(json!({ "title": "mine", "timezone": "UTC" }));
        let template = config(json!({ "title": "ours", "agentLang": "multi" }));
        let plan = plan(&staged, None, &template, &Extent::default());
        let whole = json!({ "title": "ours", "timezone": "UTC", "agentLang": "multi" });
        assert_eq!(plan.config, config(whole));
        assert_eq!(plan.applied, template);
        assert_eq!(plan.changed, ["agentLang", "title"]);
        assert_eq!(plan.overrides, [""; 0]);
    }

    #[test]
    fn what_the_customer_changed_stays_until_that_is_approved() {
        let applied = config(json!({ "title": "a", "links": ["x"], "timezone": "UTC" }));
        // Changed by the customer: title edited, links removed, voice chosen.
        let staged = config(json!({ "title": "b", "timezone": "UTC", "agentVoice": "v" }));
        let template = config(
            json!({ "title": "c", "links": ["y"], "agentVoice": "w", "agentLang": "multi" }),
        );
        let extent = Extent::default();
        let kept = plan(&staged, Some(&applied), &template, &extent);
        let expected = json!({ "title": "b", "agentVoice": "v", "agentLang": "multi" });
        assert_eq!(kept.config, config(expected));
        assert_eq!(kept.changed, ["agentLang", "timezone"]);
        assert_eq!(kept.overrides, ["agentVoice", "links", "title"]);
        assert_eq!(
            kept.applied,
            config(json!({ "title": "a", "links": ["x"], "agentLang": "multi" }))
        );
        // Applied again, it is still the customer's.
        let again = plan(&kept.config, Some(&kept.applied), &template, &extent);
        assert_eq!((&again.config, again.changed.len()), (&kept.config, 0));
        assert_eq!(again.overrides, kept.overrides);

        let some = Approved::Fields(["title".to_owned()].into());
        let some = Extent { approved: some, ..Extent::default() };
        let some = plan(&staged, Some(&applied), &template, &some);
        assert_eq!(some.overrides, ["agentVoice", "links"]);
        assert_eq!(some.config["title"], "c");
        let all = Extent { approved: Approved::Everything, ..Extent::default() };
        let all = plan(&staged, Some(&applied), &template, &all);
        assert_eq!((&all.config, &all.applied), (&template, &template));
        assert_eq!(all.overrides, [""; 0]);
    }

    #[test]
    fn only_the_sections_that_are_asked_for_are_touched() {
        let applied = config(json!({ "title": "a", "timezone": "UTC" }));
        let template = config(json!({ "title": "b", "agentLang": "multi" }));
        let sections = Some(BTreeSet::from(["agentLang".to_owned(), "timezone".to_owned()]));
        let extent = Extent { sections, approved: Approved::Everything };
        let plan = plan(&applied, Some(&applied), &template, &extent);
        assert_eq!(plan.config, config(json!({ "title": "a", "agentLang": "multi" })));
        assert_eq!(plan.applied, plan.config);
        assert_eq!(plan.changed, ["agentLang", "timezone"]);
    }

    #[test]
    fn a_locked_field_changes_to_what_the_template_wrote_alone() {
        let fields = BTreeMap::from([("title".to_owned(), true), ("links".to_owned(), false)]);
        let applied = config(json!({ "title": "ours" }));
        let old = config(json!({ "title": "old" }));
        let broken =
            |new: Value, staged: &Config| locked(&fields, &applied, staged, &old, &config(new));
        assert_eq!(broken(json!({ "title": "mine" }), &old), ["title"]);
        assert_eq!(broken(json!({}), &old), ["title"]);
        assert_eq!(broken(json!({ "title": "old", "links": ["x"] }), &old), [""; 0]);
        assert_eq!(broken(json!({ "title": "ours" }), &old), [""; 0]);
        // The staged value may be published.
        let staged = config(json!({ "title": "mine" }));
        assert_eq!(broken(json!({ "title": "mine" }), &staged), [""; 0]);
    }
}
