//! Values of random bytes behind a head with the record's facts.
//!
//! A value begins with the record's sequence (8 bytes), its partition (4 bytes; the highest bit is set in a marker) and the
//! instant that it was due in milliseconds since 1970 (8 bytes), all big-endian; a value shorter than that is cut off.
//! Random bytes follow: numbers of `Noise`, little-endian, never the same ones again, so that no window of a codec is
//! large enough to find them a second time. With `compressibility` c the value is laid out in blocks of 4 KiB (the last one
//! as long as is left), and the last c of each is a fixed text, which every codec folds to nearly nothing.

use super::Facts;
use super::format::{Format, MakeError};
use super::hash::{Random, mix};
use super::settings::RandomValueSettings;
use super::size::Sizes;

/// Bytes in front of a random value.
const HEAD_BYTES: usize = 20;
/// A mark in the partition of a marker.
const MARKER: u32 = 1 << 31;
/// Smaller than the pages of most stores, so that each page is compressible alike.
const BLOCK_BYTES: usize = 4096;
/// What is repeated in the compressible part.
const TEXT: &[u8; 64] = b"This part of the value can be compressed: it is always the same ";

/// Random numbers by one multiplication each: wyrand (Wang Yi 2019). The bytes of a value are most of what a record costs
/// to make, and SplitMix64 takes twice as long for them. For what a record is (its key, its size) SplitMix64 it stays.
struct Noise(u64);

impl Noise {
    /// The numbers of a record.
    const fn of(seed: u64, sequence: u64) -> Self {
        Self(Random::of(seed, sequence).next())
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = self.0 as u128 * (self.0 ^ 0xe703_7ed1_a0b4_28db) as u128;
        (product >> 64) as u64 ^ product as u64
    }
}

/// Makes values of random bytes.
#[derive(Debug, Clone)]
pub struct RandomBytes {
    seed: u64,
    sizes: Sizes,
    compressibility: f64,
}

impl RandomBytes {
    /// Values from a seed.
    #[must_use]
    pub fn new(seed: u64, settings: &RandomValueSettings) -> Self {
        let sizes = Sizes::new(mix(seed ^ 1), &settings.size);
        Self { seed, sizes, compressibility: settings.compressibility }
    }

    /// Bytes of text at the end of a block.
    #[allow(clippy::cast_precision_loss)] // at most a block
    fn text_bytes(&self, block: usize) -> usize {
        (self.compressibility * block as f64).round() as usize
    }
}

impl Format for RandomBytes {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let size = self.sizes.of(facts.sequence);
        let mut random = Noise::of(self.seed, facts.sequence);
        let mark = if facts.marker { MARKER } else { 0 };
        value.extend_from_slice(&facts.sequence.to_be_bytes());
        value.extend_from_slice(&(facts.partition | mark).to_be_bytes());
        value.extend_from_slice(&facts.intended_ms.to_be_bytes());
        value.resize(size, 0);
        let body = value.get_mut(HEAD_BYTES..).unwrap_or_default();
        if self.compressibility <= 0.0 {
            fill(body, &mut random);
            return Ok(());
        }
        let (mut rest, mut block) = (body, BLOCK_BYTES.min(size));
        let mut free = block.saturating_sub(HEAD_BYTES);
        while !rest.is_empty() {
            let (part, after) = std::mem::take(&mut rest).split_at_mut_checked(free).unwrap_or_default();
            let (noise, text) = part.split_at_mut(part.len() - self.text_bytes(block).min(part.len()));
            fill(noise, &mut random);
            write_text(text);
            block = BLOCK_BYTES.min(after.len());
            (rest, free) = (after, block);
        }
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        self.sizes.max_bytes()
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

/// Random bytes. Eight at a time, and each eight are made without waiting for the last: some gigabytes a second.
fn fill(bytes: &mut [u8], random: &mut Noise) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = random.next().to_le_bytes();
    }
    if !rest.is_empty() {
        let word = random.next().to_le_bytes();
        rest.iter_mut().zip(word).for_each(|(to, from)| *to = from);
    }
}

fn write_text(bytes: &mut [u8]) {
    let (pieces, rest) = bytes.as_chunks_mut::<64>();
    pieces.iter_mut().for_each(|piece| *piece = *TEXT);
    rest.iter_mut().zip(TEXT).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::super::settings::{SizeSetting, ValueSettings};
    use super::super::value::tests::{FACTS, write};
    use super::*;

    fn settings(size: u32, compressibility: f64) -> ValueSettings {
        let size = SizeSetting::Fixed(size);
        ValueSettings::Random(RandomValueSettings { size, compressibility, tombstones: 0.0 })
    }

    #[test]
    fn random_values_have_their_size_and_differ_from_record_to_record() {
        for size in [0, 7, 20, 21, 500, 4096, 10_000] {
            for compressibility in [0.0, 0.3, 0.9, 1.0] {
                assert_eq!(write(&settings(size, compressibility), &FACTS).len(), size as usize);
            }
        }
        let settings = settings(100, 0.0);
        let (one, two) = (write(&settings, &FACTS), write(&settings, &Facts { sequence: 78, ..FACTS }));
        assert_eq!(one[..8], 77_u64.to_be_bytes());
        assert_eq!(one[8..12], 3_u32.to_be_bytes());
        assert_ne!(one[20..], two[20..]);
        let marker = write(&settings, &Facts { marker: true, ..FACTS });
        assert_eq!(marker[8..12], [0x80, 0, 0, 3]);
        assert_eq!(marker[12..], one[12..]);
    }

    #[test]
    fn the_compressible_share_is_text_at_the_end_of_each_block() {
        for (size, compressibility, texts) in [
            (100, 0.5, &[(50, 100)][..]),
            (100, 0.9, &[(20, 100)]), // the head stays
            (10_000, 0.25, &[(3072, 4096), (7168, 8192), (9548, 10_000)]),
        ] {
            let value = write(&settings(size, compressibility), &FACTS);
            let mut from = 20;
            for (text, until) in texts {
                let expected: Vec<u8> = TEXT.iter().copied().cycle().take(until - text).collect();
                assert_eq!(value[*text..*until], expected, "{size} {compressibility}");
                let noise = &value[from.min(*text)..*text];
                assert!(noise.len() < 1000 || noise.windows(8).all(|word| word != &TEXT[..8]));
                from = *until;
            }
        }
    }
}
