//! Writes a record by its plan: Avro's binary encoding, without an allocation.

use super::super::Facts;
use super::super::format::MakeError;
use super::super::hash::{Random, below};
use super::super::text::letters;
use super::bytes::{
    DAY_MS, long_bytes, push_decimal, push_instant, push_key, push_long, push_random, push_text, push_uuid,
    uuid,
};
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
            letters(size as usize, random, out);
        }
        Node::Bytes { least, most } => {
            let size = between(random, *least, *most);
            push_long(out, size.into());
            push_random(out, random, size as usize);
        }
        Node::Raw(size) => push_random(out, random, *size),
        Node::UuidText => push_uuid(out, random),
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
        // Random keys use all 64 bits; a long has them with a sign.
        Fact::Key if matches!(form, Form::Long(_)) => i128::from(facts.key_id as i64),
        Fact::Key => facts.key_id.into(),
        Fact::Marker => facts.marker.into(),
        Fact::Intended => i128::from(facts.intended_ms),
    };
    let too_large = |kind: &str| {
        MakeError(format!("{number} does not fit the field {field:?} of type {kind}; give it a wider type"))
    };
    match form {
        Form::Flag => out.push(facts.marker.into()),
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
