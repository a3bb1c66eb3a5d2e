//! Plans of values that hold no others.

use super::bytes::{DAY_MS, encoded_long, push_decimal, push_long, push_text};
use super::hints::{Hints, PICK, RANGE};
use super::plan::Wrong;
use super::schema::{Logical, Named, Parsed, Schema};
use super::write::{Clock, Node};

/// Sizes of texts and bytes when nothing is said.
const BYTES: (u32, u32) = (1, 16);
/// 9999-12-31, the last day that every system can show.
const LAST_DAY: i64 = 2_932_896;
/// What 128 bits hold.
const MAX_DIGITS: u32 = 38;

/// The plan of a type without a name.
pub(super) fn node(schema: &Schema, path: &str, hints: &mut Hints<'_>) -> Result<Node, Wrong> {
    if hints.pick(path).is_some() {
        return picked(schema, None, path, hints);
    }
    let (int, long) = ((i32::MIN.into(), i32::MAX.into()), (i64::MIN, i64::MAX));
    match schema {
        Schema::Null => Ok(Node::Literal([].into())),
        Schema::Boolean => Ok(Node::Boolean),
        Schema::Int(Some(Logical::Date)) => clock(Clock::Days, (0, LAST_DAY), path, hints),
        Schema::Int(Some(Logical::TimeMillis)) => clock(Clock::DayMillis, (0, DAY_MS - 1), path, hints),
        Schema::Int(_) => whole(int, path, hints),
        Schema::Long(Some(logical)) => {
            let (unit, per_ms) = match logical {
                Logical::TimeMicros => {
                    return clock(Clock::DayMicros, (0, DAY_MS * 1_000 - 1), path, hints);
                }
                Logical::TimestampMicros => (Clock::Micros, 1_000),
                Logical::TimestampNanos => (Clock::Nanos, 1_000_000),
                _ => (Clock::Millis, 1),
            };
            let last = (LAST_DAY + 1).saturating_mul(DAY_MS).saturating_mul(per_ms).saturating_sub(1);
            clock(unit, (0, last), path, hints)
        }
        Schema::Long(None) => whole(long, path, hints),
        Schema::Float => {
            fraction(f64::from(f32::MAX), path, hints).map(|(from, span)| Node::Float { from, span })
        }
        Schema::Double => fraction(f64::MAX, path, hints).map(|(from, span)| Node::Double { from, span }),
        Schema::Bytes(Some(Logical::Decimal { precision, scale })) => {
            decimal(*precision, *scale, None, path, hints)
        }
        Schema::String(Some(Logical::Uuid)) => Ok(Node::UuidText),
        Schema::Bytes(_) => hints.sizes(path, BYTES).map(|(least, most)| Node::Bytes { least, most }),
        _ => hints.sizes(path, BYTES).map(|(least, most)| Node::Text { least, most }),
    }
}

/// The plan of an enum or a fixed.
pub(super) fn named(named: &Named, path: &str, hints: &mut Hints<'_>) -> Result<Node, Wrong> {
    match named {
        Named::Enum(_) | Named::Fixed(..) if hints.pick(path).is_some() => {
            picked(&Schema::Null, Some(named), path, hints)
        }
        Named::Enum(symbols) => Ok(Node::Whole { from: 0, span: symbols.len().saturating_sub(1) as u64 }),
        Named::Fixed(size, Some(Logical::Decimal { precision, scale })) => {
            decimal(*precision, *scale, Some(*size), path, hints)
        }
        Named::Fixed(_, Some(Logical::Uuid)) => Ok(Node::UuidBytes),
        Named::Fixed(_, Some(Logical::Duration)) => Ok(Node::Duration),
        Named::Fixed(size, _) => Ok(Node::Raw(*size)),
        Named::Record(_) => Ok(Node::Literal([].into())),
    }
}

