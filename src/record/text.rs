//! Writing numbers, instants and random texts without allocation.

use super::Facts;
use super::hash::{Random, below};

/// Letters with 5 bits each; the vowels come twice, so that words look like words.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyzaeiouy";
/// Two of them for 10 bits: half as many look-ups.
#[allow(clippy::indexing_slicing)] // evaluated by the compiler, which would refuse it
const PAIRS: [[u8; 2]; 1024] = {
    let (mut pairs, mut bits) = ([[0; 2]; 1024], 0);
    while bits < 1024 {
        pairs[bits] = [LETTERS[bits & 31], LETTERS[bits >> 5]];
        bits += 1;
    }
    pairs
};
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Words of 6 bits each.
const WORDS: [&str; 64] = [
    "able", "acid", "air", "amber", "apple", "arch", "basin", "beacon", "bird", "blue", "bridge", "calm",
    "cedar", "chart", "city", "clay", "cloud", "coast", "copper", "corn", "delta", "desk", "dune", "early",
    "east", "echo", "elm", "ember", "field", "fine", "flint", "forest", "garden", "glass", "gold", "grain",
    "green", "harbor", "hill", "iron", "island", "jade", "kind", "lake", "lantern", "leaf", "light", "linen",
    "maple", "meadow", "mint", "moon", "north", "ocean", "olive", "paper", "pearl", "quiet", "river", "salt",
    "silver", "stone", "summer", "valley",
];
/// Bytes of the longest of the words.
pub const LONGEST_WORD: usize = 7;
/// Bytes of a UUID as text.
pub const UUID_BYTES: usize = 36;
/// Bytes of an instant as text, without what follows the milliseconds.
pub const INSTANT_BYTES: usize = 23;
/// Most digits of a 64-bit number, with its sign.
pub const NUMBER_BYTES: usize = 20;

/// Most bytes of a record's facts as an object.
pub const FACTS_BYTES: usize = 1 + 5 + 20 + 1 + 12 + 10 + 1 + 11 + 20 + 1 + 14 + 20 + 14 + 1;

/// The last instant of the year 9999: later ones have no text of the same form.
const LAST_INSTANT_MS: i64 = 253_402_300_799_999;
const DAY_MS: i64 = 86_400_000;

/// An integer in decimal digits.
pub fn number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// An integer in at least `width` decimal digits.
pub fn padded(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let zeros = width.saturating_sub(digits.len());
    out.resize(out.len() + zeros, b'0');
    out.extend_from_slice(digits);
}

/// A fixed-point number: `scaled` units of 10^-`decimals`.
pub fn fixed(scaled: i64, decimals: u32, out: &mut Vec<u8>) {
    if scaled < 0 {
        out.push(b'-');
    }
    let (scaled, unit) = (scaled.unsigned_abs(), 10_u64.saturating_pow(decimals));
    number(scaled / unit, out);
    if decimals > 0 {
        out.push(b'.');
        padded(scaled % unit, decimals as usize, out);
    }
}

/// An instant (milliseconds since 1970, UTC) as RFC 3339 without its offset: `2026-11-30T12:00:00.123`; `tail` is what
/// follows, like `Z`. Instants outside the years 1970 to 9999 are moved to the nearest inside.
pub fn instant(ms: i64, tail: &[u8], out: &mut Vec<u8>) {
    let ms = ms.clamp(0, LAST_INSTANT_MS);
    let (day, in_day) = (ms / DAY_MS, (ms % DAY_MS).unsigned_abs());
    let (year, month, date) = civil(day);
    padded(year, 4, out);
    let two = |mark: u8, value: u64, out: &mut Vec<u8>| {
        out.push(mark);
        padded(value, 2, out);
    };
    two(b'-', month, out);
    two(b'-', date, out);
    two(b'T', in_day / 3_600_000, out);
    two(b':', in_day / 60_000 % 60, out);
    two(b':', in_day / 1000 % 60, out);
    out.push(b'.');
    padded(in_day % 1000, 3, out);
    out.extend_from_slice(tail);
}

/// A record's facts as a JSON object, for documents that have a place for additions.
pub fn facts_object(facts: &Facts, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    number(facts.key_id, out);
    facts_fields(facts, out);
    if facts.marker {
        out.extend_from_slice(b",\"marker\":true");
    }
    out.push(b'}');
}

/// Partition, sequence and intended time as fields behind others: `,"partition":…,"sequence":…,"intended_ms":…`.
pub fn facts_fields(facts: &Facts, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"partition\":");
    number(facts.partition, out);
    out.extend_from_slice(b",\"sequence\":");
    number(facts.sequence, out);
    out.extend_from_slice(b",\"intended_ms\":");
    number(facts.intended_ms, out);
}

/// Year, month and date of a day since 1970, by counting from March (so that the leap day is the year's last) within
/// eras of 400 years.
fn civil(day: i64) -> (u64, u64, u64) {
    let shifted = day.unsigned_abs() + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, date)
}

