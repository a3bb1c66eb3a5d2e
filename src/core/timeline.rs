//! Which record of a partition was intended when, for a week, in at most 64 KiB.
//!
//! Acked records are grouped into points. A point knows its first and its last record and how many were acked up
//! to it; what lies between is interpolated. A look-up answers with the first record of the point that holds the
//! record in question, so it errs to the older side only. Young points span less than 10 ms; when the memory is
//! full, neighbours are merged while the span of the merged point is at most 1 % of the age of its *newest*
//! record, so the error of every answer is at most max(10 ms, 1 % of the age).
//!
//! Why it fits: after a pass no two neighbours can be merged, so every second point spans more than 1 % of its age,
//! whatever the load did; for a week that is at most some 2,900 points, in practice 2,000, of 10 to 25 bytes (see
//! `codec`). Should they not fit all the same (a foreign writer in the topic for months), passes go on with a
//! wider span, by a quarter each: answers then err further to the older side, memory stays bounded.

mod codec;
mod line;
mod merge;
mod total;

pub use line::{Cursor, Line, LineError};
use merge::{may_merge, merge, scale};
pub use total::find_count;

use std::ops::Range;

/// Records intended within this time of a point's first record belong to the point.
pub const POINT_NS: u64 = 10_000_000;
/// Memory of one timeline, bookkeeping included.
pub const MAX_BYTES: usize = 64 * 1024;
/// Memory of the closed points: what the stops and the bookkeeping leave.
const MAX_CLOSED_BYTES: usize = MAX_BYTES - 4096;
/// Bytes of points between two stops.
const STOP_BYTES: usize = 1024;
/// The span that a merged point may have, in ten-thousandths of its age.
const SPAN_SHARE: u64 = 100;

/// One acked record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// Its offset in the partition.
    pub offset: u64,
    /// Its sequence in the stream; where records without one are mixed in, the highest up to it.
    pub sequence: u64,
    /// When it was intended (monotonic).
    pub intended_ns: u64,
}

/// A run of acked records of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// Records of the partition acked before the first one.
    pub acked_before: u64,
    /// Records in the run.
    pub records: u64,
    /// The first record.
    pub first: Mark,
    /// The last record.
    pub last: Mark,
}

impl Point {
    /// Records of the partition acked up to the end of this point.
    #[must_use]
    pub const fn acked_after(&self) -> u64 {
        self.acked_before.saturating_add(self.records)
    }
}

/// What a system says it has ingested of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// All offsets below this one.
    Offset(u64),
    /// All sequences of the partition up to and including this one.
    Sequence(u64),
    /// The first so many acked records.
    Count(u64),
    /// All records intended before this instant (monotonic nanoseconds).
    Intended(u64),
}

/// The oldest acked record that is not ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// When it was intended (monotonic), or a little earlier.
    pub intended_ns: u64,
    /// Acked records that are ingested: interpolated and rounded down inside a point, exact between points.
    pub acked_before: u64,
    /// The look-up was for something before the first known record, so there may be older ones.
    pub at_least: bool,
}

/// Where reading may begin, so that a look-up, which holds up the writer, decodes a few dozen points and not thousands.
#[derive(Debug, Clone, Copy)]
struct Stop {
    position: usize,
    /// The last record before.
    tail: Mark,
    acked_before: u64,
    /// The newest intended time before, so that a stray one (a marker, when records are late) misleads no search.
    newest_ns: u64,
}

/// The timeline of one partition. One writer.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// All points but the open one, encoded.
    closed: Vec<u8>,
    /// One for every [`STOP_BYTES`] of `closed`.
    stops: Vec<Stop>,
    /// Records acked before the first point.
    acked_base: u64,
    /// The last record of the newest closed point, which the next one is encoded against.
    tail: Mark,
    /// The newest intended time in a closed point.
    newest_ns: u64,
    /// When the newest closed point begins: the open one must not begin earlier.
    floor_ns: u64,
    /// The point that is being filled.
    open: Option<Point>,
}

impl Timeline {
    /// A timeline of a log that began when so many records were acked to earlier ones.
    #[must_use]
    pub fn beginning_at(acked: u64) -> Self {
        Self { acked_base: acked, ..Self::default() }
    }

    /// Takes one acked record. Called in partition order; constant time, and memory is only taken when the timeline
    /// grows.
    ///
    /// An offset that is not above the last one (a retry without idempotence) is counted and otherwise ignored. A
    /// sequence below the last one (a record that has none of the stream's, a marker say) leaves the last one as it
    /// is. A record intended earlier than its point's first makes the point older, not younger.
    pub fn acked(&mut self, offset: u64, sequence: u64, intended_ns: u64, now_ns: u64) {
        let mark = Mark { offset, sequence, intended_ns };
        let Some(open) = &mut self.open else {
            self.open = Some(Point { acked_before: self.acked_base, records: 1, first: mark, last: mark });
            return;
        };
        if offset <= open.last.offset {
            open.records = open.records.saturating_add(1);
        } else if intended_ns < open.first.intended_ns.saturating_add(POINT_NS) {
            open.records = open.records.saturating_add(1);
            open.last.offset = offset;
            open.last.sequence = open.last.sequence.max(sequence);
            open.last.intended_ns = open.last.intended_ns.max(intended_ns);
            if intended_ns < open.first.intended_ns {
                open.first.intended_ns = intended_ns.max(self.floor_ns);
            }
        } else {
            let full = *open;
            self.begin(&full, Point { acked_before: 0, records: 1, first: mark, last: mark }, now_ns);
        }
    }

