//! A planned course of the rate: segments one after the other, once, several times or for ever.
//!
//! Its own clock is the run's, without the warm-up and without pauses of the whole load. Nothing here has a state: [`Profile::piece`]
//! says what holds at a position, so that a profile of any length costs nothing but its description.

use super::pace::Pace;
use super::rate::Rate;
use super::shape::Shape;

/// Part of a profile. Lengths are in nanoseconds and at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What the rate does.
    pub course: Course,
    /// For how long; `u64::MAX` for ever.
    pub length_ns: u64,
}

/// What the rate does in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Follows a shape from its beginning.
    Shape(Shape),
    /// Two rates in turn.
    Burst {
        /// The rate of a burst, which comes first.
        rate: Rate,
        /// Length of a burst.
        burst_ns: u64,
        /// The rate between bursts.
        idle: Rate,
        /// From the beginning of a burst to that of the next.
        every_ns: u64,
    },
}

/// A planned course of the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    segments: Vec<Segment>,
    /// Times that the segments are gone through; `u64::MAX` for ever.
    times: u64,
    /// Length of all segments.
    cycle_ns: u64,
    peak: Pace,
    /// The profile as it was asked for, to be shown.
    shown: serde_json::Value,
}

/// What holds at a position of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The shape from the piece's beginning.
    pub shape: Shape,
    /// The position where it begins, in nanoseconds.
    pub from_ns: u64,
    /// The position where the next one begins; `u64::MAX` for never.
    pub to_ns: u64,
    /// Index of the segment; the number of segments after the profile's end.
    pub segment: usize,
    /// How often the segments were gone through before.
    pub cycle: u64,
    /// The segment's own beginning.
    pub segment_from_ns: u64,
    /// Whether the rate changes so often here, or all the time, that single changes say nothing.
    pub moving: bool,
}

impl Course {
    /// The integral over the first `upto_ns`. Every turn of a burst is the same, so that a year of them costs nothing.
    fn accrued(&self, upto_ns: u64) -> u128 {
        match *self {
            Self::Shape(shape) => shape.accrued(upto_ns),
            Self::Burst { rate, burst_ns, idle, every_ns } => {
                let (rate, idle) = (u128::from(rate.micros()), u128::from(idle.micros()));
                let turn = |ns: u64| {
                    let burst_ns = ns.min(burst_ns);
                    rate * u128::from(burst_ns) + idle * u128::from(ns - burst_ns)
                };
                let every_ns = every_ns.max(1);
                turn(every_ns) * u128::from(upto_ns / every_ns) + turn(upto_ns % every_ns)
            }
        }
    }
}

