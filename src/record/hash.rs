//! The counter-based random numbers behind keys and values, and the hash that Kafka chooses partitions by.

/// SplitMix64's finalizer (Steele, Lea, Flood 2014): a bijection of 64-bit numbers that passes for random. Our own
/// few lines, because records must never change with the version of a library.
#[must_use]
pub const fn mix(mut number: u64) -> u64 {
    number = number.wrapping_add(GOLDEN);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The step of SplitMix64: 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: the random numbers of one record, found without making those of the records before it.
#[derive(Debug, Clone, Copy)]
pub struct Random(u64);

impl Random {
    /// The numbers of a record.
    #[must_use]
    pub const fn of(seed: u64, sequence: u64) -> Self {
        Self(mix(seed.wrapping_add(sequence.wrapping_mul(GOLDEN))))
    }

    /// The next 64 random bits.
    #[allow(clippy::should_implement_trait)] // it never ends
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

/// A number from 0 up to but not 1 from 64 random bits, of which it holds the upper 53.
#[must_use]
#[allow(clippy::cast_precision_loss)] // 53 bits are exact
pub const fn unit(random: u64) -> f64 {
    (random >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The seed of a record: markers have numbers of their own, which must not give them the ids of records.
#[must_use]
pub const fn seed_of(seed: u64, marker: bool) -> u64 {
    if marker { mix(seed ^ MARKER_SEED) } else { seed }
}

/// "markers".
const MARKER_SEED: u64 = 0x006d_6172_6b65_7273;

/// FNV-1a of a name, for seeds.
#[must_use]
pub fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A number below `bound` from 64 random bits (Lemire's multiply-shift; its bias is below bound ÷ 2^64).
#[must_use]
pub fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Kafka's murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`), as the Java client and librdkafka's `murmur2`
/// partitioner compute it.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key, as Kafka's Java client and librdkafka's `murmur2` partitioner choose it.
#[must_use]
pub fn partition(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn murmur2_is_the_java_clients() {
        let vectors: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (data, hash) in vectors {
            assert_eq!(murmur2(data) as i32, hash, "{data:?}");
        }
    }

    #[test]
    fn unit_stays_below_one() {
        assert_eq!(unit(0).to_bits(), 0);
        assert!(unit(u64::MAX) < 1.0);
        assert_eq!(unit(1 << 63).to_bits(), 0.5_f64.to_bits());
    }

    #[test]
    fn below_stays_below() {
        for bound in [1, 2, 1000, u64::MAX] {
            assert_eq!(below(0, bound), 0);
            assert_eq!(below(u64::MAX, bound), bound - 1);
        }
    }
}
