//! Ports of the loopback for programs that must be told theirs before they start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to connections (`ip_local_port_range`), so that none is taken
/// between the look and the start.
const FIRST: u16 = 20_000;
const PORTS: u16 = 12_000;

/// Returns a port on which nothing listens; another one each time.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id().wrapping_mul(101) % u32::from(PORTS)).unwrap();
    for _ in 0..PORTS {
        let next = NEXT.fetch_add(1, Ordering::SeqCst);
        let port = FIRST + (start.wrapping_add(next)) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} on is free");
}
