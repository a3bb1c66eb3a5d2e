//! Points as text: what a run's record keeps of a timeline, a line at a time, so that a restart finds it again.
//!
//! A line is `1:` (the version) and numbers: how many records were acked before, then each point's distances (see
//! `codec`), the first one's from zero. A number is digits of five bits, the lowest first; all but its last digit have
//! a sixth bit set. A line stands for itself, so that one that was lost or torn costs its own points only.

use super::codec::{self, NUMBERS};
use super::{Mark, Point, SPAN_SHARE, Timeline, may_merge, merge};

/// The version that is written, and the only one that is read.
const VERSION: &str = "1";
/// Digits of six bits, harmless in JSON.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS: u32 = 5;
const MORE: u8 = 1 << BITS;

/// How far a timeline has been told in lines; nothing by default. Of no use to another timeline than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    acked: u64,
    /// The last record that was told.
    last: Mark,
}

/// Some points of one partition's timeline.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Line(String);

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Written in another way.
    #[error(
        "timeline points begin with {0:?}, and this soakd reads version {VERSION} only; read them with the soakd that wrote them"
    )]
    Version(String),
    /// Not what was written: cut off or overwritten.
    #[error("timeline points are damaged at character {0}; leave the line out")]
    Damaged(usize),
}

impl Line {
    /// What a timeline has gained since a line was made last, and how far it is told then; `None` when it has gained
    /// nothing. Keep the new cursor once the line is safe, else the next line tells it again.
    ///
    /// Points that are old enough already are merged like those in memory, so a line that covers a second has 100
    /// points a partition at most, one that covers ten seconds 400 and one that covers a minute 640, of some 17 bytes.
    #[must_use]
    pub fn since(timeline: &Timeline, told: Cursor, now_ns: u64) -> Option<(Self, Cursor)> {
        let mut points = timeline.points_beyond(told.acked);
        let mut merged = rest(points.next()?, &told);
        let mut line = Writer::new(merged.acked_before);
        for point in points {
            if may_merge(&merged, &point, now_ns, SPAN_SHARE) {
                merged = merge(&merged, &point);
            } else {
                line.point(&merged);
                merged = point;
            }
        }
        line.point(&merged);
        Some((Self(line.text), Cursor { acked: merged.acked_after(), last: merged.last }))
    }

    /// The points, for [`Timeline::restore`].
    ///
    /// # Errors
    /// When the line is of another version or damaged; nothing of it can be trusted then.
    pub fn points(&self) -> Result<Vec<Point>, LineError> {
        let (version, digits) = self.0.split_once(':').unwrap_or((&self.0, ""));
        if version != VERSION {
            return Err(LineError::Version(version.chars().take(20).collect()));
        }
        let mut numbers = Numbers { digits: digits.as_bytes(), place: 0 };
        let damaged = |numbers: &Numbers<'_>| LineError::Damaged(VERSION.len() + 1 + numbers.place);
        let mut acked = numbers.next().ok_or_else(|| damaged(&numbers))?;
        let (mut points, mut tail) = (Vec::new(), Mark::default());
        while numbers.place < numbers.digits.len() {
            let mut distances = [0; NUMBERS];
            for distance in &mut distances {
                *distance = numbers.next().ok_or_else(|| damaged(&numbers))?;
            }
            let point = codec::point(distances, &tail, acked);
            (tail, acked) = (point.last, point.acked_after());
            points.push(point);
        }
        Ok(points)
    }
}

impl Timeline {
    /// How far the timeline is told when all of it is: for one that was restored, whose points the record has.
    #[must_use]
    pub fn told(&self) -> Cursor {
        Cursor { acked: self.count(), last: self.last().unwrap_or_default() }
    }
}

/// The part of a point that was not told.
fn rest(point: Point, told: &Cursor) -> Point {
    if point.acked_before >= told.acked {
        return point;
    }
    let first = Mark {
        offset: told.last.offset.saturating_add(1).min(point.last.offset),
        sequence: told.last.sequence.saturating_add(1).min(point.last.sequence),
        // When exactly the rest begins is not known: like the point.
        intended_ns: point.first.intended_ns,
    };
    let records = point.acked_after().saturating_sub(told.acked);
    Point { acked_before: told.acked, records, first, last: point.last }
}

struct Writer {
    text: String,
    tail: Mark,
}

impl Writer {
    fn new(acked_before: u64) -> Self {
        let mut this = Self { text: format!("{VERSION}:"), tail: Mark::default() };
        this.number(acked_before);
        this
    }

    fn point(&mut self, point: &Point) {
        for distance in codec::distances(point, &self.tail) {
            self.number(distance);
        }
        self.tail = point.last;
    }

    fn number(&mut self, mut number: u64) {
        loop {
            let low = (number & u64::from(MORE - 1)) as u8;
            number >>= BITS;
            let digit = if number > 0 { low | MORE } else { low };
            self.text.push(DIGITS.get(usize::from(digit)).copied().unwrap_or(b'A').into());
            if number == 0 {
                return;
            }
        }
    }
}

struct Numbers<'a> {
    digits: &'a [u8],
    place: usize,
}

impl Numbers<'_> {
    /// The next number; `None` at the end, at what is no digit, and when the number has more than 64 bits.
    fn next(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let digit = value(*self.digits.get(self.place)?)?;
            let bits = u64::from(digit & (MORE - 1));
            let shifted = bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
            number |= shifted;
            self.place += 1;
            if digit & MORE == 0 {
                return Some(number);
            }
            shift += BITS;
        }
    }
}

const fn value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
