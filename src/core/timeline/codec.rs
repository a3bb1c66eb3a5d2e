//! Points as bytes: every field as its distance to the one before, seven bits a byte. Ten bytes for a young
//! point, some twenty for one that holds billions of records, and no value that does not fit.

use super::{Mark, Point};

/// No point takes more: seven numbers of at most ten bytes.
pub(super) const MAX_POINT_BYTES: usize = 70;

/// Numbers of a point.
pub(super) const NUMBERS: usize = 7;

/// A point as distances; `tail` is the last record of the point before.
pub(super) const fn distances(point: &Point, tail: &Mark) -> [u64; NUMBERS] {
    let Point { first, last, records, .. } = point;
    let offsets = last.offset.wrapping_sub(first.offset);
    [
        // Signed: a marker may have been intended later than the records behind it.
        zigzag(first.intended_ns.wrapping_sub(tail.intended_ns)),
        first.offset.wrapping_sub(tail.offset),
        first.sequence.wrapping_sub(tail.sequence),
        offsets,
        // Offsets that are not ours; below 0 when offsets were acked twice.
        zigzag(offsets.wrapping_add(1).wrapping_sub(*records)),
        last.sequence.wrapping_sub(first.sequence),
        last.intended_ns.wrapping_sub(first.intended_ns),
    ]
}

/// The point that [`distances`] took apart, with how many records were acked before it.
pub(super) const fn point(distances: [u64; NUMBERS], tail: &Mark, acked_before: u64) -> Point {
    let [since, offset, sequence, offsets, foreign, sequences, span_ns] = distances;
    let first = Mark {
        intended_ns: tail.intended_ns.wrapping_add(unzigzag(since)),
        offset: tail.offset.wrapping_add(offset),
        sequence: tail.sequence.wrapping_add(sequence),
    };
    let last = Mark {
        offset: first.offset.wrapping_add(offsets),
        sequence: first.sequence.wrapping_add(sequences),
        intended_ns: first.intended_ns.wrapping_add(span_ns),
    };
    Point { acked_before, records: offsets.wrapping_add(1).wrapping_sub(unzigzag(foreign)), first, last }
}

/// Appends a point; `tail` is the last record of the point before.
pub(super) fn encode(point: &Point, tail: &Mark, out: &mut Vec<u8>) {
    for number in distances(point, tail) {
        write(number, out);
    }
}

/// Reads points back, oldest first.
pub(super) struct Points<'a> {
    bytes: std::slice::Iter<'a, u8>,
    tail: Mark,
    acked: u64,
}

impl<'a> Points<'a> {
    /// `tail` is the last record before the first point, `acked` how many were acked up to it.
    pub(super) fn new(bytes: &'a [u8], tail: Mark, acked: u64) -> Self {
        Self { bytes: bytes.iter(), tail, acked }
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = *self.bytes.next()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

impl Iterator for Points<'_> {
    type Item = Point;

    fn next(&mut self) -> Option<Point> {
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = self.number()?;
        }
        let point = point(numbers, &self.tail, self.acked);
        self.tail = point.last;
        self.acked = point.acked_after();
        Some(point)
    }
}

fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Small distances of either sign become small numbers.
const fn zigzag(distance: u64) -> u64 {
    (distance << 1) ^ ((distance as i64 >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}
