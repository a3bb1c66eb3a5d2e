//! A process over one window.

use crate::core::slope::{Growth, Slope};
use crate::core::status::ProcessStatus;
use crate::store::record::{MemorySlope, ProcessWindow, seconds, tidy};

use super::spread::TimeSpread;

/// Memory whose slope is known to less than this share of it in an hour is not called flat: nobody can tell yet.
const FLAT_ERROR_SHARE: f64 = 0.1;

/// Collects the figures of a process.
#[derive(Debug, Clone)]
pub(super) struct ProcessCollector {
    seen_ns: u64,
    up_ns: u64,
    cpu_known_ns: u64,
    cpu_user_ns: u64,
    cpu_system_ns: u64,
    cpu_unsplit_ns: u64,
    cpu_millicores: TimeSpread,
    memory_rss: TimeSpread,
    memory_cgroup: TimeSpread,
    memory_slope: Slope,
    restarts: u64,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        Self {
            seen_ns: 0,
            up_ns: 0,
            cpu_known_ns: 0,
            cpu_user_ns: 0,
            cpu_system_ns: 0,
            cpu_unsplit_ns: 0,
            cpu_millicores: TimeSpread::new(),
            memory_rss: TimeSpread::new(),
            memory_cgroup: TimeSpread::new(),
            memory_slope: Slope::default(),
            restarts: 0,
        }
    }

    /// The process went from `before` to `now` in `dt_ns`, up to `now_ns`. `counts` is false in a pause.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(super) fn advance(
        &mut self,
        before: Option<&ProcessStatus>,
        now: &ProcessStatus,
        now_ns: u64,
        dt_ns: u64,
        counts: bool,
    ) {
        let restarts = now.restarts.saturating_sub(before.map_or(0, |before| before.restarts));
        self.restarts += restarts;
        if restarts > 0 {
            self.memory_slope.restart();
        }
        if !counts || dt_ns == 0 {
            return;
        }
        self.seen_ns = self.seen_ns.saturating_add(dt_ns);
        if now.up {
            self.up_ns = self.up_ns.saturating_add(dt_ns);
            // A process that is not there uses no cores; its last figures say nothing about now.
            if let Some(cores) = now.cpu_cores.filter(|cores| cores.is_finite() && *cores >= 0.0) {
                self.cpu_millicores.add((cores * 1_000.0).round() as u64, dt_ns);
            }
            if let Some(bytes) = now.memory_bytes() {
                let resident = now.memory_rss_bytes.is_some();
                let memory = if resident { &mut self.memory_rss } else { &mut self.memory_cgroup };
                memory.add(bytes, dt_ns);
                self.memory_slope.add(now_ns, bytes as f64);
            }
        }
        let grown =
            |pick: fn(&ProcessStatus) -> Option<u64>| Some(pick(now)?.saturating_sub(before.and_then(pick)?));
        let user = grown(|status| status.cpu_user_ns);
        let system = grown(|status| status.cpu_system_ns);
        if let (Some(user), Some(system)) = (user, system) {
            self.cpu_known_ns = self.cpu_known_ns.saturating_add(dt_ns);
            self.cpu_user_ns = self.cpu_user_ns.saturating_add(user);
            self.cpu_system_ns = self.cpu_system_ns.saturating_add(system);
        } else if let Some(all) = grown(ProcessStatus::cpu_ns) {
            self.cpu_known_ns = self.cpu_known_ns.saturating_add(dt_ns);
            self.cpu_unsplit_ns = self.cpu_unsplit_ns.saturating_add(all);
        }
    }

    /// How its memory grows so far.
    pub(super) fn memory_growth(&mut self) -> Option<Growth> {
        self.memory_slope.growth()
    }

    pub(super) fn close(&self) -> ProcessWindow {
        let slope = self.memory_slope.clone().growth();
        let (resident, cgroup) = (self.memory_rss.summary(1.0), self.memory_cgroup.summary(1.0));
        let mean_bytes = resident.or(cgroup).map_or(0.0, |memory| memory.mean);
        ProcessWindow {
            seconds: seconds(self.seen_ns),
            up_seconds: seconds(self.up_ns),
            cpu_known_seconds: seconds(self.cpu_known_ns),
            cpu_user_seconds: seconds(self.cpu_user_ns),
            cpu_system_seconds: seconds(self.cpu_system_ns),
            cpu_unsplit_seconds: seconds(self.cpu_unsplit_ns),
            cpu_cores: self.cpu_millicores.summary(1e3),
            memory_rss_bytes: resident,
            memory_cgroup_bytes: cgroup,
            memory_slope: slope.map(|slope| MemorySlope {
                bytes_per_hour: tidy(slope.per_hour),
                error_bytes_per_hour: tidy(slope.error_per_hour),
                flat: slope.is_flat() && slope.error_per_hour <= FLAT_ERROR_SHARE * mean_bytes,
                over_seconds: seconds(slope.over_ns),
            }),
            restarts: self.restarts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_an_engine_tells_of_a_container_is_in_the_window_too() {
        // An engine's statistics: CPU in all, and the memory of the cgroup.
        let look = |cpu_ns, bytes| ProcessStatus {
            up: true,
            cpu_unsplit_ns: Some(cpu_ns),
            memory_working_set_bytes: Some(bytes),
            ..ProcessStatus::default()
        };
        let mut collector = ProcessCollector::new();
        collector.advance(Some(&look(S, 100)), &look(3 * S, 200), 2 * S, 2 * S, true);
        let window = collector.close();
        assert_eq!((window.cpu_unsplit_seconds, window.cpu_known_seconds), (2.0, 2.0));
        assert_eq!((window.cpu_user_seconds, window.cpu_system_seconds), (0.0, 0.0));
        assert_eq!(window.memory_cgroup_bytes.map(|memory| memory.mean), Some(200.0));
        assert_eq!(window.memory_rss_bytes, None);
    }
}