impl Profile {
    /// A profile of segments. After the last time, the rate that was last reached is kept. `None` when there are no segments.
    #[must_use]
    pub fn new(segments: Vec<Segment>, times: u64, shown: serde_json::Value) -> Option<Self> {
        let cycle_ns =
            segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.length_ns.max(1)));
        let peak = peak(&segments);
        (!segments.is_empty()).then_some(Self { segments, times: times.max(1), cycle_ns, peak, shown })
    }

    /// What holds at a position.
    #[must_use]
    pub fn piece(&self, at_ns: u64) -> Piece {
        let cycle = at_ns / self.cycle_ns;
        let end_ns = self.length_ns();
        if at_ns >= end_ns && end_ns < u64::MAX {
            let shape = match self.last_pace() {
                Pace::Steady(rate) => Shape::Constant(rate),
                Pace::Max => Shape::Max,
            };
            let segment = self.segments.len();
            return Piece {
                shape,
                from_ns: end_ns,
                to_ns: u64::MAX,
                segment,
                cycle: self.times,
                segment_from_ns: end_ns,
                moving: false,
            };
        }
        let mut from_ns = cycle * self.cycle_ns;
        let mut found = (0, Course::Shape(super::shape::NOTHING), u64::MAX);
        for (index, segment) in self.segments.iter().enumerate() {
            let to_ns = from_ns.saturating_add(segment.length_ns.max(1));
            found = (index, segment.course, to_ns);
            if at_ns < to_ns {
                break;
            }
            from_ns = to_ns;
        }
        let (segment, course, to_ns) = found;
        let whole = |shape| Piece {
            shape,
            from_ns,
            to_ns,
            segment,
            cycle,
            segment_from_ns: from_ns,
            moving: matches!(shape, Shape::Ramp { .. } | Shape::Sine { .. }),
        };
        match course {
            Course::Shape(shape) => whole(shape),
            Course::Burst { rate, burst_ns, idle, every_ns } => {
                let every_ns = every_ns.max(1);
                let turn_ns = from_ns + (at_ns - from_ns) / every_ns * every_ns;
                let turn_end_ns = turn_ns.saturating_add(burst_ns);
                let (shape, start_ns, end_ns) = if at_ns < turn_end_ns {
                    (rate, turn_ns, turn_end_ns)
                } else {
                    (idle, turn_end_ns, turn_ns.saturating_add(every_ns))
                };
                let shape = Shape::Constant(shape);
                Piece { from_ns: start_ns, to_ns: end_ns.min(to_ns), moving: true, ..whole(shape) }
            }
        }
    }

    /// The rate at a position.
    #[must_use]
    pub fn pace(&self, at_ns: u64) -> Pace {
        let piece = self.piece(at_ns);
        piece.shape.pace(at_ns - piece.from_ns)
    }

    /// The length of all times together in nanoseconds; `u64::MAX` for ever.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        if self.times == u64::MAX { u64::MAX } else { self.cycle_ns.saturating_mul(self.times) }
    }

    /// The length of one time in nanoseconds; `u64::MAX` when its last segment has no end.
    #[must_use]
    pub const fn cycle_ns(&self) -> u64 {
        self.cycle_ns
    }

    /// How often the segments are gone through; `u64::MAX` for ever.
    #[must_use]
    pub const fn times(&self) -> u64 {
        self.times
    }

    /// The segments in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The profile as it was asked for.
    #[must_use]
    pub const fn shown(&self) -> &serde_json::Value {
        &self.shown
    }

    /// The highest pace in it.
    #[must_use]
    pub const fn peak(&self) -> Pace {
        self.peak
    }

    /// The records of a stretch from the beginning, in 10^-15 records; what is sent at "max" is not in it.
    #[must_use]
    pub fn accrued(&self, upto_ns: u64) -> u128 {
        let cycles = (upto_ns / self.cycle_ns).min(self.times);
        let mut rest_ns = upto_ns - self.cycle_ns * cycles;
        let mut sum = if cycles > 0 { self.of_cycle(self.cycle_ns) * u128::from(cycles) } else { 0 };
        if cycles == self.times
            && let Pace::Steady(rate) = self.last_pace()
        {
            sum += Shape::Constant(rate).accrued(rest_ns);
            rest_ns = 0;
        }
        sum + self.of_cycle(rest_ns)
    }

    /// The same within one time.
    fn of_cycle(&self, upto_ns: u64) -> u128 {
        let (mut sum, mut left_ns) = (0, upto_ns);
        for segment in &self.segments {
            let length_ns = left_ns.min(segment.length_ns.max(1));
            sum += segment.course.accrued(length_ns);
            left_ns -= length_ns;
        }
        sum
    }

    /// The pace that is kept after the end: the one just reached.
    fn last_pace(&self) -> Pace {
        let Some(last) = self.segments.last() else { return Pace::default() };
        match last.course {
            Course::Shape(shape) => shape.pace(last.length_ns),
            Course::Burst { rate, burst_ns, idle, every_ns } => {
                let in_turn_ns = (last.length_ns.max(1) - 1) % every_ns.max(1);
                if in_turn_ns < burst_ns { rate.into() } else { idle.into() }
            }
        }
    }
}

