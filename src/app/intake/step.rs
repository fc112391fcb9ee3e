//! Makes a step of the evidence that asks no DNS. All steps have one shape, so that a reader of
//! `GET /email/intake/{id}` finds the same fields in each (contract §4).

use std::time::Instant;

use crate::domain::evidence::{Facts, Step, Word};

pub(super) fn step(
    facts: Facts,
    result: impl Into<Word>,
    detail: impl Into<String>,
    began: Instant,
) -> Step {
    let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    Step { facts, result: result.into(), detail: detail.into(), dns: Vec::new(), micros }
}
