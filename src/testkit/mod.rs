//! Counterparts of the gateway that live on this machine: for `gatepost demo` and tests only.

pub mod receiver;
