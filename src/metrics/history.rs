//! The figures of the last hour, minute by minute, in memory.

use std::collections::VecDeque;

use prometheus::core::Collector as _;

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

/// Figures since the oldest minute; durations in seconds.
#[derive(Clone, Debug, Default)]
pub struct LastHour {
    /// The oldest first; the last one is under way.
    pub minutes: Vec<Minute>,
    pub durations: Durations,
}

#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// Accepted messages, from the last octet to the reply.
    pub accepted: Distribution,
    /// From an event to the end of its first attempt.
    pub first_attempts: Distribution,
    pub commits: Distribution,
    /// DNS queries.
    pub queries: Distribution,
}

/// Snapshots of the figures, the oldest first.
pub(super) struct History(VecDeque<Snapshot>);

/// Totals at the end of a minute.
struct Snapshot {
    at: Timestamp,
    messages: [u64; 3],
    durations: Durations,
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
        let durations = Durations {
            accepted: Distribution::labelled(&accept, Outcome::Accepted.as_str()),
            first_attempts: Distribution::of(&figures.first_attempt.collect()),
            commits: Distribution::of(&figures.commit.collect()),
            queries: Distribution::of(&figures.dns_seconds.collect()),
        };
        Self { at, messages, durations }
    }

    /// The messages from this snapshot to another one.
    fn minute_to(&self, end: &Self) -> Minute {
        let mut messages = end.messages;
        for (messages, before) in messages.iter_mut().zip(self.messages) {
            *messages = messages.saturating_sub(before);
        }
        Minute { began: self.at, messages }
    }
}

impl Durations {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            accepted: self.accepted.since(&earlier.accepted),
            first_attempts: self.first_attempts.since(&earlier.first_attempts),
            commits: self.commits.since(&earlier.commits),
            queries: self.queries.since(&earlier.queries),
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

    pub(super) fn last_hour(&self, figures: &Figures, now: Timestamp) -> LastHour {
        let current = Snapshot::of(figures, now);
        let ends = self.0.iter().skip(1).chain([&current]);
        let minutes = self.0.iter().zip(ends).map(|(begin, end)| begin.minute_to(end)).collect();
        let oldest = self.0.front().unwrap_or(&current);
        LastHour { minutes, durations: current.durations.since(&oldest.durations) }
    }
}
