//! Small models of what runs at the same time, searched state by state: all orders of the steps,
//! and a bounded number of faults at any of them. A step is a statement or a call of the program,
//! and names it. A crash between two statements, which no test can place, is tried here.
//!
//! Each model has guards. With all of them its properties hold in every state. Without one of them
//! the search finds the steps to the fault: so the model can fail, and the guard is needed.

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

/// Every property holds in all states, and each example exists.
fn holds<M>(model: M)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let name = format!("{model:?}");
    let searched = search(model, HasDiscoveries::AnyFailures);
    searched.assert_properties();
    println!("{} states, {} steps: {name}", searched.unique_state_count(), searched.state_count());
}

/// The search finds the steps to a state that lacks this property.
fn breaks<M>(model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let searched = search(model, HasDiscoveries::AllOf(BTreeSet::from([property])));
    let steps = searched.assert_any_discovery(property).into_actions();
    println!("{property}, {} states: {steps:?}", searched.unique_state_count());
}
