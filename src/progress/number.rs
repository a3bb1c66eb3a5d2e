//! Whole numbers out of text: every way in which an SQL server writes a number, read exactly or refused.

use std::borrow::Cow;

/// Kafka's offsets and PostgreSQL's `bigint` end here; what is above is no offset and no count.
const MAX: u64 = i64::MAX as u64;

/// Digits that [`MAX`] has. More of them, leading zeros apart, are too many.
const MAX_DIGITS: usize = 19;

/// How much of a value that was refused is shown.
const SHOWN_CHARS: usize = 60;

/// A number that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// A whole number, 0 to 2^63 - 1.
    Number(u64),
    /// Minus one: how many systems write "nothing yet".
    MinusOne,
}

/// Reads `42`, `+42`, `42.000`, `4.2e1`, `1e+06`; never rounds.
///
/// # Errors
/// Why the text is no whole number of records, with the text.
pub(super) fn parse(text: &str) -> Result<Whole, String> {
    scaled(text, 0, false)
}

/// Reads a number times 10 to the power of `digits`, rounded down: seconds as nanoseconds, say.
///
/// # Errors
/// Why the text is no such number, with the text.
pub(super) fn parse_down(text: &str, digits: u32) -> Result<Whole, String> {
    scaled(text, digits.into(), true)
}

/// Whether a text is a decimal number, if perhaps not one that is taken.
pub(super) fn is_number(text: &str) -> bool {
    let text = text.trim();
    mantissa_and_exponent(text.strip_prefix(['-', '+']).unwrap_or(text)).is_some()
}

/// Whether a text is a number below zero, of whatever size.
pub(super) fn is_negative(text: &str) -> bool {
    let unsigned = text.trim().strip_prefix('-').and_then(mantissa_and_exponent);
    unsigned.is_some_and(|(digits, _)| !digits.is_empty())
}

fn scaled(text: &str, shift: i64, down: bool) -> Result<Whole, String> {
    let trimmed = text.trim();
    let (negative, unsigned) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let refused = |why: &str| format!("{:?} {why}", shown(text));
    let Some((digits, exponent)) = mantissa_and_exponent(unsigned) else {
        return Err(refused("is not a number"));
    };
    if digits.is_empty() {
        return Ok(Whole::Number(0));
    }
    let exponent = exponent.saturating_add(shift);
    if exponent < 0 && (!down || negative) {
        return Err(refused(if down { "is negative" } else { "is not a whole number" }));
    }
    if exponent < 0 {
        let cut = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = digits.get(..digits.len().saturating_sub(cut)).unwrap_or_default();
        if kept.is_empty() {
            return Ok(Whole::Number(0));
        }
        let number = kept.parse().ok().filter(|number| *number <= MAX);
        return number.map(Whole::Number).ok_or_else(|| refused("is above 2^63 - 1"));
    }
    let zeros = usize::try_from(exponent).unwrap_or(usize::MAX);
    let too_large = || refused("is above 2^63 - 1");
    if digits.len().saturating_add(zeros) > MAX_DIGITS {
        return Err(if negative { refused("is negative") } else { too_large() });
    }
    let number: u64 = format!("{digits}{}", "0".repeat(zeros)).parse().map_err(|_| too_large())?;
    match (negative, number) {
        (true, 1) if shift == 0 => Ok(Whole::MinusOne),
        (true, _) => Err(refused("is negative")),
        (false, number) if number > MAX => Err(too_large()),
        (false, number) => Ok(Whole::Number(number)),
    }
}

/// The significant digits without zeros at either end, and the power of ten they are to be multiplied with.
/// `None` when the text is not a decimal number.
fn mantissa_and_exponent(unsigned: &str) -> Option<(Cow<'_, str>, i64)> {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let exponent = match exponent {
        None => 0,
        Some(exponent) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if digits.is_empty() || !all_digits(digits) {
                return None;
            }
            // An exponent that overflows is as good as this one: the number is refused, unless it is zero.
            exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::from(i32::MIN) } else { i64::MAX })
        }
    };
    let digits: Cow<'_, str> =
        if fraction.is_empty() { whole.into() } else { format!("{whole}{fraction}").into() };
    let kept = digits.trim_end_matches('0').len();
    let dropped = i64::try_from(digits.len() - kept).unwrap_or(i64::MAX);
    let fraction_digits = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let exponent = exponent.saturating_sub(fraction_digits).saturating_add(dropped);
    let significant = digits.trim_matches('0').to_owned();
    Some((significant.into(), exponent))
}

