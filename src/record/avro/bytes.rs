//! The bytes that Avro values are made of.

use super::super::hash::Random;
use super::super::text::{self, INSTANT_BYTES, UUID_BYTES};

pub(super) const DAY_MS: i64 = 86_400_000;

/// A random UUID of version 4.
pub(super) fn uuid(random: &mut Random) -> [u8; 16] {
    let bits = (u128::from(random.next()) << 64) | u128::from(random.next());
    let version = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    version.to_be_bytes()
}

/// A random UUID of version 4 as a text.
pub(super) fn push_uuid(out: &mut Vec<u8>, random: &mut Random) {
    push_long(out, UUID_BYTES as i64);
    text::uuid(random, out);
}

pub(super) fn push_random(out: &mut Vec<u8>, random: &mut Random, count: usize) {
    let end = out.len() + count;
    out.reserve(count + 8);
    while out.len() < end {
        out.extend_from_slice(&random.next().to_le_bytes());
    }
    out.truncate(end);
}

/// The key of a map's entry: its number, so that no map holds a key twice.
pub(super) fn push_key(out: &mut Vec<u8>, index: u32) {
    let mut number = itoa::Buffer::new();
    let digits = number.format(index);
    push_long(out, digits.len() as i64 + 1);
    out.push(b'k');
    out.extend_from_slice(digits.as_bytes());
}

/// A decimal's unscaled number: two's complement, big-endian, in a length of its own or the shortest.
pub(super) fn push_decimal(out: &mut Vec<u8>, number: i128, bytes: Option<usize>) {
    let all = number.to_be_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    match bytes {
        Some(size) => {
            out.resize(out.len() + size.saturating_sub(all.len()), sign);
            out.extend(all.iter().skip(all.len().saturating_sub(size)));
        }
        None => {
            // A byte of sign may go when the next one still shows it.
            let spare = all.windows(2).take_while(|pair| match pair {
                [first, next] => *first == sign && (next ^ sign) < 0x80,
                _ => false,
            });
            let spare = spare.count();
            push_long(out, (all.len() - spare) as i64);
            out.extend(all.iter().skip(spare));
        }
    }
}

/// A text or bytes with their length in front.
pub(in super::super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_long(out, text.len() as i64);
    out.extend_from_slice(text);
}

/// A number in Avro's variable-length form: small ones, of either sign, are short.
pub(in super::super) fn push_long(out: &mut Vec<u8>, number: i64) {
    let mut rest = zigzag(number);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn encoded_long(number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_long(&mut bytes, number);
    bytes
}

const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub(super) const fn long_bytes(number: i64) -> usize {
    let bits = 64 - (zigzag(number) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// An instant by RFC 3339 in UTC with milliseconds, as a text.
pub(super) fn push_instant(out: &mut Vec<u8>, ms: i64) {
    push_long(out, INSTANT_BYTES as i64 + 1);
    text::instant(ms, b"Z", out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_lengths_of_the_specification() {
        for (number, bytes) in
            [(0, vec![0]), (-1, vec![1]), (1, vec![2]), (-64, vec![0x7f]), (64, vec![0x80, 1])]
        {
            assert_eq!(encoded_long(number), bytes, "{number}");
        }
        for number in [0, -1, 63, 64, -65, 1 << 40, i64::MIN, i64::MAX] {
            assert_eq!(long_bytes(number), encoded_long(number).len(), "{number}");
        }
    }

    #[test]
    fn decimals_take_no_byte_too_many_and_keep_their_sign() {
        for (number, bytes) in [
            (0, vec![2, 0]),
            (127, vec![2, 127]),
            (128, vec![4, 0, 128]),
            (-1, vec![2, 255]),
            (-128, vec![2, 128]),
            (-129, vec![4, 255, 127]),
        ] {
            let mut out = Vec::new();
            push_decimal(&mut out, number, None);
            assert_eq!(out, bytes, "{number}");
        }
        let mut out = Vec::new();
        push_decimal(&mut out, -2, Some(18));
        assert_eq!(out, [vec![255; 17], vec![254]].concat());
    }

    #[test]
    fn instants_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (-1, "1970-01-01T00:00:00.000Z"),
        ] {
            let mut out = Vec::new();
            push_instant(&mut out, ms);
            assert_eq!(std::str::from_utf8(&out[1..]).unwrap(), text);
            assert_eq!(out[0], 48);
        }
    }
}
