//! How fast a system ingests, by one progress source, and how long it needs to catch up at that pace.

use std::collections::VecDeque;

use super::lag::Observation;

/// The pace is taken over this time: several flushes of a system that ingests in blocks, and short enough to follow a
/// change of pace.
const WINDOW_NS: u64 = 30_000_000_000;
/// Movements that are remembered; a source that is polled faster has a shorter window.
const MAX_MOVES: usize = 256;
/// A system that stood still for longer, and far longer than it does between two movements, goes on at a pace of its own.
const STILL_NS: u64 = 10_000_000_000;

/// Progress when it was seen to have moved.
#[derive(Debug, Clone, Copy)]
struct Move {
    at_ns: u64,
    records: f64,
}

/// Follows the progress of one source.
///
/// The pace is taken from movement to movement, so that a system whose figure moves with each flush only has its mean
/// pace at any time, and not one that saws. Once it moves later than it ever did in the window, the time since counts
/// too: the pace falls. It begins anew with a reset and when a partition becomes known or unknown, because what moved
/// then are not records;
/// and after a long standstill, because what comes then is not what was before.
#[derive(Debug, Clone, Default)]
pub struct Ingest {
    moves: VecDeque<Move>,
    /// The first figure since the beginning: no movement was seen with it.
    from: Option<f64>,
    unknown_partitions: u32,
    at_ns: u64,
}

impl Ingest {
    /// Takes a good sample.
    pub fn observe(&mut self, seen: &Observation) {
        let reading = &seen.reading;
        let Some(records) = reading.progress_records else {
            return self.forget();
        };
        self.at_ns = reading.at_ns;
        if !seen.resets.is_empty() || reading.unknown_partitions != self.unknown_partitions {
            self.forget();
        }
        self.unknown_partitions = reading.unknown_partitions;
        let now = Move { at_ns: reading.at_ns, records };
        // A stated lag is known to within what came meanwhile: it may seem to go back a little.
        let before = self.moves.back().map(|last| last.records).or(self.from);
        self.from.get_or_insert(records);
        if seen.moved && before.is_some_and(|before| before < records) {
            self.take(now);
        }
        let begins_ns = self.at_ns.saturating_sub(WINDOW_NS);
        // Of two movements that are all there is, one may be older: the system is slow.
        while self.moves.len() > 2 && self.moves.front().is_some_and(|oldest| oldest.at_ns < begins_ns) {
            self.moves.pop_front();
        }
        if self.moves.back().is_some_and(|last| last.at_ns < begins_ns) {
            self.moves.clear();
        }
    }

    fn take(&mut self, now: Move) {
        let still_ns = self.still_ns(now.at_ns);
        if still_ns > STILL_NS && self.longest_ns().is_none_or(|longest_ns| still_ns / 4 > longest_ns) {
            self.moves.clear();
        }
        if self.moves.len() >= MAX_MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(now);
    }

    /// What is known is too old to go on from.
    pub fn forget(&mut self) {
        self.moves.clear();
        self.from = None;
    }

    /// Records a second that the system ingests now; `None` before two movements were seen, and when the last one was
    /// before the window.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn records_per_second(&self) -> Option<f64> {
        let (first, last) = (self.moves.front()?, self.moves.back()?);
        let longest_ns = self.longest_ns()?;
        let still_ns = self.still_ns(self.at_ns);
        let end_ns = if still_ns > longest_ns { self.at_ns } else { last.at_ns };
        let over_ns = end_ns.saturating_sub(first.at_ns);
        (over_ns > 0).then(|| (last.records - first.records) / (over_ns as f64 / 1e9))
    }

    /// The longest time between two movements.
    fn longest_ns(&self) -> Option<u64> {
        let between = |(one, other): (&Move, &Move)| other.at_ns.saturating_sub(one.at_ns);
        self.moves.iter().zip(self.moves.iter().skip(1)).map(between).max()
    }

    /// Time from the last movement until then.
    fn still_ns(&self, at_ns: u64) -> u64 {
        self.moves.back().map_or(0, |last| at_ns.saturating_sub(last.at_ns))
    }

    /// How long the system needs to ingest so many records at its present pace, in nanoseconds; `None` when there are
    /// none, and when no pace is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn catch_up_ns(&self, lag_records: u64) -> Option<u64> {
        let pace = self.records_per_second().filter(|pace| *pace > 0.0)?;
        (lag_records > 0).then_some((lag_records as f64 / pace * 1e9) as u64)
    }
}

#[cfg(test)]
mod tests;
