//! The database: whether it can be written to, how it is set up, and its clock.

use super::{Check, CheckSubject};
use crate::domain::causes::with_causes;
use crate::domain::clock::{Clock, Timestamp};
use crate::rules::{Share, StoreConnections};
use crate::store::{DatabaseFacts, PostgresFacts, Store, StoreError};

/// In milliseconds: gateways and database date rows that are compared with each other.
const SKEW: i64 = 2_000;
/// In milliseconds: signatures and certificates are judged by the clock.
const GREAT_SKEW: i64 = 60_000;

/// Makes the check of a store that does not open.
pub fn unopened(location: &str, error: &StoreError) -> Check {
    let topic = Check::of(CheckSubject::Database, location);
    let advice = match error {
        StoreError::Older { .. } => {
            let detail = with_causes(error);
            return topic
                .warning(detail, "run `gatepost migrate`; a start of the server migrates it, too");
        }
        StoreError::Missing { .. } => "make the store with `gatepost init`",
        StoreError::Newer { .. } => "run the newer version",
        StoreError::Unfit { .. } => "make another database, with the encoding UTF8",
        StoreError::ReadOnly(_) | StoreError::Full(_) => "make room, and let this user write",
        _ => "see that the database runs, and correct --data or --database-url",
    };
    topic.failure(with_causes(error), advice)
}

/// Writes a transaction that changes nothing, and checks how the database is set up.
pub async fn check(
    store: &Store,
    location: &str,
    connections: &StoreConnections,
    clock: &Clock,
) -> Vec<Check> {
    let topic = || Check::of(CheckSubject::Database, location);
    let failed = |error: &StoreError| unopened(location, error);
    if let Err(error) = store.check_commit().await {
        return vec![failed(&error)];
    }
    let before = clock.now();
    let (facts, after) = (store.database_facts().await, clock.now());
    match (facts, store.living_gateways().await) {
        (Err(error), _) | (_, Err(error)) => vec![failed(&error)],
        (Ok(facts @ DatabaseFacts::Embedded { .. }), _) => {
            let detail = format!("{facts}: a transaction was committed");
            let clock = Check::of(CheckSubject::Clock, "");
            let now = format!(
                "it says {now}; there is no other to compare it with",
                now = clock_text(after)
            );
            vec![topic().ok(detail), clock.skipped(now)]
        }
        (Ok(DatabaseFacts::Postgres(facts)), Ok(gateways)) => {
            let mut checks: Vec<Check> = faults(&facts)
                .into_iter()
                .map(|(fault, advice)| topic().failure(fault, advice))
                .collect();
            let living = gateways.iter().map(|one| one.gateways).sum::<u64>();
            let living = i64::try_from(living).unwrap_or(i64::MAX);
            checks.extend(crowd(&facts, living, connections).map(|(d, a)| topic().warning(d, a)));
            if checks.is_empty() {
                let PostgresFacts { version, encoding, isolation, .. } = &facts;
                checks.push(topic().ok(format!(
                    "PostgreSQL {version}, {encoding}, {isolation}: a transaction was committed"
                )));
            }
            checks.push(skew(before, facts.clock, after));
            checks
        }
    }
}

fn clock_text(at: Timestamp) -> String {
    format!("{:.0}Z", at.utc())
}

/// Each fault of the database's set-up, with what to do.
fn faults(facts: &PostgresFacts) -> Vec<(String, &'static str)> {
    let mut faults = Vec::new();
    let mut note = |is_wrong: bool, detail: String, advice: &'static str| {
        if is_wrong {
            faults.push((detail, advice));
        }
    };
    let major = facts.version.split(['.', ' ']).next().and_then(|text| text.parse::<u32>().ok());
    note(
        major.is_some_and(|major| major < OLDEST),
        format!("PostgreSQL {} is too old", facts.version),
        "upgrade to PostgreSQL 15 or newer",
    );
    note(
        facts.isolation != "read committed",
        format!("transactions are {}", facts.isolation),
        "leave transactions to Gatepost: no pooler may change their isolation level",
    );
    note(
        facts.fsync != "on" || facts.full_page_writes != "on",
        format!("fsync is {}, full_page_writes {}", facts.fsync, facts.full_page_writes),
        "turn both on in postgresql.conf: a crash of the database loses acknowledged mail",
    );
    note(
        facts.has_synchronous_standbys
            && matches!(&*facts.synchronous_commit, "local" | "remote_write"),
        format!(
            "replicas are synchronous, but commits do not wait for their disks: \
             synchronous_commit is {}",
            facts.synchronous_commit
        ),
        "set it to on for this role: a failover loses acknowledged mail",
    );
    note(
        facts.is_standby,
        "the server is a standby: it takes no changes".to_owned(),
        "name the primary by --database-url",
    );
    note(
        !facts.may_migrate,
        "this role may not make tables: an upgrade cannot migrate".to_owned(),
        "GRANT CREATE ON SCHEMA public TO the role",
    );
    note(
        facts.tables_without_rights > 0,
        format!("this role may not read and write {} tables", facts.tables_without_rights),
        "use the role that made the store, or grant SELECT, INSERT, UPDATE, DELETE on all tables",
    );
    faults
}