/// A UUID of version 4 from 128 random bits.
pub fn uuid(random: &mut Random, out: &mut Vec<u8>) {
    let high = (random.next() & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (random.next() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    // From the highest digit on, as numbers are written.
    let [high, low] = [high, low].map(|half| {
        let mut digits = hex_digits(half);
        digits.reverse();
        digits
    });
    let ((first, rest), (fourth, fifth)) = (high.split_at(8), low.split_at(4));
    let (second, third) = rest.split_at(4);
    out.extend_from_slice(first);
    for part in [second, third, fourth, fifth] {
        out.push(b'-');
        out.extend_from_slice(part);
    }
}

fn hex_digit(bits: u64) -> u8 {
    HEX.get((bits & 15) as usize).copied().unwrap_or(b'0')
}

/// The digits of a number, the lowest first.
fn hex_digits(bits: u64) -> [u8; 16] {
    std::array::from_fn(|place| hex_digit(bits >> (4 * place)))
}

/// So many random hexadecimal digits.
pub fn hex(digits: usize, random: &mut Random, out: &mut Vec<u8>) {
    fill(digits, random, out, hex_digits);
}

/// So many random letters.
pub fn letters(count: usize, random: &mut Random, out: &mut Vec<u8>) {
    fill::<12>(count, random, out, |bits| {
        let mut letters = [b'a'; 12];
        for (place, pair) in letters.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = PAIRS.get((bits >> (10 * place)) as usize & 1023).copied().unwrap_or(*pair);
        }
        letters
    });
}

/// So many random decimal digits.
pub fn digits(count: usize, random: &mut Random, out: &mut Vec<u8>) {
    fill::<16>(count, random, out, |mut bits| {
        std::array::from_fn(|_| {
            let digit = b'0' + below(bits, 10) as u8;
            bits = bits.wrapping_mul(10);
            digit
        })
    });
}

/// So many characters, `N` of them from one random number.
fn fill<const N: usize>(count: usize, random: &mut Random, out: &mut Vec<u8>, next: impl Fn(u64) -> [u8; N]) {
    let mut left = count;
    while left > 0 {
        let characters = next(random.next());
        let part = characters.get(..left).unwrap_or(&characters);
        out.extend_from_slice(part);
        left -= part.len();
    }
}

/// So many random words with spaces between them.
pub fn words(count: usize, random: &mut Random, out: &mut Vec<u8>) {
    let mut bits = 0;
    for index in 0..count {
        if index % 10 == 0 {
            bits = random.next();
        }
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(WORDS.get((bits & 63) as usize).copied().unwrap_or("able").as_bytes());
        bits >>= 6;
    }
}

/// A text as the inside of a JSON string.
pub fn escaped(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex_digit(u64::from(byte) >> 4), hex_digit(u64::from(byte))]);
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn instants_are_those_of_the_calendar() {
        // By `date -u -d @N`.
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(written(|out| instant(ms, b"Z", out)), text);
            assert_eq!(text.len(), INSTANT_BYTES + 1);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = civil(0);
        for day in 1..200_000 {
            let next = civil(day);
            let (year, month, date) = next;
            let follows = (year, month) == (last.0, last.1) && date == last.2 + 1
                || date == 1 && (month == last.1 + 1 || month == 1 && last.1 == 12 && year == last.0 + 1);
            assert!(follows && date <= 31, "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn the_largest_facts_have_the_size_that_is_said() {
        let text = written(|out| facts_object(&Facts::LONGEST, out));
        assert_eq!(text.len(), FACTS_BYTES, "{text}");
    }

    #[test]
    fn uuids_say_their_version() {
        let text = written(|out| uuid(&mut Random::of(1, 2), out));
        assert_eq!(text.len(), UUID_BYTES);
        let shape: String = text.chars().map(|c| if c.is_ascii_hexdigit() { 'x' } else { c }).collect();
        assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert_eq!(text.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
    }

    #[test]
    fn texts_have_their_length() {
        for count in [0, 1, 9, 10, 11, 16, 17, 100] {
            let mut random = Random::of(3, count as u64);
            assert_eq!(written(|out| letters(count, &mut random, out)).len(), count);
            assert_eq!(written(|out| hex(count, &mut random, out)).len(), count);
            let text = written(|out| digits(count, &mut random, out));
            assert!(text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()));
            let text = written(|out| words(count, &mut random, out));
            assert_eq!(text.split_whitespace().count(), count);
        }
        assert_eq!(WORDS.iter().map(|word| word.len()).max(), Some(LONGEST_WORD));
    }

    #[test]
    fn fixed_point_numbers_keep_sign_and_zeros() {
        for (scaled, decimals, text) in
            [(5, 2, "0.05"), (-5, 2, "-0.05"), (1234, 3, "1.234"), (7, 0, "7"), (-100, 1, "-10.0")]
        {
            assert_eq!(written(|out| fixed(scaled, decimals, out)), text);
        }
    }

    #[test]
    fn every_character_below_a_blank_is_escaped() {
        let text: String = ('\0'..='\u{80}').collect();
        let json = format!("\"{}\"", written(|out| escaped(&text, out)));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    proptest! {
        #[test]
        fn an_escaped_text_is_read_back_as_it_was(text in any::<String>()) {
            let json = format!("\"{}\"", written(|out| escaped(&text, out)));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
