//! Writes a record by its plan: Avro's binary encoding, without an allocation.

use super::super::Facts;
use super::super::format::MakeError;
use super::super::hash::{Random, below};
use super::facts::{Fact, Form};

/// What to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// Always the same bytes.
    Literal(Box<[u8]>),
    /// One after the other.
    All(Box<[Node]>),
    Boolean,
    /// `from` to `from + span`.
    Whole {
        from: i64,
        span: u64,
    },
    Float {
        from: f64,
        span: f64,
    },
    Double {
        from: f64,
        span: f64,
    },
    Text {
        least: u32,
        most: u32,
    },
    Bytes {
        least: u32,
        most: u32,
    },
    /// So many bytes, without a length in front.
    Raw(usize),
    UuidText,
    UuidBytes,
    /// The unscaled number, in so many bytes or as many as it needs.
    Decimal {
        from: i128,
        span: u128,
        bytes: Option<usize>,
    },
    Duration,
    /// The instant at which the record was due.
    Clock(Clock),
    /// One of them.
    Pick(Box<[Box<[u8]>]>),
    /// A union: the prefix of a type stands in front of its value.
    Choice {
        null: Option<Null>,
        others: Box<[Node]>,
    },
    /// An array, or a map when `keyed`.
    Items {
        least: u32,
        most: u32,
        keyed: bool,
        item: Box<Node>,
    },
    Fact {
        fact: Fact,
        form: Form,
        field: Box<str>,
    },
}

/// The null of a union: chosen when 53 random bits are below a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Null {
    pub(super) prefix: Box<[u8]>,
    pub(super) below: u64,
}

/// The unit of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Days,
    DayMillis,
    DayMicros,
    Millis,
    Micros,
    Nanos,
}

/// Letters of texts: 6 random bits each, ten of a number.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -";
const DAY_MS: i64 = 86_400_000;
/// Of a number in Avro's variable-length form.
const MAX_LONG_BYTES: usize = 10;
/// Sign and digits of any number of 64 bits, and more than an instant by RFC 3339 has.
const MAX_FACT_TEXT_BYTES: usize = 40;

/// Writes a record. The same facts and random numbers give the same bytes.
pub(super) fn write(
    node: &Node,
    facts: &Facts,
    random: &mut Random,
    out: &mut Vec<u8>,
) -> Result<(), MakeError> {
    match node {
        Node::Literal(bytes) => out.extend_from_slice(bytes),
        Node::All(parts) => {
            for part in parts {
                write(part, facts, random, out)?;
            }
        }
        Node::Pick(choices) => {
            let chosen = below(random.next(), choices.len() as u64) as usize;
            out.extend_from_slice(choices.get(chosen).map_or(&[], |bytes| bytes));
        }
        Node::Choice { null, others } => match null {
            Some(null) if random.next() >> 11 < null.below => out.extend_from_slice(&null.prefix),
            _ => {
                let chosen = below(random.next(), others.len() as u64) as usize;
                if let Some(other) = others.get(chosen) {
                    write(other, facts, random, out)?;
                }
            }
        },
        Node::Items { least, most, keyed, item } => {
            let count = between(random, *least, *most);
            if count > 0 {
                push_long(out, count.into());
            }
            for index in 0..count {
                if *keyed {
                    push_key(out, index);
                }
                write(item, facts, random, out)?;
            }
            out.push(0);
        }
        Node::Fact { fact, form, field } => return write_fact(*fact, *form, field, facts, out),
        Node::Clock(unit) => push_long(out, unit.of(facts.intended_ms)),
        scalar => write_scalar(scalar, random, out),
    }
    Ok(())
}

