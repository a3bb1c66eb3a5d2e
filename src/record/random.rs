//! Values of random bytes behind a head with the record's facts.

use super::Facts;
use super::format::{Format, MakeError};
use super::hash::Random;
use super::settings::RandomValueSettings;

/// Bytes in front of a random value: sequence, partition and intended time, big-endian.
const HEAD_BYTES: usize = 20;

/// Makes values of random bytes.
#[derive(Debug, Clone)]
pub struct RandomBytes {
    seed: u64,
    size: usize,
}

impl RandomBytes {
    /// Values from a seed.
    #[must_use]
    pub fn new(seed: u64, settings: &RandomValueSettings) -> Self {
        Self { seed, size: settings.size.max_bytes() as usize }
    }
}

impl Format for RandomBytes {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let mut random = Random::of(self.seed, facts.sequence);
        value.reserve(self.size.max(HEAD_BYTES) + 8);
        value.extend_from_slice(&facts.sequence.to_be_bytes());
        value.extend_from_slice(&facts.partition.to_be_bytes());
        value.extend_from_slice(&facts.intended_ms.to_be_bytes());
        while value.len() < self.size {
            value.extend_from_slice(&random.next().to_le_bytes());
        }
        value.truncate(self.size);
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        self.size
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{SizeSetting, ValueSettings};
    use super::super::value::tests::{FACTS, write};
    use super::*;

    #[test]
    fn random_values_have_their_size_and_differ_from_record_to_record() {
        for size in [0, 7, 20, 21, 500] {
            let settings = ValueSettings::Random(RandomValueSettings {
                size: SizeSetting::Fixed(size),
                ..RandomValueSettings::default()
            });
            assert_eq!(write(&settings, &FACTS).len(), size as usize);
        }
        let settings = ValueSettings::Random(RandomValueSettings {
            size: SizeSetting::Fixed(100),
            ..RandomValueSettings::default()
        });
        let (one, two) = (write(&settings, &FACTS), write(&settings, &Facts { sequence: 78, ..FACTS }));
        assert_eq!(one[..8], 77_u64.to_be_bytes());
        assert_eq!(one[8..12], 3_u32.to_be_bytes());
        assert_ne!(one[20..], two[20..]);
    }
}