/// The bounds that a hint sets, rounded inwards, within those of the type.
fn bounds(ends: (i64, i64), path: &str, hints: &mut Hints<'_>) -> Result<Option<(i64, i64)>, Wrong> {
    let Some(hint) = hints.get(path).filter(|hint| hint.min.is_some() || hint.max.is_some()) else {
        return Ok(None);
    };
    hints.used(path, RANGE);
    let within = |name: &str, value: f64| {
        // Not `as i64`: the largest long has no float of its own.
        if value < ends.0 as f64 || value > ends.1 as f64 {
            return Err(Wrong::new(
                Hints::key(path, name),
                format!("{value} is outside of {} to {}, which the type holds", ends.0, ends.1),
            ));
        }
        Ok(value as i64)
    };
    let from = hint.min.map_or(Ok(ends.0), |min| within("min", min.ceil()))?;
    let to = hint.max.map_or(Ok(ends.1), |max| within("max", max.floor()))?;
    if from > to {
        let wrong = format!("there is no whole number from {from} to {to}; widen the range");
        return Err(Wrong::new(Hints::key(path, "min"), wrong));
    }
    Ok(Some((from, to)))
}

fn whole(ends: (i64, i64), path: &str, hints: &mut Hints<'_>) -> Result<Node, Wrong> {
    let (from, to) = bounds(ends, path, hints)?.unwrap_or(ends);
    Ok(Node::Whole { from, span: to.abs_diff(from) })
}

/// Dates and times are those of the record, unless a range is wished for.
fn clock(clock: Clock, ends: (i64, i64), path: &str, hints: &mut Hints<'_>) -> Result<Node, Wrong> {
    Ok(match bounds(ends, path, hints)? {
        None => Node::Clock(clock),
        Some((from, to)) => Node::Whole { from, span: to.abs_diff(from) },
    })
}

fn fraction(largest: f64, path: &str, hints: &mut Hints<'_>) -> Result<(f64, f64), Wrong> {
    let hint = hints.get(path);
    let (min, max) = (hint.and_then(|hint| hint.min), hint.and_then(|hint| hint.max));
    hints.used(path, RANGE);
    let (from, to) = (min.unwrap_or(0.0), max.unwrap_or(1.0));
    // The span is checked too, because it is a number of its own.
    if from > to || (to - from) > largest || from < -largest || to > largest {
        let name = if min.is_some() { "min" } else { "max" };
        let wrong = format!("there is no number from {from} to {to}; set both min and max");
        return Err(Wrong::new(Hints::key(path, name), wrong));
    }
    Ok((from, to - from))
}

fn decimal(
    precision: u32,
    scale: u32,
    bytes: Option<usize>,
    path: &str,
    hints: &mut Hints<'_>,
) -> Result<Node, Wrong> {
    let largest = 10_i128.pow(precision.min(MAX_DIGITS)) - 1;
    let (mut from, mut to) = (0, largest);
    if let Some(hint) = hints.get(path) {
        hints.used(path, RANGE);
        let unscaled = |name: &str, value: f64| {
            let unscaled = (0..scale).fold(value, |value, _| value * 10.0).round();
            if unscaled.abs() > largest as f64 {
                let wrong = format!("{value} has more than the {precision} digits of the type");
                return Err(Wrong::new(Hints::key(path, name), wrong));
            }
            Ok((unscaled as i128).clamp(-largest, largest))
        };
        from = hint.min.map_or(Ok(from), |min| unscaled("min", min))?;
        to = hint.max.map_or(Ok(to), |max| unscaled("max", max))?;
        if from > to {
            let wrong = "there is no number from min to max; set both";
            return Err(Wrong::new(Hints::key(path, "min"), wrong));
        }
    }
    Ok(Node::Decimal { from, span: to.abs_diff(from), bytes })
}

/// The type of a union that can hold all values that are to be picked from.
pub(super) fn fit_for_pick<'s>(
    parsed: &Parsed,
    branches: &'s [Schema],
    path: &str,
    hints: &Hints<'_>,
) -> Result<&'s Schema, Wrong> {
    let pick = hints.pick(path).unwrap_or_default();
    let named = |schema: &Schema| match schema {
        Schema::Named(name) => parsed.named.get(name),
        _ => None,
    };
    let fits = |schema: &&Schema| pick.iter().all(|text| encode(schema, named(schema), text).is_ok());
    branches.iter().find(fits).ok_or_else(|| {
        let wrong = "no type of the union can hold all of them; use values of one of its types";
        Wrong::new(Hints::key(path, "pick"), wrong)
    })
}

