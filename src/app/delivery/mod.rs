//! Destinations, events, deliveries.
