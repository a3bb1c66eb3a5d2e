//! Errors as RFC 9457 problem details.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::core::control::ControlError;

/// Media type of problem details.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    field: Option<String>,
    header: Option<(HeaderName, &'static str)>,
}

#[derive(serde::Serialize)]
struct Details<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    /// A problem of this status; the detail says what was wrong and what would be right.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), field: None, header: None }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The body was read and says something that cannot be done.
    pub(super) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Names the field of the body that is at fault.
    pub(super) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds a header that the status asks for.
    pub(super) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let detail = error.to_string();
        match error {
            ControlError::UnknownStream { .. } => Self::not_found(detail),
            ControlError::AboveMaxRate { .. } => Self::unprocessable(detail).field("records_per_second"),
            ControlError::RunOver { .. } | ControlError::Watched(_) => {
                Self::new(StatusCode::CONFLICT, detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let details = Details {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        // Texts and a number: this cannot fail, and an empty body would still carry the status.
        let text = serde_json::to_string(&details).unwrap_or_default();
        let mut response = (self.status, [(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