fn write_scalar(node: &Node, random: &mut Random, out: &mut Vec<u8>) {
    match node {
        Node::Boolean => out.push((random.next() >> 63) as u8),
        Node::Whole { from, span } => {
            let bits = random.next();
            let more = span.checked_add(1).map_or(bits, |bound| below(bits, bound));
            push_long(out, from.wrapping_add_unsigned(more));
        }
        Node::Float { from, span } => {
            out.extend_from_slice(&((from + share(random) * span) as f32).to_le_bytes());
        }
        Node::Double { from, span } => out.extend_from_slice(&(from + share(random) * span).to_le_bytes()),
        Node::Text { least, most } => {
            let size = between(random, *least, *most);
            push_long(out, size.into());
            push_letters(out, random, size as usize);
        }
        Node::Bytes { least, most } => {
            let size = between(random, *least, *most);
            push_long(out, size.into());
            push_random(out, random, size as usize);
        }
        Node::Raw(size) => push_random(out, random, *size),
        Node::UuidText => {
            let uuid = uuid(random);
            out.push(72); // a length of 36
            for (index, byte) in uuid.into_iter().enumerate() {
                if matches!(index, 4 | 6 | 8 | 10) {
                    out.push(b'-');
                }
                out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
            }
        }
        Node::UuidBytes => out.extend_from_slice(&uuid(random)),
        Node::Decimal { from, span, bytes } => {
            let bits = (u128::from(random.next()) << 64) | u128::from(random.next());
            // The bias of the remainder is below span ÷ 2^128.
            let more = span.checked_add(1).map_or(bits, |bound| bits % bound);
            push_decimal(out, from.wrapping_add_unsigned(more), *bytes);
        }
        Node::Duration => {
            // Months of one year, days of one month, milliseconds of one day.
            for bound in [12, 28, DAY_MS as u64] {
                out.extend_from_slice(&(below(random.next(), bound) as u32).to_le_bytes());
            }
        }
        _ => {}
    }
}

fn write_fact(
    fact: Fact,
    form: Form,
    field: &str,
    facts: &Facts,
    out: &mut Vec<u8>,
) -> Result<(), MakeError> {
    let number = match fact {
        Fact::Sequence => facts.sequence.into(),
        Fact::Partition => facts.partition.into(),
        Fact::Key => facts.key_id.into(),
        Fact::Intended => i128::from(facts.intended_ms),
    };
    let too_large = |kind: &str| {
        MakeError(format!("{number} does not fit the field {field:?} of type {kind}; give it a wider type"))
    };
    match form {
        Form::Int => push_long(out, i32::try_from(number).map_err(|_| too_large("int"))?.into()),
        Form::Long(times) => {
            push_long(out, i64::try_from(number * i128::from(times)).map_err(|_| too_large("long"))?);
        }
        Form::Double => out.extend_from_slice(&(number as f64).to_le_bytes()),
        Form::Text if fact == Fact::Intended => push_instant(out, facts.intended_ms),
        Form::Text => push_text(out, itoa::Buffer::new().format(number).as_bytes()),
    }
    Ok(())
}

impl Node {
    /// Most bytes that it writes.
    pub(super) fn max_bytes(&self) -> usize {
        let sized = |most: u32| long_bytes(most.into()) + most as usize;
        match self {
            Node::Literal(bytes) => bytes.len(),
            Node::All(parts) => parts.iter().map(Node::max_bytes).fold(0, usize::saturating_add),
            Node::Boolean => 1,
            Node::Whole { from, span } => {
                long_bytes(*from).max(long_bytes(from.wrapping_add_unsigned(*span)))
            }
            Node::Float { .. } => 4,
            Node::Double { .. } => 8,
            Node::Text { most, .. } | Node::Bytes { most, .. } => sized(*most),
            Node::Raw(size) => *size,
            Node::UuidText => 37,
            Node::UuidBytes => 16,
            Node::Decimal { bytes, .. } => bytes.unwrap_or(17),
            Node::Duration => 12,
            Node::Clock(_) => MAX_LONG_BYTES,
            Node::Pick(choices) => choices.iter().map(|bytes| bytes.len()).max().unwrap_or(0),
            Node::Choice { null, others } => {
                let null = null.as_ref().map_or(0, |null| null.prefix.len());
                others.iter().map(Node::max_bytes).max().unwrap_or(0).max(null)
            }
            Node::Items { most, keyed, item, .. } => {
                // A key is its length and at most a letter and ten digits.
                let each = item.max_bytes().saturating_add(if *keyed { 12 } else { 0 });
                each.saturating_mul(*most as usize).saturating_add(MAX_LONG_BYTES)
            }
            Node::Fact { .. } => MAX_FACT_TEXT_BYTES,
        }
    }
}

