//! Values that must appear nowhere: not in logs, not in `soakd config`, not in errors, not in the record.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use super::read::read_file;

/// What is shown in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// A secret text: a password or a token. `Debug`, `Display` and `Serialize` show [`REDACTED`].
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// A secret file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file cannot be read as text.
    #[error("cannot read the secret file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds nothing, which is never what was meant.
    #[error("the secret file {} is empty", .0.display())]
    Empty(PathBuf),
}

/// No password, token or certificate is larger.
const MAX_SECRET_BYTES: u64 = 1 << 20;

impl Secret {
    /// Takes a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Reads a secret from a file. The line end that editors and `echo` put there is no part of it.
    ///
    /// # Errors
    /// When the file cannot be read, is not UTF-8, or is empty.
    pub fn read(path: &Path) -> Result<Self, SecretFileError> {
        let text = read_file(path, MAX_SECRET_BYTES)
            .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
            .map_err(|source| SecretFileError::Read { path: path.to_owned(), source })?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SecretFileError::Empty(path.to_owned()));
        }
        Ok(Secret(text.to_owned()))
    }

    /// The secret itself, for the one place that hands it to the other side.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "writeOnly": true })
    }
}

/// A URL (or a `key=value` connection text) that may hold a password; shown without it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Takes a URL as it is; whoever connects parses it.
    pub fn new(text: impl Into<String>) -> Self {
        SecretUrl(text.into())
    }

    /// The URL with its password, for the one place that connects.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The URL as it may be shown.
    pub fn redacted(&self) -> String {
        redact_url(&self.0)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.redacted())
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.redacted())
    }
}

impl JsonSchema for SecretUrl {
    fn schema_name() -> Cow<'static, str> {
        "SecretUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // writeOnly is JSON schema's word for "goes in, never comes out"; error texts obey it too.
        json_schema!({ "type": "string", "writeOnly": true })
    }
}

/// Whether a key's value is a secret by its name, as in librdkafka's `sasl.password` or `ssl.key.pem`.
/// Paths of files that hold secrets are none.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_place = ["_file", ".location", ".url"].iter().any(|end| key.ends_with(end));
    let marks = [
        "password",
        "passwd",
        "secret",
        "token",
        "credential",
        ".pem",
        "jaas",
        "oauthbearer.config",
        "passphrase",
        "kinit.cmd",
        "private.key",
        // Headers of HTTP.
        "authorization",
        "cookie",
        "api-key",
        "api_key",
        "apikey",
        "clickhouse-key",
    ];
    !is_place && marks.iter().any(|mark| key.contains(mark))
}

/// A message of a library without what stands in quotes: it may quote a value, even a secret.
pub(super) fn without_quoted(message: &str) -> String {
    message.split('"').step_by(2).collect::<Vec<_>>().join("\"…\"")
}

/// Takes the password out of a URL's authority and out of its query. What is no plain URL is not shown at all when it may hold a
/// password: better to show too little of a strange text than a piece of a secret.
fn redact_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        let suspect = text.contains('@') || is_secret_key(text);
        return if suspect { REDACTED.into() } else { text.into() };
    };
    let (base, query) = match rest.split_once('?') {
        // A password with an unescaped `?`, or a query with an `@`: nobody can tell which.
        Some((_, query)) if query.contains('@') => return format!("{scheme}://{REDACTED}"),
        Some((base, query)) => (base, format!("?{}", redact_query(query))),
        None => (rest, String::new()),
    };
    // A password may hold an unescaped `@`, `/` or `#`; the last `@` ends it.
    let base = match base.rsplit_once('@') {
        None => base.to_owned(),
        Some((user, host)) => match user.split_once(':') {
            None => base.to_owned(),
            Some((name, _)) => format!("{name}:{REDACTED}@{host}"),
        },
    };
    format!("{scheme}://{base}{query}")
}

fn redact_query(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        // `options` may set anything, a password too.
        Some((key, _)) if is_secret_key(key) || key == "options" => format!("{key}={REDACTED}"),
        _ => pair.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out_of_every_form_of_connection_text() {
        for (text, shown) in [
            ("postgres://u:hunter2@h:5432/db", "postgres://u:[redacted]@h:5432/db"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres://h/db?user=u&password=hunter2&x=1", "postgres://h/db?user=u&password=[redacted]&x=1"),
            ("postgres://u:hun@ter2@h/db", "postgres://u:[redacted]@h/db"),
            ("postgres://u:hunter2?@h/db", "postgres://[redacted]"),
            ("postgres://u:a@hunter2?c@h/db", "postgres://[redacted]"),
            ("postgres://h/db?password=hunter2&options=a@b", "postgres://[redacted]"),
            ("u:hunter2@h/db", "[redacted]"),
            ("host=h password = hunter2", "[redacted]"),
            ("postgres://u:hunter2/x@h/db", "postgres://u:[redacted]@h/db"),
            ("host=h user=u password='hunter2 hunter2'", "[redacted]"),
            ("postgres://h/db?options=-c%20my.pw=hunter2", "postgres://h/db?options=[redacted]"),
            ("nothing", "nothing"),
        ] {
            let url = SecretUrl::new(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.expose(), text);
            assert!(!format!("{url:?} {}", serde_json::to_string(&url).unwrap()).contains("hunter2"));
        }
    }

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret::new("hunter2");
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(format!("{secret} {secret:?} {json}"), "[redacted] [redacted] \"[redacted]\"");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_secret_file_is_read_without_its_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pw");
        std::fs::write(&path, "hunter2 \r\n").unwrap();
        assert_eq!(Secret::read(&path).unwrap().expose(), "hunter2 ");
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(Secret::read(&path), Err(SecretFileError::Empty(_))));
        for strange in [dir.path(), Path::new("/dev/zero")] {
            let error = Secret::read(strange).unwrap_err();
            assert!(error.to_string().contains("cannot read the secret file"), "{error}");
        }
    }

    #[test]
    fn secret_keys_are_known_by_name() {
        for key in [
            "sasl.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "PASSWORD",
            "sslpassword",
            "sasl.kerberos.kinit.cmd",
            "sasl.oauthbearer.assertion.private.key.passphrase",
        ] {
            assert!(is_secret_key(key), "{key}");
        }
        for key in ["password_file", "token_file", "ssl.key.location", "linger.ms", "query", "key"] {
            assert!(!is_secret_key(key), "{key}");
        }
    }
}
