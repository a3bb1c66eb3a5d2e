//! A server that is asked over HTTP again and again: one connection that is kept, credentials, and what a bad answer means.
//!
//! A connection that the server has closed for being idle is noticed before the question, or else the question is marked as
//! worth one more try. Redirects are not followed: each poll would be asked twice, and credentials might go to a stranger.
//! Compression is not asked for: it would cost the system under test more than it saves.

use std::path::PathBuf;
use std::time::Duration;

use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use hyper::{HeaderMap, Method, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::config::{Properties, Secret, SecretFileError, SecretUrl, is_secret_key};

use super::http::{Answer, Client, HttpError, Session};
use super::tls::TlsError;

/// How much of a body is shown that says why there is no answer.
const EXCERPT_CHARS: usize = 200;
/// A shorter text is not looked for in what is shown: it would be found everywhere.
const MIN_SECRET_CHARS: usize = 4;

/// Why there is no good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskErrorKind {
    /// No connection, or it broke off.
    Connect,
    /// No answer by the deadline.
    Timeout,
    /// The server answered that it will not answer.
    Refused,
    /// The answer is none to such a question.
    Shape,
}

/// A question that was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct AskError {
    /// Why, in one word.
    pub kind: AskErrorKind,
    /// What was tried and what happened. Holds no secrets.
    pub text: String,
    /// The connection had served before and may just have been closed: worth one more try at once.
    pub stale: bool,
}

impl AskError {
    /// An error with what was tried and what happened.
    #[must_use]
    pub const fn new(kind: AskErrorKind, text: String) -> Self {
        Self { kind, text, stale: false }
    }

    const fn stale(mut self, stale: bool) -> Self {
        self.stale = stale;
        self
    }
}

/// A server that is asked over HTTP cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The URL is no use.
    #[error("the url {0}")]
    Url(String),
    /// Another setting is no use.
    #[error("{0}")]
    Setting(String),
    /// A password or token cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// TLS cannot be prepared.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<HttpError> for WebError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Tls(error) => Self::Tls(error),
            error => Self::Url(error.to_string()),
        }
    }
}

/// Where to ask, and as whom: what the settings of all that ask over HTTP have in common.
#[derive(Debug)]
pub struct Access<'a> {
    /// The server, and what each path is put behind.
    pub url: &'a SecretUrl,
    /// User name, when the server asks for one.
    pub username: Option<&'a str>,
    /// Its password.
    pub password: Option<&'a Secret>,
    /// File of the password, instead of it.
    pub password_file: Option<&'a PathBuf>,
    /// File of a bearer token.
    pub token_file: Option<&'a PathBuf>,
    /// File of the authorities to trust, instead of the machine's.
    pub tls_ca_file: Option<&'a PathBuf>,
}

impl Access<'_> {
    /// What is wrong with these settings.
    pub fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        if let Err(what) = super::http::check_url(self.url.expose()) {
            refuse("url", &format!("{what}; write it like http://host:8081 or https://host"));
        }
        if self.password.is_some() && self.password_file.is_some() {
            refuse("password_file", "stands beside password; take one of them out");
        }
        let has_password = self.password.is_some() || self.password_file.is_some();
        if has_password && self.username.is_none() {
            refuse("username", "is missing beside the password; a token goes into token_file");
        }
        if self.token_file.is_some() && self.username.is_some() {
            refuse("token_file", "stands beside username; take one of them out");
        }
    }
}

/// A question.
#[derive(Debug, Clone)]
pub struct Question {
    /// How it is asked.
    pub method: Method,
    /// Path and query, put behind those of the URL.
    pub path: String,
    /// What is sent along.
    pub body: String,
}

impl Question {
    /// A question without a body.
    #[must_use]
    pub const fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: String::new() }
    }
}

/// The server.
#[allow(missing_debug_implementations)] // holds secrets
pub struct Web {
    client: Client,
    headers: HeaderMap,
    most_bytes: usize,
    session: Option<Session>,
    /// Read again when the server refuses what was in it: tokens are renewed while soakd runs.
    token_file: Option<PathBuf>,
    refused: bool,
    /// What must not be shown, should the server quote it.
    secrets: Vec<String>,
}