/// The oldest major version with all that the statements need.
const OLDEST: u32 = 15;

/// Whether all gateways may have more connections than there are.
fn crowd(
    facts: &PostgresFacts,
    gateways: i64,
    connections: &StoreConnections,
) -> Option<(String, &'static str)> {
    let shares = [Share::Api, Share::Streams, Share::Beats];
    let shares = shares.map(|share| i64::from(connections.of(share).1));
    let one = i64::from(connections.postgres).saturating_add(shares.iter().sum());
    let (gateways, free) = (gateways.max(1), facts.max_connections - facts.reserved_connections);
    let all = one.saturating_mul(gateways);
    let detail = format!(
        "{gateways} gateways with {one} connections each may open {all}, and the server has {free}"
    );
    let advice = "raise max_connections of PostgreSQL, or lower [connections] of store.toml";
    (all > free).then_some((detail, advice))
}

/// Compares the clock of the database, read between two moments, with ours.
fn skew(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Check {
    let topic = Check::of(CheckSubject::Clock, "");
    let ahead = theirs.millis().saturating_sub(after.millis());
    let behind = before.millis().saturating_sub(theirs.millis());
    let off = ahead.max(behind).max(0);
    let seconds = off / 1000;
    let side = if ahead > behind { "ahead of" } else { "behind" };
    let detail = format!("the database's clock is {seconds} s {side} this machine's");
    let advice = "let both follow the same time servers (chrony or systemd-timesyncd)";
    match off {
        ..SKEW => topic.ok("it agrees with the database's"),
        SKEW..GREAT_SKEW => topic.warning(detail, advice),
        _ => topic.failure(detail, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Tone;
    use crate::rules::Rules;

    fn facts() -> PostgresFacts {
        PostgresFacts {
            version: "17.2 (Debian 17.2-1)".into(),
            encoding: "UTF8".into(),
            isolation: "read committed".into(),
            fsync: "on".into(),
            full_page_writes: "on".into(),
            synchronous_commit: "on".into(),
            has_synchronous_standbys: false,
            is_standby: false,
            may_migrate: true,
            tables_without_rights: 0,
            max_connections: 100,
            reserved_connections: 3,
            clock: Timestamp::from_millis(1_000_000),
        }
    }

    #[test]
    fn each_fault_of_a_server_is_told_with_what_to_do() {
        assert_eq!(faults(&facts()), []);
        let one = |change: &dyn Fn(&mut PostgresFacts)| {
            let mut facts = facts();
            change(&mut facts);
            let found = faults(&facts);
            assert_eq!(found.len(), 1, "{found:?}");
            format!("{}; {}", found[0].0, found[0].1)
        };
        for (said, word) in [
            (one(&|facts| facts.version = "13.9".into()), "15 or newer"),
            (one(&|facts| facts.isolation = "serializable".into()), "serializable"),
            (one(&|facts| facts.fsync = "off".into()), "fsync is off"),
            (one(&|facts| facts.full_page_writes = "off".into()), "full_page_writes off"),
            (
                one(&|facts| {
                    facts.has_synchronous_standbys = true;
                    facts.synchronous_commit = "local".into();
                }),
                "synchronous_commit is local",
            ),
            (one(&|facts| facts.is_standby = true), "primary"),
            (one(&|facts| facts.may_migrate = false), "GRANT CREATE"),
            (one(&|facts| facts.tables_without_rights = 2), "2 tables"),
        ] {
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn more_gateways_than_connections_are_warned_of() {
        let rules = Rules::defaults().unwrap().store.connections;
        assert_eq!(crowd(&facts(), 1, &rules), None);
        let (detail, advice) = crowd(&facts(), 50, &rules).unwrap();
        assert!(detail.starts_with("50 gateways with ") && detail.ends_with("has 97"), "{detail}");
        assert!(advice.contains("max_connections"));
    }

    #[test]
    fn clocks_are_compared_whichever_is_ahead() {
        let at = Timestamp::from_millis;
        let of = |theirs| skew(at(1_000_000), at(theirs), at(1_000_040));
        assert_eq!(of(1_000_020).tone, Tone::Ok);
        assert_eq!(of(999_000).tone, Tone::Ok);
        let ahead = of(1_005_040);
        assert_eq!(
            (ahead.tone, &*ahead.detail),
            (Tone::Warning, "the database's clock is 5 s ahead of this machine's")
        );
        let behind = of(900_000);
        assert_eq!(
            (behind.tone, &*behind.detail),
            (Tone::Failure, "the database's clock is 100 s behind this machine's")
        );
    }
}
