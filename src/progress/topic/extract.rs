//! What one record of the output topic tells.

use serde_json::Value;

use super::super::number::{Whole, parse};
use super::super::settings::{ProgressValue, TopicSettings};

/// What a record tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The partition of the stream; 0 when records do not say.
    pub(super) partition: u32,
    /// The sequence, the marker's number or the intended time; `None` of a record that does not count.
    pub(super) value: Option<u64>,
    /// The intended time in milliseconds since 1970.
    pub(super) intended_ms: Option<u64>,
}

/// Reads a record. `header` is the value of the header that holds the intended time.
///
/// # Errors
/// What it lacks, in words that do not hold its content.
pub(super) fn told(
    settings: &TopicSettings,
    payload: Option<&[u8]>,
    header: Option<&[u8]>,
) -> Result<Told, String> {
    let mut told = Told::default();
    if settings.intended_header.is_some() {
        let text = header.and_then(|bytes| std::str::from_utf8(bytes).ok());
        told.intended_ms = Some(text.and_then(whole_text).ok_or("no time in its header intended_header")?);
    }
    // Upserting systems write a deletion as a record without a value.
    let Some(payload) = payload else { return Ok(Told { value: None, ..told }) };
    let needs_value = settings.value != ProgressValue::Count || settings.intended.is_some();
    if !needs_value {
        return Ok(told);
    }
    let json: Value = serde_json::from_slice(payload).map_err(|_| "no JSON value".to_owned())?;
    let at = |name: &str, pointer: &Option<String>| match pointer {
        None => Ok(None),
        Some(pointer) => json
            .pointer(pointer)
            .and_then(whole)
            .map(Some)
            .ok_or_else(|| format!("no whole number at {name} = {pointer:?}")),
    };
    if settings.intended.is_some() {
        told.intended_ms = at("intended", &settings.intended)?;
    }
    let partition = at("partition", &settings.partition)?.unwrap_or(0);
    told.partition = u32::try_from(partition).unwrap_or(u32::MAX);
    let is_marker = settings.marker.as_ref().map(|pointer| json.pointer(pointer) == Some(&Value::Bool(true)));
    told.value = match settings.value {
        ProgressValue::Marker if is_marker == Some(false) => None,
        ProgressValue::Sequence if is_marker == Some(true) => None,
        ProgressValue::Marker | ProgressValue::Sequence => at("sequence", &settings.sequence)?,
        ProgressValue::EventTime => told.intended_ms,
        _ => None,
    };
    Ok(told)
}

/// A number, or a text that is one.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => whole_text(text),
        _ => None,
    }
}

fn whole_text(text: &str) -> Option<u64> {
    match parse(text) {
        Ok(Whole::Number(number)) => Some(number),
        Ok(Whole::MinusOne) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: serde_json::Value) -> TopicSettings {
        let mut all = serde_json::json!({ "stream": "main", "topic": "out", "value": "count" });
        all.as_object_mut().unwrap().extend(text.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn of(text: serde_json::Value, payload: &str) -> Result<Told, String> {
        told(&settings(text), Some(payload.as_bytes()), None)
    }

    #[test]
    fn sequences_markers_and_times_are_found_where_the_settings_say() {
        let all = serde_json::json!({
            "value": "sequence", "sequence": "/after/n", "partition": "/after/p", "intended": "/after/t", "marker": "/after/m"
        });
        let told = |value: &str, payload: &str| {
            let mut all = all.clone();
            all["value"] = value.into();
            of(all, payload).map(|told| (told.partition, told.value, told.intended_ms))
        };
        let record = r#"{"after":{"n":7,"p":"3","t":1700000000123}}"#;
        let marker = r#"{"after":{"n":8,"p":3,"t":1700000000124,"m":true}}"#;
        assert_eq!(told("sequence", record), Ok((3, Some(7), Some(1_700_000_000_123))));
        assert_eq!(
            told("sequence", marker),
            Ok((3, None, Some(1_700_000_000_124))),
            "not the stream's sequence"
        );
        assert_eq!(told("marker", record), Ok((3, None, Some(1_700_000_000_123))));
        assert_eq!(told("marker", marker), Ok((3, Some(8), Some(1_700_000_000_124))));
        assert_eq!(told("event_time", marker), Ok((3, Some(1_700_000_000_124), Some(1_700_000_000_124))));
    }

    #[test]
    fn what_is_missing_is_named_without_what_is_there() {
        let sequence = serde_json::json!({ "value": "sequence", "sequence": "/n" });
        for payload in [r#"{"n":"secret"}"#, r#"{"m":1}"#, r#"{"n":-1}"#, r#"{"n":1.5}"#, "[]"] {
            let error = of(sequence.clone(), payload).unwrap_err();
            assert_eq!(error, "no whole number at sequence = \"/n\"", "{payload}");
        }
        assert_eq!(of(sequence.clone(), "secret").unwrap_err(), "no JSON value");
        let deleted = told(&settings(sequence), None, None).unwrap();
        assert_eq!((deleted.value, deleted.intended_ms), (None, None));
    }

    #[test]
    fn a_header_needs_no_json() {
        let header = settings(serde_json::json!({ "intended_header": "t" }));
        let time = |bytes| told(&header, Some(b"\x00avro"), bytes).map(|told| told.intended_ms);
        assert_eq!(time(Some(b"1700000000123".as_slice())), Ok(Some(1_700_000_000_123)));
        for bytes in [None, Some(b"soon".as_slice()), Some(b"\xff".as_slice())] {
            assert!(time(bytes).is_err());
        }
    }
}
