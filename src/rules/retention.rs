//! `policies/retention.toml`: how long rows are kept, and how they are deleted. The file explains
//! each number.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{RulesError, days, within};
use crate::domain::account::Lineage;
use crate::domain::id::AccountId;

/// The kinds of rows that are deleted when they are old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainedKind {
    Messages,
    IntakeRecords,
    /// With their deliveries and attempts.
    Events,
    Audit,
}

impl RetainedKind {
    pub const ALL: [Self; 4] = [Self::Messages, Self::IntakeRecords, Self::Events, Self::Audit];

    const fn key(self) -> &'static str {
        match self {
            Self::Messages => "messages_days",
            Self::IntakeRecords => "intake_records_days",
            Self::Events => "events_days",
            Self::Audit => "audit_days",
        }
    }

    /// The range of days. Rows that only accumulate must have an end; mail may be kept forever.
    const fn days(self) -> RangeInclusive<u64> {
        match self {
            Self::Messages => 0..=36_500,
            Self::IntakeRecords | Self::Events => 1..=3650,
            Self::Audit => 1..=36_500,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRules {
    keep: Everywhere,
    #[serde(default, deserialize_with = "by_account")]
    accounts: BTreeMap<AccountId, Here>,
    pub pass: Pass,
    pub erasure: Erasure,
}

/// Bounds and pace of deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    pass_minutes: u64,
    pub batch_rows: u32,
    pub batch_bytes: u64,
    pub batches_per_pass: u64,
    believe_clock_after_hours: u64,
    pause_millis: u64,
}

impl Pass {
    durations! {
        interval = minutes(pass_minutes);
        pause = millis(pause_millis);
        /// Time for which a clock that was set forward must run on before it is believed.
        calm = hours(believe_clock_after_hours);
    }
}

/// Pace of erasures on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erasure {
    look_seconds: u64,
    pub batches_before_answer: u64,
}

impl Erasure {
    durations! {
        look = seconds(look_seconds);
    }
}

/// Days for accounts that are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everywhere {
    messages_days: u32,
    intake_records_days: u32,
    events_days: u32,
    audit_days: u32,
    tls_reports_days: u32,
}

impl Everywhere {
    const fn days(&self, kept: RetainedKind) -> u32 {
        match kept {
            RetainedKind::Messages => self.messages_days,
            RetainedKind::IntakeRecords => self.intake_records_days,
            RetainedKind::Events => self.events_days,
            RetainedKind::Audit => self.audit_days,
        }
    }
}

/// Days for a named account and all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Here {
    messages_days: Option<u32>,
    intake_records_days: Option<u32>,
    events_days: Option<u32>,
    audit_days: Option<u32>,
}

impl Here {
    const fn days(&self, kept: RetainedKind) -> Option<u32> {
        match kept {
            RetainedKind::Messages => self.messages_days,
            RetainedKind::IntakeRecords => self.intake_records_days,
            RetainedKind::Events => self.events_days,
            RetainedKind::Audit => self.audit_days,
        }
    }
}

/// The keys of a TOML table are text.
fn by_account<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<AccountId, Here>, D::Error> {
    let named = BTreeMap::<String, Here>::deserialize(from)?;
    let parse = |(name, here): (String, Here)| match name.parse() {
        Ok(id) => Ok((id, here)),
        Err(error) => {
            Err(D::Error::custom(format!("{name:?} is not the id of an account: {error}")))
        }
    };
    named.into_iter().map(parse).collect()
}

impl RetentionRules {
    /// Returns how long an account of this lineage keeps such rows; `None` means forever.
    pub fn keep(&self, kept: RetainedKind, lineage: &Lineage) -> Option<Duration> {
        let above: Vec<AccountId> = lineage.ids().collect();
        let nearest = above.iter().rev().find_map(|id| self.accounts.get(id)?.days(kept));
        let days = nearest.unwrap_or_else(|| self.keep.days(kept));
        (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400))
    }

    /// Time for which reports of senders on TLS are kept.
    pub const fn tls_reports(&self) -> Duration {
        days(self.keep.tls_reports_days as u64)
    }

    /// The accounts that the file names.
    pub fn accounts(&self) -> impl Iterator<Item = AccountId> {
        self.accounts.keys().copied()
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let file = "retention.toml";
        for kept in RetainedKind::ALL {
            let key = kept.key();
            within(file, format!("keep.{key}"), self.keep.days(kept), kept.days())?;
            for (id, here) in &self.accounts {
                if let Some(days) = here.days(kept) {
                    within(file, format!("accounts.{id}.{key}"), days, kept.days())?;
                }
            }
        }
        ranges!("retention.toml", keep of self.keep, { tls_reports_days: 7..=3650; })?;
        ranges!("retention.toml", pass of self.pass, {
            pass_minutes: 1..=1440;
            batch_rows: 1..=2000;
            batch_bytes: 65_536..=1 << 30;
            batches_per_pass: 1..=1_000_000;
            believe_clock_after_hours: 1..=720;
            pause_millis: 1..=60_000;
        })?;
        ranges!("retention.toml", erasure of self.erasure, {
            look_seconds: 1..=3600;
            batches_before_answer: 0..=1000;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::AccountType;
    use crate::rules::Rules;

    #[test]
    fn the_nearest_account_that_names_a_number_decides() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[accounts.1]\nevents_days = 5\naudit_days = 6\n[accounts.3]\nevents_days = 7\n\
                    messages_days = 8\n[accounts.4]\nmessages_days = 0\n";
        std::fs::write(folder.path().join("retention.toml"), text).unwrap();
        let rules = Rules::load(folder.path()).unwrap().retention;
        let id = |number| AccountId::new(number).unwrap();
        let partner = Lineage::default().with(AccountType::Partner, id(1));
        let organization =
            partner.with(AccountType::Reseller, id(2)).with(AccountType::Organization, id(3));
        let agent = organization.with(AccountType::Agent, id(4));
        let other = organization.with(AccountType::Agent, id(5));
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        for (lineage, messages, events, audit) in [
            (partner, None, days(5), days(6)),
            (organization, days(8), days(7), days(6)),
            (agent, None, days(7), days(6)),
            (other, days(8), days(7), days(6)),
            (Lineage::default(), None, days(30), days(365)),
        ] {
            assert_eq!(rules.keep(RetainedKind::Messages, &lineage), messages);
            assert_eq!(rules.keep(RetainedKind::Events, &lineage), events);
            assert_eq!(rules.keep(RetainedKind::Audit, &lineage), audit);
            assert_eq!(rules.keep(RetainedKind::IntakeRecords, &lineage), days(90));
        }
        assert_eq!(rules.accounts().collect::<Vec<_>>(), [id(1), id(3), id(4)]);
    }
}
