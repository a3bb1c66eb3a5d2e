//! Bodies: read whole within bounds, then strict JSON objects.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use super::problem::Problem;

/// The largest body that is taken: far more than any request needs.
pub(super) const MAX_BYTES: usize = 64 * 1024;
/// So much of a too large body is still read and thrown away: a client that is cut off while it sends sees a broken
/// connection and not the answer.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;
/// How long a client may take to send its body.
const DEADLINE: Duration = Duration::from_secs(10);

/// A body that was not taken, and whether its connection can be used again.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) problem: Problem,
    pub(super) read_to_the_end: bool,
}

/// A body above the limit, for one that was read or announced.
pub(super) fn too_large() -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {MAX_BYTES} bytes"))
}

/// Reads the whole body within the bounds.
pub(super) async fn read(mut body: Body) -> Result<Bytes, Refused> {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let mut taken = Vec::new();
    let mut seen = 0_usize;
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let problem = match tokio::time::timeout_at(deadline, frame).await {
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                seen = seen.saturating_add(data.len());
                if seen <= MAX_BYTES {
                    taken.extend_from_slice(&data);
                    continue;
                }
                if seen <= MAX_DISCARDED_BYTES {
                    continue;
                }
                too_large()
            }
            Ok(None) if seen <= MAX_BYTES => return Ok(taken.into()),
            Ok(None) => return Err(Refused { problem: too_large(), read_to_the_end: true }),
            Ok(Some(Err(error))) => Problem::bad_request(format!("the body cannot be read: {error}")),
            Err(_) if seen > MAX_BYTES => too_large(),
            Err(_) => {
                let detail = format!("the body did not come within {} s", DEADLINE.as_secs());
                Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
            }
        };
        return Err(Refused { problem, read_to_the_end: false });
    }
}

/// The fields of a JSON object, each at most once.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// Refuses fields that the resource does not know.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some(name) => {
                let may_have = match known {
                    [] => "takes no fields".to_owned(),
                    known => format!("takes {}", known.join(", ")),
                };
                let detail = format!("there is no field {name:?} here: this resource {may_have}");
                Err(Problem::unprocessable(detail).field(name))
            }
        }
    }

    /// The value of a field, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The number in a field that must be there. The caller has looked for `word`, which may stand there too.
    pub(super) fn number_or(&self, name: &str, word: &str) -> Result<f64, Problem> {
        match self.0.get(name) {
            Some(Value::Number(number)) if number.as_f64().is_some() => {
                Ok(number.as_f64().unwrap_or_default())
            }
            Some(other) => {
                let detail = format!("{name} must be a number or {word:?}, and it is {other}");
                Err(Problem::unprocessable(detail).field(name))
            }
            None => {
                Err(Problem::unprocessable(format!("the field {name} is missing: {{\"{name}\": NUMBER}}"))
                    .field(name))
            }
        }
    }

    fn parse(body: &[u8]) -> Result<Self, Problem> {
        let not_json =
            |error: &dyn fmt::Display| Problem::bad_request(format!("the body is not JSON: {error}"));
        let text = std::str::from_utf8(body).map_err(|error| not_json(&error))?;
        // Whether it is JSON comes first: a broken array is not JSON rather than no object.
        serde_json::from_str::<de::IgnoredAny>(text).map_err(|error| not_json(&error))?;
        serde_json::from_str(text).map_err(|error| match error.classify() {
            Category::Data => Problem::unprocessable(format!("the body cannot be used: {error}")),
            _ => not_json(&error),
        })
    }
}

impl<'de> de::Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        return Err(de::Error::custom(format!("the field {name:?} stands twice")));
                    }
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let media_type = value.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("application/json")
    })
}

fn wrong_type(headers: &HeaderMap) -> Problem {
    let found = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let found = found.map_or_else(|| "there is none".to_owned(), |found| format!("it is {found:?}"));
    let detail = format!("the Content-Type must be application/json, and {found}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).header(header::ACCEPT, "application/json")
}

/// A JSON object that the request must have.
impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(wrong_type(request.headers()));
        }
        let body = bytes(request, state).await?;
        Self::parse(&body)
    }
}

/// The body of an action without arguments: nothing, or an empty JSON object.
#[derive(Debug)]
pub(super) struct NoFields;

impl<S: Send + Sync> FromRequest<S> for NoFields {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let headers = request.headers();
        let (named, json) = (headers.contains_key(header::CONTENT_TYPE), is_json(headers));
        let wrong_type = wrong_type(headers);
        let body = bytes(request, state).await?;
        match (body.is_empty(), named, json) {
            (true, false, _) | (true, _, true) => Ok(Self),
            (false, _, true) => Fields::parse(&body)?.only(&[]).map(|_| Self),
            _ => Err(wrong_type),
        }
    }
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    let body = Bytes::from_request(request, state).await;
    body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))
}