/// The beginning of a text, for an error: an answer may be megabytes long.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_way_to_write_a_number_is_read_exactly() {
        for (text, number) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e999999999999999999999", 0),
            ("00042", 42),
            ("42", 42),
            ("+42", 42),
            (" 42  ", 42),
            ("42.", 42),
            ("42.000", 42),
            ("4.2e1", 42),
            ("420e-1", 42),
            ("0.42E2", 42),
            ("1e+06", 1_000_000),
            ("1E6", 1_000_000),
            ("1.234567e+06", 1_234_567),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.000000", 9_007_199_254_740_993),
            ("9223372036854775807", MAX),
            ("9.223372036854775807e18", MAX),
        ] {
            assert_eq!(parse(text), Ok(Whole::Number(number)), "{text}");
        }
        for text in ["-1", "-1.0", "-1e0", "-10e-1"] {
            assert_eq!(parse(text), Ok(Whole::MinusOne), "{text}");
        }
    }

    #[test]
    fn m3_rubbish_is_refused_and_named() {
        for (text, why) in [
            ("", "is not a number"),
            (".", "is not a number"),
            ("e5", "is not a number"),
            ("1e", "is not a number"),
            ("1e+", "is not a number"),
            ("--1", "is not a number"),
            ("NaN", "is not a number"),
            ("Infinity", "is not a number"),
            ("-Infinity", "is not a number"),
            ("+Inf", "is not a number"),
            ("$42.00", "is not a number"),
            ("1,000", "is not a number"),
            ("t", "is not a number"),
            ("0x2a", "is not a number"),
            ("٤٢", "is not a number"),
            ("(0/42)", "is not a number"),
            ("42.5", "is not a whole number"),
            ("1e-5", "is not a whole number"),
            ("1e-99999999999999999999", "is not a whole number"),
            ("-2", "is negative"),
            ("-1e400", "is negative"),
            ("9223372036854775808", "is above 2^63 - 1"),
            ("18446744073709551616", "is above 2^63 - 1"),
            ("1e400", "is above 2^63 - 1"),
            ("1e99999999999999999999", "is above 2^63 - 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with(why) && error.contains(&format!("{text:?}")), "{text}: {error}");
        }
        let long = parse(&"x".repeat(10_000_000)).unwrap_err();
        assert!(long.len() < 200, "{long}");
        assert!(parse(&"9".repeat(10_000_000)).is_err());
    }

    #[test]
    fn decimals_are_scaled_and_rounded_down() {
        for (text, digits, number) in [
            ("1.5", 9, 1_500_000_000),
            ("0.0000000019", 9, 1),
            ("0.0000000001", 9, 0),
            ("00.25", 3, 250),
            ("12", 9, 12_000_000_000),
            ("1764540000123.999", 0, 1_764_540_000_123),
            ("5e-1", 0, 0),
            ("0", 9, 0),
        ] {
            assert_eq!(parse_down(text, digits), Ok(Whole::Number(number)), "{text}");
        }
        for text in ["-0.5", "-1", "1e300", "x"] {
            assert!(parse_down(text, 9).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_what_is_read(number in 0..=MAX, zeros in 0_usize..30, shift in 0_usize..25) {
            for text in [
                number.to_string(),
                format!("{number}.{}", "0".repeat(zeros)),
                format!("{}{number}", "0".repeat(zeros)),
                format!("{number}{}e-{shift}", "0".repeat(shift)),
                format!("0.{}{number}E+{}", "0".repeat(shift), shift + number.to_string().len()),
            ] {
                prop_assert_eq!(parse(&text), Ok(Whole::Number(number)), "{}", text);
            }
        }

        #[test]
        fn no_text_makes_it_fall_over(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_float_is_read_exactly_or_refused(number in 0.0_f64..9.2e18) {
            let text = format!("{number:e}");
            match parse(&text) {
                #[allow(clippy::cast_precision_loss, clippy::float_cmp)]
                Ok(Whole::Number(read)) => prop_assert_eq!(read as f64, number),
                other => prop_assert!(number.fract() != 0.0, "{} {:?}", text, other),
            }
        }
    }
}
