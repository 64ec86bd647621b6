//! The memory of this process.

use std::fs;

/// The peak resident memory while the work was done, in MiB.
///
/// `None` where the system does not report it, which is everywhere but on Linux.
pub fn peak_mib(work: impl FnOnce()) -> Option<f64> {
    // 5 resets the peak to what is resident now.
    fs::write("/proc/self/clear_refs", "5").ok()?;
    work();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
