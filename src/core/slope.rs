//! How fast a figure grows over hours, with an honest error: for leaks in memory that saws with a garbage collector.
//!
//! The slope is the median of the slopes between all pairs of points (Theil and Sen), so that single outliers do not move it.
//! Its error is the half width of a 95 % interval from what is left beside the line, as if it were noise; since neighbours
//! are alike (a saw, a cache that fills), it counts as only so many points as are independent of each other. Where the figure
//! bends, or only a few teeth of a saw were seen, that makes a wide error and not a wrong slope. What repeats as often as it
//! is looked at cannot be told from a slope by anybody.
//!
//! Memory is bounded: readings are collected in up to `MOST_BINS` means, and two become one when these are full.

/// Most means that are kept.
const MOST_BINS: usize = 128;
/// Readings that follow each other faster say nothing new.
const STEP_NS: u64 = 900_000_000;
/// Fewer readings are no slope.
const FEWEST: usize = 10;
/// Nor is a shorter time.
const SHORTEST_NS: u64 = 9_500_000_000;
const HOUR_NS: f64 = 3.6e12;

/// Readings of one figure over time, from its beginning or the last [`Slope::restart`].
#[derive(Debug, Clone, Default)]
pub struct Slope {
    bins: Vec<Bin>,
    open: Bin,
    /// Readings that make a bin.
    per_bin: u64,
    first_ns: u64,
    last_ns: Option<u64>,
    restarts: u64,
    /// The last estimate, and of how many readings it is.
    latest: Option<Growth>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    readings: u64,
    /// Sum of the times since the first reading.
    times_ns: f64,
    values: f64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.readings += other.readings;
        self.times_ns += other.times_ns;
        self.values += other.values;
    }

    /// Mean time (nanoseconds) and mean value.
    #[allow(clippy::cast_precision_loss)]
    fn point(&self) -> (f64, f64) {
        let readings = self.readings.max(1) as f64;
        (self.times_ns / readings, self.values / readings)
    }
}

/// A slope and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Growth in an hour, in the figure's unit.
    pub per_hour: f64,
    /// Half the width of its 95 % interval.
    pub error_per_hour: f64,
    /// Time that it was seen over.
    pub over_ns: u64,
    /// Times that it began anew before.
    pub restarts: u64,
}

impl Growth {
    /// 0 lies within the error: nobody can tell that it grows or shrinks.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.per_hour.abs() <= self.error_per_hour
    }
}

impl Slope {
    /// Takes in a reading; one that comes less than a second after the last is left out.
    #[allow(clippy::cast_precision_loss)]
    pub fn add(&mut self, at_ns: u64, value: f64) {
        if !value.is_finite() || self.last_ns.is_some_and(|last_ns| at_ns < last_ns.saturating_add(STEP_NS)) {
            return;
        }
        if self.last_ns.is_none() {
            self.first_ns = at_ns;
            self.per_bin = 1;
        }
        self.last_ns = Some(at_ns);
        let times_ns = at_ns.saturating_sub(self.first_ns) as f64;
        self.open.add(&Bin { readings: 1, times_ns, values: value });
        if self.open.readings < self.per_bin {
            return;
        }
        self.bins.push(std::mem::take(&mut self.open));
        if self.bins.len() >= MOST_BINS {
            self.bins = self.bins.chunks(2).map(merged).collect();
            self.per_bin *= 2;
        }
        self.latest = None;
    }

    /// Another process is there: what was before says nothing about it.
    pub fn restart(&mut self) {
        *self = Self { restarts: self.restarts + 1, ..Self::default() };
    }

    /// The slope so far; `None` for fewer than ten readings or less than ten seconds. Cheap when nothing was added.
    pub fn growth(&mut self) -> Option<Growth> {
        if self.latest.is_none() {
            self.latest = self.estimate();
        }
        self.latest
    }

    #[allow(clippy::cast_precision_loss)]
    fn estimate(&self) -> Option<Growth> {
        let over_ns = self.last_ns?.saturating_sub(self.first_ns);
        if self.bins.len() < FEWEST || over_ns < SHORTEST_NS {
            return None;
        }
        let points: Vec<(f64, f64)> = self.bins.iter().map(Bin::point).collect();
        let slope = median(pairs(&points).filter(|slope| slope.is_finite()).collect())?;
        let mut rest: Vec<f64> = points.iter().map(|(at, value)| value - slope * at).collect();
        let mean = rest.iter().sum::<f64>() / points.len() as f64;
        rest.iter_mut().for_each(|rest| *rest -= mean);
        let error = error(&points, &rest);
        Some(Growth {
            per_hour: slope * HOUR_NS,
            error_per_hour: error * HOUR_NS,
            over_ns,
            restarts: self.restarts,
        })
    }
}

fn merged(pair: &[Bin]) -> Bin {
    let mut sum = Bin::default();
    pair.iter().for_each(|bin| sum.add(bin));
    sum
}

/// The slopes between all points.
fn pairs(points: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    points.iter().enumerate().flat_map(|(index, one)| {
        points.iter().skip(index + 1).map(|other| (other.1 - one.1) / (other.0 - one.0))
    })
}

/// The middle value; the mean of the two middle ones of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let (middle, even) = (values.len() / 2, values.len().is_multiple_of(2));
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    Some(lower.filter(|_| even).map_or(*upper, |lower| f64::midpoint(lower, *upper)))
}

/// Half the width of the 95 % interval of a line's slope, given what is left beside it.
#[allow(clippy::cast_precision_loss)]
fn error(points: &[(f64, f64)], rest: &[f64]) -> f64 {
    let count = points.len() as f64;
    let squares: f64 = rest.iter().map(|rest| rest * rest).sum();
    let mean_at = points.iter().map(|(at, _)| at).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(at, _)| (at - mean_at) * (at - mean_at)).sum();
    if squares <= 0.0 || spread <= 0.0 {
        return 0.0;
    }
    // How many neighbours tell the same, up to the first that does not.
    let alike = |apart: usize| {
        rest.iter().zip(rest.iter().skip(apart)).map(|(one, other)| one * other).sum::<f64>() / squares
    };
    let mut same = 1.0;
    for share in (1..rest.len() / 2).map(alike).take_while(|share| *share > 0.0) {
        same += 2.0 * share;
    }
    // The line itself has taken some of the likeness away: the more, the fewer independent points there are.
    same *= 1.0 + 4.0 * same / count;
    let freedom = (count / same - 2.0).max(1.0);
    let variance = squares / (count - 2.0 * same).max(1.0);
    student_975(freedom) * (variance * same / spread).sqrt()
}

/// The 97.5 % quantile of Student's t: exact to a part in a hundred for two degrees of freedom and more, 12.7 for one.
fn student_975(freedom: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    const WHOLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let mut whole = WHOLE.iter().zip(WHOLE.iter().skip(1)).zip(1..);
    let between = whole.find(|(_, degree)| freedom < f64::from(*degree) + 1.0);
    match between {
        Some(((low, high), degree)) => low + (high - low) * (freedom - f64::from(degree)).max(0.0),
        // Cornish and Fisher's first two terms.
        None => {
            let cube = (NORMAL.powi(3) + NORMAL) / 4.0;
            let fifth = (5.0 * NORMAL.powi(5) + 16.0 * NORMAL.powi(3) + 3.0 * NORMAL) / 96.0;
            NORMAL + cube / freedom + fifth / (freedom * freedom)
        }
    }
}

#[cfg(test)]
mod tests;
