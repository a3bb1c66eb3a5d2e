//! A schema registry with Confluent's REST API: where a schema gets its number.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use crate::config::{Secret, SecretUrl, key};
use crate::net::http::{Answer, Client, HttpError};
use crate::record::format::BuildError;
use crate::record::settings::avro::{RegistrySettings, SubjectStrategy};

const CONTENT: &str = "application/vnd.schemaregistry.v1+json";
/// A registry's explanation of what is incompatible can be a whole page.
const MAX_MESSAGE_CHARS: usize = 400;

/// What a schema is used for.
#[derive(Debug, Clone, Copy)]
pub(in crate::record) struct Use<'a> {
    pub(in crate::record) topic: &'a str,
    /// `value` or `key`.
    pub(in crate::record) part: &'static str,
    /// The name of the record, or what clients take for it.
    pub(in crate::record) name: Option<&'a str>,
    /// Nothing may be written: `soakd check` asks what a run would get.
    pub(in crate::record) look_only: bool,
}

/// The registry of a stream.
pub(in crate::record) struct Registry<'a> {
    settings: &'a RegistrySettings,
    subject: SubjectStrategy,
    url: &'a SecretUrl,
    client: Client,
    at: &'a str,
}

impl<'a> Registry<'a> {
    /// The registry that the settings name; `None` when they name none. Schemas are kept under `usual` subjects unless the
    /// settings say otherwise. Nothing is connected yet.
    ///
    /// # Errors
    /// When its URL, password file or authorities cannot be used.
    pub(in crate::record) fn new(
        settings: &'a RegistrySettings,
        usual: SubjectStrategy,
        at: &'a str,
    ) -> Result<Option<Self>, BuildError> {
        let Some(url) = &settings.url else { return Ok(None) };
        let wrong = |error: HttpError| match error {
            HttpError::Tls(error) => BuildError::new(key(at, "tls_ca_file"), error.to_string()),
            error => BuildError::new(key(at, "url"), error.to_string()),
        };
        let mut client = Client::new(url.expose(), settings.tls_ca_file.as_deref()).map_err(wrong)?;
        if let Some(username) = &settings.username {
            let password = match &settings.password_file {
                Some(path) => Secret::read(path)
                    .map_err(|error| BuildError::new(key(at, "password_file"), error.to_string()))?,
                None => settings.password.clone().unwrap_or_else(|| Secret::new("")),
            };
            client.basic_auth(username, password.expose()).map_err(wrong)?;
        }
        let subject = settings.subject.unwrap_or(usual);
        Ok(Some(Self { settings, subject, url, client, at }))
    }

    /// What stands in front of each value or key of a schema: 0 and the schema's number in the registry.
    ///
    /// # Errors
    /// When the registry does not answer, refuses the schema, or does not know it and may not be told.
    pub(in crate::record) fn prefix(&self, of: Use<'_>, schema: &str) -> Result<[u8; 5], BuildError> {
        let subject = self.subject(of)?;
        let id = match (of.look_only, self.settings.register) {
            (false, true) => self.register(&subject, schema)?,
            (_, false) => self.look_up(&subject, schema)?.ok_or_else(|| {
                self.wrong(
                    "register",
                    format!(
                        "the registry {} does not have this schema under the subject {subject:?}, and register = false; \
                         register it there, or set register = true",
                        self.url
                    ),
                )
            })?,
            (true, true) => match self.look_up(&subject, schema)? {
                Some(id) => id,
                // A run would get a number that nobody knows yet.
                None => self.compatible(&subject, schema).map(|()| 0)?,
            },
        };
        let [a, b, c, d] = id.to_be_bytes();
        Ok([0, a, b, c, d])
    }

    fn subject(&self, of: Use<'_>) -> Result<String, BuildError> {
        let name = || {
            of.name.ok_or_else(|| {
                self.wrong(
                    "subject",
                    "a union has no name to be kept under; use subject = \"topic_name\"".into(),
                )
            })
        };
        Ok(match self.subject {
            SubjectStrategy::TopicName => format!("{}-{}", of.topic, of.part),
            SubjectStrategy::RecordName => name()?.to_owned(),
            SubjectStrategy::TopicRecordName => format!("{}-{}", of.topic, name()?),
        })
    }

    fn register(&self, subject: &str, schema: &str) -> Result<u32, BuildError> {
        let answer = self.post(&format!("/subjects/{}/versions", encoded(subject)), schema)?;
        self.id(subject, &answer)
    }