impl Clock {
    /// An instant in the unit.
    fn of(self, ms: i64) -> i64 {
        match self {
            Clock::Days => ms.div_euclid(DAY_MS),
            Clock::DayMillis => ms.rem_euclid(DAY_MS),
            Clock::DayMicros => ms.rem_euclid(DAY_MS) * 1_000,
            Clock::Millis => ms,
            Clock::Micros => ms.saturating_mul(1_000),
            Clock::Nanos => ms.saturating_mul(1_000_000),
        }
    }
}

/// A share from 0 to below 1: 53 random bits, which a double holds exactly.
fn share(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

fn between(random: &mut Random, least: u32, most: u32) -> u32 {
    if least >= most {
        return least;
    }
    least + below(random.next(), u64::from(most - least) + 1) as u32
}

/// A random UUID of version 4.
fn uuid(random: &mut Random) -> [u8; 16] {
    let bits = (u128::from(random.next()) << 64) | u128::from(random.next());
    let version = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    version.to_be_bytes()
}

const fn hex(four_bits: u8) -> u8 {
    if four_bits < 10 { b'0' + four_bits } else { b'a' + four_bits - 10 }
}

fn push_letters(out: &mut Vec<u8>, random: &mut Random, mut count: usize) {
    out.reserve(count);
    while count > 0 {
        let mut bits = random.next();
        let now = count.min(10);
        for _ in 0..now {
            out.push(LETTERS.get((bits & 63) as usize).copied().unwrap_or(b' '));
            bits >>= 6;
        }
        count -= now;
    }
}

fn push_random(out: &mut Vec<u8>, random: &mut Random, count: usize) {
    let end = out.len() + count;
    out.reserve(count + 8);
    while out.len() < end {
        out.extend_from_slice(&random.next().to_le_bytes());
    }
    out.truncate(end);
}

/// The key of a map's entry: its number, so that no map holds a key twice.
fn push_key(out: &mut Vec<u8>, index: u32) {
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

const fn long_bytes(number: i64) -> usize {
    let bits = 64 - (zigzag(number) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// An instant by RFC 3339 in UTC with milliseconds, as a text.
fn push_instant(out: &mut Vec<u8>, ms: i64) {
    // Civil date from days since 1970 in the proleptic Gregorian calendar; eras of 400 years from 0000-03-01.
    let days = ms.div_euclid(DAY_MS) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let time = ms.rem_euclid(DAY_MS);
    push_long(out, 24);
    let parts = [
        (year.clamp(0, 9_999), 4, b'-'),
        (month, 2, b'-'),
        (day_of_month, 2, b'T'),
        (time / 3_600_000, 2, b':'),
        (time / 60_000 % 60, 2, b':'),
        (time / 1_000 % 60, 2, b'.'),
        (time % 1_000, 3, b'Z'),
    ];
    for (number, digits, end) in parts {
        let at = out.len();
        out.resize(at + digits, b'0');
        let mut rest = number;
        for digit in out.iter_mut().skip(at).rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.push(end);
    }
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
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            let mut out = Vec::new();
            push_instant(&mut out, ms);
            assert_eq!(std::str::from_utf8(&out[1..]).unwrap(), text);
            assert_eq!(out[0], 48);
        }
    }
}
