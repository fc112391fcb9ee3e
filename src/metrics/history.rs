//! The figures of the last hour, minute by minute, in memory.

use std::collections::VecDeque;

use prometheus::core::Collector as _;

use super::Recent;
use super::figures::{self, Figures};
use super::quantile::Distribution;
use crate::domain::clock::Timestamp;
use crate::domain::verdict::Outcome;

/// Minutes that are kept.
const MINUTES: usize = 60;

/// The messages of one minute by outcome, in the order of [`Outcome::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    pub began: Timestamp,
    pub messages: [u64; 3],
}

/// Snapshots of the figures, the oldest first.
pub(super) struct History(VecDeque<Snapshot>);

/// Totals at the end of a minute.
struct Snapshot {
    at: Timestamp,
    messages: [u64; 3],
    accepted: Distribution,
    first_attempts: Distribution,
    commits: Distribution,
    queries: Distribution,
}

impl Snapshot {
    fn of(figures: &Figures, at: Timestamp) -> Self {
        let accept = figures.accept.collect();
        let mut messages = [0; 3];
        for (labels, count) in figures::counts(&figures.messages.collect()) {
            for (outcome, messages) in Outcome::ALL.iter().zip(&mut messages) {
                if labels.first().is_some_and(|label| label == outcome.as_str()) {
                    *messages += count;
                }
            }
        }
        Self {
            at,
            messages,
            accepted: Distribution::labelled(&accept, Outcome::Accepted.as_str()),
            first_attempts: Distribution::of(&figures.first_attempt.collect()),
            commits: Distribution::of(&figures.commit.collect()),
            queries: Distribution::of(&figures.dns_seconds.collect()),
        }
    }

    const fn distribution(&self, of: Recent) -> &Distribution {
        match of {
            Recent::Accepted => &self.accepted,
            Recent::FirstAttempts => &self.first_attempts,
            Recent::Commits => &self.commits,
            Recent::Queries => &self.queries,
        }
    }
}

impl History {
    pub(super) fn begin(figures: &Figures, now: Timestamp) -> Self {
        Self(VecDeque::from([Snapshot::of(figures, now)]))
    }

    pub(super) fn keep(&mut self, figures: &Figures, now: Timestamp) {
        if self.0.len() > MINUTES {
            self.0.pop_front();
        }
        self.0.push_back(Snapshot::of(figures, now));
    }

    pub(super) fn minutes(&self, figures: &Figures, now: Timestamp) -> Vec<Minute> {
        let current = Snapshot::of(figures, now);
        let ends = self.0.iter().skip(1).chain([&current]);
        let minute = |(begin, end): (&Snapshot, &Snapshot)| {
            let mut messages = end.messages;
            for (messages, before) in messages.iter_mut().zip(begin.messages) {
                *messages = messages.saturating_sub(before);
            }
            Minute { began: begin.at, messages }
        };
        self.0.iter().zip(ends).map(minute).collect()
    }

    /// Returns a distribution of the values since the oldest snapshot.
    pub(super) fn recent(&self, figures: &Figures, of: Recent) -> Distribution {
        let current = Snapshot::of(figures, Timestamp::from_millis(0));
        let oldest = self.0.front().map(|oldest| oldest.distribution(of));
        current.distribution(of).since(oldest.unwrap_or(&Distribution::default()))
    }
}