impl Web {
    /// A server whose answers have at most so many bytes. Reads files, connects to nothing.
    ///
    /// # Errors
    /// When URL, credentials, files or headers cannot be used.
    pub fn new(access: &Access<'_>, headers: &Properties, most_bytes: usize) -> Result<Self, WebError> {
        let url = access.url.expose();
        let mut client = Client::with_query(url, access.tls_ca_file.map(PathBuf::as_path))?;
        let mut secrets = secrets_of_query(url);
        if let Some(username) = access.username {
            let password = match (access.password, access.password_file) {
                (Some(password), _) => password.clone(),
                (None, Some(path)) => Secret::read(path)?,
                (None, None) => Secret::new(""),
            };
            client.basic_auth(username, password.expose())?;
            secrets.push(password.expose().to_owned());
        }
        if let Some(path) = access.token_file {
            let token = Secret::read(path)?;
            client.bearer_auth(token.expose())?;
            secrets.push(token.expose().to_owned());
        }
        let shown = header_map(headers).map_err(WebError::Setting)?;
        let of_headers = headers.iter().filter(|(name, _)| is_secret_key(name));
        secrets.extend(of_headers.map(|(_, value)| value.to_owned()));
        Ok(Self {
            client,
            headers: shown,
            most_bytes,
            session: None,
            token_file: access.token_file.cloned(),
            refused: false,
            secrets,
        })
    }

    /// Connects, unless there is a connection.
    ///
    /// # Errors
    /// When there is none by the deadline.
    pub async fn ready(&mut self, deadline: Instant) -> Result<(), AskError> {
        self.renew_token().await?;
        if self.session.as_mut().is_some_and(Session::is_open) {
            return Ok(());
        }
        self.session = None;
        let session = Box::pin(self.client.connect(deadline)).await.map_err(|error| {
            let place = self.client.place();
            match error {
                HttpError::Timeout(after) => {
                    let text = format!("no connection with {place} within {}", millis(after));
                    AskError::new(AskErrorKind::Timeout, text)
                }
                error => {
                    let text = format!("cannot connect to {place}: {error}");
                    AskError::new(AskErrorKind::Connect, text)
                }
            }
        })?;
        self.session = Some(session);
        Ok(())
    }

    async fn renew_token(&mut self) -> Result<(), AskError> {
        let Some(path) = self.token_file.clone().filter(|_| self.refused) else { return Ok(()) };
        let failed = |text: String| AskError::new(AskErrorKind::Refused, text);
        // A file may lie on a disk that hangs.
        let token = tokio::task::spawn_blocking(move || Secret::read(&path)).await;
        let token = token.map_err(|error| failed(error.to_string()))?;
        let token = token.map_err(|error| failed(error.to_string()))?;
        self.client.bearer_auth(token.expose()).map_err(|error| failed(error.to_string()))?;
        self.secrets.push(token.expose().to_owned());
        // Tokens that were are of no use to anybody.
        if self.secrets.len() > 100 {
            self.secrets.remove(0);
        }
        self.refused = false;
        Ok(())
    }

    /// Asks, connecting first where the last answer was the connection's last.
    ///
    /// # Errors
    /// When no whole good answer comes by the deadline.
    pub async fn ask(&mut self, question: &Question, deadline: Instant) -> Result<Answer, AskError> {
        self.ready(deadline).await?;
        let Question { method, path, body } = question;
        let request = self.client.make(method.clone(), &escaped(path), &self.headers, body.clone());
        let request =
            request.map_err(|error| AskError::new(AskErrorKind::Refused, format!("the url {error}")))?;
        // Taken out, and put back only after a whole answer: whatever ends this early drops the connection.
        let Some(mut session) = self.session.take() else {
            return Err(AskError::new(AskErrorKind::Connect, "there is no connection".to_owned()));
        };
        let asked = Instant::now();
        let answer = match timeout_at(deadline, session.send(request, self.most_bytes)).await {
            Err(_) => {
                let text =
                    format!("no answer from {} within {}", self.client.place(), millis(asked.elapsed()));
                return Err(AskError::new(AskErrorKind::Timeout, text));
            }
            Ok(Err(HttpError::TooLarge(most))) => {
                let text = format!(
                    "the answer is larger than {} MiB, which is no answer to such a question",
                    most >> 20
                );
                return Err(AskError::new(AskErrorKind::Shape, text));
            }
            Ok(Err(error)) => {
                let text = format!("no whole answer from {}: {error}", self.client.place());
                let stale = session.has_served();
                return Err(AskError::new(AskErrorKind::Connect, text).stale(stale));
            }
            Ok(Ok(answer)) => answer,
        };
        self.session = Some(session);
        self.judge(answer)
    }

