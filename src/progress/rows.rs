//! From the rows of an answer to progress. Never the first row in silence: an answer of another shape than the
//! value's kind asks for is an error that names what was found.
//!
//! Column names are free; only their order counts. `count` is one row with one column. Times and stated lags are one row with one
//! column, as a number or as databases write timestamps and intervals, or rows of partition and value. The other kinds are rows of partition and value; where the stream has one
//! partition, one row with one column will do. A partition that has no row, or whose value is NULL, has no data yet. Two rows of one partition are refused, because only the
//! query's author can say whether to add them up or to take the highest.

use std::collections::BTreeMap;

use crate::core::lag::{Progress, ValueKind};
use crate::core::status::ProgressErrorKind;

use super::number::{self, Whole};
use super::poll::ProbeError;
use super::when;

/// Decimals of a second in a nanosecond.
const NANO_DIGITS: u32 = 9;

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Column names, in order.
    pub(super) columns: Vec<String>,
    /// The values as text, `None` for NULL.
    pub(super) rows: Vec<Vec<Option<String>>>,
    /// There were more rows than are kept here.
    pub(super) cut: bool,
}

impl Answer {
    /// Whether any of its values is a lag below zero.
    pub(super) fn states_below_zero(&self, kind: ValueKind) -> bool {
        let values = self.rows.iter().filter_map(|row| row.last()?.as_deref());
        kind.is_stated() && values.into_iter().any(|text| is_below_zero(text, kind))
    }

    fn found(&self) -> String {
        let more = if self.cut { "more than " } else { "" };
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let names = self.columns.iter().map(|name| number::shown(name)).collect::<Vec<_>>().join(", ");
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!(
            "the answer has {more}{rows} row{} of {columns} column{} ({names})",
            plural(rows),
            plural(columns)
        )
    }
}

/// Reads an answer as progress of a stream with so many partitions.
///
/// # Errors
/// `Shape` when rows or columns are other than the kind asks for, `BadValue` when a value is no whole number.
pub(super) fn interpret(answer: &Answer, kind: ValueKind, partitions: u32) -> Result<Progress, ProbeError> {
    match (kind, answer.columns.len()) {
        (kind, 1) if kind.may_be_total() => total(answer, kind),
        (ValueKind::Count, _) => Err(shape(answer, "value = \"count\" needs one row with one column")),
        (_, 2) => by_partition(answer, kind, partitions),
        (_, 1) if partitions == 1 && answer.rows.len() <= 1 => match answer.rows.first() {
            None => Ok(no_rows()),
            Some(row) => Ok(Progress::Partitions(BTreeMap::from([(0, value(row, 0, kind)?)]))),
        },
        (_, 1) if partitions == 1 => Err(shape(
            answer,
            "a stream with one partition needs one row (one column: value; or two: partition and value)",
        )),
        _ => Err(shape(answer, &needed(partitions))),
    }
}

fn total(answer: &Answer, kind: ValueKind) -> Result<Progress, ProbeError> {
    match answer.rows.as_slice() {
        [] => Ok(no_rows()),
        [row] => Ok(match value(row, 0, kind)? {
            Some(value) => Progress::Total(value),
            None if kind == ValueKind::Count => Progress::NoData("the count is null".to_owned()),
            None if row.first().is_some_and(Option::is_some) => {
                Progress::NoData("the value is -1: none yet".to_owned())
            }
            None => Progress::NoData("the value is null".to_owned()),
        }),
        _ if kind == ValueKind::Count => Err(shape(
            answer,
            "value = \"count\" needs one row; add the rows up in the query, as in sum(...)",
        )),
        _ => {
            let what =
                format!("value = {:?} needs one row, or two columns: partition and value", kind.name());
            Err(shape(answer, &what))
        }
    }
}