    fn look_up(&self, subject: &str, schema: &str) -> Result<Option<u32>, BuildError> {
        let answer = self.post(&format!("/subjects/{}", encoded(subject)), schema)?;
        // Only the registry's own codes say "no such subject or schema"; any other 404 is a wrong URL.
        if answer.status == 404 && matches!(Said::of(&answer).error_code, Some(40_401 | 40_403)) {
            return Ok(None);
        }
        self.id(subject, &answer).map(Some)
    }

    fn compatible(&self, subject: &str, schema: &str) -> Result<(), BuildError> {
        let path = format!("/compatibility/subjects/{}/versions/latest", encoded(subject));
        let answer = self.post(&path, schema)?;
        match (answer.status, Said::of(&answer)) {
            (200, Said { is_compatible: Some(false), .. }) => Err(self.wrong(
                "subject",
                format!(
                    "the registry {} holds a schema under {subject:?} that this one is not compatible with; use another \
                     topic or subject, or make the schema compatible",
                    self.url
                ),
            )),
            (200, _) => Ok(()),
            // There is nothing yet to be compatible with.
            (404, Said { error_code: Some(40_401 | 40_402), .. }) => Ok(()),
            _ => Err(self.refused(subject, &answer)),
        }
    }

    fn post(&self, path: &str, schema: &str) -> Result<Answer, BuildError> {
        let body = json!({ "schema": schema }).to_string();
        let timeout: Duration = self.settings.timeout.get();
        self.client.request(Method::POST, path, Some((CONTENT, body)), timeout).map_err(|error| {
            let mut wrong = self.wrong("url", format!("the registry {} does not answer: {error}", self.url));
            wrong.unreachable = matches!(error, HttpError::Unreachable(_) | HttpError::Timeout(_));
            wrong
        })
    }

    fn id(&self, subject: &str, answer: &Answer) -> Result<u32, BuildError> {
        match (answer.status, Said::of(answer).id) {
            (200, Some(id)) => Ok(id),
            (200, None) => Err(self.wrong(
                "url",
                format!("{} answers, but not as a schema registry: there is no id in its answer", self.url),
            )),
            _ => Err(self.refused(subject, answer)),
        }
    }

    /// Why a registry did not do as it was asked.
    fn refused(&self, subject: &str, answer: &Answer) -> BuildError {
        let (url, status) = (self.url, answer.status);
        let said = match Said::of(answer).message {
            Some(message) => format!("{status}: {}", shortened(&message)),
            None => status.to_string(),
        };
        match status {
            401 | 403 => self.wrong(
                "username",
                format!("the registry {url} refuses access to {subject:?} ({said}); check username and password"),
            ),
            409 => self.wrong(
                "subject",
                format!(
                    "the registry {url} holds a schema under {subject:?} that this one is not compatible with ({said}); use \
                     another topic or subject, or make the schema compatible"
                ),
            ),
            422 => self.wrong("subject", format!("the registry {url} refuses the schema ({said})")),
            404 | 405 => self.wrong(
                "url",
                format!("{url} is not where the registry's interface is ({said}); give the URL below which /subjects is"),
            ),
            300..=399 => {
                self.wrong("url", format!("{url} points elsewhere ({said}); give the registry's own URL"))
            }
            _ => {
                let mut wrong = self.wrong("url", format!("the registry {url} failed ({said})"));
                wrong.unreachable = status >= 500 || status == 429;
                wrong
            }
        }
    }

    fn wrong(&self, name: &str, message: String) -> BuildError {
        BuildError::new(key(self.at, name), message)
    }
}

/// All that a registry may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    id: Option<u32>,
    is_compatible: Option<bool>,
    error_code: Option<u32>,
    message: Option<String>,
}

impl Said {
    fn of(answer: &Answer) -> Self {
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }
}

/// One line, not too long.
fn shortened(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// A subject as a part of a path.
fn encoded(subject: &str) -> String {
    let mut path = String::with_capacity(subject.len());
    for byte in subject.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_become_one_part_of_a_path() {
        assert_eq!(encoded("orders-value"), "orders-value");
        assert_eq!(encoded("a/b é"), "a%2Fb%20%C3%A9");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        assert_eq!(shortened("a\n  b"), "a b");
        assert_eq!(shortened(&"é".repeat(500)).chars().count(), 401);
    }
}
