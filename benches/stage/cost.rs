//! The cost of processes so far.

use std::ops::{Add, Sub};

/// Ticks of the clock in a second: proc(5), sysconf(3); Linux has no other number.
const TICKS: f64 = 100.0;

/// CPU and writes of one process, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub cpu: f64,
    /// Bytes handed to the disk; 0 where /proc does not tell.
    pub written: u64,
}

impl Cost {
    /// Reads the cost of this process, with those of its children that have ended.
    pub fn of(process: u32) -> Self {
        let ticks = stat(process).into_iter().skip(11).take(4);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let written = written.and_then(|octets| octets.parse().ok()).unwrap_or_default();
        Self { cpu: ticks / TICKS, written }
    }

    /// Reads the cost of this process and of all its children.
    pub fn of_all(parent: u32) -> Self {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let own = |process: &u32| {
            *process == parent || stat(*process).get(1) == Some(&parent.to_string())
        };
        processes.filter(own).map(Self::of).fold(Self::default(), Self::add)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, written: self.written + other.written }
    }
}

impl Sub for Cost {
    type Output = Self;

    /// Saturates, because a process that has ended in between takes its written bytes with it.
    fn sub(self, before: Self) -> Self {
        let written = self.written.saturating_sub(before.written);
        Self { cpu: self.cpu - before.cpu, written }
    }
}

/// The fields of /proc/pid/stat behind the name: its state, its parent, …; none of one that has ended.
fn stat(process: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}