fn by_partition(answer: &Answer, kind: ValueKind, partitions: u32) -> Result<Progress, ProbeError> {
    if answer.rows.is_empty() {
        return Ok(no_rows());
    }
    if answer.cut {
        return Err(shape(answer, &needed(partitions)));
    }
    let mut found = BTreeMap::new();
    for row in &answer.rows {
        let Some(text) = row.first().and_then(Option::as_deref) else {
            return Err(shape(answer, "and a row's partition is null; leave such rows out"));
        };
        let partition = match number::parse(text) {
            Ok(Whole::Number(partition)) => u32::try_from(partition).ok().filter(|it| *it < partitions),
            Ok(Whole::MinusOne) => None,
            Err(why) => {
                return Err(ProbeError::new(ProgressErrorKind::BadValue, format!("the partition {why}")));
            }
        };
        let Some(partition) = partition else {
            let outside = format!(
                "and partition {} is not one of the stream's {partitions} (0 to {})",
                number::shown(text),
                partitions.saturating_sub(1)
            );
            return Err(shape(answer, &outside));
        };
        if found.insert(partition, value(row, 1, kind)?).is_some() {
            let twice = format!(
                "and partition {partition} comes twice; aggregate in the query, as in max(...) … group by"
            );
            return Err(shape(answer, &twice));
        }
    }
    Ok(Progress::Partitions(found))
}

/// One value; `None` for NULL, and for -1 where that says "nothing yet". A stated lag below zero is 0.
fn value(row: &[Option<String>], column: usize, kind: ValueKind) -> Result<Option<u64>, ProbeError> {
    let Some(text) = row.get(column).and_then(Option::as_deref) else { return Ok(None) };
    let bad = |why: String| ProbeError::new(ProgressErrorKind::BadValue, format!("the value {why}"));
    let number = match kind {
        ValueKind::EventTime => {
            number_or(text, 0, when::millis, "milliseconds", "a time like 2026-11-30 22:57:11+00")
        }
        ValueKind::LagSeconds => {
            number_or(text, NANO_DIGITS, when::nanos, "seconds", "an interval like 1 day 02:03:04.5")
        }
        _ => number::parse(text),
    };
    match number {
        // A lag of less than none. What it really is nobody knows, but it is no more than that.
        _ if is_below_zero(text, kind) => Ok(Some(0)),
        Err(why) => Err(bad(why)),
        Ok(Whole::Number(number)) => Ok(Some(number)),
        // The number before the first offset or sequence, and how exporters of lag say that there is no commit yet. As a
        // next offset or a count it would be nonsense.
        Ok(Whole::MinusOne) if kind.may_be_minus_one() => Ok(None),
        Ok(Whole::MinusOne) => Err(bad(format!("{:?} is negative", number::shown(text)))),
    }
}

/// Whether the system states a lag below zero: its clocks differ, or head and progress are not of one moment. Minus one record is
/// no lag but says that there is none yet.
pub(super) fn is_below_zero(text: &str, kind: ValueKind) -> bool {
    match kind {
        ValueKind::LagRecords => number::is_negative(text) && number::parse(text) != Ok(Whole::MinusOne),
        ValueKind::LagSeconds => {
            number::is_negative(text)
                || matches!(when::nanos(text), Some(Err(why)) if why.ends_with("is negative"))
        }
        _ => false,
    }
}

/// A number rounded down, or what `other` reads.
fn number_or(
    text: &str,
    digits: u32,
    other: fn(&str) -> Option<Result<u64, String>>,
    unit: &str,
    like: &str,
) -> Result<Whole, String> {
    number::parse_down(text, digits).or_else(|why| match other(text) {
        Some(read) => read.map(Whole::Number),
        None if number::is_number(text) => Err(why),
        None => Err(format!("{:?} is neither a number of {unit} nor {like}", number::shown(text))),
    })
}

fn no_rows() -> Progress {
    Progress::NoData("no rows".to_owned())
}

fn needed(partitions: u32) -> String {
    format!(
        "it needs two, partition and value, with at most one row for each of the stream's {partitions} partitions"
    )
}

