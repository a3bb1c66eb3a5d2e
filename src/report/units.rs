//! Numbers as people read them.

/// A whole number with commas between thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that need not be whole, to about three digits below ten, whole from a thousand on.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn number(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        return "?".to_owned();
    }
    if number > 0.0 && size >= 999.5 {
        return count(number.round() as u64);
    }
    let text = match size {
        size if size >= 99.95 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// A latency or lag in the unit that suits it.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds <= 0.0 => "0 s".to_owned(),
        seconds if seconds < 0.000_999_5 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 0.999_5 => format!("{} ms", number(seconds * 1e3)),
        seconds if seconds < 120.0 => format!("{} s", number(seconds)),
        seconds => length(seconds),
    }
}

/// A length of time in hours, minutes and seconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn length(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, rest) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{minutes} min {rest} s"),
        (_, 0) if minutes == 0 => format!("{} h", count(hours)),
        (_, 0) => format!("{} h {minutes} min", count(hours)),
        _ => format!("{} h {minutes} min {rest} s", count(hours)),
    }
}

/// Bytes in the unit that suits them.
pub(super) fn bytes(bytes: f64) -> String {
    let (per, unit) = byte_unit(bytes);
    format!("{} {unit}", number(bytes / per))
}

/// Growth in an hour with its error, in one unit: `12 MiB/h (±2)`.
pub(super) fn growth(bytes_per_hour: f64, error: f64) -> String {
    let (per, unit) = byte_unit(bytes_per_hour.abs().max(error));
    format!("{} {unit}/h (±{})", number(bytes_per_hour / per), number(error / per))
}

/// Bytes in the unit that suits so many, and its name.
fn byte_unit(mut bytes: f64) -> (f64, &'static str) {
    let mut per = 1.0;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if bytes < 1_000.0 {
            return (per, unit);
        }
        (bytes, per) = (bytes / 1_024.0, per * 1_024.0);
    }
    (per, "PiB")
}

/// A share as percent. Nearly all is not all, and nearly nothing is not nothing.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if percent > 0.0 && percent < 0.01 => "less than 0.01 %".to_owned(),
        percent if percent < 100.0 && percent > 99.99 => "more than 99.99 %".to_owned(),
        percent => {
            let text = format!("{percent:.2}");
            format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let counts = [0, 7, 999, 1_000, 1_234_567, u64::MAX].map(count);
        assert_eq!(counts, ["0", "7", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
        let numbers = [0.0, 0.5, 12.346, 123.46, 999.6, 12_345.6, f64::NAN].map(number);
        assert_eq!(numbers, ["0", "0.5", "12.35", "123.5", "1,000", "12,346", "?"]);
        let times = [0.0, 0.000_25, 0.0123, 1.5, 119.0, 3_600.0, 3_725.0, 120.0].map(seconds);
        assert_eq!(times, ["0 s", "250 µs", "12.3 ms", "1.5 s", "119 s", "1 h", "1 h 2 min 5 s", "2 min"]);
        assert_eq!([500.0, 1_536.0, 5e9, 2e20].map(bytes), ["500 B", "1.5 KiB", "4.66 GiB", "177,636 PiB"]);
        assert_eq!(growth(12.0 * 1_048_576.0, 2_000_000.0), "12 MiB/h (±1.91)");
        assert_eq!(growth(900.0, 0.0), "900 B/h (±0)");
        let shares = [0.0, 0.000_01, 0.5, 0.999_54, 0.999_95, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "less than 0.01 %", "50 %", "99.95 %", "more than 99.99 %", "100 %"]);
    }
}
