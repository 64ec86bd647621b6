//! The memory of this process.

use std::fs;

/// Does the work, and returns the peak resident memory during it, in MiB.
///
/// `None` where the system does not report it: everywhere except on Linux.
pub fn peak_mib(work: impl FnOnce()) -> Option<f64> {
    // Writing 5 resets the peak to the current resident memory.
    fs::write("/proc/self/clear_refs", "5").ok()?;
    work();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
