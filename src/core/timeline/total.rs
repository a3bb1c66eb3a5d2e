//! Look-ups over all partitions of a stream.

use super::{Found, Timeline};

/// The oldest acked record over several partitions when only a total of ingested records is known: the
/// `count + 1`-th record in the order of intended times. It errs to the older side like [`Timeline::find`], for a
/// system that takes its partitions evenly; one that favours a partition may have older records outstanding in another.
/// `None` when at least as many are ingested as were acked.
#[must_use]
pub fn find_count(timelines: &[Timeline], count: u64) -> Option<Found> {
    let base = timelines.iter().fold(0_u64, |sum, timeline| sum.saturating_add(timeline.acked_base));
    let mut points: Vec<(u64, u64)> = timelines
        .iter()
        .flat_map(Timeline::points)
        .map(|point| (point.first.intended_ns, point.records))
        .collect();
    // Stable, because it takes the partitions' points as the sorted runs that they are.
    points.sort_by_key(|(intended_ns, _)| *intended_ns);
    // A point counts in full as soon as it begins, so the sum passes `count` no later than it really did.
    let mut begun = base;
    points.into_iter().find_map(|(intended_ns, records)| {
        begun = begun.saturating_add(records);
        (begun > count).then_some(Found { intended_ns, acked_before: count, at_least: count < base })
    })
}
