//! Keys: a number by sequence, and how it is written.

use super::hash::{GOLDEN, Random, below, mix, unit};
use super::settings::{KeyFormat, KeyKind, KeySettings, UNIQUE_KEYS};
use super::shuffle::Shuffle;
use super::zipf::Zipf;

/// The largest number of a marker's key: it fits a signed 64-bit column.
const LAST_MARKER: u64 = i64::MAX as u64;
/// Numbers that may be looked at for the markers' keys; random64 never gives them to a record.
const MARKER_NUMBERS: u64 = 1 << 24;

/// Makes the keys of a stream.
#[derive(Debug, Clone)]
pub struct Keys {
    seed: u64,
    choice: Choice,
    shuffle: Option<Shuffle>,
    format: KeyFormat,
    size: usize,
    /// No record's number is in here.
    reserved: Reserved,
}

/// How the number is chosen.
#[derive(Debug, Clone)]
enum Choice {
    None,
    Sequential { cardinality: u64 },
    Unique,
    Uniform { cardinality: u64 },
    Zipf(Zipf),
    Hotspot { hot: u64, cold: u64, hot_traffic: f64 },
    Random64,
}

/// Numbers for markers.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    first: u64,
    last: u64,
    /// From the last one downwards.
    down: bool,
}

impl Keys {
    /// Keys from a seed. `records` is the number of records after which the stream ends.
    #[must_use]
    pub fn new(seed: u64, kind: KeyKind, settings: &KeySettings, records: Option<u64>) -> Self {
        let cardinality = settings.cardinality.max(1);
        let choice = match kind {
            KeyKind::None | KeyKind::Value => Choice::None,
            KeyKind::Sequential => Choice::Sequential { cardinality },
            KeyKind::Unique => Choice::Unique,
            KeyKind::Auto | KeyKind::Uniform => Choice::Uniform { cardinality },
            KeyKind::Zipf => Choice::Zipf(Zipf::new(cardinality, settings.exponent)),
            KeyKind::Hotspot => hotspot(cardinality, settings),
            KeyKind::Random64 => Choice::Random64,
        };
        let shuffled = match kind {
            KeyKind::Unique => UNIQUE_KEYS,
            _ => cardinality,
        };
        let shuffle = settings.shuffles(kind).then(|| Shuffle::new(mix(seed), shuffled));
        // The keys of a stream without keys are its markers' only.
        let (format, size) = match choice {
            Choice::None => (KeyFormat::Binary, 8),
            _ => (settings.format, settings.size as usize),
        };
        let reserved = reserved(&choice, settings, shuffle.is_some(), records);
        Self { seed, choice, shuffle, format, size, reserved }
    }

    /// Whether records have no key.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self.choice, Choice::None)
    }

    /// Most bytes of a key.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        match (&self.choice, self.format) {
            (Choice::None, _) => 0,
            (_, KeyFormat::Decimal) => super::settings::MAX_DIGITS as usize,
            _ => self.size,
        }
    }

    /// Writes the key of a record into an empty buffer and returns its number; `None` when there is no key.
    pub fn write(&self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let random = || Random::of(self.seed, sequence);
        let number = match &self.choice {
            Choice::None => return None,
            Choice::Sequential { cardinality } => sequence % cardinality,
            Choice::Unique => sequence,
            Choice::Uniform { cardinality } => below(self.mixed(sequence), *cardinality),
            Choice::Zipf(zipf) => zipf.draw(&mut random()),
            Choice::Hotspot { hot, cold, hot_traffic } => {
                let mut random = random();
                if unit(random.next()) < *hot_traffic {
                    below(random.next(), *hot)
                } else {
                    hot + below(random.next(), *cold)
                }
            }
            Choice::Random64 => self.random64(sequence),
        };
        let number = self.shuffle.as_ref().map_or(number, |shuffle| shuffle.apply(number));
        self.encode(number, key);
        Some(number)
    }

    /// Writes the key with a number into an empty buffer.
    pub fn encode(&self, number: u64, key: &mut Vec<u8>) {
        if self.format == KeyFormat::Binary {
            let bytes = number.to_be_bytes();
            // Longer keys are padded in front, shorter ones hold the low bytes: the settings refuse a size too small.
            key.resize(self.size.saturating_sub(bytes.len()), 0);
            key.extend_from_slice(bytes.get(bytes.len().saturating_sub(self.size)..).unwrap_or_default());
            return;
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        if self.format == KeyFormat::Padded {
            key.resize(self.size.saturating_sub(digits.len()), b'0');
        }
        key.extend_from_slice(digits);
    }

    /// The numbers that markers may have, in the order in which they are tried.
    pub fn marker_numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let Reserved { first, last, down } = self.reserved;
        let numbers = (last.saturating_add(1)).saturating_sub(first).min(MARKER_NUMBERS);
        (0..numbers).map(move |index| if down { last - index } else { first + index })
    }

    /// A bijection of 64-bit numbers.
    const fn mixed(&self, number: u64) -> u64 {
        mix(self.seed.wrapping_add(number.wrapping_mul(GOLDEN)))
    }

    /// A bijection of all 64-bit numbers but the reserved ones: what falls among them goes round again.
    const fn random64(&self, sequence: u64) -> u64 {
        let mut number = self.mixed(sequence);
        while number >= self.reserved.first && number <= self.reserved.last {
            number = self.mixed(number);
        }
        number
    }
}

