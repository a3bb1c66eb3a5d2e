//! Times and spans as databases write them: what a query for an event time or a lag in seconds answers when it does not
//! make a number of it.

use std::time::UNIX_EPOCH;

use super::number::{self, Whole, shown};

const MINUTE_S: i128 = 60;
const HOUR_S: i128 = 3_600;
const DAY_S: i128 = 86_400;
/// As PostgreSQL counts them when it makes seconds of a span.
const MONTH_S: i128 = 30 * DAY_S;
const YEAR_S: i128 = 31_557_600;
/// Decimals of a nanosecond in a unit.
const NANO_DIGITS: u32 = 9;
/// Bytes of `2026-11-30 22:57:11`.
const TO_SECONDS: usize = 19;

/// Reads `2026-11-30 22:57:11.123456+00` as milliseconds since 1970, rounded down. `T` may stand for the blank, and the zone be `Z`,
/// `UTC`, `+05`, `+05:30` or `+0530`; without one it is UTC. `None` when the text is no time, or one before 1970.
///
/// # Errors
/// That the time lies before 1970 by its zone, with the text.
pub(super) fn millis(text: &str) -> Option<Result<u64, String>> {
    let text = text.trim();
    let plain = text.strip_suffix("UTC").unwrap_or(text).trim_end();
    let zone = plain.get(TO_SECONDS..)?.find(['+', '-']).map(|at| at + TO_SECONDS);
    let (local, east_s) = match zone {
        Some(at) => (plain.get(..at)?.trim_end(), offset_s(plain.get(at..)?)?),
        None => (plain, 0),
    };
    let local = humantime::parse_rfc3339_weak(local).ok()?;
    let millis = i128::try_from(local.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()? - east_s * 1000;
    Some(u64::try_from(millis).map_err(|_| format!("{:?} lies before 1970", shown(text))))
}

/// `+05`, `-05:30`, `+0530` or `+05:30:15` in seconds.
fn offset_s(text: &str) -> Option<i128> {
    let (sign, rest) = signed(text);
    let digits: String = rest.chars().filter(|one| *one != ':').collect();
    if !matches!(digits.len(), 2 | 4 | 6) || !digits.bytes().all(|one| one.is_ascii_digit()) {
        return None;
    }
    let of = |at: usize| digits.get(at..at + 2).map_or(Some(0), |two| two.parse::<i128>().ok());
    Some(sign * (of(0)? * HOUR_S + of(2)? * MINUTE_S + of(4)?))
}

/// Reads `1 day 02:03:04.5`, `00:00:01`, `@ 2 mins 3 secs`, `1 2:03:04` or `P1DT2H3M4.5S` as nanoseconds, rounded down; a month has
/// 30 days and a year 365.25, as PostgreSQL has it. `None` when the text is no span.
///
/// # Errors
/// That the span is negative or above 2^63 - 1 nanoseconds, with the text.
pub(super) fn nanos(text: &str) -> Option<Result<u64, String>> {
    let trimmed = text.trim();
    let ns = match trimmed.strip_prefix('P') {
        Some(iso) => iso_8601(iso)?,
        None => in_words(trimmed)?,
    };
    let refused = |why: &str| Err(format!("{:?} {why}", shown(trimmed)));
    Some(match i64::try_from(ns) {
        Ok(ns) => u64::try_from(ns).or_else(|_| refused("is negative")),
        Err(_) => refused(if ns < 0 { "is negative" } else { "is above 2^63 - 1 nanoseconds" }),
    })
}

/// PostgreSQL's other three styles.
fn in_words(text: &str) -> Option<i128> {
    let (text, sign) = text.strip_suffix("ago").map_or((text, 1), |rest| (rest.trim_end(), -1));
    let mut words = text.strip_prefix('@').unwrap_or(text).split_whitespace().peekable();
    words.peek()?;
    let mut ns = 0;
    while let Some(word) = words.next() {
        ns += if word.contains(':') {
            clock_ns(word)?
        } else if words.peek().is_some_and(|next| next.contains(':')) {
            amount(word)? * DAY_S
        } else {
            amount(word)? * unit_s(words.next()?)?
        };
    }
    Some(sign * ns)
}

/// `02:03:04.5` or `02:03` in nanoseconds.
fn clock_ns(text: &str) -> Option<i128> {
    let (sign, rest) = signed(text);
    let mut parts = rest.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    if parts.next().is_some() || [minutes, seconds].iter().any(|part| part.starts_with(['-', '+'])) {
        return None;
    }
    Some(sign * (amount(hours)? * HOUR_S + amount(minutes)? * MINUTE_S + amount(seconds)?))
}

/// What comes after the P of `P1Y2M3DT4H5M6.5S`; any part may be missing.
fn iso_8601(text: &str) -> Option<i128> {
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let date_s = |unit| match unit {
        'Y' => Some(YEAR_S),
        'M' => Some(MONTH_S),
        'W' => Some(7 * DAY_S),
        'D' => Some(DAY_S),
        _ => None,
    };
    let time_s = |unit| match unit {
        'H' => Some(HOUR_S),
        'M' => Some(MINUTE_S),
        'S' => Some(1),
        _ => None,
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    Some(lettered(date, &date_s)? + lettered(time, &time_s)?)
}

fn lettered(mut text: &str, unit_s: &dyn Fn(char) -> Option<i128>) -> Option<i128> {
    let mut ns = 0;
    while !text.is_empty() {
        let at = text.find(|one: char| one.is_ascii_alphabetic())?;
        ns += amount(text.get(..at)?)? * unit_s(text.get(at..)?.chars().next()?)?;
        text = text.get(at + 1..)?;
    }
    Some(ns)
}

fn unit_s(name: &str) -> Option<i128> {
    Some(match name.to_ascii_lowercase().trim_end_matches([',', 's']) {
        "year" | "yr" => YEAR_S,
        "month" | "mon" => MONTH_S,
        "week" => 7 * DAY_S,
        "day" => DAY_S,
        "hour" | "hr" => HOUR_S,
        "minute" | "min" => MINUTE_S,
        "second" | "sec" => 1,
        _ => return None,
    })
}

/// A decimal number times a thousand million.
fn amount(text: &str) -> Option<i128> {
    let (sign, rest) = signed(text);
    if rest.starts_with(['-', '+']) {
        return None;
    }
    match number::parse_down(rest, NANO_DIGITS) {
        Ok(Whole::Number(number)) => Some(sign * i128::from(number)),
        _ => None,
    }
}

fn signed(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_MS: u64 = 1_796_079_431_123;

    #[test]
    fn times_are_read_in_every_zone_and_to_the_millisecond() {
        for (text, ms) in [
            ("2026-11-30 22:57:11.123456+00", AT_MS),
            ("2026-11-30 22:57:11.123", AT_MS),
            ("2026-11-30T22:57:11.123Z", AT_MS),
            ("2026-11-30T22:57:11.123999999+00:00", AT_MS),
            ("2026-11-30 22:57:11.123 UTC", AT_MS),
            ("2026-12-01 04:27:11.123+05:30", AT_MS),
            ("2026-12-01 04:27:11.123 +0530", AT_MS),
            ("2026-11-30 17:57:11.123-05", AT_MS),
            (" 2026-11-30 22:57:11 ", AT_MS - 123),
            ("1970-01-01 00:00:00", 0),
            ("1970-01-01 01:00:00+01", 0),
            ("2026-11-30 23:57:11.123+01:00:00", AT_MS),
        ] {
            assert_eq!(millis(text), Some(Ok(ms)), "{text}");
        }
        assert!(millis("1970-01-01 00:00:00+01").unwrap().unwrap_err().contains("before 1970"));
        for text in [
            "",
            "now",
            "infinity",
            "-infinity",
            "2026-11-30",
            "22:57:11",
            "2026-11-30 22:57",
            "30/11/2026 22:57:11",
            "Mon Nov 30 22:57:11 2026 UTC",
            "2026-13-30 22:57:11",
            "2026-02-30 22:57:11",
            "2026-11-30 22:57:11+5",
            "2026-11-30 22:57:11+x",
            "2026-11-30 22:57:11 CET",
            "0044-03-15 12:00:00 BC",
            "1969-12-31 23:59:59",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    #[test]
    fn spans_are_read_in_every_style() {
        const S: u64 = 1_000_000_000;
        for (text, ns) in [
            ("00:00:00", 0),
            ("00:00:01.5", 1_500_000_000),
            ("00:00:00.000001", 1_000),
            ("02:03", 7_380 * S),
            ("100:00:00", 360_000 * S),
            ("1 day 02:03:04", 93_784 * S),
            ("2 days", 172_800 * S),
            ("1 day -00:00:01", 86_399 * S),
            ("-1 days +24:00:01", S),
            ("1 mon 1 day", 31 * 86_400 * S),
            ("1 year", 31_557_600 * S),
            ("1 year 2 months 3 days 00:00:01", (31_557_600 + 63 * 86_400 + 1) * S),
            ("@ 2 mins 3.5 secs", 123_500_000_000),
            ("1 2:03:04", 93_784 * S),
            ("5 seconds", 5 * S),
            ("PT0S", 0),
            ("PT1.5S", 1_500_000_000),
            ("P1DT2H3M4S", 93_784 * S),
            ("P1M", 30 * 86_400 * S),
            ("PT1M", 60 * S),
        ] {
            assert_eq!(nanos(text), Some(Ok(ns)), "{text}");
        }
        for text in ["-00:00:01", "@ 1 min ago", "PT-1S", "1 day -25:00:00", "-1000 years"] {
            assert!(nanos(text).unwrap().unwrap_err().ends_with("is negative"), "{text}");
        }
        assert!(nanos("1000 years").unwrap().unwrap_err().contains("is above"));
        for text in [
            "",
            "P",
            "PT",
            "soon",
            "1",
            "1 fortnight",
            ":",
            "1:2:3:4",
            "00:-1:00",
            "x:00",
            "1 day 2",
            "P1",
            "P1X",
            "--1 days",
            "t",
            "NaN",
            "2026-11-30 22:57:11",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_them_fall_over(text in ".{0,40}", near in "[-+0-9:. TZPDHMSUCdaysgo@]{0,40}") {
            for text in [text, near] {
                let _ = (millis(&text), nanos(&text));
            }
        }

        #[test]
        fn what_a_server_writes_is_what_is_read(days in 0_u64..10_000, second in 0_u64..86_400, micros in 0_u64..1_000_000) {
            let (hour, minute, left) = (second / 3600, second / 60 % 60, second % 60);
            let text = format!("{days} days {hour:02}:{minute:02}:{left:02}.{micros:06}");
            let ns = (days * 86_400 + second) * 1_000_000_000 + micros * 1_000;
            prop_assert_eq!(nanos(&text), Some(Ok(ns)));
            let at = UNIX_EPOCH + std::time::Duration::from_nanos(ns);
            let text = humantime::format_rfc3339_micros(at).to_string();
            prop_assert_eq!(millis(&text), Some(Ok(ns / 1_000_000)), "{}", text);
        }
    }
}