    /// Takes what somebody else wrote: the offsets in the range came between two instants, after `acked_before` records.
    /// Look-ups then answer with the earlier instant.
    pub fn grew(&mut self, offsets: Range<u64>, acked_before: u64, since_ns: u64, at_ns: u64) {
        let Some(last) = offsets.end.checked_sub(1).filter(|last| *last >= offsets.start) else { return };
        let mark = |offset, intended_ns| Mark { offset, sequence: offset, intended_ns };
        let point = Point {
            acked_before,
            records: offsets.end - offsets.start,
            first: mark(offsets.start, since_ns),
            last: mark(last, at_ns),
        };
        self.push(point, at_ns);
    }

    /// Puts points back that a timeline had, oldest first: those of a record's [`Line`]s, one after the other. What is
    /// there already is passed over, the rest of a point continues it, and records missing between two points are
    /// added to the earlier one, so that answers err to the older side.
    pub fn restore(&mut self, points: impl IntoIterator<Item = Point>, now_ns: u64) {
        for point in points {
            // Offsets only fall from one point to the next when the log began again.
            if self.open.is_some_and(|open| {
                point.acked_before >= open.acked_after() && point.first.offset < open.last.offset
            }) {
                *self = Self::beginning_at(point.acked_before);
            }
            self.push(point, now_ns);
        }
    }

