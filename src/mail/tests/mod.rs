//! Cases over the whole room.
