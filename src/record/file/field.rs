//! One field of a line.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::hash::{mix, name_hash};

/// Where a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// Names from the outermost object inwards; a number for an element of an array.
    Json(Arc<[String]>),
    /// A column, counted from 0.
    Csv(usize),
}

impl Field {
    /// `user.id`, or a JSON pointer like `/user/id` for names with dots in them.
    pub(super) fn json(path: &str) -> Self {
        let names: Vec<String> = match path.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => path.split('.').map(str::to_owned).collect(),
        };
        Self::Json(names.into())
    }

    /// Writes the field of a line into an empty buffer, texts without their quotes.
    ///
    /// # Errors
    /// Why there is no key in the line.
    pub(super) fn read(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Csv(column) if csv_column(line, *column, key) && !key.is_empty() => Ok(()),
            Self::Csv(column) => Err(format!("its column {} is missing or empty", column + 1)),
            Self::Json(path) => {
                let mut json = serde_json::Deserializer::from_slice(line);
                let found =
                    Find { path, key }.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
                match found {
                    Ok(Found::Scalar) => Ok(()),
                    Ok(Found::Nothing) => Err(format!("it has no field {}", path.join("."))),
                    Ok(Found::Nested) => {
                        Err(format!("its field {} is an object or array, which is no key", path.join(".")))
                    }
                    Err(error) => Err(format!("it is not JSON: {error}")),
                }
            }
        }
    }
}

/// A key's number: the key itself where it is a whole number, else a hash that fits a signed 64-bit column.
pub(super) fn key_id(key: &[u8]) -> u64 {
    let text = std::str::from_utf8(key).unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse::<i64>() {
        Ok(number) if is_plain => number.unsigned_abs(),
        _ => mix(name_hash(&String::from_utf8_lossy(key))) >> 1,
    }
}

/// Writes a column of a row of comma-separated values; false when the row has fewer.
pub(super) fn csv_column(line: &[u8], column: usize, out: &mut Vec<u8>) -> bool {
    let (mut at, mut quoted, mut bytes) = (0, false, line.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        let wanted = at == column;
        match byte {
            b'"' if quoted && bytes.peek() == Some(&b'"') => {
                bytes.next();
                if wanted {
                    out.push(b'"');
                }
            }
            b'"' => quoted = !quoted,
            b',' if !quoted && wanted => return true,
            b',' if !quoted => at += 1,
            byte if wanted => out.push(byte),
            _ => {}
        }
    }
    at >= column
}

/// All columns of a row.
pub(super) fn csv_columns(line: &[u8]) -> Vec<String> {
    let column = |at| {
        let mut out = Vec::new();
        csv_column(line, at, &mut out).then(|| String::from_utf8_lossy(&out).into_owned())
    };
    (0..).map_while(column).collect()
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Scalar,
    /// No such field, or null.
    Nothing,
    Nested,
}

/// Walks one path through a JSON text without building it.
struct Find<'a> {
    path: &'a [String],
    key: &'a mut Vec<u8>,
}

impl Find<'_> {
    fn scalar(self, text: &[u8]) -> Found {
        if !self.path.is_empty() {
            return Found::Nothing;
        }
        // A name that comes twice: the last one counts, as most readers have it.
        self.key.clear();
        self.key.extend_from_slice(text);
        Found::Scalar
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Found, E> {
        Ok(self.scalar(text.as_bytes()))
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<Found, E> {
        Ok(self.scalar(if is { b"true" } else { b"false" }))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Found, E> {
        Ok(self.scalar(itoa::Buffer::new().format(number).as_bytes()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Found, E> {
        Ok(self.scalar(itoa::Buffer::new().format(number).as_bytes()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Found, E> {
        if !self.path.is_empty() {
            return Ok(Found::Nothing);
        }
        self.key.clear();
        write!(self.key, "{number}").map_err(E::custom)?;
        Ok(Found::Scalar)
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Found, A::Error> {
        let wanted = self.path.split_first().map(|(first, rest)| (first.parse::<usize>().ok(), rest));
        let (mut found, mut at) = (if wanted.is_some() { Found::Nothing } else { Found::Nested }, 0);
        loop {
            let more = match wanted {
                Some((Some(index), rest)) if index == at => {
                    let element = elements.next_element_seed(Find { path: rest, key: &mut *self.key })?;
                    element.inspect(|element| found = *element).is_some()
                }
                _ => elements.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Found, A::Error> {
        let Some((first, rest)) = self.path.split_first() else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Found::Nested);
        };
        let mut found = Found::Nothing;
        while let Some(is_it) = fields.next_key_seed(Is(first))? {
            if is_it {
                found = fields.next_value_seed(Find { path: rest, key: &mut *self.key })?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a name is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, line: &str) -> Result<String, String> {
        let mut key = Vec::new();
        Field::json(path).read(line.as_bytes(), &mut key).map(|()| String::from_utf8(key).unwrap())
    }

    #[test]
    fn a_field_is_found_where_its_path_leads() {
        let line = r#"{"a":[{"b":1},{"b":"x\"ä"}],"user":{"id":42,"a.b":true,"é":null},"z":1.5,"user2":{}}"#;
        assert_eq!(read("user.id", line).as_deref(), Ok("42"));
        assert_eq!(read("/user/id", line).as_deref(), Ok("42"));
        assert_eq!(read("/user/a.b", line).as_deref(), Ok("true"));
        assert_eq!(read("a.1.b", line).as_deref(), Ok("x\"ä"));
        assert_eq!(read("z", line).as_deref(), Ok("1.5"));
        for (path, why) in [
            ("user.é", "it has no field user.é"),
            ("user.id.x", "it has no field user.id.x"),
            ("nobody", "it has no field nobody"),
            ("a.7.b", "it has no field a.7.b"),
            ("a.x", "it has no field a.x"),
            ("user", "its field user is an object or array"),
            ("a", "its field a is an object or array"),
        ] {
            let found = read(path, line).unwrap_err();
            assert!(found.starts_with(why), "{path}: {found}");
        }
        assert!(read("a", r#"{"a":1"#).unwrap_err().starts_with("it is not JSON"));
        assert!(read("a", r#"{"a":1} {"#).unwrap_err().starts_with("it is not JSON"));
        assert_eq!(read("a", r#"{"a":1,"a":2}"#).as_deref(), Ok("2"));
    }

    #[test]
    fn columns_are_those_of_rfc_4180() {
        let line = br#"1,"Smith, ""Jo""",,last"#;
        assert_eq!(csv_columns(line), ["1", "Smith, \"Jo\"", "", "last"]);
        let mut key = Vec::new();
        assert!(Field::Csv(1).read(line, &mut key).is_ok());
        assert_eq!(key, b"Smith, \"Jo\"");
        key.clear();
        assert!(Field::Csv(2).read(line, &mut key).unwrap_err().contains("column 3"));
        assert!(Field::Csv(9).read(line, &mut key).unwrap_err().contains("column 10"));
    }

    #[test]
    fn whole_numbers_are_their_own_number_and_others_fit_a_signed_column() {
        assert_eq!(key_id(b"42"), 42);
        assert_eq!(key_id(b"0"), 0);
        for text in ["", "042", "-1", "+1", "18446744073709551615", "x", "4 2"] {
            assert!(key_id(text.as_bytes()) <= i64::MAX.unsigned_abs(), "{text}");
        }
        assert_ne!(key_id(b"042"), key_id(b"42"));
    }
}