fn hotspot(cardinality: u64, settings: &KeySettings) -> Choice {
    #[allow(clippy::cast_precision_loss)] // one key more or less of 2^53
    let hot = ((settings.hot_keys * cardinality as f64).round() as u64).clamp(1, cardinality);
    let cold = cardinality - hot;
    // Where all keys are hot there is none for the rest of the traffic.
    let hot_traffic = if cold == 0 { 1.0 } else { settings.hot_traffic };
    Choice::Hotspot { hot, cold, hot_traffic }
}

/// The numbers that no record has, and that the key's format can hold.
fn reserved(choice: &Choice, settings: &KeySettings, shuffled: bool, records: Option<u64>) -> Reserved {
    let capacity = if matches!(choice, Choice::None) { 1 << 64 } else { settings.capacity() };
    let last = u64::try_from(capacity - 1).unwrap_or(u64::MAX).min(LAST_MARKER);
    match choice {
        Choice::None | Choice::Random64 => Reserved { first: last - (MARKER_NUMBERS - 1), last, down: true },
        Choice::Unique => {
            let first = records.filter(|_| !shuffled).unwrap_or(UNIQUE_KEYS);
            Reserved { first, last, down: true }
        }
        _ => Reserved { first: settings.cardinality.max(1), last, down: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that `mix` makes this one of.
    fn unmix(mut number: u64) -> u64 {
        // Each step of it backwards; the inverse of an odd number by Newton's method.
        let inverse =
            |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
        let unshift = |number: u64, by: u32| (0..64 / by).fold(number, |found, _| number ^ (found >> by));
        number = unshift(number, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        number = unshift(number, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        unshift(number, 30).wrapping_sub(GOLDEN)
    }

    #[test]
    fn random64_never_gives_a_record_the_number_of_a_marker() {
        let settings = KeySettings { kind: KeyKind::Random64, ..KeySettings::default() };
        let keys = Keys::new(77, KeyKind::Random64, &settings, None);
        let inverse = (0..6).fold(GOLDEN, |x, _| x.wrapping_mul(2_u64.wrapping_sub(GOLDEN.wrapping_mul(x))));
        let numbers: Vec<u64> = keys.marker_numbers().take(1000).collect();
        assert_eq!(numbers[0], i64::MAX as u64);
        for number in numbers {
            let sequence = unmix(number).wrapping_sub(77).wrapping_mul(inverse);
            assert_eq!(keys.mixed(sequence), number, "the test's own arithmetic");
            let given = keys.write(sequence, &mut Vec::new()).unwrap();
            assert!(!(LAST_MARKER - (MARKER_NUMBERS - 1)..=LAST_MARKER).contains(&given));
        }
    }
}
