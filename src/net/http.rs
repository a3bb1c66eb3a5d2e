//! HTTP requests to a system that is asked now and then: no pool, no redirects. [`Client::request`] is one blocking exchange;
//! [`Client::connect`] gives a [`Session`] for one request after the other, on the async runtime.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Uri};
use openssl::ssl::{SslConnector, SslMethod};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_openssl::SslStream;

pub use super::session::Session;
use super::tls::{TlsError, trust};

/// Answers of the systems that are asked are small; a larger one is a wrong address.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A server that can be asked.
#[allow(missing_debug_implementations)] // holds a secret
pub struct Client {
    tls: Option<SslConnector>,
    host: String,
    port: u16,
    /// What stands in `Host`.
    authority: String,
    /// The path of the URL, without a slash at its end.
    base: String,
    /// The query of the URL; empty when it has none.
    query: String,
    authorization: Option<HeaderValue>,
}

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// No answer came.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL, or what is to be sent along, cannot be used.
    #[error("{0}")]
    Url(String),
    /// TLS cannot be prepared.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot be reached, or does not speak HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// The body is larger than this many bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// There was no time left.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Timeout(Duration),
}

impl Client {
    /// A client for a URL like `https://host:8081/path`. Nothing is connected yet.
    ///
    /// # Errors
    /// When the text is no such URL, or TLS cannot be prepared.
    pub fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let client = Self::with_query(url, ca_file)?;
        if client.query.is_empty() { Ok(client) } else { Err(wrong("holds a query")) }
    }

    /// As [`Self::new`]; the URL may hold a query, which becomes a part of each request.
    ///
    /// # Errors
    /// When the text is no such URL, or TLS cannot be prepared.
    pub fn with_query(url: &str, ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let uri = check_url(url).map_err(|what| wrong(&what))?;
        let secure = uri.scheme_str() == Some("https");
        let tls = if secure {
            let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(TlsError::from)?;
            trust(&mut builder, ca_file)?;
            Some(builder.build())
        } else {
            None
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        Ok(Self {
            tls,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            base: uri.path().trim_end_matches('/').to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            authorization: None,
        })
    }

    /// Host and port, for errors.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends user name and password with each request.
    ///
    /// # Errors
    /// When they hold what cannot be sent.
    pub fn basic_auth(&mut self, username: &str, password: &str) -> Result<(), HttpError> {
        let text = openssl::base64::encode_block(format!("{username}:{password}").as_bytes());
        self.authorize(&format!("Basic {text}"), "user name and password")
    }

    /// Sends a token with each request.
    ///
    /// # Errors
    /// When it holds what cannot be sent.
    pub fn bearer_auth(&mut self, token: &str) -> Result<(), HttpError> {
        self.authorize(&format!("Bearer {token}"), "token")
    }

    fn authorize(&mut self, text: &str, what: &str) -> Result<(), HttpError> {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| HttpError::Url(format!("cannot be given this {what}")))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    /// Makes a request. `path` is put behind the URL's own path, its query behind the URL's own query.
    ///
    /// # Errors
    /// When path or headers hold what cannot be sent.
    pub fn make(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: String,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let request = Request::builder().method(method).uri(self.target(path));
        let request = request.body(Full::new(Bytes::from(body)));
        let mut request = request.map_err(|error| HttpError::Url(format!("cannot be asked: {error}")))?;
        let host = HeaderValue::from_str(&self.authority)
            .map_err(|error| HttpError::Url(format!("cannot be asked: {error}")))?;
        request.headers_mut().insert(HOST, host);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        // What is said here goes before what is said once for all.
        for (name, value) in headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }

    fn target(&self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut target = format!("{}{path}", self.base);
        if target.is_empty() {
            target.push('/');
        }
        let both = [self.query.as_str(), query].into_iter().filter(|part| !part.is_empty());
        for (part, before) in both.zip(["?", "&"]) {
            target.push_str(before);
            target.push_str(part);
        }
        target
    }

    /// Connects, with TLS where the URL says so. Each address of the host gets its share of the time.
    ///
    /// # Errors
    /// When there is no connection by the deadline.
    pub async fn connect(&self, deadline: Instant) -> Result<Session, HttpError> {
        let began = Instant::now();
        let late = |_| HttpError::Timeout(began.elapsed());
        let stream = timeout_at(deadline, self.reach(deadline)).await.map_err(late)??;
        let Some(connector) = &self.tls else { return Session::begin(stream).await };
        let session = connector.configure().and_then(|session| session.into_ssl(&self.host));
        let session = session.map_err(TlsError::from)?;
        let mut stream = SslStream::new(session, stream).map_err(TlsError::from)?;
        let shaken = timeout_at(deadline, Pin::new(&mut stream).connect()).await.map_err(late)?;
        shaken.map_err(|error| unreachable(&error))?;
        Session::begin(stream).await
    }

    async fn reach(&self, deadline: Instant) -> Result<TcpStream, HttpError> {
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = addresses.map_err(|error| unreachable(&error))?.collect();
        let mut last = HttpError::Unreachable("the name of the host has no address".to_owned());
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are small and each is waited for.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = unreachable(&error),
                Err(_) => last = HttpError::Timeout(share),
            }
        }
        Err(last)
    }

    /// Sends a request and waits for the whole answer. Blocks: never to be called on the async runtime.
    ///
    /// # Errors
    /// When no whole answer comes in time. An answer with a bad status is none.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<(&str, String)>,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let mut headers = HeaderMap::new();
        if let Some((kind, _)) = &content {
            let kind = HeaderValue::from_str(kind)
                .map_err(|error| HttpError::Url(format!("cannot be asked: {error}")))?;
            headers.insert(CONTENT_TYPE, kind);
        }
        let body = content.map(|(_, body)| body).unwrap_or_default();
        let request = self.make(method, path, &headers, body)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| HttpError::Unreachable(error.to_string()))?;
        let answer = runtime.block_on(async {
            let deadline = Instant::now() + timeout;
            let exchange = Box::pin(async {
                let mut session = self.connect(deadline).await?;
                session.send(request, MAX_ANSWER_BYTES).await
            });
            timeout_at(deadline, exchange).await.unwrap_or(Err(HttpError::Timeout(timeout)))
        });
        // A name that is still being looked up must not hold the caller.
        runtime.shutdown_background();
        answer
    }
}

/// Reads a URL.
///
/// # Errors
/// What is wrong with it, without quoting it: it may hold a secret.
pub fn check_url(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|error| format!("is not a URL ({error})"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("does not begin with http:// or https://".to_owned());
    }
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or("names no host")?;
    if authority.as_str().contains('@') {
        return Err("holds a user name or password, which have settings of their own".to_owned());
    }
    Ok(uri)
}

fn wrong(what: &str) -> HttpError {
    HttpError::Url(format!("{what}; write it like http://host:8081 or https://host"))
}

pub(super) fn unreachable(error: &dyn std::error::Error) -> HttpError {
    HttpError::Unreachable(with_sources(error))
}

/// An error with what it comes from: hyper says "error trying to connect" and leaves the reason to its source.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