fn picked(schema: &Schema, named: Option<&Named>, path: &str, hints: &mut Hints<'_>) -> Result<Node, Wrong> {
    let pick = hints.pick(path).unwrap_or_default();
    hints.used(path, PICK);
    let wrong = |message| Wrong::new(Hints::key(path, "pick"), message);
    let encoded = pick.iter().map(|text| encode(schema, named, text).map(Vec::into_boxed_slice));
    Ok(Node::Pick(encoded.collect::<Result<_, _>>().map_err(wrong)?))
}

/// A value that is given as text, as Avro has it.
fn encode(schema: &Schema, named: Option<&Named>, text: &str) -> Result<Vec<u8>, String> {
    let no = |what: &str| Err(format!("{text:?} is no {what}"));
    let mut bytes = Vec::new();
    match (schema, named) {
        (_, Some(Named::Enum(symbols))) => match (0_i64..).zip(symbols).find(|(_, symbol)| *symbol == text) {
            Some((index, _)) => bytes = encoded_long(index),
            None => return no("symbol of the enum"),
        },
        (_, Some(_)) | (Schema::Null | Schema::Array(_) | Schema::Map(_) | Schema::Union(_), None) => {
            return no("value of this type, which cannot be picked");
        }
        (Schema::Boolean, _) => match text.parse::<bool>() {
            Ok(flag) => bytes.push(flag.into()),
            Err(_) => return no("truth value; use true or false"),
        },
        (Schema::Int(_), _) => match text.parse::<i32>() {
            Ok(number) => push_long(&mut bytes, number.into()),
            Err(_) => return no("int"),
        },
        (Schema::Long(_), _) => match text.parse() {
            Ok(number) => push_long(&mut bytes, number),
            Err(_) => return no("long"),
        },
        (Schema::Float, _) => match text.parse::<f32>() {
            Ok(number) => bytes.extend_from_slice(&number.to_le_bytes()),
            Err(_) => return no("float"),
        },
        (Schema::Double, _) => match text.parse::<f64>() {
            Ok(number) => bytes.extend_from_slice(&number.to_le_bytes()),
            Err(_) => return no("double"),
        },
        (Schema::Bytes(Some(Logical::Decimal { precision, scale })), _) => {
            match unscaled(text, *precision, *scale) {
                Some(number) => push_decimal(&mut bytes, number, None),
                None => {
                    return no(&format!("decimal of {precision} digits, {scale} of them behind the point"));
                }
            }
        }
        (Schema::Bytes(_) | Schema::String(_) | Schema::Named(_), _) => {
            push_text(&mut bytes, text.as_bytes())
        }
    }
    Ok(bytes)
}

/// `"-12.5"` with a scale of 2 is -1250.
fn unscaled(text: &str, precision: u32, scale: u32) -> Option<i128> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let missing = (scale as usize).checked_sub(behind.len())?;
    let digits = format!("{whole}{behind}{}", "0".repeat(missing));
    let number: i128 = digits.parse().ok()?;
    let largest = 10_u128.pow(precision.min(MAX_DIGITS));
    (number.unsigned_abs() < largest).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::schema::kind;
    use super::*;

    #[test]
    fn decimals_are_read_as_they_are_written() {
        for (text, number) in [("12.5", Some(1250)), ("-0.01", Some(-1)), ("7", Some(700)), ("1.234", None)] {
            assert_eq!(unscaled(text, 5, 2), number, "{text}");
        }
        assert_eq!(unscaled("1000", 5, 2), None, "six digits");
    }

    #[test]
    fn a_type_says_what_it_cannot_hold() {
        for (schema, text) in
            [(Schema::Int(None), "3000000000"), (Schema::Boolean, "yes"), (Schema::Double, "x")]
        {
            let error = encode(&schema, None, text).unwrap_err();
            assert!(error.contains(text), "{} {error}", kind(&schema));
        }
    }
}