    /// An answer that is one, or why it is none.
    fn judge(&mut self, answer: Answer) -> Result<Answer, AskError> {
        let query = |text: String| AskError::new(AskErrorKind::Refused, text);
        let status = StatusCode::from_u16(answer.status).unwrap_or_default();
        if matches!(status, StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT) {
            return Err(query(format!(
                "the server answered {status}, and was asked for all of it as it is now"
            )));
        }
        if status.is_redirection() {
            let to =
                answer.headers.get(LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
            let to = to.map(|to| format!(" to {}", self.without_secrets(&SecretUrl::new(to).redacted())));
            let to = to.unwrap_or_default();
            return Err(query(format!(
                "the server sends us elsewhere ({status}){to}; redirects are not followed: put the address into url"
            )));
        }
        if !status.is_success() {
            self.refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            let body = String::from_utf8_lossy(&answer.body);
            let why = excerpt(&self.without_secrets(&body));
            let why = if why.is_empty() { why } else { format!(": {why}") };
            return Err(query(format!("the server answered {status}{why}")));
        }
        let coding = answer.headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity");
        if let Some(coding) = coding {
            let text = format!("the answer is compressed ({coding:?}), which was not asked for");
            return Err(AskError::new(AskErrorKind::Shape, text));
        }
        Ok(answer)
    }

    fn without_secrets(&self, text: &str) -> String {
        let secrets = self.secrets.iter().filter(|secret| secret.chars().count() >= MIN_SECRET_CHARS);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, crate::config::REDACTED))
    }
}

/// The body as text.
///
/// # Errors
/// When it is none, or a page for people: a proxy's, say, that stands in for the system.
pub fn text_of(answer: &Answer, html: bool) -> Result<&str, AskError> {
    let shape = |text: String| AskError::new(AskErrorKind::Shape, text);
    let text = std::str::from_utf8(&answer.body)
        .map_err(|_| shape(format!("the answer of {} bytes is not UTF-8 text", answer.body.len())))?;
    let start = text.trim_start().get(..9).unwrap_or_default().to_ascii_lowercase();
    if !html && (start.starts_with("<!doctype") || start.starts_with("<html")) {
        return Err(shape(format!("the answer is a page for people: {}", excerpt(text))));
    }
    Ok(text)
}

/// The start of a text in one line.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = words.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if shown.len() < words.len() {
        shown.push('…');
    }
    shown
}

/// Headers of the settings as those of a request.
///
/// # Errors
/// Which one cannot be sent; values are not quoted, because they may be secret.
pub fn header_map(headers: &Properties) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    map.insert(USER_AGENT, HeaderValue::from_static(concat!("soakd/", env!("CARGO_PKG_VERSION"))));
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in headers.iter() {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of {name} holds what no header can, a line end perhaps"))?;
        value.set_sensitive(parsed == AUTHORIZATION || is_secret_key(name));
        map.insert(parsed, value);
    }
    Ok(map)
}

/// Path and query with everything encoded that cannot stand there, as a browser does; what is encoded stays.
fn escaped(path: &str) -> String {
    encode(path, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#[]".contains(&byte))
}

/// A text as one part of a path, or as one value of a query.
#[must_use]
pub fn as_part(text: &str) -> String {
    encode(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn encode(text: &str, as_it_is: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if as_it_is(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The values of a URL's query that are secret by their names.
fn secrets_of_query(url: &str) -> Vec<String> {
    let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| is_secret_key(name)).map(|(_, value)| value.to_owned()).collect()
}

fn millis(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}
