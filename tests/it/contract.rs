//! Every operation of the contract (§4) is in the table, or is said to be waited for. The table may have
//! others of ours.

use std::collections::BTreeSet;

use gatepost::http::table::OPERATIONS;
use serde::Deserialize;

use crate::support::sources::read;

/// `fixtures/contract.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    pub waiting: BTreeSet<String>,
    area: Vec<Area>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Area {
    name: String,
    operations: Vec<String>,
}

impl Contract {
    pub fn load() -> Self {
        toml::from_str(&read("fixtures/contract.toml")).unwrap()
    }

    /// All that it lists, each once.
    pub fn operations(&self) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        for area in &self.area {
            for operation in &area.operations {
                assert!(all.insert(operation.as_str()), "{} has {operation} again", area.name);
            }
        }
        all
    }
}

#[test]
fn the_table_has_what_the_contract_lists() {
    let contract = Contract::load();
    let listed = contract.operations();
    let there: BTreeSet<String> = OPERATIONS.iter().map(|operation| operation.name()).collect();
    for name in &listed {
        assert_ne!(
            there.contains(*name),
            contract.waiting.contains(*name),
            "{name} is there and waited for, or neither"
        );
    }
    let unknown: Vec<_> =
        contract.waiting.iter().filter(|name| !listed.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "nobody lists {unknown:?}");
}
