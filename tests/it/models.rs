//! Small models of what runs at the same time, searched state by state: all orders of the steps,
//! and a bounded number of faults at any of them. A step is a statement or a call of the program,
//! and names it. A crash between two statements, which no test can place, is tried here.
//!
//! Each model has guards. With all of them its properties hold in every state. Without one of them
//! the search finds the steps to the fault: so the model can fail, and the guard is needed.

#![expect(clippy::print_stderr, reason = "a search says how many states it saw")]

mod commit;
mod deliveries;
mod directory;
mod flushes;
mod followers;
mod group;
mod positions;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

use crate::support::sources::{files, read, root};

/// A model that makes more steps than this is too large for a test.
const MOST: usize = 3_000_000;

fn search<M>(model: M, until: HasDiscoveries) -> impl Checker<M>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let searched = model.checker().target_state_count(MOST).finish_when(until).spawn_bfs().join();
    assert!(searched.state_count() < MOST, "the search was cut off");
    searched
}

/// Checks that every property holds in all of so many states, and that each example exists.
fn holds<M>(model: M, states: usize)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let name = format!("{model:?}");
    let searched = search(model, HasDiscoveries::AnyFailures);
    searched.assert_properties();
    eprintln!("{states} states, {} steps: {name}", searched.state_count());
    // A model that has lost steps proves less.
    assert_eq!(searched.unique_state_count(), states, "{name}");
    let shown = match states {
        0..1000 => states.to_string(),
        _ => format!("{},{:03}", states / 1000, states % 1000),
    };
    assert!(read("docs/models.md").contains(&shown), "docs/models.md has other states: {name}");
}

/// Checks that the search finds the steps to a state that lacks this property.
fn breaks<M>(model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let searched = search(model, HasDiscoveries::AllOf(BTreeSet::from([property])));
    let steps = searched.assert_any_discovery(property).into_actions();
    eprintln!("{property}, {} states: {steps:?}", searched.unique_state_count());
}

/// So that a model is looked at when what it stands for is renamed or goes.
#[test]
fn every_step_names_a_part_of_the_program() {
    let is_sign = |one: char| !one.is_alphanumeric() && one != '_';
    let program: String = files("src", "rs").into_iter().map(|(_, text)| text).collect();
    let words: BTreeSet<&str> = program.split(is_sign).collect();
    for (model, text) in files("tests/it/models", "rs") {
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        let named: Vec<_> = comments.flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
        assert!(!named.is_empty(), "{model} names nothing");
        for name in named {
            let exists = match name.contains('/') {
                true => root().join("src").join(name).exists(),
                false => name.split(is_sign).all(|word| words.contains(word)),
            };
            assert!(exists, "{model} names {name}, which is not in src");
        }
    }
}