fn peak(segments: &[Segment]) -> Pace {
    let peak = |segment: &Segment| match segment.course {
        Course::Shape(shape) => shape.peak_micros(),
        Course::Burst { rate, idle, .. } => rate.max(idle).micros(),
    };
    match segments.iter().map(peak).max().unwrap_or(0) {
        u64::MAX => Pace::Max,
        micros => Rate::from_micros(micros).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rate::RECORD;

    const SECOND: u64 = 1_000_000_000;

    fn per_second(rate: u64) -> Rate {
        Rate::from_micros(rate * 1_000_000)
    }

    fn constant(rate: u64, seconds: u64) -> Segment {
        Segment { course: Course::Shape(Shape::Constant(per_second(rate))), length_ns: seconds * SECOND }
    }

    fn profile(segments: Vec<Segment>, times: u64) -> Profile {
        Profile::new(segments, times, serde_json::Value::Null).unwrap()
    }

    #[test]
    #[allow(clippy::float_cmp)] // numbers that are exact
    fn steps_follow_each_other_and_the_last_one_stays() {
        let steps = profile(vec![constant(100, 10), constant(300, 5)], 2);
        let at = |seconds| steps.pace(seconds * SECOND).per_second().unwrap();
        assert_eq!(
            [0, 9, 10, 14, 15, 25, 29, 30, 1000].map(at),
            [100.0, 100.0, 300.0, 300.0, 100.0, 300.0, 300.0, 300.0, 300.0]
        );
        assert_eq!(steps.length_ns(), 30 * SECOND);
        assert_eq!(steps.accrued(30 * SECOND), 2 * 2500 * RECORD);
        assert_eq!(steps.accrued(31 * SECOND), (2 * 2500 + 300) * RECORD);
        let piece = steps.piece(26 * SECOND);
        assert_eq!(
            (piece.segment, piece.cycle, piece.from_ns, piece.to_ns),
            (1, 1, 25 * SECOND, 30 * SECOND)
        );
    }

    #[test]
    fn bursts_are_pieces_of_their_segment_and_end_with_it() {
        let burst = Course::Burst {
            rate: per_second(1000),
            burst_ns: SECOND,
            idle: per_second(10),
            every_ns: 4 * SECOND,
        };
        let bursts =
            profile(vec![constant(5, 2), Segment { course: burst, length_ns: 9 * SECOND + 1 }], u64::MAX);
        let cycle_ns = 11 * SECOND + 1;
        let piece = bursts.piece(cycle_ns + 7 * SECOND);
        assert_eq!((piece.from_ns, piece.to_ns), (cycle_ns + 7 * SECOND, cycle_ns + 10 * SECOND));
        assert_eq!(bursts.piece(3 * SECOND).shape, Shape::Constant(per_second(10)));
        let last = bursts.piece(10 * SECOND);
        assert_eq!((last.shape, last.to_ns), (Shape::Constant(per_second(1000)), 11 * SECOND));
        assert_eq!(bursts.piece(11 * SECOND).to_ns, cycle_ns, "an idle moment before the segment's end");
        assert!(last.moving && !bursts.piece(0).moving);
        let one = 10 + 3 * 1000 + 2 * 30;
        assert_eq!(bursts.accrued(cycle_ns) / RECORD, one);
        // Whole cycles at once give the same as one by one.
        let long = cycle_ns * 5 + 3 * SECOND;
        let (mut sum, mut at_ns) = (0, 0);
        while at_ns < long {
            let piece = bursts.piece(at_ns);
            sum += piece.shape.accrued(piece.to_ns.min(long) - piece.from_ns);
            at_ns = piece.to_ns;
        }
        assert_eq!(bursts.accrued(long), sum);
        assert_eq!(bursts.peak(), per_second(1000).into());
    }

    #[test]
    fn what_stays_after_the_end_is_what_was_reached() {
        let ramp = Shape::Ramp { from: Rate::ZERO, to: per_second(80), over_ns: SECOND, at_ns: 0 };
        let burst = |length_ns| Segment {
            course: Course::Burst {
                rate: per_second(9),
                burst_ns: SECOND,
                idle: per_second(1),
                every_ns: 2 * SECOND,
            },
            length_ns,
        };
        for (segment, rate) in [
            (Segment { course: Course::Shape(ramp), length_ns: SECOND }, 80.0),
            (burst(4 * SECOND), 1.0),
            (burst(3 * SECOND), 9.0),
        ] {
            let profile = profile(vec![segment], 1);
            assert_eq!(profile.pace(profile.length_ns()).per_second(), Some(rate), "{segment:?}");
        }
        let open = profile(
            vec![constant(5, 1), Segment { course: Course::Shape(Shape::Max), length_ns: u64::MAX }],
            1,
        );
        assert_eq!(
            (open.length_ns(), open.pace(u64::MAX - 1), open.peak()),
            (u64::MAX, Pace::Max, Pace::Max)
        );
        assert_eq!(Profile::new(vec![], 1, serde_json::Value::Null), None);
    }
}
