//! What a computation costs this process.

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of this process so far, all threads.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Largest resident set of this process so far; 0 where the system does not say.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Starts [`peak_rss_bytes`] anew from what is resident now, where the system can do that.
pub fn forget_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