fn shape(answer: &Answer, what: &str) -> ProbeError {
    let join = if what.starts_with("and ") { " " } else { "; " };
    ProbeError::new(ProgressErrorKind::Shape, format!("{}{join}{what}", answer.found()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(columns: &[&str], rows: &[&[Option<&str>]]) -> Answer {
        Answer {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows
                .iter()
                .map(|row| row.iter().map(|cell| cell.map(ToOwned::to_owned)).collect())
                .collect(),
            cut: false,
        }
    }

    fn parts(values: &[(u32, Option<u64>)]) -> Progress {
        Progress::Partitions(values.iter().copied().collect())
    }

    #[test]
    fn good_shapes_are_read() {
        use ValueKind::{Count, EventTime, LagRecords, LagSeconds, LastOffset, Marker, NextOffset, Sequence};
        let pairs = answer(&["p", "v"], &[&[Some("1"), Some("10")], &[Some("0"), None]]);
        let minus = answer(&["p", "v"], &[&[Some("0"), Some("-1")], &[Some("1"), Some("7")]]);
        let one = answer(&["max"], &[&[Some("42.000")]]);
        let null = answer(&["max"], &[&[None]]);
        for (given, kind, partitions, expected) in [
            (&pairs, NextOffset, 2, parts(&[(0, None), (1, Some(10))])),
            (&pairs, Sequence, 4, parts(&[(0, None), (1, Some(10))])),
            (&minus, LastOffset, 2, parts(&[(0, None), (1, Some(7))])),
            (&minus, Sequence, 2, parts(&[(0, None), (1, Some(7))])),
            (&one, NextOffset, 1, parts(&[(0, Some(42))])),
            (&null, LastOffset, 1, parts(&[(0, None)])),
            (&one, Count, 4, Progress::Total(42)),
            (&one, LagRecords, 4, Progress::Total(42)),
            (
                &answer(&["t"], &[&[Some("1764540000123.9")]]),
                EventTime,
                4,
                Progress::Total(1_764_540_000_123),
            ),
            (
                &answer(&["p", "t"], &[&[Some("3"), Some("1970-01-01 00:00:01.5+00")]]),
                EventTime,
                4,
                parts(&[(3, Some(1_500))]),
            ),
            (&answer(&["i"], &[&[Some("00:00:01.5")]]), LagSeconds, 4, Progress::Total(1_500_000_000)),
            (&answer(&["s"], &[&[Some("0.25")]]), LagSeconds, 4, Progress::Total(250_000_000)),
            (&pairs, LagSeconds, 4, parts(&[(0, None), (1, Some(10_000_000_000))])),
            (&pairs, EventTime, 4, parts(&[(0, None), (1, Some(10))])),
            (&minus, Marker, 2, parts(&[(0, None), (1, Some(7))])),
            (&null, LagSeconds, 4, Progress::NoData("the value is null".to_owned())),
            (&null, Count, 4, Progress::NoData("the count is null".to_owned())),
            (&answer(&["max"], &[]), Count, 4, Progress::NoData("no rows".to_owned())),
            (&answer(&["p", "v"], &[]), NextOffset, 4, Progress::NoData("no rows".to_owned())),
        ] {
            assert_eq!(interpret(given, kind, partitions).unwrap(), expected, "{given:?} {kind:?}");
        }
    }

    #[test]
    fn a_stated_lag_below_zero_is_none_and_seen_and_minus_one_record_is_no_figure() {
        use ValueKind::{Count, EventTime, LagRecords, LagSeconds, LastOffset};
        let one = |text: &str| answer(&["v"], &[&[Some(text)]]);
        for (text, kind) in [
            ("-2", LagRecords),
            ("-0.5", LagRecords),
            ("-1e400", LagRecords),
            ("-1", LagSeconds),
            ("-0.5", LagSeconds),
            ("-1e400", LagSeconds),
            ("-00:00:01", LagSeconds),
            ("1 day ago", LagSeconds),
        ] {
            assert_eq!(interpret(&one(text), kind, 4).unwrap(), Progress::Total(0), "{text} {kind:?}");
            assert!(one(text).states_below_zero(kind), "{text} {kind:?}");
        }
        let yet = Progress::NoData("the value is -1: none yet".to_owned());
        assert_eq!(interpret(&one("-1"), LagRecords, 4).unwrap(), yet);
        let pairs =
            answer(&["p", "v"], &[&[Some("0"), Some("-1")], &[Some("1"), Some("-7")], &[Some("2"), None]]);
        let expected = parts(&[(0, None), (1, Some(0)), (2, None)]);
        assert_eq!(interpret(&pairs, LagRecords, 4).unwrap(), expected);
        assert!(pairs.states_below_zero(LagRecords) && !pairs.states_below_zero(LastOffset));
        for text in ["-1", "0", "-0", "-0.00", "5", "NaN", "-Infinity", "-"] {
            assert!(!one(text).states_below_zero(LagRecords), "{text}");
        }
        // Of other kinds it is still an error.
        for kind in [Count, EventTime] {
            assert!(interpret(&one("-2"), kind, 1).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn s7_any_other_shape_is_an_error_that_names_what_was_found() {
        use ProgressErrorKind::{BadValue, Shape};
        use ValueKind::{Count, EventTime, LagRecords, LagSeconds, LastOffset, NextOffset};
        let three = answer(&["max"], &[&[Some("1")], &[Some("2")], &[Some("3")]]);
        let two_columns = answer(&["p", "v"], &[&[Some("0"), Some("1")]]);
        let twice = answer(&["p", "v"], &[&[Some("0"), Some("1")], &[Some("0"), Some("2")]]);
        let outside = answer(&["p", "v"], &[&[Some("4"), Some("1")]]);
        let no_partition = answer(&["p", "v"], &[&[None, Some("1")]]);
        let wide = answer(&["a", "b", "c"], &[&[Some("0"), Some("1"), Some("2")]]);
        for (given, kind, partitions, error, text) in [
            (&three, Count, 4, Shape, "3 rows of 1 column (max)"),
            (&three, LagSeconds, 4, Shape, "value = \"lag_seconds\" needs one row, or two columns"),
            (&answer(&["t"], &[&[Some("soon")]]), EventTime, 4, BadValue, "nor a time like 2026-11-30"),
            (&answer(&["t"], &[&[Some("1e300")]]), EventTime, 4, BadValue, "is above 2^63 - 1"),
            (&answer(&["i"], &[&[Some("soon")]]), LagSeconds, 4, BadValue, "nor an interval like 1 day"),
            (&answer(&["i"], &[&[Some("-Infinity")]]), LagSeconds, 4, BadValue, "nor an interval like 1 day"),
            (&answer(&["c"], &[&[Some("--2")]]), LagRecords, 4, BadValue, "\"--2\" is not a number"),
            // A timestamp is no offset.
            (&answer(&["t"], &[&[Some("1970-01-01 00:00:01")]]), NextOffset, 1, BadValue, "is not a number"),
            (&three, NextOffset, 1, Shape, "3 rows of 1 column (max)"),
            (&three, NextOffset, 4, Shape, "3 rows of 1 column (max)"),
            (&two_columns, Count, 4, Shape, "1 row of 2 columns (p, v)"),
            (&wide, NextOffset, 4, Shape, "1 row of 3 columns (a, b, c)"),
            (&twice, NextOffset, 4, Shape, "partition 0 comes twice"),
            (&outside, NextOffset, 4, Shape, "partition 4 is not one of the stream's 4 (0 to 3)"),
            (&no_partition, NextOffset, 4, Shape, "partition is null"),
            (&answer(&[], &[]), NextOffset, 4, Shape, "0 rows of 0 columns"),
            (&answer(&["p", "v"], &[&[Some("x"), Some("1")]]), NextOffset, 4, BadValue, "partition \"x\""),
            (
                &answer(&["p", "v"], &[&[Some("0"), Some("-1")]]),
                NextOffset,
                4,
                BadValue,
                "\"-1\" is negative",
            ),
            (
                &answer(&["p", "v"], &[&[Some("0"), Some("-2")]]),
                LastOffset,
                4,
                BadValue,
                "\"-2\" is negative",
            ),
            (&answer(&["c"], &[&[Some("NaN")]]), Count, 4, BadValue, "\"NaN\" is not a number"),
        ] {
            let found = interpret(given, kind, partitions).unwrap_err();
            assert_eq!(found.kind, error, "{found}");
            assert!(found.text.contains(text), "{found}");
        }
    }

    #[test]
    fn s7_a_flood_of_rows_is_an_error() {
        let mut flood = answer(&["p", "v"], &[&[Some("0"), Some("1")]]);
        flood.cut = true;
        let found = interpret(&flood, ValueKind::NextOffset, 4).unwrap_err();
        assert!(found.text.contains("more than 1 row"), "{found}");
    }
}
