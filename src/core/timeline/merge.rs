//! When two neighbouring points may become one.

use super::{Mark, POINT_NS, Point, SPAN_SHARE};

/// Whether two neighbours may become one point: `share` ten-thousandths of its age, and at least a young point's span.
pub(super) fn may_merge(older: &Point, newer: &Point, now_ns: u64, share: u64) -> bool {
    let newest_ns = older.last.intended_ns.max(newer.last.intended_ns);
    let span_ns = newest_ns.saturating_sub(older.first.intended_ns);
    let age_ns = now_ns.saturating_sub(newest_ns);
    span_ns <= scale(POINT_NS, share, SPAN_SHARE).max(scale(age_ns, share, 10_000))
}

/// Two neighbours as one point.
pub(super) fn merge(older: &Point, newer: &Point) -> Point {
    let intended_ns = older.last.intended_ns.max(newer.last.intended_ns);
    Point {
        records: older.records.saturating_add(newer.records),
        last: Mark { intended_ns, ..newer.last },
        ..*older
    }
}

/// `value * by / of`, rounded down, without overflow.
pub(super) fn scale(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
