//! Proportional memory: dear to read, so read seldom.

use super::proc_fs::ProcFs;
use crate::core::clock::Clock;

/// The least time between two readings.
const INTERVAL_NS: u64 = 10_000_000_000;
/// The kernel walks all pages of the process for it: at most one part in so many of a core.
const SHARE: u64 = 200;

/// The last reading of some processes' proportional memory.
#[derive(Debug)]
pub(super) struct Pss {
    wanted: bool,
    next_ns: u64,
    bytes: Option<u64>,
}

impl Pss {
    pub(super) const fn new(wanted: bool) -> Self {
        Self { wanted, next_ns: 0, bytes: None }
    }

    /// Other processes are there, or none.
    pub(super) const fn forget(&mut self) {
        (self.next_ns, self.bytes) = (0, None);
    }

    /// The sum over the processes, read anew when it is time; `None` when one may not be read.
    pub(super) fn look(
        &mut self,
        proc_fs: &ProcFs,
        clock: Clock,
        pids: impl Iterator<Item = u32>,
    ) -> Option<u64> {
        let mut pids = pids.peekable();
        let from_ns = clock.now_ns();
        if !self.wanted || pids.peek().is_none() {
            return None;
        }
        if from_ns >= self.next_ns {
            self.bytes = pids.try_fold(0_u64, |sum, pid| Some(sum.saturating_add(proc_fs.pss_bytes(pid)?)));
            self.next_ns = next_ns(from_ns, clock.now_ns());
        }
        self.bytes
    }
}

/// When to read again after a reading that took from one instant to another.
fn next_ns(from_ns: u64, to_ns: u64) -> u64 {
    let took_ns = to_ns.saturating_sub(from_ns);
    to_ns.saturating_add(INTERVAL_NS.max(took_ns.saturating_mul(SHARE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_every_ten_seconds_and_less_often_when_it_is_dear() {
        let second = 1_000_000_000;
        assert_eq!(next_ns(second, second + 1_000_000), second + 1_000_000 + 10 * second);
        // 0.3 s for a process of many gigabytes: once a minute.
        assert_eq!(next_ns(0, 300_000_000), 300_000_000 + 60 * second);
    }
}
