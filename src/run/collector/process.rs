//! A process over one window.

use crate::core::slope::{Growth, Slope};
use crate::core::status::ProcessStatus;
use crate::store::record::{MemorySlope, ProcessWindow, seconds, tidy};

use super::spread::TimeSpread;

/// Collects the figures of a process.
#[derive(Debug, Clone)]
pub(super) struct ProcessCollector {
    seen_ns: u64,
    up_ns: u64,
    cpu_known_ns: u64,
    cpu_user_ns: u64,
    cpu_system_ns: u64,
    cpu_millicores: TimeSpread,
    memory_bytes: TimeSpread,
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
            cpu_millicores: TimeSpread::new(),
            memory_bytes: TimeSpread::new(),
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
            if let Some(bytes) = now.memory_rss_bytes {
                self.memory_bytes.add(bytes, dt_ns);
            }
            if let Some(bytes) = now.memory_bytes() {
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
        }
    }

    /// How its memory grows so far.
    pub(super) fn memory_growth(&mut self) -> Option<Growth> {
        self.memory_slope.growth()
    }

    pub(super) fn close(&self) -> ProcessWindow {
        let slope = self.memory_slope.clone().growth();
        ProcessWindow {
            seconds: seconds(self.seen_ns),
            up_seconds: seconds(self.up_ns),
            cpu_known_seconds: seconds(self.cpu_known_ns),
            cpu_user_seconds: seconds(self.cpu_user_ns),
            cpu_system_seconds: seconds(self.cpu_system_ns),
            cpu_cores: self.cpu_millicores.summary(1e3),
            memory_rss_bytes: self.memory_bytes.summary(1.0),
            memory_slope: slope.map(|slope| MemorySlope {
                bytes_per_hour: tidy(slope.per_hour),
                error_bytes_per_hour: tidy(slope.error_per_hour),
                flat: slope.is_flat(),
                over_seconds: seconds(slope.over_ns),
            }),
            restarts: self.restarts,
        }
    }
}
