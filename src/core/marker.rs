//! The last markers of a partition: records on top of the rate that freshness is measured by.

use std::collections::VecDeque;

/// Markers that are remembered of a partition: a quarter of an hour at one a second.
const MAX_MARKERS: usize = 1024;

/// What became of a marker that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Nothing yet.
    InFlight,
    /// The broker has it.
    Acked,
    /// It failed, or its outcome is unknown.
    Lost,
}

/// A marker that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Its number: 0, 1, 2, … with a hole for each that was not sent.
    pub number: u64,
    /// When it was due (monotonic).
    pub intended_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// The last markers sent to a partition, oldest first. Grows to 1,024 and no further.
#[derive(Debug, Clone, Default)]
pub struct Markers {
    last: VecDeque<Marker>,
    /// Markers forgotten for want of room.
    forgotten: u64,
}

impl Markers {
    /// Remembers one that was sent; numbers ascend.
    pub fn sent(&mut self, number: u64, intended_ns: u64) {
        if self.last.len() >= MAX_MARKERS {
            self.last.pop_front();
            self.forgotten += 1;
        }
        self.last.push_back(Marker { number, intended_ns, fate: Fate::InFlight });
    }

    /// Notes what became of one.
    pub fn report(&mut self, number: u64, fate: Fate) {
        let place = self.last.partition_point(|marker| marker.number < number);
        if let Some(marker) = self.last.get_mut(place).filter(|marker| marker.number == number) {
            marker.fate = fate;
        }
    }

    /// Those in flight are lost with a dead client.
    pub fn lose(&mut self) {
        for marker in &mut self.last {
            if marker.fate == Fate::InFlight {
                marker.fate = Fate::Lost;
            }
        }
    }

    /// The markers that are remembered, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Marker> + ExactSizeIterator {
        self.last.iter()
    }

    /// Those with a number above the given one, all of them when there is none; oldest first.
    pub fn after(&self, number: Option<u64>) -> impl Iterator<Item = &Marker> {
        let place = number.map_or(0, |number| self.last.partition_point(|marker| marker.number <= number));
        self.last.range(place..)
    }

    /// Markers forgotten for want of room: older ones than those that are remembered.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_remembered_with_their_fate_and_the_oldest_forgotten() {
        let mut markers = Markers::default();
        for number in (0..2000).filter(|number| number % 7 != 3) {
            markers.sent(number, number * 10);
        }
        markers.report(1999, Fate::Acked);
        markers.report(1997, Fate::Lost);
        markers.report(3, Fate::Acked);
        markers.report(1995, Fate::Acked);
        let fates: Vec<(u64, Fate)> =
            markers.iter().rev().take(4).map(|marker| (marker.number, marker.fate)).collect();
        assert_eq!(
            fates,
            [(1999, Fate::Acked), (1997, Fate::Lost), (1996, Fate::InFlight), (1995, Fate::Acked)]
        );
        assert_eq!((markers.iter().len(), markers.forgotten()), (1024, 1714 - 1024));
        markers.lose();
        assert_eq!(markers.iter().filter(|marker| marker.fate == Fate::InFlight).count(), 0);
        assert_eq!(markers.iter().filter(|marker| marker.fate == Fate::Acked).count(), 2);
    }
}