    /// Every point, oldest first, the open one last.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.points_from(None)
    }

    /// Records acked so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.open.map_or(self.acked_base, |open| open.acked_after())
    }

    /// The last acked record, exactly.
    #[must_use]
    pub fn last(&self) -> Option<Mark> {
        self.open.map(|open| open.last)
    }

    /// Memory held, in bytes: at most [`MAX_BYTES`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.closed.capacity() + self.stops.capacity() * size_of::<Stop>()
    }

    /// The oldest acked record that is not ingested; `None` when nothing acked is outstanding.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Found> {
        // The last thing ingested, on the key's own axis; `None` when nothing is.
        let upto = match key {
            Key::Offset(next) => next.checked_sub(1),
            Key::Sequence(sequence) => Some(sequence),
            Key::Count(count) => count.checked_sub(1),
            Key::Intended(limit_ns) => limit_ns.checked_sub(1),
        };
        let span = |point: &Point| match key {
            Key::Offset(_) => (point.first.offset, point.last.offset),
            Key::Sequence(_) => (point.first.sequence, point.last.sequence),
            Key::Count(_) => (point.acked_before, point.acked_after().saturating_sub(1)),
            Key::Intended(_) => (point.first.intended_ns, point.last.intended_ns),
        };
        let behind_us = |stop: &Stop| match key {
            Key::Offset(next) => stop.tail.offset < next,
            Key::Sequence(sequence) => stop.tail.sequence <= sequence,
            Key::Count(count) => stop.acked_before <= count,
            Key::Intended(limit_ns) => stop.newest_ns < limit_ns,
        };
        let mut points = self.points_from(self.last_stop(behind_us));
        let point = points.find(|point| upto.is_none_or(|upto| upto < span(point).1))?;
        let (first, last) = span(&point);
        let ingested = upto.filter(|upto| *upto >= first).map_or(0, |upto| {
            1_u64.saturating_add(scale(upto - first, point.records.saturating_sub(1), last - first))
        });
        let at_least = point.acked_before == self.acked_base
            && match key {
                Key::Offset(next) => next < first,
                // Sequences before the first one are other partitions', unless records are missing here.
                Key::Sequence(sequence) => self.acked_base > 0 && sequence < first,
                Key::Count(count) => count < first,
                // Records missing before the first one are older than it.
                Key::Intended(limit_ns) => self.acked_base > 0 && limit_ns <= first,
            };
        let intended_ns = match key {
            // What was intended before is ingested, so the oldest that is not was intended then or later.
            Key::Intended(limit_ns) => point.first.intended_ns.max(limit_ns),
            _ => point.first.intended_ns,
        };
        Some(Found {
            intended_ns,
            acked_before: point.acked_before.saturating_add(ingested.min(point.records.saturating_sub(1))),
            at_least,
        })
    }

    /// The last stop of those that lie behind what is looked for.
    fn last_stop(&self, behind: impl FnMut(&Stop) -> bool) -> Option<&Stop> {
        self.stops.partition_point(behind).checked_sub(1).and_then(|index| self.stops.get(index))
    }

    /// Points with a record beyond the first so many, oldest first.
    fn points_beyond(&self, acked: u64) -> impl Iterator<Item = Point> + '_ {
        let stop = self.last_stop(|stop| stop.acked_before <= acked);
        self.points_from(stop).skip_while(move |point| point.acked_after() <= acked)
    }

    fn points_from(&self, stop: Option<&Stop>) -> impl Iterator<Item = Point> + '_ {
        let (position, tail, acked_before) = stop.map_or((0, Mark::default(), self.acked_base), |stop| {
            (stop.position, stop.tail, stop.acked_before)
        });
        let bytes = self.closed.get(position..).unwrap_or_default();
        codec::Points::new(bytes, tail, acked_before).chain(self.open)
    }

    fn push(&mut self, point: Point, now_ns: u64) {
        let last = Mark {
            offset: point.last.offset.max(point.first.offset),
            sequence: point.last.sequence.max(point.first.sequence),
            intended_ns: point.last.intended_ns.max(point.first.intended_ns),
        };
        let point = Point { last, records: point.records.max(1), ..point };
        let Some(open) = self.open else {
            self.acked_base = point.acked_before;
            self.open = Some(point);
            return;
        };
        let new = point.acked_after().saturating_sub(open.acked_after());
        if new == 0 {
            return;
        }
        if point.first.intended_ns <= open.first.intended_ns || last.offset <= open.last.offset {
            let last = Mark {
                offset: last.offset.max(open.last.offset),
                sequence: last.sequence.max(open.last.sequence),
                intended_ns: last.intended_ns.max(open.last.intended_ns),
            };
            // Told again it may have become older, like `acked` makes it.
            let intended_ns = point.first.intended_ns.max(self.floor_ns).min(open.first.intended_ns);
            let first = Mark { intended_ns, ..open.first };
            self.open = Some(Point { records: open.records.saturating_add(new), first, last, ..open });
            return;
        }
        let missing = point.acked_before.saturating_sub(open.acked_after());
        let first =
            Mark { offset: point.first.offset.max(open.last.offset.saturating_add(1)), ..point.first };
        let mut full = Point { records: open.records.saturating_add(missing), ..open };
        if missing > 0 {
            // What is known of them is that they lie between, so all that lies there is as old as what comes before.
            full.last = Mark {
                offset: first.offset.saturating_sub(1),
                sequence: first.sequence.saturating_sub(1).max(open.last.sequence),
                intended_ns: first.intended_ns.max(open.last.intended_ns),
            };
        }
        self.begin(&full, Point { first, records: new.saturating_sub(missing).max(1), ..point }, now_ns);
    }

    /// Closes a point and opens the next one behind it.
    fn begin(&mut self, full: &Point, mut next: Point, now_ns: u64) {
        next.acked_before = full.acked_after();
        next.first.sequence = next.first.sequence.max(full.last.sequence);
        next.last.sequence = next.last.sequence.max(next.first.sequence);
        next.first.intended_ns = next.first.intended_ns.max(full.first.intended_ns);
        next.last.intended_ns = next.last.intended_ns.max(next.first.intended_ns);
        self.append(full);
        if self.closed.len() + codec::MAX_POINT_BYTES > MAX_CLOSED_BYTES {
            self.thin(now_ns);
        }
        self.open = Some(next);
    }

    fn append(&mut self, point: &Point) {
        let room = self.closed.capacity() - self.closed.len();
        if room < codec::MAX_POINT_BYTES {
            // Doubling by hand, because Vec's own doubling would end above the bound.
            let grown = (self.closed.capacity() * 2).clamp(1024, MAX_CLOSED_BYTES);
            self.closed.reserve_exact(grown.saturating_sub(self.closed.len()));
        }
        if self.closed.len() >= (self.stops.len() + 1) * STOP_BYTES {
            let (position, tail, newest_ns) = (self.closed.len(), self.tail, self.newest_ns);
            self.stops.push(Stop { position, tail, acked_before: point.acked_before, newest_ns });
        }
        codec::encode(point, &self.tail, &mut self.closed);
        self.tail = point.last;
        self.newest_ns = self.newest_ns.max(point.last.intended_ns);
        self.floor_ns = point.first.intended_ns;
    }

    /// Merges neighbours until an eighth of the memory is free, so that the next pass is not soon.
    fn thin(&mut self, now_ns: u64) {
        let mut share = SPAN_SHARE;
        while self.closed.len() > MAX_CLOSED_BYTES / 8 * 7 {
            self.merge_neighbours(now_ns, share);
            share = share.saturating_mul(5) / 4;
        }
    }

    fn merge_neighbours(&mut self, now_ns: u64, share: u64) {
        let all = std::mem::take(&mut self.closed);
        self.closed.reserve_exact(MAX_CLOSED_BYTES);
        self.stops.clear();
        (self.tail, self.newest_ns) = (Mark::default(), 0);
        let mut merged: Option<Point> = None;
        for point in codec::Points::new(&all, Mark::default(), self.acked_base) {
            merged = Some(match merged {
                None => point,
                Some(older) if may_merge(&older, &point, now_ns, share) => merge(&older, &point),
                Some(older) => {
                    self.append(&older);
                    point
                }
            });
        }
        if let Some(newest) = merged {
            self.append(&newest);
        }
    }
}

#[cfg(test)]
mod tests;
