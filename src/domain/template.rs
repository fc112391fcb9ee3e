//! Templates: what many Agents are configured to be, kept in one place by the reseller or the partner
//! above them. An Agent that one was applied to is linked with it: it remembers what it got, so that
//! what its customer changed since can be told apart, and it may not change what the template locks.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Lineage;
use super::agent_config::Config;
use super::clock::Timestamp;
use super::id::{AccountId, TemplateId};

/// What a template says of the Agents that it is applied to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Some fields of a configuration; those that are not there are the Agent's own.
    pub config: Config,
    /// Fields of a configuration, and whether an Agent must leave them as the template has them.
    pub fields: BTreeMap<String, bool>,
    /// What must be set up on the Agent.
    pub integrations: Vec<Integration>,
}

/// Names an integration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Integration {
    pub slug: String,
    pub version: String,
}

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub head: Head,
    pub content: Content,
}

/// What a list shows of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub id: TemplateId,
    /// The reseller or the partner that owns it.
    pub account: AccountId,
    pub name: String,
    /// Only then it is applied and migrated to.
    pub enabled: bool,
    /// Grows with each change of the content.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Who may own templates that an account reads and applies: itself and those above it.
pub fn owners(lineage: &Lineage) -> [Option<AccountId>; 2] {
    [lineage.partner, lineage.reseller]
}

/// That a template was applied to an Agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub agent: AccountId,
    pub template: TemplateId,
    /// What the template last wrote, field by field.
    pub applied: Config,
    /// The revision of the template that was last applied whole.
    pub revision: i64,
    pub linked_at: Timestamp,
}

/// Fields of Agents that a template may write over although the customer changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approved {
    /// None: what customers changed stays.
    #[default]
    Nothing,
    Everything,
    /// These.
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

/// How much of a template is brought to Agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// These fields of the configuration; all without it.
    pub sections: Option<BTreeSet<String>>,
    pub approved: Approved,
}

/// What bringing a template to an Agent comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is staged then.
    pub config: Config,
    /// What the template wrote then, now or before.
    pub applied: Config,
    /// The fields that change.
    pub changed: Vec<String>,
    /// The fields that the customer changed, and that stay as they are.
    pub overrides: Vec<String>,
}

/// What `template` makes of what is staged. Where it was applied before, a field that is no longer
/// what it wrote (`applied`) is the customer's, and stays unless that is approved; where it was not,
/// all that it has is written. What it had once and has no longer goes.
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

/// The locked fields that a change of an Agent's configuration from `old` to `new` may not make:
/// each becomes what it was, what the template wrote, or what is staged already.
pub fn locked(
    fields: &BTreeMap<String, bool>,
    applied: &Config,
    staged: &Config,
    (old, new): (&Config, &Config),
) -> Vec<String> {
    let breaks = |name: &String| {
        let becomes = new.get(name);
        [old, applied, staged].iter().all(|allowed| allowed.get(name) != becomes)
    };
    let names = fields.iter().filter(|(_, locked)| **locked).map(|(name, _)| name);
    names.filter(|name| breaks(name)).cloned().collect()
}

/// A migration of all linked Agents, or of some, to what the template was when it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    pub revision: i64,
    pub extent: Extent,
    /// Only these Agents, in order.
    pub targets: Option<Vec<AccountId>>,
    pub asked_at: Timestamp,
    /// Absent while there are Agents that it has not come to.
    pub finished_at: Option<Timestamp>,
    pub tally: Tally,
}

/// What a migration has come to so far, in Agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Looked at.
    pub examined: u64,
    /// Whose staging is another one now.
    pub changed: u64,
    /// In which something stayed because the customer had changed it.
    pub overridden: u64,
    /// That were left as they were: they would have become too large, or had not installed an app
    /// that they would have assigned.
    pub failed: u64,
    /// The last of those.
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
        // The title was changed, the links were taken away, a voice was chosen.
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
        // Once more it is still the customer's.
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
            |new: Value, staged: &Config| locked(&fields, &applied, staged, (&old, &config(new)));
        assert_eq!(broken(json!({ "title": "mine" }), &old), ["title"]);
        assert_eq!(broken(json!({}), &old), ["title"]);
        assert_eq!(broken(json!({ "title": "old", "links": ["x"] }), &old), [""; 0]);
        assert_eq!(broken(json!({ "title": "ours" }), &old), [""; 0]);
        // What is staged may be published.
        let staged = config(json!({ "title": "mine" }));
        assert_eq!(broken(json!({ "title": "mine" }), &staged), [""; 0]);
    }
}
