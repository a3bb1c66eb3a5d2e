//! A profile drawn as text: the rate over time.

use crate::core::pace::Pace;
use crate::core::profile::Profile;
use crate::core::rate::RECORD;

/// Columns of the drawing without its axis: 80 with it.
const COLUMNS: u64 = 66;
/// Rows of the drawing.
const ROWS: u64 = 12;
/// Columns of the numbers at the left.
const LABEL: usize = 11;
/// Looks at the rate within a column: what happens within one is shown by its highest and its mean.
const LOOKS: u64 = 64;

/// What is drawn beside the profile.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// Length of the warm-up, which holds the first rate; nanoseconds.
    pub warmup_ns: u64,
    /// Length of the measured phase in nanoseconds, when it has one.
    pub duration_ns: Option<u64>,
    /// Records sent before at "max".
    pub preload: u64,
    /// The stream ends after so many records.
    pub records: Option<u64>,
}

/// One column: the highest rate in it and the mean, in millionths of a record a second; `None` where it is "max".
#[derive(Debug, Clone, Copy)]
struct Column {
    peak: Option<f64>,
    mean: f64,
}

/// Draws a profile: a title, the curve with its axes, and what it adds up to. Of one that is repeated for ever one time is
/// drawn. At most 80 columns, unless the name is long.
#[must_use]
pub fn draw(name: &str, profile: &Profile, around: &Around) -> String {
    let shown_ns = shown_ns(profile, around);
    let columns: Vec<Column> = (0..COLUMNS).map(|column| look(profile, shown_ns, column)).collect();
    let top = columns.iter().filter_map(|column| column.peak).fold(0.0, f64::max);
    let top = round_up(top);
    let mut text = format!("stream {name}\n\n{:>LABEL$}\n", "records/s");
    for row in (1..=ROWS).rev() {
        let label = match row {
            _ if top <= 0.0 => String::new(),
            row if row == ROWS || row == ROWS / 2 => number(top * row as f64 / ROWS as f64),
            _ => String::new(),
        };
        let line: String = columns.iter().map(|column| mark(*column, row, top)).collect();
        text.push_str(format!("{label:>LABEL$} |{}", line).trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:>LABEL$} +{}\n", "0", "-".repeat(COLUMNS as usize)));
    text.push_str(&times(shown_ns));
    text.push('\n');
    sums(profile, around, shown_ns, &mut text);
    text
}

/// The time that is drawn: all of it when it ends, else one time; a part without end for as long as the run, or twice as long
/// as what comes before.
fn shown_ns(profile: &Profile, around: &Around) -> u64 {
    let one = match profile.length_ns() {
        u64::MAX => profile.cycle_ns(),
        all => all,
    };
    if one < u64::MAX {
        return one;
    }
    let before = profile.segments().iter().map(|segment| segment.length_ns).filter(|ns| *ns < u64::MAX);
    let before = before.fold(0_u64, u64::saturating_add);
    let open = around.duration_ns.unwrap_or_else(|| before.saturating_mul(2));
    open.max(before.saturating_add(before / 4)).max(60_000_000_000)
}

fn look(profile: &Profile, shown_ns: u64, column: u64) -> Column {
    let at = |part: u64| {
        let parts = u128::from(COLUMNS * LOOKS);
        u64::try_from(u128::from(shown_ns) * u128::from(column * LOOKS + part) / parts).unwrap_or(u64::MAX)
    };
    let (mut peak, mut from_ns) = (Some(0.0_f64), at(0));
    let end_ns = at(LOOKS).max(from_ns + 1);
    // By pieces, so that a short burst is not overlooked; by looks, so that the crest of a curve is seen.
    for part in 0..LOOKS {
        let pace = profile.pace(at(part));
        peak = peak.zip(pace.per_second()).map(|(peak, rate)| peak.max(rate));
    }
    let mut pieces = 0;
    while from_ns < end_ns && pieces < LOOKS {
        let piece = profile.piece(from_ns);
        let pace = piece.shape.pace(from_ns - piece.from_ns);
        peak = peak.zip(pace.per_second()).map(|(peak, rate)| peak.max(rate));
        from_ns = piece.to_ns;
        pieces += 1;
    }
    let (begin_ns, end_ns) = (at(0), at(LOOKS).max(at(0) + 1));
    let accrued = profile.accrued(end_ns) - profile.accrued(begin_ns);
    let mean = accrued as f64 / RECORD as f64 / ((end_ns - begin_ns) as f64 / 1e9);
    Column { peak, mean }
}

/// `#` up to the mean of a column, `.` up to its highest rate, `^` where it is "max".
fn mark(column: Column, row: u64, top: f64) -> char {
    let Some(peak) = column.peak else { return '^' };
    let middle = (row as f64 - 0.5) / ROWS as f64 * top;
    // Any rate at all is visible.
    let lowest = row == 1 && column.mean > 0.0;
    match () {
        () if top <= 0.0 => ' ',
        () if column.mean >= middle || lowest => '#',
        () if peak >= middle || (row == 1 && peak > 0.0) => '.',
        () => ' ',
    }
}

/// The axis of time: beginning, quarters, end.
fn times(shown_ns: u64) -> String {
    let (mut ticks, mut labels) = (vec![b' '; LABEL + 2 + COLUMNS as usize], vec![b' '; 80]);
    for quarter in 0..=4_u64 {
        let at = LABEL + 1 + (COLUMNS * quarter / 4) as usize;
        let text = length(u64::try_from(u128::from(shown_ns) * u128::from(quarter) / 4).unwrap_or(u64::MAX));
        // The first label begins at its tick, the last one ends there, those between are centred.
        let from = match quarter {
            0 => at,
            4 => 80 - text.len().min(80),
            _ => at - (text.len() / 2).min(at),
        };
        if let Some(tick) = ticks.get_mut(at) {
            *tick = b'|';
        }
        if let Some(place) = labels.get_mut(from..(from + text.len()).min(80)) {
            place.copy_from_slice(text.as_bytes().get(..place.len()).unwrap_or_default());
        }
    }
    let line = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
    format!("{}\n{}\n", line(ticks), line(labels))
}

fn sums(profile: &Profile, around: &Around, shown_ns: u64, text: &mut String) {
    let max =
        if profile.peak() == Pace::Max { ", and as many at \"max\" (^) as the client takes" } else { "" };
    let mut row = |label: &str, value: String| text.push_str(&format!("  {label:<12}{value}\n"));
    if around.preload > 0 {
        row(
            "preload",
            format!("{} records at \"max\", before the clock begins", whole(around.preload.into())),
        );
    }
    if around.warmup_ns > 0 {
        row(
            "warm-up",
            format!("{} at {}, before the profile", length(around.warmup_ns), pace(profile.pace(0))),
        );
    }
    let one = profile.accrued(profile.cycle_ns().min(shown_ns));
    let repeated = match (profile.times(), profile.length_ns()) {
        (1, _) => String::new(),
        (u64::MAX, _) => ", again and again".to_owned(),
        (times, _) => format!(", {} times", whole(times.into())),
    };
    if profile.times() > 1 {
        row("one time", format!("{} in {}{repeated}", records(one, max), length(profile.cycle_ns())));
    }
    match profile.length_ns() {
        // A run that ends says how much of it there is.
        u64::MAX if profile.times() == 1 && around.duration_ns.is_none() => {
            row("drawn", format!("{} in {}; the last part has no end", records(one, max), length(shown_ns)));
        }
        u64::MAX => {}
        all_ns => {
            row("profile", format!("{} in {}", records(profile.accrued(all_ns), max), length(all_ns)));
            row("after it", pace(profile.pace(all_ns)));
        }
    }
    if let Some(duration_ns) = around.duration_ns {
        let all = records(profile.accrued(duration_ns), max);
        row("measured", format!("{all} in {}", length(duration_ns)));
    }
    if let Some(limit) = around.records {
        row("at most", format!("{} records", whole(limit.into())));
    }
}

fn pace(pace: Pace) -> String {
    pace.per_second().map_or_else(|| pace.to_string(), |rate| format!("{} records/s", number(rate)))
}

/// An integral as a number of records: rounded up, as records are counted.
fn records(accrued: u128, max: &str) -> String {
    if accrued == 0 && !max.is_empty() {
        return max.trim_start_matches(", and ").to_owned();
    }
    format!("{} records{max}", whole(accrued.div_ceil(RECORD)))
}

/// A round number that is not below.
fn round_up(rate: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powi(rate.log10().floor() as i32);
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * unit).find(|top| *top >= rate * 0.999_999).unwrap_or(rate)
}

/// A rate for the axis, at most ten characters.
fn number(rate: f64) -> String {
    let text = match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 100.0 => return whole(rate.round() as u128),
        rate if rate >= 1.0 => format!("{rate:.1}"),
        rate if rate > 0.0 => return format!("{rate:.6}").trim_end_matches('0').to_owned(),
        _ => return "0".to_owned(),
    };
    text.replace(".00 ", " ").trim_end_matches(".0").to_owned()
}

/// A whole number with commas.
fn whole(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length of time in the two largest units that it has.
fn length(ns: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
    let mut rest = ns / 1_000_000;
    let mut parts = Vec::new();
    for (unit, millis) in units {
        let count = rest / millis;
        rest %= millis;
        if count > 0 && parts.len() < 2 {
            parts.push(format!("{count}{unit}"));
        } else if !parts.is_empty() {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
#[path = "drawing_tests.rs"]
mod tests;
