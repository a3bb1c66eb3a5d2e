//! Cores over the time that really went by. Pure.

use super::tally::Moment;

/// CPU over a shorter span says little in ticks of 10 ms: cores stay as they were and the span goes on.
const MIN_SPAN_NS: u64 = 50_000_000;

/// The span between two looks, and the cores used in the last one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    /// Where the span began, and what was used in it.
    since: Option<(Moment, u64)>,
    cores: Option<f64>,
}

impl Span {
    /// Begins anew: another process is there.
    pub(super) const fn begin(&mut self, at: Moment) {
        (self.since, self.cores) = (Some((at, 0)), None);
    }

    /// Nothing is used by what is not there; what it uses until it is seen again is taken over the whole time.
    pub(super) const fn hide(&mut self) {
        self.cores = None;
    }

    /// Cores in the last span; absent when they are not known.
    pub(super) const fn cores(&self) -> Option<f64> {
        self.cores
    }

    /// Takes the CPU time used since the last look. `most` is how many cores there are.
    pub(super) fn advance(&mut self, gained_ns: u64, at: Moment, most: f64) {
        let Some((since, before)) = self.since else {
            self.since = Some((at, 0));
            return;
        };
        let gained_ns = before.saturating_add(gained_ns);
        let elapsed_ns = at.middle_ns().saturating_sub(since.middle_ns());
        if elapsed_ns < MIN_SPAN_NS {
            self.since = Some((since, gained_ns));
            return;
        }
        self.since = Some((at, 0));
        // We were held up while reading (stopped, starved of CPU): which instant the readings stand for is not known
        // to a tenth, so neither is the quotient.
        let blur_ns = u64::midpoint(since.width_ns(), at.width_ns());
        let cores = gained_ns as f64 / elapsed_ns as f64;
        // Ticks are 10 ms, and time of a child that was found late belongs to earlier looks; the counter is right,
        // but more cores than there are would be nonsense.
        self.cores = (blur_ns.saturating_mul(10) <= elapsed_ns).then(|| cores.min(most.max(1.0)));
    }
}
