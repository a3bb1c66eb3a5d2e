//! Values of random bytes behind a head with the record's facts.
//!
//! A value begins with the record's sequence (8 bytes), its partition (4 bytes; the highest bit is set in a marker) and the
//! instant that it was due in milliseconds since 1970 (8 bytes), all big-endian; a value shorter than that is cut off.
//! Random bytes follow. The value is laid out in blocks of 4 KiB (the last one as long as is left); with `compressibility` c
//! the last c of each is a fixed text, which every codec folds to nearly nothing, and the rest is the stream's `Noise` masked with
//! a random number of the record's and block's own.

use std::sync::Arc;

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

/// Random bytes of a stream, eight at a time. A record's are these, each eight combined by exclusive or with a number of the
/// record's: a codec finds repeated bytes only, and four bytes at the same place of two records are alike by chance alone, as
/// they would be if each had been made anew. Making a value so costs a fifth, which at full speed is most of what a
/// record costs to make.
#[derive(Debug, Clone)]
struct Noise(Arc<[[u8; 8]]>);

impl Noise {
    fn new(seed: u64) -> Self {
        Self((0..BLOCK_BYTES as u64 / 8).map(|word| Random::of(seed, word).next().to_le_bytes()).collect())
    }

    /// Appends so many random bytes, at most a block.
    fn write(&self, mask: u64, bytes: usize, value: &mut Vec<u8>) {
        let begin = value.len();
        value.extend_from_slice(self.0.as_flattened().get(..bytes).unwrap_or_default());
        let (words, rest) = value.get_mut(begin..).unwrap_or_default().as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_le_bytes(*word) ^ mask).to_le_bytes();
        }
        rest.iter_mut().zip(mask.to_le_bytes()).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Makes values of random bytes.
#[derive(Debug, Clone)]
pub struct RandomBytes {
    seed: u64,
    sizes: Sizes,
    compressibility: f64,
    noise: Noise,
}

impl RandomBytes {
    /// Values from a seed.
    #[must_use]
    pub fn new(seed: u64, settings: &RandomValueSettings) -> Self {
        let sizes = Sizes::new(mix(seed ^ 1), &settings.size);
        let noise = Noise::new(mix(seed ^ 2));
        Self { seed, sizes, compressibility: settings.compressibility, noise }
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
        let mut random = Random::of(self.seed, facts.sequence);
        let mark = if facts.marker { MARKER } else { 0 };
        value.extend_from_slice(&facts.sequence.to_be_bytes());
        value.extend_from_slice(&(facts.partition | mark).to_be_bytes());
        value.extend_from_slice(&facts.intended_ms.to_be_bytes());
        value.truncate(size);
        let mut block = BLOCK_BYTES.min(size);
        let mut free = block.saturating_sub(HEAD_BYTES);
        while free > 0 {
            let text = if self.compressibility > 0.0 { self.text_bytes(block).min(free) } else { 0 };
            self.noise.write(random.next(), free - text, value);
            write_text(text, value);
            block = BLOCK_BYTES.min(size - value.len());
            free = block;
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

/// Appends so many bytes of text.
fn write_text(bytes: usize, value: &mut Vec<u8>) {
    let end = value.len() + bytes;
    while value.len() < end {
        value.extend_from_slice(TEXT.get(..end - value.len()).unwrap_or(TEXT));
    }
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
    fn a_codec_finds_next_to_nothing_in_random_bytes() {
        // What codecs look for: four bytes that were there before. By chance it is 1 in 2^32 of the pairs of places.
        let mut seen = std::collections::HashSet::new();
        let (mut windows, mut repeated) = (0, 0);
        let small = (0..2_000).map(|sequence| write(&settings(100, 0.0), &Facts { sequence, ..FACTS }));
        let large =
            (9_000..9_005).map(|sequence| write(&settings(20_000, 0.0), &Facts { sequence, ..FACTS }));
        for value in small.chain(large) {
            for window in value[20..].windows(4) {
                windows += 1;
                repeated += u32::from(!seen.insert(window.to_vec()));
            }
        }
        assert!(windows > 250_000 && repeated < 60, "{repeated} of {windows}");
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
